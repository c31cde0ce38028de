"""The registry of skills: each signature brings its own training examples, so new prompts are added in one place."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dspy

from keqa.testbed import words
from keqa.testbed.world import Convention, Fact, World

REWORDINGS: dict[str, tuple[str, ...]] = {
    "DecomposeQuestion": (
        "Split the question into simple quizzes; #1 stands for the answer to the first.",
        "List the quizzes that lead to the answer.",
    ),
    "AnswerQuiz": ("Answer the quiz with a short phrase.", "Give a brief answer to the quiz without any sources."),
    "AnswerWithKnowledge": ("Use the passages to answer the question briefly.", "Find the answer in the passages."),
    "Summarize": ("Combine the answered quizzes into an explanation and a final answer.", "Conclude from the quizzes."),
    "ReasonWithKnowledge": ("Think step by step with the passages, then answer.",),
    "AnswerQuestion": ("Reply to the question with a short phrase.",),
    "ReasonFromMemory": ("Think step by step, then answer.",),
    "ConstructTriples": ("List the triples that the question is about.",),
    "RewriteFollowUp": (
        "Make the follow-up question complete in itself.",
        "Write the question so that somebody who did not read the conversation understands it.",
    ),
    "DecideRetrieval": (
        "Do you have to look something up to answer the question?",
        "Decide whether to search before answering.",
    ),
    "JudgeHeuristicAnswer": ("Is what the heuristic answer says of the question surely right?",),
    "JudgeKnowledge": (
        "Do you know the answer to the quiz, and would you always give the same?",
        "Judge whether the quiz can be answered correctly and with certainty.",
    ),
    "StateConfidence": ("How sure are you that the proposed answer is right, from 0 to 100?",),
    "JudgeRelevance": (
        "Does the passage tell anything that the question asks for?",
        "Decide whether the passage is relevant.",
    ),
    "JudgeSupport": ("Does the passage support the answer fully, partially or not at all?",),
    "RateUsefulness": ("From 1 to 5, how well does the answer respond to the question?",),
    "RephraseQuestion": ("Reword the question without changing what it asks.",),
    "RewriteQueries": ("List the search queries that would verify the heuristic answer.",),
    "ExpandSubject": (
        "What is the question about? Write what you know of it as triples, subject | relation | object.",
    ),
    "GenerateDocument": ("Generate a background document to answer the given question.",),
    "AnswerWithEvidence": (
        "Use the evidence and the triples to answer the question briefly.",
        "Answer from the evidence sentences.",
    ),
    "ExtendReasoning": ("Write the next sentence of the reasoning.", "Go on with the thoughts by one sentence."),
    "PlanQueryChain": ("List the queries still to be asked, each with its answer or unsolved.",),
    "ChooseAction": ("Choose the next search, or finish once the question is settled.",),
    "AnswerFromTrajectory": ("Conclude from the trajectory what the answer is.",),
    "JudgeConsistency": (
        "Do both answers to the quiz say the same thing?",
        "Decide whether the two answers agree in meaning.",
    ),
    "JudgeUtility": (
        "Would the passage help someone answer the quiz correctly?",
        "Decide whether the passage is useful for the quiz.",
    ),
    "JudgeUtilities": (
        "For each passage, would it help someone answer the quiz correctly?",
        "Decide which of the passages are useful for the quiz.",
    ),
}
"""By signature."""


Example = tuple[dict[str, Any], dict[str, Any]]
"""Inputs and outputs of one call."""


@dataclass
class Setting:
    """What is hidden from a bare prompt and shared by the examples of one prompt."""

    world: World
    rng: random.Random
    convention: Convention = field(default_factory=Convention)
    stale: tuple[str, ...] = ()
    relations: tuple[str, ...] = ()
    passages: int = 10
    easy: bool = False
    brief: bool = True
    memory: tuple[Fact, ...] = ()
    shape: str = ""

    @classmethod
    def draw(cls, world: World, rng: random.Random, passages: int = 10, *, shown: bool = False) -> "Setting":
        """Draws conventions: from the prior that a bare prompt leaves open, or evenly where the prompt shows them."""
        from keqa.testbed.relations import RELATIONS

        changeable = [r.name for r in RELATIONS.values() if r.changeable]
        fixed = [r.name for r in RELATIONS.values() if not r.changeable]
        return cls(
            world,
            rng,
            Convention(
                rng.choices((0, 1, 2), None if shown else (0.7, 0.2, 0.1))[0], rng.random() < (0.5 if shown else 0.15)
            ),
            tuple(rng.sample(words.SOURCES, 2)) if rng.random() < (0.8 if shown else 0.5) else (),
            (rng.choice(changeable), rng.choice(changeable), rng.choice(fixed)),
            passages,
        )

    @property
    def form(self) -> Convention:
        """How values are written on the way to an answer: people by their full names, dates in full."""
        return Convention(self.convention.date if self.convention.date < 2 else 0)

    def hints(self) -> list[str]:
        """Sentences that an instruction may add to reveal what is hidden."""
        date = ("March 4, 1921", "4 March 1921", "1921")[self.convention.date]
        name = "surname alone" if self.convention.surname_only else "full name"
        stale = " and ".join(f"the {source}" for source in self.stale) or "no source"
        return [f"Write dates like {date}.", f"Give the {name} of a person.", f"Out of date: {stale}."]


Make = Callable[[Setting], Example]
"""Draws an example in a setting."""


@dataclass(frozen=True)
class Skill:
    """One signature's job."""

    signature: type[dspy.Signature]
    make: Make
    rewordings: tuple[str, ...]
    share: float
    hint: tuple[int, ...] = ()
    scored: str = "answer"
    introspective: bool = False


SKILLS: dict[str, Skill] = {}


def skill(signature: type[dspy.Signature], **how: Any) -> Callable[[Make], Make]:
    """Makes a skill of the function that draws its examples; the training data and the skill check then include it."""

    def register(make: Make) -> Make:
        name = signature.__name__
        if name in SKILLS:
            raise ValueError(f"{name} has a skill already")
        if name not in REWORDINGS:
            raise ValueError(f"{name} has no rewordings in keqa.testbed.skills.registry")
        SKILLS[name] = Skill(signature, make, REWORDINGS[name], **how)
        return make

    return register


def nearest(pool: list[Example], example: Example, count: int) -> list[Example]:
    """Picks demonstrations as a reference retriever finds them: those most like the example, the nearest last."""
    if len(pool) <= count:
        return pool
    return sorted(pool, key=lambda demo: _likeness(demo, example))[len(pool) - count :]


def _likeness(demo: Example, example: Example) -> int:
    shared = 0
    for name, value in example[0].items():
        mine, theirs = set(_words(value)), set(_words(demo[0].get(name, "")))
        shared += len(mine & theirs)
        if name == "passage" and str(value).split()[-1] == str(demo[0][name]).split()[-1]:
            shared += 3
    return shared


def _words(value: Any) -> list[str]:
    return str(value).replace("?", " ").replace(".", " ").split()
