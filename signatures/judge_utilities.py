"""Utility of several passages in one call: the listwise form of `JudgeUtility` (KEQA, section 3.4, D_u)."""

import dspy


class JudgeUtilities(dspy.Signature):
    """Judge of each passage whether it helps to answer the quiz correctly.

    A passage on the same subject that does not tell the answer does not help, nor does one that misleads or is out of
    date. All of them may help, or none.
    """

    quiz: str = dspy.InputField()
    passages: dict[int, str] = dspy.InputField(desc="each under its number")
    helpful: dict[int, bool] = dspy.OutputField(desc="for the number of each passage, whether it helps")
