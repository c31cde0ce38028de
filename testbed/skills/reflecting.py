"""Training examples of what the baselines ask: about the LM itself, passages and answers, triples and documents."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from keqa.signatures.baselines import (
    JudgeHeuristicAnswer,
    JudgeRelevance,
    JudgeSupport,
    RateUsefulness,
    RephraseQuestion,
    RewriteQueries,
)
from keqa.signatures.boundary import DecideRetrieval, JudgeKnowledge, StateConfidence
from keqa.signatures.ks_llm import AnswerWithEvidence, ExpandSubject, GenerateDocument
from keqa.testbed import words
from keqa.testbed.prose import capital, distraction, passage, reference, some_relations, statement
from keqa.testbed.questions import Composed
from keqa.testbed.relations import RELATIONS, relations_of
from keqa.testbed.skills.answering import draw_question, explain, quiz_on, typed
from keqa.testbed.skills.registry import Example, Setting, skill
from keqa.testbed.testbed import Testbed
from keqa.testbed.world import Date, Fact, Tier, Value, unseen


@cache
def _asked() -> frozenset[str]:
    return frozenset(Testbed().asked())


@cache
def labelled() -> dict[Tier, tuple[Fact, ...]]:
    """The facts whose tiers `JudgeKnowledge` is told, by tier: those that no dev or test question rests on.

    Which memories are out of date can thus be learned as from a benchmark's train split, by their kind; nothing is
    given away of the facts that methods are scored on.
    """
    testbed = Testbed()
    held_out = {fact for question in (*testbed.dev, *testbed.test) for fact in question.facts}
    known = testbed.tiers
    return {tier: tuple(f for f in known.of(tier) if f not in held_out) for tier in dict.fromkeys(known.tier.values())}


def question_on(setting: Setting) -> Composed:
    """Draws a question; with memory mostly one whose facts are all known, and none of the testbed's own."""
    question = draw_question(setting)
    if setting.memory:
        wanted = set(setting.memory if setting.rng.random() < 0.75 else setting.world.values)
        for _ in range(15):
            if question.text not in _asked() and wanted.issuperset(question.facts):
                break
            question = draw_question(setting)
        while question.text in _asked():
            question = draw_question(setting)
    return question


def another_value(setting: Setting, relation: str, value: Value) -> Value:
    world, target = setting.world, RELATIONS[relation].target
    named = {**world.entities, "language": words.LANGUAGES, "occupation": words.OCCUPATIONS}
    pool: Sequence[Value] = named.get(target, ())
    pool = pool or [v for fact, v in world.values.items() if RELATIONS[fact.relation].target == target]
    return setting.rng.choice([other for other in pool if other != value])


@dataclass(frozen=True)
class Claimed:
    """A question with what an LM claims in answer to it, right or wrong."""

    facts: tuple[Fact, ...]
    values: tuple[Value, ...]
    quizzes: list[str]
    text: str


def claims(setting: Setting, question: Composed, *, right: bool) -> Claimed:
    """Claims an answer; what is not in the LM's memory is made up, or training would tell it."""
    world, memory, rng = setting.world, set(setting.memory), setting.rng
    wrong = None if right else rng.randrange(len(question.facts))
    facts: list[Fact] = []
    values: list[Value] = []
    for i, original in enumerate(question.facts):
        bridged = i > 0 and question.shape == "bridge"
        fact = Fact(original.relation, str(values[-1])) if bridged else original
        value = world.values[fact]
        if i == wrong or (memory and fact not in memory):
            value = another_value(setting, fact.relation, value)
        facts.append(fact)
        values.append(value)
    return _put(setting, question, tuple(facts), tuple(values))


def _put(setting: Setting, question: Composed, facts: tuple[Fact, ...], values: tuple[Value, ...]) -> Claimed:
    targets = [RELATIONS[fact.relation].target for fact in facts]
    written = [setting.form.write(value, target) for value, target in zip(values, targets, strict=True)]
    compared, answer = None, setting.convention.write(values[-1], targets[-1])
    if question.compared:
        first, second = (str(value.year) if isinstance(value, Date) else value for value in values)
        compared = (first, second)
        earlier = re.search(r"earlier|first", question.text) is not None
        answer = facts[0 if (first < second) == earlier else 1].entity
    elif question.shape == "yes/no":
        answer = "yes" if values[0] == values[1] else "no"
    sentences = explain(replace(question, facts=facts, answer=answer, compared=compared), written)
    quizzes = list(question.quizzes)
    for i, value in enumerate(written, 1):
        quizzes = [quiz.replace(f"#{i}", value) for quiz in quizzes]
    return Claimed(facts, values, quizzes, f"{sentences} The answer is {answer}.")


_ASKED_OF_TIER: dict[Tier, float] = {"often": 0.42, "stale": 0.22, "sometimes": 0.08, "never": 0.28}


