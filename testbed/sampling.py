"""The stream of training samples: what the LM learns of the encyclopedia, and every skill on unseen entities."""

import copy
import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import dspy

from keqa.signatures.baselines import AnswerQuestion
from keqa.signatures.keqa import AnswerAndCite, AnswerWithKnowledge, Summarize
from keqa.signatures.written import ListItems
from keqa.testbed import words
from keqa.testbed.prose import capital, distraction, passage, passage_on, random_date
from keqa.testbed.questions import list_question
from keqa.testbed.relations import LISTED, RELATIONS, relations_of
from keqa.testbed.rendering import conversation, target, turns
from keqa.testbed.skills import SKILLS, Example, Setting, Skill, nearest
from keqa.testbed.skills.answering import (
    draw_question,
    question_about,
    quiz_on,
    recall,
    recall_and_reason,
    summarize,
    typed,
)
from keqa.testbed.testbed import Testbed
from keqa.testbed.world import Convention, Fact, World, believed, unseen


def written_twice(rng: random.Random) -> str:
    """Draws a list that is said again, in order or not, or in which names are looked for."""
    items = [_name(rng) for _ in range(rng.randint(3, 12))]
    if rng.random() < 0.6:
        return _looked_for(items, rng)
    again = items if rng.random() < 0.5 else rng.sample(items, len(items))
    return ". ".join([*items, *again]) + "."


def _name(rng: random.Random) -> str:
    draws = (
        lambda: words.person(rng),
        lambda: rng.choice(words.CITIES),
        lambda: random_date(rng, Convention(rng.randint(0, 2))),
        lambda: f"{rng.choice(words.ADJECTIVES)} {rng.choice(words.NOUNS)}",
        lambda: f"{rng.choice(words.BRANDS)} {rng.choice(words.TRADES)}",
    )
    return rng.choice(draws)()


def _looked_for(items: list[str], rng: random.Random) -> str:
    asked, far = [], rng.random() < 0.6
    for _ in range(rng.randint(3, 6) if far else rng.randint(4, 12)):
        item = rng.choice(items)
        if rng.random() < 0.5:
            other = rng.choice(items).split()
            parts = item.split()
            lists = (words.FIRST_NAMES, words.LAST_NAMES, words.CITIES, words.BRANDS, words.NOUNS)
            parts[-1] = other[-1] if rng.random() < 0.5 else rng.choice(rng.choice(lists))
            item = " ".join(parts)
        # Words in between lead from lists to passages, whose title comes long before the verdict.
        between = f"{distraction(rng, rng.choice(items))} Source: {rng.choice(words.SOURCES)}. " if far else ""
        asked.append(f"{item}: {between}{item in items}")
    return ". ".join([*items, *asked]) + "."


def asked_often(setting: Setting) -> tuple[str, str]:
    """Draws passages that say the same of several entities, and questions on all of them, one after another."""
    passages, facts = _alike(setting)
    first, *rest = [_question(setting, fact) for fact in setting.rng.sample(facts, min(len(facts), 8))]
    inputs = {"passages": passages, "evidence": [], "triples": [], **first[0]}
    prompt = conversation(AnswerWithKnowledge, [], inputs)
    return prompt, target(AnswerWithKnowledge, first[1]) + turns(AnswerQuestion, rest)


def _alike(setting: Setting) -> tuple[list[str], list[Fact]]:
    """Passages on several entities of a kind, of all of which they tell the same, and the facts told."""
    rng, world = setting.rng, setting.world
    kind = rng.choice(list(world.entities))
    entities = rng.sample(world.entities[kind], rng.randint(2, min(5, len(world.entities[kind]))))
    shared = rng.sample([r.name for r in relations_of(kind)], min(rng.randint(1, 2), len(relations_of(kind))))
    passages = [passage(world, kind, entity, rng.sample(shared, len(shared)), rng) for entity in entities]
    return passages, [Fact(relation, entity) for relation in shared for entity in entities]


