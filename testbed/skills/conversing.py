"""Training examples of making a follow-up question stand alone."""

from keqa.signatures import RewriteFollowUp
from keqa.testbed.questions import Composed
from keqa.testbed.relations import RELATIONS, Relation, relations_of
from keqa.testbed.skills.answering import draw_question, question_about
from keqa.testbed.skills.registry import Example, Setting, skill

_NOUNS = {"person": "person", "film": "film", "book": "book", "company": "company", "club": "club", "city": "city"}
_NOUNS |= {"country": "country", "event": "event"}
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
    rng, allusion = setting.rng, f"that {_NOUNS[kind]}"
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