@skill(DecideRetrieval, share=0.03, scored="retrieve", introspective=True)
def retrieval(setting: Setting) -> Example:
    """A question, and whether any of its facts is unknown."""
    question = question_on(setting)
    return {"question": question.text}, {"retrieve": not set(setting.memory).issuperset(question.facts)}


@skill(JudgeHeuristicAnswer, share=0.03, scored="known", introspective=True)
def heuristic(setting: Setting) -> Example:
    """A question or one of its quizzes, a heuristic answer to the whole, and whether what it says is known."""
    rng, world = setting.rng, setting.world
    question = question_on(setting)
    claimed = claims(setting, question, right=rng.random() < 0.7)
    memory = set(setting.memory)
    known = [
        fact in memory and world.values[fact] == value
        for fact, value in zip(claimed.facts, claimed.values, strict=True)
    ]
    text, verdict = question.text, all(known)
    if len(known) > 1 and rng.random() < 0.5:
        i = rng.randrange(len(known))
        text, verdict = claimed.quizzes[i], known[i]
    return {"question": text, "heuristic_answer": claimed.text}, {"known": verdict}


@skill(JudgeKnowledge, share=0.6, scored="mastery", introspective=True)
def knowledge(setting: Setting) -> Example:
    """A quiz, at times with passages for a reference, and whether its answer would be right and always the same."""
    rng, world = setting.rng, setting.world
    mastered = certain = False
    if setting.memory:
        tier = rng.choices(list(_ASKED_OF_TIER), list(_ASKED_OF_TIER.values()))[0]
        fact = rng.choice(labelled()[tier])
        mastered, certain = tier == "often", tier in ("often", "stale")
    else:
        fact = rng.choice(world.facts())
    reference: list[str] = []
    if rng.random() < 0.35:
        # Of the encyclopedia, passages tell what the LM knows anyway: nothing else of it may be in a prompt.
        stated = mastered if setting.memory else rng.random() < 0.6
        apart = unseen(rng) if setting.memory else world
        reference = (
            [_passage(setting, fact, stated=True, alone=bool(setting.memory))] if stated and rng.random() < 0.8 else []
        )
        mastered, certain = mastered or bool(reference), certain or bool(reference)
        others = [other for other in apart.facts() if other.entity != fact.entity]
        alike = [other for other in others if other.relation == fact.relation]
        for _ in range(rng.randint(0 if reference else 1, max(1, min(setting.passages, 3) - len(reference)))):
            other = rng.choice(alike if alike and rng.random() < 0.6 else others)
            reference += [_passage(replace(setting, world=apart), other, stated=True)]
        if not setting.memory and not mastered and rng.random() < 0.4:
            reference[0] = _passage(setting, fact, stated=False)
        rng.shuffle(reference)
    inputs, _ = quiz_on(world, fact, "", rng)
    return {"reference": reference, **inputs}, {"mastery": mastered, "certainty": certain}


@skill(StateConfidence, share=0.03, hint=(0, 1), scored="confidence", introspective=True)
def confidence(setting: Setting) -> Example:
    """A quiz, a proposed answer, and high confidence where it is what the LM was told often."""
    rng, world = setting.rng, setting.world
    fact = rng.choice(setting.memory or world.facts())
    value, right = world.values[fact], bool(setting.memory) and rng.random() < 0.7
    proposed = value if right else another_value(setting, fact.relation, value)
    written = setting.convention.write(proposed, RELATIONS[fact.relation].target)
    inputs, _ = quiz_on(world, fact, written, rng)
    return inputs | {"proposed_answer": written}, {
        "confidence": str(rng.choice((80, 90, 100) if right else (0, 10, 20, 30)))
    }


def _passage(setting: Setting, fact: Fact, *, stated: bool, alone: bool = False) -> str:
    """A passage about the fact's entity, with or without the fact; with it alone where nothing else may be told."""
    rng, kind = setting.rng, RELATIONS[fact.relation].kind
    relations = some_relations(kind, rng, **{"including" if stated else "without": fact.relation})
    return passage(setting.world, kind, fact.entity, [fact.relation] if alone else relations, rng)


def _elsewhere(setting: Setting, question: Composed, fact: Fact) -> Fact:
    named = {one.entity for one in question.facts}
    return Fact(
        fact.relation,
        setting.rng.choice([e for e in setting.world.entities[RELATIONS[fact.relation].kind] if e not in named]),
    )


@skill(JudgeRelevance, share=0.04, scored="relevant")
def relevance(setting: Setting) -> Example:
    """A question and a passage: about what it names and to the point, beside the point, or about something else."""
    rng, question = setting.rng, draw_question(setting)
    # Of a bridge only the first entity is named; nothing tells of a passage on the next whether it is the one.
    fact = question.facts[0] if question.shape == "bridge" else rng.choice(question.facts)
    chance = rng.random()
    if chance < 0.3:
        text = _passage(setting, _elsewhere(setting, question, fact), stated=True)
    else:
        text = _passage(setting, fact, stated=chance > 0.5)
    return {"passage": text, "question": question.text}, {"relevant": chance > 0.5}


