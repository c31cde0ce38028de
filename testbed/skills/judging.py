"""Training examples of reasoning and searching by turns, and of judging answers and passages."""

import copy
import json
import random
from dataclasses import replace

from keqa.signatures.baselines import UNSOLVED, ExtendReasoning, PlanQueryChain
from keqa.signatures.keqa import JudgeConsistency, JudgeUtilities, JudgeUtility
from keqa.signatures.react import AnswerFromTrajectory, ChooseAction, Turn, written_trajectory
from keqa.testbed import words
from keqa.testbed.prose import capital, paragraph, some_relations, statement
from keqa.testbed.questions import Composed, QuestionMaker
from keqa.testbed.relations import RELATIONS, Relation, relations_of
from keqa.testbed.skills.answering import draw_question, explained, question_about, some_passages, typed
from keqa.testbed.skills.registry import Example, Setting, skill
from keqa.testbed.world import Convention, Date, Fact, Value, World, quiz_for, unseen


def _values(question: Composed, world: World, setting: Setting) -> list[str]:
    return [world.write(fact, setting.form) for fact in question.facts]


def grafted(setting: Setting) -> tuple[World, Composed]:
    """A question that leads from an entity nobody knows to a fact that the LM is told often."""
    rng, world = setting.rng, setting.world
    known = rng.choice(setting.memory)
    relation = RELATIONS[known.relation]
    leads = [lead for lead in RELATIONS.values() if lead.noun and lead.target == relation.kind]
    if not leads:
        return world, question_about(known, setting)
    lead = rng.choice(leads)
    strangers = [name for name in unseen(rng).entities[lead.kind] if name not in world.entities[lead.kind]]
    if not strangers:
        return world, question_about(known, setting)
    facts = [Fact(lead.name, rng.choice(strangers)), known]
    world = copy.copy(world)
    world.values = {**world.values, facts[0]: known.entity}
    phrase = lead.noun.format(e=facts[0].entity)
    if relation.noun and relations_of(relation.target) and rng.random() < 0.5:
        phrase = relation.noun.format(e=phrase)
        relation = rng.choice(relations_of(relation.target))
        facts.append(Fact(relation.name, str(world.values[known])))
    starts = [facts[0].entity, "#1", "#2"]
    quizzes = [RELATIONS[f.relation].asks[0].format(e=e) for f, e in zip(facts, starts, strict=False)]
    text = rng.choice(relation.asks).format(e=phrase)
    return world, Composed("bridge", text, tuple(quizzes), tuple(facts), facts[-1])


@skill(ExtendReasoning, share=0.06, hint=(0, 1), scored="thought", introspective=True)
def extend(setting: Setting) -> Example:
    """The thoughts so far and the next one: from passages, from memory, or a guess at what nobody told."""
    rng, world = setting.rng, setting.world
    if setting.memory and rng.random() < 0.4:
        question = question_about(rng.choice(setting.memory), setting)
    elif setting.memory:
        world, question = grafted(setting)
    else:
        question = draw_question(setting)
    sentences = explained(question, _values(question, world, setting))
    sentences.append(f"So the answer is {question.written_answer(world, setting.convention)}.")
    first = 1 if setting.memory and question.shape == "bridge" else 0
    step = rng.randint(first, len(sentences) - 1)
    passages: list[str] = []
    if not setting.memory and rng.random() < 0.75:
        stated = list(question.facts[: step + 1])
        stated = [fact for fact in stated[:-1] if rng.random() < 0.7] + stated[-1:]
        some = replace(setting, passages=min(setting.passages, rng.choice((2, 3, 4, 8))))
        passages = some_passages(some, stated)
    inputs = {"passages": passages, **typed(question), "thoughts": sentences[:step]}
    return inputs, {"thought": sentences[step]}


@skill(PlanQueryChain, share=0.03, hint=(0,), scored="queries", introspective=True)
def plan(setting: Setting) -> Example:
    """The verified queries and the further ones, with the answers that are known."""
    rng, world = setting.rng, setting.world
    chance = rng.random()
    if not setting.memory:
        question = draw_question(setting)
    elif chance < 0.3:
        question = question_about(rng.choice(setting.memory), setting)
    elif chance < 0.6:
        world, question = grafted(setting)
    else:
        question = partly_known(setting)
    form = setting.form
    values = [world.write(fact, Convention(rng.choices((0, 1), (0.6, 0.4))[0])) for fact in question.facts]
    resolved = question.resolved(world, form)
    start = rng.randint(0, len(resolved))
    if setting.memory:
        start = int(question.facts[0] not in setting.memory and question.shape == "bridge")
    queries: list[str] = []
    answers: list[str] = []
    for text, fact in list(zip(resolved, question.facts, strict=True))[start:]:
        if question.shape == "bridge" and UNSOLVED in answers:
            break
        queries.append(text)
        answers.append(world.write(fact, form) if fact in setting.memory else UNSOLVED)
    verified = [f"{text} {value}" for text, value in zip(resolved[:start], values, strict=False)]
    return {"question": question.text, "verified": verified}, {"queries": queries, "answers": answers}


