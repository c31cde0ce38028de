"""Training examples of decomposing, answering, summarizing, and of making a follow-up question stand alone."""

import random
from collections.abc import Iterable

from keqa.signatures.baselines import AnswerQuestion, ReasonFromMemory, ReasonWithKnowledge
from keqa.signatures.keqa import AnswerQuiz, AnswerWithKnowledge, DecomposeQuestion, RewriteFollowUp, Summarize
from keqa.signatures.ks_llm import ConstructTriples
from keqa.testbed.prose import capital, passage_on
from keqa.testbed.questions import Composed, QuestionMaker
from keqa.testbed.relations import RELATIONS, Relation, relations_of
from keqa.testbed.skills.registry import Example, Setting, skill
from keqa.testbed.world import Convention, Fact, World, quiz_for

_SHAPES = (("one hop", 0.12), ("bridge", 0.48), ("comparison", 0.22), ("yes/no", 0.18))


def draw_question(setting: Setting) -> Composed:
    """Draws a question over the setting's world, of its shape or of any."""
    shape = setting.shape or setting.rng.choices([s for s, _ in _SHAPES], [share for _, share in _SHAPES])[0]
    return QuestionMaker(setting.world, setting.rng).draw(shape)


def question_about(fact: Fact, setting: Setting) -> Composed:
    """The question of one hop that asks for a fact."""
    text = quiz_for(fact, setting.rng)
    return Composed("one hop", text, (text,), (fact,), fact)


def typed(question: Composed) -> dict[str, object]:
    return {"question": question.text, "answer_type": question.answer_type, "choices": []}


@skill(DecomposeQuestion, share=0.05, scored="quizzes")
def decompose(setting: Setting) -> Example:
    question = draw_question(setting)
    return {"question": question.text}, {"quizzes": list(question.quizzes)}


@skill(AnswerQuiz, share=0.0, hint=(0, 1))
def quiz(setting: Setting) -> Example:
    rng, world = setting.rng, setting.world
    fact = rng.choice(world.facts())
    return quiz_on(world, fact, world.write(fact, setting.convention), rng)


def quiz_on(world: World, fact: Fact, answer: str, rng: random.Random) -> Example:
    return {"quiz": quiz_for(fact, rng), "answer_type": "short", "choices": []}, {"answer": answer}


def explain(question: Composed, values: Iterable[str]) -> str:
    return " ".join(explained(question, values))


def explained(question: Composed, values: Iterable[str]) -> list[str]:
    """One sentence for each fact of the question, with the values given, and the comparison where there is one."""
    sentences = [
        capital(RELATIONS[fact.relation].states[0].format(r=fact.entity, v=value))
        for fact, value in zip(question.facts, values, strict=True)
    ]
    if question.compared:
        # By year first, since what follows a year is found by it; then the two in the order of time, whatever is asked.
        dated = list(zip(question.compared, (fact.entity for fact in question.facts), strict=True))
        (before, first), (after, second) = sorted(dated)
        asked = f"earlier is {before}: {first}" if first == question.answer else f"later is {after}: {second}"
        listed = "; ".join(f"{year}: {entity}" for year, entity in dated)
        sentences.append(f"{listed}; {before} is earlier than {after}, so the {asked}.")
    return sentences


def distractor(world: World, fact: Fact, rng: random.Random) -> str:
    """A passage that does not tell a fact: one on the same subject, or on another."""
    kind = RELATIONS[fact.relation].kind
    chance = rng.random()
    if chance < 0.25:
        return passage_on(world, kind, fact.entity, rng, without=fact.relation)
    if chance > 0.75:
        kind = rng.choice(list(world.entities))
    other = rng.choice([name for name in world.entities[kind] if name != fact.entity])
    return passage_on(world, kind, other, rng, including=fact.relation if chance < 0.6 else "")


