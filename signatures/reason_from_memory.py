"""The closed-book answer with a chain of thought (Wei et al., 2022; Kojima et al., 2022)."""

from typing import Literal

import dspy


class ReasonFromMemory(dspy.Signature):
    """Reason step by step from memory to a brief answer."""

    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    reasoning: str = dspy.OutputField()
    answer: str = dspy.OutputField(desc="the answer alone")
