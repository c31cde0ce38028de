"""A small world with something to learn: its language model writes names by the surname until it is shown otherwise."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import dspy
import pytest
from conftest import AsyncScriptedEngine, ScriptedEngine, ScriptedRetriever
from dspy.lm15 import Request, Response

from keqa.data.example import Example
from keqa.programs.keqa import KEQA
from keqa.retrievers.base import Passage


class WatchingEngine(ScriptedEngine):
    """Tells the reply function how many demonstrations it is shown."""

    local = threading.local()

    def complete(self, request: Request) -> Response:
        self.local.demos = (len(request.messages) - 1) // 2
        self.local.system = str(request.system)
        return super().complete(request)


def example(number: int) -> Example:
    return Example(
        f"t{number}",
        f"To whom is the mayor of Town{number} married?",
        (f"Ann Spouse{number}",),
        quizzes=(f"Who governs Town{number}?", "To whom is #1 married?"),
        quiz_answers=(f"Bo Mayor{number}", f"Ann Spouse{number}"),
    )


@dataclass
class Town:
    """The world; attributes say what its language model does.

    Attributes:
        lost: What the language model is asked about in vain.
        spoilt: Whether demonstrations make it worse.
    """

    lost: str = "nothing"
    spoilt: bool = False
    count: Counter[str] = field(default_factory=Counter)

    def __call__(self, name: str, inputs: dict[str, str], config: Any) -> Any:
        self.count[name] += 1
        shown = WatchingEngine.local.demos > 0 and not self.spoilt
        if name == "DecomposeQuestion":
            town = inputs["question"].split("mayor of ")[1].split()[0]
            return {"quizzes": f'["Who governs {town}?", "To whom is #1 married?"]'}
        if name == "AnswerQuiz":
            quiz = inputs["quiz"]
            if "governs" in quiz:
                number = quiz.rstrip("?").split("Town")[1]
                return {"answer": f"Bo Mayor{number}" if shown else f"Mayor{number}"}
            return {"answer": f"guess {config.seed}"}
        if name == "JudgeConsistency":
            return {"same": inputs["first_answer"].split()[-1] == inputs["second_answer"].split()[-1]}
        if name == "JudgeUtility":
            return {"helpful": "married" in inputs["passage"]}
        if name in ("AnswerWithKnowledge", "ReasonWithKnowledge"):
            if self.lost in inputs["question"]:
                return "garbage"
            if "Spouse" not in inputs["passages"]:
                return {"reasoning": "None tells.", "answer": "unknown"}
            number = inputs["passages"].split("Spouse")[1].split(".")[0]
            return {"reasoning": "It says so.", "answer": f"Ann Spouse{number}" if shown else f"Spouse{number}"}
        if name == "ReasonFromMemory":
            return {"reasoning": "", "answer": "unknown"}
        assert name == "Summarize"
        return {"explanation": "It follows.", "answer": inputs["answered_quizzes"].rstrip('"]').split("? ")[-1]}


@dataclass
class Setting:
    """A program over the world."""

    town: Town
    engine: WatchingEngine
    lm: dspy.LM
    program: KEQA
    train: list[Example]
    val: list[Example]


@pytest.fixture
def setting():
    """Makes a program over the world."""

    def make(town: Town | None = None, train: int = 6, val: int = 4, **settings: Any) -> Setting:
        town = town or Town()
        engine = WatchingEngine(town)
        lm = dspy.LM(
            "scripted/town",
            engine=engine,
            async_engine=AsyncScriptedEngine(engine),
            cache=False,
            temperature=0.0,
            max_tokens=256,
            num_retries=0,
        )
        examples = [example(number) for number in range(train + val)]
        program = KEQA(TownRetriever(train + val), **{"top_k": 2, "tries": 3, "threshold": "2/3"} | settings)
        program.set_lm(lm)
        return Setting(town, engine, lm, program, examples[:train], examples[train:])

    return make


class TownRetriever(ScriptedRetriever):
    """Finds the passage that helps and one that does not for whatever town or mayor is asked about."""

    def __init__(self, towns: int) -> None:
        super().__init__([])
        self.towns = towns

    def search(self, query: str, k: int = 10):
        self.queries.append(query)
        number = "".join(char for char in query if char.isdigit())
        passages = [
            Passage(f"m{number}", f"Bo Mayor{number}", f"He governs Town{number} and is married to Ann Spouse{number}."),
            Passage(f"o{number}", f"Bo Mayor{number}", "He likes to sail."),
        ]
        from keqa.retrievers.base import Hit

        return [Hit(passage, 2.0 - rank) for rank, passage in enumerate(passages)][:k]
