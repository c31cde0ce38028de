"""Training examples of drafting quizzes, citing passages, saying what is unknown, and of written answers."""

import copy
from dataclasses import replace

from keqa.signatures.keqa import AnswerAndCite, AnswerFromDocuments, AnswerQuizIfSure, DraftQuizzes
from keqa.signatures.written import CompareInTable, ListItems, WriteAnswer
from keqa.testbed import words
from keqa.testbed.prose import capital, paragraph, passage_on, some_relations
from keqa.testbed.questions import Composed, list_question
from keqa.testbed.relations import LISTED, RELATIONS, relations_of
from keqa.testbed.skills.answering import distractor, draw_question, question_about, quiz_on, some_passages, typed
from keqa.testbed.skills.judging import grafted, partly_known
from keqa.testbed.skills.reflecting import question_on
from keqa.testbed.skills.registry import Example, Setting, skill
from keqa.testbed.world import Convention, Fact, World, quiz_for

UNKNOWN = "UNKNOWN"
_NOTHING_TOLD = 0.25


@skill(DraftQuizzes, share=0.3, scored="drafts", introspective=True)
def draft(setting: Setting) -> Example:
    """A question, its quizzes, and what is known of their answers."""
    rng, world, chance = setting.rng, setting.world, setting.rng.random()
    if not setting.memory:
        question = draw_question(setting)
    elif chance < 0.2:
        question = question_about(rng.choice(setting.memory), setting)
    elif chance < 0.4:
        world, question = grafted(setting)
    else:
        question = partly_known(setting) if chance < 0.65 else question_on(setting)
    known, drafts = set(setting.memory), []
    for fact in question.facts:
        waits = question.shape == "bridge" and UNKNOWN in drafts
        drafts.append(UNKNOWN if waits or fact not in known else world.write(fact, Convention(setting.form.date)))
    return {"question": question.text}, {"quizzes": list(question.quizzes), "drafts": drafts}


@skill(AnswerQuizIfSure, share=0.12, introspective=True)
def quiz_if_sure(setting: Setting) -> Example:
    """A quiz, with its answer where it is known."""
    rng, world = setting.rng, setting.world
    if setting.memory and rng.random() < 0.7:
        fact = rng.choice(setting.memory)
        return quiz_on(world, fact, world.write(fact, Convention(setting.form.date)), rng)
    fact = rng.choice([fact for fact in world.facts() if fact not in set(setting.memory)])
    return quiz_on(world, fact, UNKNOWN, rng)


@skill(AnswerFromDocuments, share=0.12, hint=(0, 1))
def read_documents(setting: Setting) -> Example:
    """Passages, one of which answers the question, or none."""
    rng, world = setting.rng, setting.world
    fact = rng.choice(world.facts())
    stated = rng.random() >= _NOTHING_TOLD
    passages = some_passages(setting, (fact,)) if stated else _beside(setting, fact, rng.randint(1, setting.passages))
    inputs = {"passages": passages, "evidence": [], "triples": [], **typed(question_about(fact, setting))}
    return inputs, {"answer": world.write(fact, setting.convention) if stated else UNKNOWN}


def _narrowed(setting: Setting) -> Setting:
    """The setting with few passages as a rule: among many, where one stands is learned late."""
    return replace(setting, passages=min(setting.passages, setting.rng.choice((2, 2, 3, 4, 10))))


def _beside(setting: Setting, fact: Fact, count: int) -> list[str]:
    return [distractor(setting.world, fact, setting.rng) for _ in range(count)]


@skill(AnswerAndCite, share=0.6, hint=(0, 1, 2))
def cite(setting: Setting) -> Example:
    """Passages of which some tell the answer and some what was true once, and the numbers of the former."""
    setting = _narrowed(setting)
    rng, world = setting.rng, setting.world
    fact = rng.choice(world.facts())
    if setting.stale and rng.random() < 0.7:
        fact = rng.choice([one for one in world.facts() if RELATIONS[one.relation].changeable])
    stated = [] if rng.random() < _NOTHING_TOLD else [_telling(setting, fact, stale=False)]
    if stated and setting.passages > 2 and rng.random() < 0.25:
        stated.append(_telling(setting, fact, stale=False))
    stale = setting.stale and RELATIONS[fact.relation].changeable
    outdated = [_telling(setting, fact, stale=True)] if stale and rng.random() < 0.6 else []
    room = max(1, setting.passages) - len(stated) - len(outdated)
    beside = _beside(setting, fact, rng.randint(0 if stated or outdated else 1, max(1, room)))
    passages = [(text, kind is stated) for kind in (stated, outdated, beside) for text in kind]
    rng.shuffle(passages)
    inputs = {"passages": _numbered([text for text, _ in passages]), "answer_type": "short", "choices": []}
    inputs["question"] = quiz_for(fact, rng)
    cited = [number for number, (_, tells) in enumerate(passages, 1) if tells]
    return inputs, {"answer": world.write(fact, setting.convention) if stated else UNKNOWN, "citations": cited}


