"""Verbalised confidence: how likely an answer is right (Tian et al., 2023, the second stage of Verb. 2S)."""

from typing import Literal

import dspy


class StateConfidence(dspy.Signature):
    """State how likely it is that the proposed answer to the quiz is right."""

    quiz: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, the answer is one of them")
    proposed_answer: str = dspy.InputField()
    confidence: str = dspy.OutputField(desc="a whole number, from 0 for surely wrong to 100 for surely right")
