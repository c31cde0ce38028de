"""Sim: do two answers to a quiz mean the same (KEQA, section 3.3, the discriminator D_s)."""

import dspy


class JudgeConsistency(dspy.Signature):
    """Judge whether the two answers to the quiz mean the same.

    They may differ in wording or detail. They differ in meaning when they cannot both be right.
    """

    quiz: str = dspy.InputField()
    first_answer: str = dspy.InputField()
    second_answer: str = dspy.InputField()
    same: bool = dspy.OutputField()