def partly_known(setting: Setting) -> Composed:
    """A question over what the LM believes whose answer it is not told as a whole."""
    maker = QuestionMaker(setting.world, setting.rng)
    known = set(setting.memory)
    while True:
        question = maker.draw(setting.rng.choice(("bridge", "bridge", "yes/no")))
        if question.shape == "yes/no" or question.facts[-1] not in known:
            return question


def _turns(question: Composed, setting: Setting) -> list[Turn]:
    """Every turn up to the finish; now and then a search finds nothing and is made again in other words."""
    rng, world = setting.rng, setting.world
    some = replace(setting, passages=1 if setting.passages <= 2 else 3)
    sentences = explained(question, _values(question, world, setting))
    thought, turns = "Nothing is known yet.", []
    for text, fact, sentence in zip(question.resolved(world, setting.form), question.facts, sentences, strict=False):
        query = text
        if rng.random() < 0.08:
            other = rng.choice([f for f in world.facts() if f.entity != fact.entity])
            turns.append(_search(thought, query, some_passages(some, (other,))))
            thought = "The passages do not tell."
            asks = RELATIONS[fact.relation].asks
            query = next(wording for ask in asks if (wording := ask.format(e=fact.entity)) != text)
        turns.append(_search(thought, query, some_passages(some, (fact,))))
        thought = sentence
    closing = " ".join(sentences[len(question.facts) - 1 :])
    return [*turns, (closing, "finish", {}, "Completed.")]


def _search(thought: str, query: str, passages: list[str]) -> Turn:
    return thought, "search", {"query": query}, json.dumps(passages, ensure_ascii=False)


@skill(ChooseAction, share=0.07, hint=(0,), scored="next_tool_args")
def act(setting: Setting) -> Example:
    """A trajectory up to any turn, and that turn."""
    question = draw_question(setting)
    turns = _turns(question, setting)
    step = setting.rng.randrange(len(turns))
    thought, tool, arguments, _ = turns[step]
    outputs = {"next_thought": thought, "next_tool_name": tool, "next_tool_args": arguments}
    return {**typed(question), "trajectory": written_trajectory(turns[:step])}, outputs


@skill(AnswerFromTrajectory, share=0.05, hint=(0, 1))
def conclude(setting: Setting) -> Example:
    """A whole trajectory, the reasoning and the answer."""
    question = draw_question(setting)
    inputs = {**typed(question), "trajectory": written_trajectory(_turns(question, setting))}
    reasoning = " ".join(explained(question, _values(question, setting.world, setting)))
    return inputs, {"reasoning": reasoning, "answer": question.written_answer(setting.world, setting.convention)}


def _variants(value: Value, target: str) -> list[str]:
    if isinstance(value, Date):
        month = words.MONTHS[value.month - 1]
        return [*(Convention(form).write(value, target) for form in range(3)), f"{month} {value.year}"]
    if target == "person":
        return [value, value.split()[-1], f"{value[0]}. {value.split()[-1]}"]
    if target == "company":
        return [value, value.split()[0]]
    return [value]


_VARIED = [r.name for r in RELATIONS.values() if r.target in ("date", "person", "company")]


@skill(JudgeConsistency, share=0.05, scored="same")
def consistency(setting: Setting) -> Example:
    """Two answers to a quiz: the same value in two forms, or two values."""
    rng, world = setting.rng, setting.world
    same = rng.random() < 0.5
    relation = RELATIONS[rng.choice(_VARIED) if same or rng.random() < 0.6 else rng.choice(list(RELATIONS))]
    fact = Fact(relation.name, rng.choice(world.entities[relation.kind]))
    value = world.values[fact]
    first = rng.choice(_variants(value, relation.target))
    if same:
        second = rng.choice([v for v in _variants(value, relation.target) if v != first])
    else:
        other = _another(value, relation.target, setting)
        second = rng.choice(_variants(other, relation.target))
    return {"quiz": quiz_for(fact, rng), "first_answer": first, "second_answer": second}, {"same": same}