def _telling(setting: Setting, fact: Fact, *, stale: bool) -> str:
    """A passage that tells a fact, or what was true before, by a source that is up to date, or by one that is not."""
    rng, kind = setting.rng, RELATIONS[fact.relation].kind
    source = rng.choice(setting.stale if stale else [one for one in words.SOURCES if one not in setting.stale])
    stated = some_relations(kind, rng, including=fact.relation)
    return f"{capital(fact.entity)}: {paragraph(setting.world, kind, fact.entity, stated, source, rng, stale=stale)}"


def _numbered(passages: list[str]) -> dict[int, str]:
    return dict(enumerate(passages, 1))


@skill(WriteAnswer, share=0.4, scored="text")
def write(setting: Setting) -> Example:
    """A sentence that answers a question, or a report of all that passages tell, each with its citations."""
    setting = _narrowed(setting)
    report = setting.rng.random() < 0.5
    question, passages, text = _report(setting) if report else _sentence(setting)
    findings = []
    if isinstance(question, Composed):
        values = [setting.world.write(fact, Convention(setting.form.date)) for fact in question.facts]
        resolved = question.resolved(setting.world, Convention(setting.form.date))
        findings = [f"{quiz} {value}" for quiz, value in zip(resolved, values, strict=True)]
        question = question.text
    inputs = {"passages": _numbered(passages), "findings": findings if setting.rng.random() < 0.7 else []}
    return inputs | {"question": question, "style": "report" if report else "sentence"}, {"text": text}


def _sentence(setting: Setting) -> tuple[Composed, list[str], str]:
    """A question of any shape, answered in one sentence: what each of its facts is and, of two, what follows."""
    rng, world, question = setting.rng, setting.world, draw_question(setting)
    if len(question.facts) == 1 and rng.random() < _NOTHING_TOLD:
        return question, _beside(setting, question.facts[0], rng.randint(1, setting.passages)), UNKNOWN
    passages = some_passages(setting, question.facts)
    parts = []
    for fact in question.facts:
        value = world.write(fact, Convention(1))
        stated = RELATIONS[fact.relation].states[0].format(r=fact.entity, v=value)
        # The first of the passages that state the fact, as some_passages makes one of each.
        parts.append(f"{stated.removesuffix('.')} {_cited(_telling_of(world, fact, passages))}")
    sentence = capital(", and ".join(parts))
    if question.shape != "bridge" and len(parts) > 1:
        sentence += f", so the answer is {question.written_answer(world)}"
    return question, passages, f"{sentence}."


def _telling_of(world: World, fact: Fact, passages: list[str]) -> list[int]:
    """The numbers of the passages about the entity of a fact that state it, in one of the wordings it has."""
    return [number for number, text in enumerate(passages, 1) if _states(world, fact, text)]


def _states(world: World, fact: Fact, text: str) -> bool:
    title, _, body = text.partition(": ")
    if title != capital(fact.entity):
        return False
    forms = {world.write(fact, Convention(form)) for form in range(2)}
    wordings = (state.partition("{r}") for state in RELATIONS[fact.relation].states)
    ends = [(before.format(v=v), after.format(v=v)) for before, _, after in wordings for v in forms]
    return any(
        sentence.lower().startswith(before.lower()) and sentence.endswith(after.rstrip("."))
        for sentence in body.split(". ")
        for before, after in ends
    )


def _cited(numbers: list[int]) -> str:
    return "".join(f"[{number}]" for number in numbers)


_REPORTS = ("What do the sources tell about {e}?", "Summarize what is known of {e}.", "Tell me about {e}.")


