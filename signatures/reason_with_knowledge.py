"""Answer a complex question from passages, with reasoning (retrieval-augmented chain of thought)."""

from typing import Literal

import dspy


class ReasonWithKnowledge(dspy.Signature):
    """Reason step by step from the passages to a brief answer. Where they do not tell, reason from memory."""

    passages: list[str] = dspy.InputField()
    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    reasoning: str = dspy.OutputField()
    answer: str = dspy.OutputField(desc="the answer alone")
