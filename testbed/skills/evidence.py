"""Training examples of what KS-LLM asks: triples and documents from memory, answers from triples and sentences."""

from keqa.signatures import AnswerWithEvidence, ExpandSubject, GenerateDocument
from keqa.testbed import words
from keqa.testbed.prose import capital, distraction, reference, statement
from keqa.testbed.questions import Composed
from keqa.testbed.relations import RELATIONS, relations_of
from keqa.testbed.skills.answering import draw_question, typed
from keqa.testbed.skills.reflecting import another_value, claims, question_on
from keqa.testbed.skills.registry import Example, Setting, skill
from keqa.testbed.world import Fact, Value


def _subjects(question: Composed) -> list[str]:
    """Whom a question names: of a bridge, where it starts."""
    return [fact.entity for fact in (question.facts[:1] if question.shape == "bridge" else question.facts)]


def _remembered(setting: Setting, question: Composed) -> list[tuple[Fact, Value]]:
    """What a question rests on, and a little more of what it names, as the LM believes it.

    What it was not told is made up, or training would tell it.
    """
    world, rng = setting.world, setting.rng
    claimed = claims(setting, question, right=True)
    found = list(zip(claimed.facts, claimed.values, strict=True))
    for entity in _subjects(question):
        kind = RELATIONS[next(fact.relation for fact in claimed.facts if fact.entity == entity)].kind
        more = [Fact(relation.name, entity) for relation in relations_of(kind)]
        more = [fact for fact in more if fact not in claimed.facts and (not setting.memory or fact in setting.memory)]
        found += [(fact, world.values[fact]) for fact in rng.sample(more, min(len(more), rng.choice((0, 1, 1, 2))))]
    return found


def _written(setting: Setting, fact: Fact, value: Value) -> str:
    return setting.form.write(value, RELATIONS[fact.relation].target)


def _triple(fact: Fact, value: str) -> str:
    return f"{fact.entity} | {fact.relation} | {value}"


@skill(ExpandSubject, share=0.18, scored="subject", introspective=True)
def expand(setting: Setting) -> Example:
    """A question, whom it is about, and triples about them, all of them filled."""
    question = question_on(setting)
    subjects = _subjects(question)
    triples = [
        _triple(fact, _written(setting, fact, value))
        for fact, value in _remembered(setting, question)
        if fact.entity in subjects
    ]
    return {"question": question.text}, {"subject": " and ".join(subjects), "triples": triples}


@skill(GenerateDocument, share=0.18, scored="title", introspective=True)
def document(setting: Setting) -> Example:
    """A question and a paragraph on what it rests on."""
    question = question_on(setting)
    sentences = [
        capital(RELATIONS[fact.relation].states[0].format(r=fact.entity, v=_written(setting, fact, value)))
        for fact, value in _remembered(setting, question)
    ]
    title = capital(" and ".join(_subjects(question)))
    return {"question": question.text}, {"title": title, "document": " ".join(sentences)}


@skill(AnswerWithEvidence, share=0.32, hint=(0, 1))
def evidenced(setting: Setting) -> Example:
    """Triples, some of them wrong, and sentences of which a few tell; what tells the answer is in one of the two.

    At times there are triples alone, which are then right, or sentences alone.
    """
    rng, world = setting.rng, setting.world
    question = draw_question(setting)
    chance = rng.random()
    titled = rng.random() < 0.4
    triples: list[str] = []
    sentences: list[str] = []
    for fact in dict.fromkeys(question.facts):
        value = world.values[fact]
        stated = chance >= 0.15 and (chance < 0.4 or rng.random() < 0.85)
        if stated:
            sentences.append(_sentence(setting, fact, titled=titled))
        if chance < 0.15 or not stated:
            triples.append(_triple(fact, _written(setting, fact, value)))
        elif chance >= 0.4 and rng.random() < 0.8:
            wrong = rng.random() < 0.45
            said = another_value(setting, fact.relation, value) if wrong else value
            triples.append(_triple(fact, _written(setting, fact, said)))
    if triples and rng.random() < 0.5:
        kind = RELATIONS[question.facts[0].relation].kind
        more = [Fact(relation.name, question.facts[0].entity) for relation in relations_of(kind)]
        more = [fact for fact in more if fact not in question.facts]
        for fact in rng.sample(more, min(len(more), rng.randint(1, 2))):
            value = another_value(setting, fact.relation, world.values[fact])
            triples.append(_triple(fact, _written(setting, fact, rng.choice((value, world.values[fact])))))
        rng.shuffle(triples)
    if sentences:
        most = rng.choice((1, 2, 2, 3, 5, 10) if setting.passages > 2 else (1, 2, 3))
        while len(sentences) < most:
            sentences.append(_beside(setting, question, titled=titled))
        rng.shuffle(sentences)
    inputs = {"triples": triples, "evidence": sentences, **typed(question)}
    return inputs, {"answer": question.written_answer(world, setting.convention)}


def _sentence(setting: Setting, fact: Fact, *, titled: bool) -> str:
    """A sentence that states a fact: behind the title of its passage or by itself."""
    rng, kind = setting.rng, RELATIONS[fact.relation].kind
    name = reference(kind, fact.entity) if titled and rng.random() < 0.6 else fact.entity
    text = statement(setting.world, fact, rng, name)
    return f"{capital(fact.entity)}: {text}" if titled else text


def _beside(setting: Setting, question: Composed, *, titled: bool) -> str:
    """A sentence that tells nothing of what is asked."""
    rng, chance = setting.rng, setting.rng.random()
    entity = rng.choice(question.facts).entity
    if chance < 0.3:
        text = capital(distraction(rng, entity))
        return f"{capital(entity)}: {text}" if titled else text
    if chance < 0.4:
        return f"Source: {rng.choice(words.SOURCES)}."
    named = {fact.entity for fact in question.facts}
    others = [
        fact
        for fact in setting.world.facts()
        if fact not in question.facts and (fact.entity in named) == (chance < 0.6)
    ]
    return _sentence(setting, rng.choice(others), titled=titled)
