"""The testbed as methods meet it: passages, and questions split into train, dev and test."""

import random
from dataclasses import dataclass
from functools import cached_property

from keqa.data.example import Example
from keqa.retrievers.base import Passage
from keqa.testbed import words
from keqa.testbed.prose import capital, paragraph
from keqa.testbed.questions import SHAPES, Composed, QuestionMaker, list_question, lists
from keqa.testbed.relations import RELATIONS, relations_of
from keqa.testbed.world import GOLD, Fact, Tier, Tiers, World, assign

SEED = 1


@dataclass(frozen=True)
class WorldSettings:
    """The knobs of the testbed. The defaults were fixed before any method was scored on it."""

    distractors: int = 1
    stale_sources: int = 2
    questions: tuple[int, int, int] = (400, 100, 200)
    known: float | None = None


@dataclass(frozen=True, kw_only=True)
class TestbedQuestion(Example):
    """One question with its gold answers and decomposition."""

    shape: str
    tiers: tuple[Tier, ...]
    facts: tuple[Fact, ...] = ()


class Testbed:
    """The fictional encyclopedia and its questions.

    Args:
        settings: The knobs.
        seed: Seed of the world, the passages and the questions. The shipped LM knows the world of the default seed.

    Attributes:
        world: Entities and facts.
        tiers: How often the shipped LM saw each fact in training.
        stale_sources: The sources that are out of date.
        passages: The corpus.
        train: Training questions; ``dev`` and ``test`` likewise. No question is in two of them.
    """

    __test__ = False

    def __init__(self, settings: WorldSettings | None = None, seed: int = SEED) -> None:
        self.settings, self.seed = settings or WorldSettings(), seed
        self.world = World(seed)
        self.tiers: Tiers = assign(self.world, seed)
        rng = random.Random(f"sources {seed}")
        self.stale_sources: tuple[str, ...] = tuple(rng.sample(words.SOURCES, len(words.SOURCES)))[
            : self.settings.stale_sources
        ]
        self.passages: list[Passage] = self._write_passages(random.Random(f"passages {seed}"))
        splits = self._draw_questions(random.Random(f"questions {seed}"))
        self.train, self.dev, self.test = splits

    def _write_passages(self, rng: random.Random) -> list[Passage]:
        fresh = [source for source in words.SOURCES if source not in self.stale_sources]
        passages = []
        for kind, names in self.world.entities.items():
            for entity in names:
                relations = [relation.name for relation in relations_of(kind)]
                rng.shuffle(relations)
                half = (len(relations) + 1) // 2
                written = [(relations[:half], rng.choice(fresh)), (relations[half:], rng.choice(fresh))]
                written += [(_outdated(relations, half, rng), source) for source in self.stale_sources]
                written += [([], rng.choice(words.SOURCES)) for _ in range(self.settings.distractors)]
                for i, (stated, source) in enumerate(written):
                    stale = source in self.stale_sources
                    text = paragraph(self.world, kind, entity, stated, source, rng, stale=stale)
                    passages.append(Passage(f"{kind}/{entity}/{i}", capital(entity), text))
        return passages

    def _draw_questions(self, rng: random.Random) -> tuple[list[TestbedQuestion], ...]:
        maker = QuestionMaker(self.world, rng)
        seen: set[str] = set()
        splits: list[list[TestbedQuestion]] = []
        for name, count in zip(("train", "dev", "test"), self.settings.questions, strict=True):
            split: list[TestbedQuestion] = []
            while len(split) < count:
                composed = maker.draw(SHAPES[len(split) % len(SHAPES)])
                if composed.text in seen or not self._wanted(composed, rng):
                    continue
                seen.add(composed.text)
                split.append(self._question(f"{name}-{len(split)}", composed))
            splits.append(split)
        return tuple(splits)

    def _wanted(self, composed: Composed, rng: random.Random) -> bool:
        if self.settings.known is None:
            return True
        known = [self.tiers.tier[fact] == "often" for fact in composed.facts]
        return all(known) if rng.random() < self.settings.known else not all(known)

    def _question(self, identifier: str, composed: Composed) -> TestbedQuestion:
        return TestbedQuestion(
            id=identifier,
            question=composed.text,
            answers=(composed.written_answer(self.world),),
            answer_type=composed.answer_type,
            shape=composed.shape,
            quizzes=composed.quizzes,
            quiz_answers=tuple(self.world.write(fact, GOLD.between) for fact in composed.facts),
            tiers=tuple(self.tiers.tier[fact] for fact in composed.facts),
            facts=composed.facts,
        )

    def more_questions(self, count: int, seed: int) -> list[TestbedQuestion]:
        """Draw further questions about the same world, none of which is in a split."""
        maker = QuestionMaker(self.world, random.Random(f"more questions {seed}"))
        seen = self.asked()
        drawn: list[TestbedQuestion] = []
        while len(drawn) < count:
            composed = maker.draw(SHAPES[len(drawn) % len(SHAPES)])
            if composed.text not in seen:
                seen.add(composed.text)
                drawn.append(self._question(f"more-{seed}-{len(drawn)}", composed))
        return drawn

    @cached_property
    def lists(self) -> list[TestbedQuestion]:
        """Questions for all entities of which a relation has a value; all of their answers are wanted."""
        rng, found = random.Random(f"lists {self.seed}"), lists(self.world)
        return [
            TestbedQuestion(
                id=f"lists-{number}",
                question=list_question(rng, relation, value),
                answers=tuple(members),
                shape="list",
                tiers=(),
            )
            for number, (relation, value, members) in enumerate(rng.sample(found, len(found)), 1)
        ]

    def asked(self) -> set[str]:
        """The texts of all questions; the shipped LM is never trained on one of them as a whole."""
        return {question.question for split in (self.train, self.dev, self.test) for question in split}


def _outdated(relations: list[str], half: int, rng: random.Random) -> list[str]:
    """What a source that is out of date states of an entity: all that has changed, and up to half of all."""
    changed = [name for name in relations if RELATIONS[name].changeable]
    lasting = [name for name in relations if not RELATIONS[name].changeable]
    return changed + rng.sample(lasting, max(0, half - len(changed)))