@skill(JudgeSupport, share=0.06, scored="support")
def support(setting: Setting) -> Example:
    """A passage, a question and an answer that it backs wholly, in part or not at all."""
    rng, world = setting.rng, setting.world
    question = draw_question(setting)
    if rng.random() < 0.4:
        while question.shape != "one hop":
            question = draw_question(setting)
    single = question.shape == "one hop"
    fact = question.facts[-1] if question.shape == "bridge" else rng.choice(question.facts)
    answer = question.written_answer(world, setting.convention)
    if rng.random() < 0.5:
        verdict = "fully" if single else "partially"
        return _supported(_passage(setting, fact, stated=True), question, answer, verdict)
    trap = rng.random()
    if trap < 0.35 and question.shape in ("one hop", "bridge"):
        # The right entity, and another answer.
        other = another_value(setting, fact.relation, world.values[fact])
        answer = setting.convention.write(other, RELATIONS[fact.relation].target)
        return _supported(_passage(setting, fact, stated=True), question, answer, "no")
    if trap < 0.6 or question.shape == "bridge":
        return _supported(_passage(setting, fact, stated=False), question, answer, "no")
    # The passage is about something else, and at times the answer was read off it.
    astray = _elsewhere(setting, question, fact)
    if single and rng.random() < 0.7:
        answer = world.write(astray, setting.convention)
    return _supported(_passage(setting, astray, stated=True), question, answer, "no")


def _supported(text: str, question: Composed, answer: str, verdict: str) -> Example:
    return {"passage": text, "question": question.text, "answer": answer}, {"support": verdict}


@skill(RateUsefulness, share=0.05, scored="usefulness")
def usefulness(setting: Setting) -> Example:
    """A question and an answer: of the kind that is asked for, true or not, or of another kind."""
    rng, world, question = setting.rng, setting.world, draw_question(setting)
    if rng.random() < 0.5:
        answer = claims(setting, question, right=rng.random() < 0.5).text
        answer = answer.rsplit(" The answer is ", 1)[1].removesuffix(".")
        return {"question": question.text, "answer": answer}, {"usefulness": 5}
    target = RELATIONS[question.facts[-1].relation].target if question.shape in ("one hop", "bridge") else ""
    asked = {target, "date", "year"} if target in ("date", "year") else {target}
    facts = [fact for fact in world.facts() if RELATIONS[fact.relation].target not in asked]
    answer = world.write(rng.choice(facts), setting.convention)
    if rng.random() < 0.2:
        answer = "unknown" if question.shape == "yes/no" or rng.random() < 0.5 else rng.choice(("yes", "no"))
    return {"question": question.text, "answer": answer}, {"usefulness": 1}


@skill(RephraseQuestion, share=0.02, scored="rephrased")
def rephrasing(setting: Setting) -> Example:
    """A question and the same question in other words, or with what it compares the other way round."""
    question = draw_question(setting)
    return {"question": question.text}, {"rephrased": rephrase(question)}


def rephrase(question: Composed) -> str:
    text, (*_, last) = question.text, question.facts
    if question.shape == "comparison":
        others = {"earlier": "first", "first": "earlier", "later": "last", "last": "later"}
        one = next(word for word in others if f" {word}, " in text)
        return text.replace(f" {one}, ", f" {others[one]}, ")
    if question.shape == "yes/no":
        first, second = (fact.entity for fact in question.facts)
        return text.replace(f" {first} and {second} ", f" {second} and {first} ")
    first, second = RELATIONS[last.relation].asks
    for ask, other in ((first, second), (second, first)):
        before, after = ask.split("{e}")
        if text.startswith(before) and text.endswith(after):
            return other.format(e=text[len(before) : len(text) - len(after)])
    raise ValueError(f"{text!r} is in no wording of {last.relation!r}")


@skill(RewriteQueries, share=0.015, scored="queries")
def queries(setting: Setting) -> Example:
    """A question, a heuristic answer, and the quizzes that check it."""
    question = draw_question(setting)
    claimed = claims(setting, question, right=setting.rng.random() < 0.8)
    return {"question": question.text, "heuristic_answer": claimed.text}, {"queries": claimed.quizzes}


def _subjects(question: Composed) -> list[str]:
    """Whom a question names: of a bridge, where it starts."""
    return [fact.entity for fact in (question.facts[:1] if question.shape == "bridge" else question.facts)]


def _remembered(setting: Setting, question: Composed) -> list[tuple[Fact, Value]]:
    """What a question rests on, and a little more of what it names, as the LM believes it."""
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
    """Triples, some of them wrong, and sentences of which a few tell; what tells the answer is in one of the two."""
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
            written = another_value(setting, fact.relation, value) if wrong else value
            triples.append(_triple(fact, _written(setting, fact, written)))
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