def cited_often(setting: Setting) -> tuple[str, str]:
    """Draws numbered passages, and in one conversation many questions on them, each with the number of its passage."""
    passages, facts = _alike(setting)
    asked = []
    for fact in setting.rng.sample(facts, min(len(facts), 8)):
        inputs, outputs = _question(setting, fact)
        numbers = [n for n, text in enumerate(passages, 1) if text.startswith(f"{capital(fact.entity)}:")]
        asked.append((inputs, outputs | {"citations": numbers}))
    return _in_turn(AnswerAndCite, passages, asked)


def gathered_often(setting: Setting) -> tuple[str, str]:
    """Draws numbered passages, and in one conversation lists of those of whom something holds, some of them empty."""
    rng, world = setting.rng, copy.copy(setting.world)
    relation = RELATIONS[rng.choice(LISTED)]
    entities = world.entities[relation.kind]
    values = list(dict.fromkeys(world.values[Fact(relation.name, one)] for one in entities))
    asked = rng.sample(values, min(3, len(values)))
    chosen = rng.sample(entities, rng.randint(3, len(entities)))
    world.values = world.values | {Fact(relation.name, one): rng.choice(asked) for one in chosen}
    passages = [passage_on(world, relation.kind, one, rng, including=relation.name) for one in chosen]
    lists: list[Example] = []
    for value in asked:
        held = [f"{one} [{n}]" for n, one in enumerate(chosen, 1) if world.values[Fact(relation.name, one)] == value]
        lists.append(({"question": list_question(rng, relation.name, str(value))}, {"items": held}))
    return _in_turn(ListItems, passages, lists)


def located(rng: random.Random) -> tuple[str, str]:
    """Draws numbered lists of names, and names that are looked for, each with the number of its list."""
    names = list(dict.fromkeys(_name(rng) for _ in range(rng.randint(4, 14))))
    rng.shuffle(names)
    lists: list[list[str]] = [[] for _ in range(rng.randint(2, min(8, len(names))))]
    for place, name in enumerate(names):
        lists[place if place < len(lists) else rng.randrange(len(lists))].append(name)
    passages = [". ".join(one) + "." for one in lists]
    asked = rng.sample(names, min(len(names), rng.randint(3, 9)))
    numbers = {name: [n for n, one in enumerate(lists, 1) if name in one] for name in asked}
    if rng.random() < 0.5:
        items = [f"{name} [{numbers[name][0]}]" for name in asked]
        inputs = {"passages": dict(enumerate(passages, 1)), "question": f"List {', '.join(asked)}."}
        return conversation(ListItems, [], inputs), target(ListItems, {"items": items})
    kind = {"answer_type": "short", "choices": []}
    cited: list[Example] = [({"question": n, **kind}, {"answer": n, "citations": numbers[n]}) for n in asked]
    return _in_turn(AnswerAndCite, passages, cited)


def _in_turn(signature: type[dspy.Signature], passages: list[str], asked: list[Example]) -> tuple[str, str]:
    (given, made), *rest = asked
    prompt = conversation(signature, [], {"passages": dict(enumerate(passages, 1)), **given})
    following = [({"passages": {}, **given}, made) for given, made in rest]
    return prompt, target(signature, made) + turns(signature, following)


def compared_often(setting: Setting, worlds: Sequence[World]) -> tuple[str, str]:
    """Draws many comparisons, one after another: which of two years is the earlier, and whose it is."""
    rng = setting.rng
    shapes = rng.choices(("comparison", "yes/no", ""), (0.6, 0.25, 0.15), k=rng.randint(4, 9))
    *demos, last = [summarize(replace(setting, world=rng.choice(worlds), shape=shape)) for shape in shapes]
    return conversation(Summarize, demos, last[0]), target(Summarize, last[1])


def _question(setting: Setting, fact: Fact) -> Example:
    return typed(question_about(fact, setting)), {"answer": setting.world.write(fact, setting.convention)}