def _report(setting: Setting) -> tuple[str, list[str], str]:
    """A question on all that passages tell about an entity, and their statements on it, each once."""
    rng, world = setting.rng, setting.world
    kind = rng.choice(list(world.entities))
    entity = rng.choice(world.entities[kind])
    facts = [Fact(relation.name, entity) for relation in relations_of(kind)]
    about = [] if rng.random() < _NOTHING_TOLD / 2 else range(rng.randint(1, min(2, max(1, setting.passages - 1))))
    passages = [passage_on(world, kind, entity, rng) for _ in about]
    others = [one for one in world.entities[kind] if one != entity]
    for _ in range(rng.randint(0 if passages else 1, max(1, setting.passages - len(passages)))):
        passages.append(passage_on(world, kind, rng.choice(others), rng))
    rng.shuffle(passages)
    found = [(numbers, fact) for fact in facts if (numbers := _telling_of(world, fact, passages))]
    found.sort(key=lambda one: one[0][0])
    sentences = []
    for numbers, fact in found:
        stated = RELATIONS[fact.relation].states[0].format(r=entity, v=world.write(fact, Convention(1)))
        sentences.append(f"{capital(stated).removesuffix('.')} {_cited(numbers)}.")
    return rng.choice(_REPORTS).format(e=entity), passages, " ".join(sentences) or UNKNOWN


@skill(ListItems, share=0.3, scored="items")
def gather(setting: Setting) -> Example:
    """Passages on entities of one kind, and those of them of which a relation has the value that is asked for."""
    setting = _narrowed(setting)
    rng, world = setting.rng, setting.world
    relation = RELATIONS[rng.choice(LISTED)]
    entities = world.entities[relation.kind]
    chosen = rng.sample(entities, min(len(entities), rng.randint(1, max(2, setting.passages))))
    asked = world.values[Fact(relation.name, rng.choice(entities if rng.random() < 0.2 else chosen))]
    # In a small world few have anything in common, so at times some are made to.
    shared = {Fact(relation.name, one): asked for one in chosen if one != asked and rng.random() < 0.4}
    world = copy.copy(world)
    world.values = {**world.values, **shared}
    passages, items = [], []
    for number, entity in enumerate(chosen, 1):
        fact = Fact(relation.name, entity)
        telling = rng.random() < 0.85
        names = {"including": relation.name} if telling else {"without": relation.name}
        passages.append(passage_on(world, relation.kind, entity, rng, **names))
        if telling and world.values[fact] == asked:
            items.append(f"{entity} [{number}]")
    question = list_question(rng, relation.name, str(asked))
    return {"passages": _numbered(passages), "question": question}, {"items": items}


@skill(CompareInTable, share=0.25, scored="rows")
def compare(setting: Setting) -> Example:
    """Passages on two entities of a kind, among others, and what they tell of each, aspect by aspect."""
    rng, world = setting.rng, setting.world
    kind = rng.choice([kind for kind in world.entities if len(relations_of(kind)) > 1])
    pair = rng.sample(world.entities[kind], 2)
    aspects = [relation.name for relation in relations_of(kind)]
    question = f"Compare {pair[0]} and {pair[1]}."
    if rng.random() < 0.5:
        aspects = [name for name in aspects if name in rng.sample(aspects, 2)] or aspects[:1]
        question = f"Compare the {' and the '.join(aspects)} of {pair[0]} and {pair[1]}."
    passages = [passage_on(world, kind, one, rng, including=rng.choice(aspects)) for one in pair]
    others = [one for one in world.entities[kind] if one not in pair]
    for _ in range(rng.randint(0, max(0, min(2, setting.passages - 2)))):
        passages.append(passage_on(world, kind, rng.choice(others), rng))
    rng.shuffle(passages)
    rows = []
    for aspect in aspects:
        stated = [(Fact(aspect, one), _telling_of(world, Fact(aspect, one), passages)) for one in pair]
        if any(numbers for _, numbers in stated):
            cells = [
                f"{world.write(fact, Convention(1))} {_cited(numbers)}" if numbers else "-" for fact, numbers in stated
            ]
            rows.append(" | ".join([aspect, *cells]))
    return {"passages": _numbered(passages), "question": question}, {"subjects": pair, "rows": rows}
