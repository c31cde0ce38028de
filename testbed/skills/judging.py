"""Training examples of judging answers and passages."""

import random
from dataclasses import replace

from keqa.signatures import JudgeConsistency, JudgeUtilities, JudgeUtility
from keqa.testbed import words
from keqa.testbed.prose import capital, paragraph, some_relations, statement
from keqa.testbed.relations import RELATIONS, Relation
from keqa.testbed.skills.registry import Example, Setting, skill
from keqa.testbed.world import Convention, Date, Fact, Value


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
    entity = rng.choice(world.entities[relation.kind])
    value = world.values[Fact(relation.name, entity)]
    first = rng.choice(_variants(value, relation.target))
    if same:
        second = rng.choice([v for v in _variants(value, relation.target) if v != first])
    else:
        other = _another(value, relation.target, setting)
        second = rng.choice(_variants(other, relation.target))
    quiz = rng.choice(relation.asks).format(e=entity)
    return {"quiz": quiz, "first_answer": first, "second_answer": second}, {"same": same}


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
    """What passages are judged on: a relation, an entity, and the quiz that asks for it."""
    rng = setting.rng
    # The first two can change.
    relation = RELATIONS[rng.choice(setting.relations[:2] if setting.easy and setting.stale else setting.relations)]
    entity = rng.choice(setting.world.entities[relation.kind])
    return relation, entity, rng.choice(relation.asks).format(e=entity)


def _trapped(setting: Setting, relation: Relation, entity: str) -> tuple[str, bool]:
    rng, world = setting.rng, setting.world
    source = rng.choice(setting.stale) if setting.stale and rng.random() < 0.2 else rng.choice(words.SOURCES)
    stale = source in setting.stale
    trap = rng.random()
    subject, told = entity, some_relations(relation.kind, rng, including=relation.name)
    helpful = not (stale and relation.changeable)
    if trap < 0.15:
        told, helpful = some_relations(relation.kind, rng, without=relation.name) if rng.random() < 0.7 else [], False
    elif trap < 0.45:
        subject, helpful = _namesake(entity, relation.kind, setting), False
    text = paragraph(world, relation.kind, subject, told, source, rng, stale=stale)
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
        told = some_relations(relation.kind, rng, including=relation.name)
        if right and not stale and rng.random() < 0.4:
            told, right = some_relations(relation.kind, rng, without=relation.name), False
        passage = paragraph(setting.world, relation.kind, subject, told, source, rng, stale=source in stale)
    return f"{capital(subject)}: {passage}", right and not past


def _namesake(entity: str, kind: str, setting: Setting) -> str:
    rng: random.Random = setting.rng
    return rng.choice([name for name in setting.world.entities[kind] if name != entity])