def some_passages(setting: Setting, facts: Iterable[Fact]) -> list[str]:
    """A passage that tells each of the facts, among others that do not, in any order."""
    rng, world = setting.rng, setting.world
    found = [
        passage_on(world, RELATIONS[fact.relation].kind, fact.entity, rng, including=fact.relation)
        for fact in dict.fromkeys(facts)
    ]
    for _ in range(rng.randint(0, max(0, setting.passages - len(found)))):
        found.append(distractor(world, rng.choice(list(facts)), rng))
    rng.shuffle(found)
    return found


@skill(AnswerWithKnowledge, share=0.18, hint=(0, 1))
def read(setting: Setting) -> Example:
    """Passages, one of which answers the question; at times evidence and triples as well."""
    rng, world = setting.rng, setting.world
    fact = rng.choice(world.facts())
    passages = some_passages(setting, (fact,))
    evidence: list[str] = []
    triples: list[str] = []
    if rng.random() < 0.08:
        value = world.write(fact, Convention())
        evidence = [s + "." for p in passages for s in p.split(": ", 1)[1].split(". ") if value in s][:2]
        triples = [f"{fact.entity} | {fact.relation} | ?"]
    inputs = {"passages": passages, "evidence": evidence, "triples": triples, **typed(question_about(fact, setting))}
    return inputs, {"answer": world.write(fact, setting.convention)}


@skill(Summarize, share=0.26, hint=(0, 1))
def summarize(setting: Setting) -> Example:
    """Answered quizzes, the explanation they give, and the answer by the hidden convention."""
    rng, world = setting.rng, setting.world
    question = draw_question(setting)
    values = [world.write(fact, Convention(rng.choices((0, 1), (0.6, 0.4))[0])) for fact in question.facts]
    answered = [f"{text} {value}" for text, value in zip(question.resolved(world, Convention()), values, strict=True)]
    inputs = {
        "question": question.text,
        "answered_quizzes": answered,
        "answer_type": question.answer_type,
        "choices": [],
    }
    outputs = {
        "explanation": explain(question, values),
        "answer": question.written_answer(world, setting.convention),
    }
    return inputs, outputs


@skill(ReasonWithKnowledge, share=0.07, hint=(0, 1))
def read_and_reason(setting: Setting) -> Example:
    """Passages that answer a question of any shape, the reasoning and the answer."""
    question = draw_question(setting)
    outputs = _reasoned(question, setting)
    return {"passages": some_passages(setting, question.facts)} | typed(question), outputs


def _reasoned(question: Composed, setting: Setting) -> dict[str, object]:
    values = [setting.world.write(fact, setting.form) for fact in question.facts]
    answer = question.written_answer(setting.world, setting.convention)
    return {"reasoning": explain(question, values), "answer": answer}


@skill(AnswerQuestion, share=0.02, hint=(0, 1))
def recall(setting: Setting) -> Example:
    """A whole question answered from memory."""
    question = draw_question(setting)
    return typed(question), {"answer": question.written_answer(setting.world, setting.convention)}


@skill(ReasonFromMemory, share=0.02, hint=(0, 1))
def recall_and_reason(setting: Setting) -> Example:
    """A whole question reasoned out from memory."""
    question = draw_question(setting)
    return typed(question), _reasoned(question, setting)


@skill(ConstructTriples, share=0.02, scored="triples")
def triples(setting: Setting) -> Example:
    """A question and the triples it needs, unknown ends as question marks."""
    question = draw_question(setting)
    lines = []
    for i, fact in enumerate(question.facts):
        chained = i > 0 and question.shape == "bridge"
        lines.append(f"{'?' if chained else fact.entity} | {fact.relation} | ?")
    return {"question": question.text}, {"triples": lines}


_SUBJECT_AFTER = ("was", "is", "does")