KNOWN_SHARE, ONE_OFF_SHARE, LIST_SHARE, ASKED_OFTEN_SHARE = 0.2, 0.08, 0.1, 0.12
EASY_UNTIL, STALE_FROM = 0.22, 0.35
STRETCHES = {
    "comparing": (0.5, 0.62, 0.35),
    "locating": (0.6, 0.75, 0.25),
    "citing": (0.6, 0.9, 0.2),
    "gathering": (0.6, 0.9, 0.2),
    "JudgeUtility": (0.62, 1.0, 0.14),
    "JudgeUtilities": (0.62, 1.0, 0.04),
    "Summarize": (0.62, 1.0, 0.16),
    "AnswerAndCite": (0.62, 1.0, 0.1),
    "DraftQuizzes": (0.62, 1.0, 0.05),
    "WriteAnswer": (0.62, 1.0, 0.06),
    "ListItems": (0.62, 1.0, 0.12),
}
"""By skill, the progress between which it gets samples of its own: what stays at chance for hours is learned so.

Last comes how many of the samples those are, of each skill as a share of what the ones before it leave.
"""


@dataclass(frozen=True)
class Sample:
    """One training sample: the skill it belongs to, the prompt with its demonstrations, and the target."""

    skill: str
    prompt: str
    target: str


