"""What the uses share: a user's module, questions with answers, a metric, and what has to come out."""

from collections.abc import Callable

import dspy
from dspy.utils.callback import BaseCallback

import keqa
from dspy_uses.scripted import QUESTION


class Module(dspy.Module):
    """A program of a user's, of which KEQA is a part."""

    def __init__(self, ask: keqa.KEQA) -> None:
        super().__init__()
        self.ask = ask

    def forward(self, question: str) -> dspy.Prediction:
        """Ask."""
        return self.ask(question=question)


class Spans(BaseCallback):
    """What a tracing package would draw."""

    def __init__(self) -> None:
        self.tools: list[str] = []
        self.lms = 0

    def on_tool_start(self, call_id: str, instance: dspy.Tool, inputs: dict) -> None:
        """Note a call of a tool."""
        self.tools.append(instance.name)

    def on_lm_start(self, call_id: str, instance: dspy.LM, inputs: dict) -> None:
        """Count a call of a language model."""
        self.lms += 1


def train(count: int = 4) -> list[dspy.Example]:
    """Questions with gold answers; they differ in spaces only."""
    return [
        dspy.Example(question=QUESTION.replace(" ", " " * place, 1), answer="Norway").with_inputs("question")
        for place in range(1, count + 1)
    ]


def right(example: dspy.Example, prediction: dspy.Prediction, trace: object = None) -> bool:
    """A metric as DSPy's are."""
    return bool(prediction.answer == example.answer)


def expect(found: object, wanted: object) -> None:
    """Fail where something else came out."""
    if found != wanted:
        raise AssertionError(f"{found!r:.60} instead of {wanted!r:.60}")


def refuses(call: Callable[..., object], *arguments: object) -> None:
    """Fail where something is not refused in one line."""
    try:
        call(*arguments)
    except keqa.ConfigurationError as error:
        expect("\n" in str(error), False)
    else:
        raise AssertionError("accepted")
