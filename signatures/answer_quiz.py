"""Quiz: one closed-book try at a quiz (KEQA, section 3.3, quiz assessment)."""

from typing import Literal

import dspy


class AnswerQuiz(dspy.Signature):
    """Answer the quiz from memory, as briefly as possible."""

    quiz: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    answer: str = dspy.OutputField(desc="the answer alone")
