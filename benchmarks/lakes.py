"""A scripted language model for a question on lakes, of whose quizzes it knows the first half, and a retriever."""

import itertools
import json
from typing import Any

from common import Beside, Finds
from servers.openai_server import OpenAIServer, inputs_of, markers

QUESTION = "Which of the lakes is the deepest?"


def lakes(count: int) -> Finds:
    """So many passages for every query, of which the first helps."""
    return Finds("Lakes", [f"Passage {number} on lakes." for number in range(count)])


class Replies:
    def __init__(self, quizzes: int) -> None:
        self.quizzes = [f"How deep is lake {i}?" for i in range(quizzes)]
        self.known = set(self.quizzes[: quizzes // 2])
        self._numbers = itertools.count()

    def __call__(self, messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
        system, prompt = messages[0]["content"], messages[-1]["content"]
        if "Answer the quiz from memory" in system:
            known = inputs_of(prompt)["quiz"] in self.known
            return [markers(answer="100 metres" if known else f"{next(self._numbers)} feet") for _ in range(n)]
        fields = {
            "Break the question": {"quizzes": json.dumps(self.quizzes)},
            "Judge whether the two": {"same": "False"},
            "Judge whether the passage": {"helpful": str("Passage 0 " in prompt)},
            "Explain what": {"explanation": "The deepest is lake 0.", "answer": "lake 0"},
        }
        fields_of = next((fields_of for begin, fields_of in fields.items() if begin in system), {"answer": "90 metres"})
        return [markers(**fields_of)] * n


def replying(quizzes: int) -> Beside:
    """A server that replies at once, in a process of its own; its `count` is how many requests came."""
    return Beside(OpenAIServer, Replies(quizzes))