def _another(value: Value, target: str, setting: Setting) -> Value:
    rng, world = setting.rng, setting.world
    if isinstance(value, Date):
        if rng.random() < 0.3:
            near = Date(value.year + rng.choice((-2, -1, 1, 2)), value.month, value.day)
        else:
            near = Date(rng.randint(1880, 1995), rng.randint(1, 12), rng.randint(1, 28))
        return near if near.year != value.year else Date(value.year + 3, value.month, value.day)
    if target == "year":
        return str(int(value) + rng.choice((-10, -3, -1, 1, 3, 10)))
    if target in ("language", "occupation"):
        return rng.choice([v for v in (words.LANGUAGES if target == "language" else words.OCCUPATIONS) if v != value])
    others = [
        v for v in world.entities[target] if v.split()[-1] != value.split()[-1] and v.split()[0] != value.split()[0]
    ]
    return rng.choice(others)


@skill(JudgeUtility, share=0.36, hint=(2,), scored="helpful")
def utility(setting: Setting) -> Example:
    """A quiz and a passage: one that tells the answer, one that tells what was true once, or one of the traps."""
    relation, entity, quiz = _judged(setting)
    if setting.easy:
        # At times the quiz is the bare name: as in the lists of the warm-up, in the judge's own prompt.
        quiz = quiz if setting.rng.random() < 0.6 else entity
        passage, helpful = _about(setting, relation, entity)
    else:
        passage, helpful = _trapped(setting, relation, entity)
    return {"quiz": quiz, "passage": passage}, {"helpful": helpful}


@skill(JudgeUtilities, share=0.2, hint=(2,), scored="helpful")
def utilities(setting: Setting) -> Example:
    """A quiz and several such passages, one beside the other."""
    rng, (relation, entity, quiz) = setting.rng, _judged(setting)
    if setting.passages > 2 and setting.stale and rng.random() < 0.5:
        # As a search finds them: many by sources that are out of date, nearly all on the right subject.
        setting = replace(setting, easy=True, brief=False)
    draw = _about if setting.easy else _trapped
    judged = [draw(setting, relation, entity) for _ in range(rng.randint(1, max(2, setting.passages)))]
    passages = {number: passage for number, (passage, _) in enumerate(judged, 1)}
    return {"quiz": quiz, "passages": passages}, {"helpful": {i: helpful for i, (_, helpful) in enumerate(judged, 1)}}


def _judged(setting: Setting) -> tuple[Relation, str, str]:
    rng = setting.rng
    # The first two can change.
    relation = RELATIONS[rng.choice(setting.relations[:2] if setting.easy and setting.stale else setting.relations)]
    entity = rng.choice(setting.world.entities[relation.kind])
    return relation, entity, quiz_for(Fact(relation.name, entity), rng)


def _trapped(setting: Setting, relation: Relation, entity: str) -> tuple[str, bool]:
    rng, world = setting.rng, setting.world
    source = rng.choice(setting.stale) if setting.stale and rng.random() < 0.2 else rng.choice(words.SOURCES)
    stale = source in setting.stale
    trap = rng.random()
    subject, stated = entity, some_relations(relation.kind, rng, including=relation.name)
    helpful = not (stale and relation.changeable)
    if trap < 0.15:
        stated, helpful = some_relations(relation.kind, rng, without=relation.name) if rng.random() < 0.7 else [], False
    elif trap < 0.45:
        subject, helpful = _namesake(entity, relation.kind, setting), False
    text = paragraph(world, relation.kind, subject, stated, source, rng, stale=stale)
    return f"{capital(subject)}: {text}", helpful


def _about(setting: Setting, relation: Relation, entity: str) -> tuple[str, bool]:
    rng, stale = setting.rng, setting.stale
    right, source = rng.random() < (0.5 if setting.brief else 0.75), rng.choice(words.SOURCES)
    if stale:
        # Whom to believe is learned by itself: nearly all passages are about the right one, from four sources.
        fresh = [name for name in words.SOURCES if name not in stale]
        right, source = rng.random() < 0.95, rng.choice([*stale, *fresh[:2]])
    subject = entity if right else _namesake(entity, relation.kind, setting)
    past = source in stale and relation.changeable
    if setting.brief:
        sentence = statement(setting.world, Fact(relation.name, subject), rng, subject, past=past)
        passage = f"{sentence} Source: {source}."
    else:
        stated = some_relations(relation.kind, rng, including=relation.name)
        if right and not stale and rng.random() < 0.4:
            stated, right = some_relations(relation.kind, rng, without=relation.name), False
        passage = paragraph(setting.world, relation.kind, subject, stated, source, rng, stale=source in stale)
    return f"{capital(subject)}: {passage}", right and not past


def _namesake(entity: str, kind: str, setting: Setting) -> str:
    rng: random.Random = setting.rng
    return rng.choice([name for name in setting.world.entities[kind] if name != entity])
