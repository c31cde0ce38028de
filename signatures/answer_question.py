"""The plain closed-book answer to a whole question."""

from typing import Literal

import dspy


class AnswerQuestion(dspy.Signature):
    """Answer the question, as briefly as possible."""

    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    answer: str = dspy.OutputField(desc="the answer alone")