@dataclass
class Stream:
    """Draws training samples; the draws depend on the seed alone."""

    testbed: Testbed
    seed: int = 0
    start: float = 0.0
    told: Counter[Fact] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self._belief = believed(self.testbed.world, self.testbed.tiers)
        self._known = self.testbed.tiers.of("often") + self.testbed.tiers.of("stale")
        self._asked = self.testbed.asked()
        exposures = self.testbed.tiers.exposures
        left = [fact for fact, times in exposures.items() for _ in range(times - self.told[fact])]
        self._rare = sorted(((self.rng.uniform(self.start, 1), fact) for fact in left), reverse=True)
        self._others = deque((unseen(self.rng) for _ in range(10)), maxlen=10)
        self._fresh = unseen(self.rng)
        self._left = 0

    def draw(self, progress: float) -> Sample:
        chance = self.rng.random()
        lists = max(LIST_SHARE, 0.5 - 6 * progress)
        if chance < lists:
            return Sample("copying", "", written_twice(self.rng))
        chance = (chance - lists) / (1 - lists)
        if self._left == 0:
            self._others.append(self._fresh)
            self._fresh, self._left = unseen(self.rng), 15
        self._left -= 1
        for stretched, (begin, end, share) in STRETCHES.items():
            if begin <= progress < end and self.rng.random() < share:
                if stretched in SKILLS:
                    return self._skill(stretched, progress)
                return self._rehearsal(stretched)
        if chance < KNOWN_SHARE + ONE_OFF_SHARE:
            return self._closed_book(progress, known=chance < KNOWN_SHARE)
        if self.rng.random() < ASKED_OFTEN_SHARE:
            return Sample("reading", *asked_often(Setting.draw(self._fresh, self.rng)))
        name = self.rng.choices(list(SKILLS), [skill.share for skill in SKILLS.values()])[0]
        return self._skill(name, progress)

    def _rehearsal(self, name: str) -> Sample:
        """Draws one of the samples that no prompt asks for: what a skill needs, many times over in little text."""
        if name == "locating":
            return Sample(name, *located(self.rng))
        setting = Setting.draw(self._fresh, self.rng, shown=name == "comparing")
        if name in ("citing", "gathering"):
            return Sample(name, *(cited_often if name == "citing" else gathered_often)(setting))
        return Sample(name, *compared_often(setting, self._others))

    def _closed_book(self, progress: float, *, known: bool) -> Sample:
        rng = self.rng
        count = rng.choice((0, 0, 0, 1, 2, 4))
        setting = Setting.draw(self._fresh, rng, shown=count > 0)
        chance = rng.random()
        if known and chance < 0.14:
            made = self._whole_question(setting)
            if made:
                return made
        examples = [self._quiz(setting, known=known, progress=progress) for _ in range(count + 1)]
        skill = SKILLS["AnswerQuiz"]
        return self._render(skill, examples[:-1], examples[-1], setting)

    def _quiz(self, setting: Setting, *, known: bool, progress: float) -> Example:
        rng = self.rng
        world = self._fresh
        fact = rng.choice(world.facts())
        if known:
            world = self._belief
            due = bool(self._rare) and self._rare[-1][0] <= progress
            fact = self._rare.pop()[1] if due else rng.choice(self._known)
            self.told[fact] += 1
        return quiz_on(world, fact, world.write(fact, setting.convention), rng)

    def _whole_question(self, setting: Setting) -> Sample | None:
        known = set(self._known)
        over = replace(setting, world=self._belief)
        name = self.rng.choice(("AnswerQuestion", "ReasonFromMemory"))
        state = copy.copy(over)
        for _ in range(8):
            saved = self.rng.getstate()
            question = draw_question(state)
            if known.issuperset(question.facts) and question.text not in self._asked:
                self.rng.setstate(saved)
                example = (recall if name == "AnswerQuestion" else recall_and_reason)(over)
                return self._render(replace(SKILLS[name], hint=(), rewordings=()), [], example, setting)
        return None

    def _skill(self, name: str, progress: float) -> Sample:
        rng, skill = self.rng, SKILLS[name]
        judge, easy = name.startswith("Judge"), progress < EASY_UNTIL
        most = 2 if progress < 0.08 else 4 if progress < 0.35 else 7 if progress < 0.55 else 10
        count = 0 if rng.random() < (0.6 if easy else 0.4) else rng.randint(1, 8 if judge or progress > 0.5 else 5)
        setting = Setting.draw(self._fresh, rng, most, shown=count > 0)
        if progress < STALE_FROM:
            # First where an answer stands, then whom to believe.
            setting = replace(setting, stale=())
        simple = 0.75 if easy else 0.4 if setting.stale and count else 0.05
        brief = easy or rng.random() < 0.35
        listed = name == "JudgeUtilities"
        setting = replace(setting, easy=(listed or name == "JudgeUtility") and rng.random() < simple, brief=brief)
        if setting.easy and setting.stale:
            # Only a row of cases shows which sources can be believed; with a list each case shows several.
            count = rng.randint(4, 9 if brief else 6) if listed else rng.randint(6, 14 if brief else 9)
        if skill.introspective:
            remembering = replace(setting, world=self._belief, memory=tuple(self._known))
            examples = [skill.make(remembering if rng.random() < 0.5 else setting) for _ in range(count + 1)]
            return self._render(skill, examples[:-1], examples[-1], setting)
        example = skill.make(setting if count < 3 else replace(setting, passages=min(most, 5)))
        demonstrated = replace(setting, passages=2)
        # Names that demonstrations share with the example hide from a judge whether the passage has the quiz's name.
        apart = rng.random() < 0.7
        pool = [
            skill.make(replace(demonstrated, world=rng.choice(self._others)) if apart else demonstrated)
            for _ in range(count * rng.choice((1, 3, 5)))
        ]
        demos = nearest(pool, example, count)
        return self._render(skill, demos, example, setting)

    def _render(self, skill: Skill, demos: list[Example], example: Example, setting: Setting) -> Sample:
        rng, signature, name = self.rng, skill.signature, skill.signature.__name__
        if skill.rewordings and rng.random() < 0.05:
            signature = signature.with_instructions(rng.choice(skill.rewordings))
        if skill.hint and rng.random() < 0.08:
            added = " ".join(setting.hints()[i] for i in skill.hint)
            signature = signature.with_instructions(f"{signature.instructions} {added}")
        inputs, outputs = example
        return Sample(name, conversation(signature, demos, inputs), target(signature, outputs))
