"""ISSUP: is an answer backed by the passage that it was written from (Self-RAG, section 3.1, table 1)."""

from typing import Literal

import dspy


class JudgeSupport(dspy.Signature):
    """Judge how far the passage supports the answer to the question.

    fully: the passage shows by itself that the answer is right. partially: it shows a part of what the answer rests on,
    and another part is not in it. no: it tells nothing that supports the answer, is about somebody or something else, or
    tells another answer.
    """

    passage: str = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.InputField()
    support: Literal["fully", "partially", "no"] = dspy.OutputField()
