"""Quiz over somebody's own documents: one closed-book try that may say that it does not know."""

from typing import Literal

import dspy


class AnswerQuizIfSure(dspy.Signature):
    """Answer the quiz from memory, as briefly as possible. Write UNKNOWN where you are not sure."""

    quiz: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    answer: str = dspy.OutputField(desc="the answer alone, or UNKNOWN")
