"""Summ: conclude an explanation and the answer from the answered quizzes (KEQA, Algorithm 2, line 20)."""

from typing import Literal

import dspy


class Summarize(dspy.Signature):
    """Explain what the answered quizzes say about the question, then give its answer as briefly as possible."""

    question: str = dspy.InputField()
    answered_quizzes: list[str] = dspy.InputField(desc="each quiz with its answer")
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    explanation: str = dspy.OutputField()
    answer: str = dspy.OutputField(desc="the answer alone")
