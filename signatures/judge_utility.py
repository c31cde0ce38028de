"""Utility: does a passage help to answer a quiz (KEQA, section 3.4, the discriminator D_u)."""

import dspy


class JudgeUtility(dspy.Signature):
    """Judge whether the passage helps to answer the quiz correctly.

    A passage on the same subject that does not tell the answer does not help, nor does one that misleads or is out of date.
    """

    passage: str = dspy.InputField()
    quiz: str = dspy.InputField()
    helpful: bool = dspy.OutputField()
