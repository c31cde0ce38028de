"""The knowledge boundary, asked of the LM itself: is a quiz mastered, and would its answer stay (KBM, section 2.3)."""

from typing import Literal

import dspy


class JudgeKnowledge(dspy.Signature):
    """Judge what you would answer to the quiz: from the reference where it tells the answer, else from memory.

    mastery: the answer is right. Memories of what changes over time may be out of date.
    certainty: asked again and again, you would always give the same answer.
    """

    reference: list[str] = dspy.InputField(default=[], desc="passages; none to judge your memory alone")
    quiz: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, the answer is one of them")
    mastery: bool = dspy.OutputField()
    certainty: bool = dspy.OutputField()