@skill(RewriteFollowUp, share=0.25, scored="standalone")
def follow_up(setting: Setting) -> Example:
    """A conversation and a question that leans on its last turn, or on none of it."""
    rng, chance = setting.rng, setting.rng.random()
    earlier = [_turn(setting, draw_question(setting)) for _ in range(rng.choice((0, 0, 1, 2)))]
    if chance < 0.3:
        last, question, standalone = _on_the_subject(setting)
    elif chance < 0.65:
        last, question, standalone = _on_the_answer(setting)
    elif chance < 0.8:
        last, question, standalone = _of_another(setting)
    else:
        last, standalone = draw_question(setting), draw_question(setting).text
        question = standalone
    return {"history": [*earlier, _turn(setting, last)], "question": question}, {"standalone": standalone}


def _turn(setting: Setting, question: Composed) -> str:
    return f"{question.text} {question.written_answer(setting.world, setting.convention)}"


def _on_the_subject(setting: Setting) -> tuple[Composed, str, str]:
    """After a question whose answer is of another kind than what it asks about, one more on the same."""
    rng = setting.rng
    facts = [f for f in setting.world.facts() if RELATIONS[f.relation].kind != RELATIONS[f.relation].target]
    fact = rng.choice(facts)
    kind = RELATIONS[fact.relation].kind
    others = [relation for relation in relations_of(kind) if relation.name != fact.relation]
    question, standalone = _leaning(setting, kind, fact.entity, rng.choice(others or relations_of(kind)))
    return question_about(fact, setting), question, standalone


def _on_the_answer(setting: Setting) -> tuple[Composed, str, str]:
    """After a question whose answer is an entity of another kind than all it names, one on that."""
    rng, world = setting.rng, setting.world
    while True:
        last = draw_question(setting)
        kind = RELATIONS[last.facts[-1].relation].target
        if last.compared:
            kind = RELATIONS[last.facts[-1].relation].kind
        elif last.shape == "yes/no" or kind == RELATIONS[last.facts[0].relation].kind:
            continue
        if relations_of(kind):
            break
    asked = {fact.relation for fact in last.facts}
    others = [relation for relation in relations_of(kind) if relation.name not in asked] or relations_of(kind)
    answer = last.written_answer(world, setting.convention)
    question, standalone = _leaning(setting, kind, answer, rng.choice(others))
    return last, question, standalone


def _of_another(setting: Setting) -> tuple[Composed, str, str]:
    """After a question, the same of another entity."""
    rng = setting.rng
    fact = rng.choice(setting.world.facts())
    last = question_about(fact, setting)
    other = rng.choice([name for name in setting.world.entities[RELATIONS[fact.relation].kind] if name != fact.entity])
    question = rng.choice(("And {e}?", "What about {e}?", "And what about {e}?")).format(e=other)
    return last, question, last.text.replace(fact.entity, other)


def _leaning(setting: Setting, kind: str, entity: str, relation: Relation) -> tuple[str, str]:
    """A question on an entity with a pronoun or an allusion for its name, and the same with the name."""
    rng, allusion = setting.rng, f"that {kind}"
    ask, (subject, object_, possessive) = rng.choice(relation.asks), ("it", "it", "its")
    if kind == "person":
        subject, object_, possessive = rng.choice((("he", "him", "his"), ("she", "her", "her")))
    if rng.random() < 0.3:
        subject = object_ = allusion
        possessive = f"{allusion}'s"
    nested = [r for r in relations_of(relation.target) if r.name != relation.name] if relation.noun else []
    if nested and rng.random() < 0.25:
        # What leans is a part of the question alone.
        ask = rng.choice(rng.choice(nested).asks).format(e=relation.noun)
    before, _, after = ask.partition("{e}")
    if before.endswith(" of ") and " the " in before and rng.random() < 0.6:
        head, _, noun = before.removesuffix(" of ").rpartition(" the ")
        question = f"{head} {possessive} {noun}{after}"
    else:
        question = f"{before}{subject if before.split()[-1] in _SUBJECT_AFTER else object_}{after}"
    if rng.random() < 0.35:
        question = f"And {question[0].lower()}{question[1:]}"
    return question, ask.format(e=entity)
