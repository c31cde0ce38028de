"""Samples that are no skill's, which teach what the skills are made of: copying, comparing and finding by name.

A prompt of a skill teaches little for its length, one verdict or one short answer; these teach as much in every line.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from keqa.signatures import AnswerQuestion, AnswerWithKnowledge, Summarize
from keqa.testbed import words
from keqa.testbed.prose import distraction, passage, random_date
from keqa.testbed.relations import RELATIONS, relations_of
from keqa.testbed.rendering import conversation, target, turns
from keqa.testbed.skills import Example, Setting
from keqa.testbed.skills.answering import summarize
from keqa.testbed.world import Convention, Fact, World


def said_twice(rng: random.Random) -> str:
    """Draws a list that is said again, in order or not, or in which names are looked for."""
    draws = (
        lambda: f"{rng.choice(words.FIRST_NAMES)} {rng.choice(words.LAST_NAMES)}",
        lambda: rng.choice(words.CITIES),
        lambda: random_date(rng, Convention(rng.randint(0, 2))),
        lambda: f"{rng.choice(words.ADJECTIVES)} {rng.choice(words.NOUNS)}",
        lambda: f"{rng.choice(words.BRANDS)} {rng.choice(words.TRADES)}",
    )
    items = [rng.choice(draws)() for _ in range(rng.randint(3, 12))]
    if rng.random() < 0.6:
        return _looked_for(items, rng)
    again = items if rng.random() < 0.5 else rng.sample(items, len(items))
    return ". ".join([*items, *again]) + "."


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
    """Draws passages that say the same of several entities, and questions on all of them, one after another.

    Only whom a question names decides which passage answers it.
    """
    rng, world = setting.rng, setting.world
    kind = rng.choice(list(world.entities))
    entities = rng.sample(world.entities[kind], rng.randint(2, min(5, len(world.entities[kind]))))
    shared = rng.sample([r.name for r in relations_of(kind)], min(rng.randint(1, 2), len(relations_of(kind))))
    passages = []
    for entity in entities:
        told = rng.sample(shared, len(shared))
        passages.append(passage(world, kind, entity, told, rng))
    facts = [Fact(relation, entity) for relation in shared for entity in entities]
    first, *rest = [_question(setting, fact) for fact in rng.sample(facts, min(len(facts), 8))]
    inputs = {"passages": passages, "evidence": [], "triples": [], **first[0]}
    prompt = conversation(AnswerWithKnowledge, [], inputs)
    return prompt, target(AnswerWithKnowledge, first[1]) + turns(AnswerQuestion, rest)


def compared_often(setting: Setting, worlds: Sequence[World]) -> tuple[str, str]:
    """Draws many comparisons, one after another: which of two years is the earlier, and whose it is.

    They come from several worlds, so that few names are compared twice.
    """
    rng = setting.rng
    shapes = rng.choices(("comparison", "yes/no", ""), (0.6, 0.25, 0.15), k=rng.randint(4, 9))
    *demos, last = [summarize(replace(setting, world=rng.choice(worlds), shape=shape)) for shape in shapes]
    return conversation(Summarize, demos, last[0]), target(Summarize, last[1])


def _question(setting: Setting, fact: Fact) -> Example:
    text = setting.rng.choice(RELATIONS[fact.relation].asks).format(e=fact.entity)
    answer = setting.world.write(fact, setting.convention)
    return {"question": text, "answer_type": "short", "choices": []}, {"answer": answer}
