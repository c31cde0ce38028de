"""ISREL: does a passage bear on a question (Self-RAG, section 3.1, table 1)."""

import dspy


class JudgeRelevance(dspy.Signature):
    """Judge whether the passage is relevant: whether it tells something that is needed to answer the question.

    A passage about somebody or something else is not relevant, nor is one that tells other things about the right one.
    """

    passage: str = dspy.InputField()
    question: str = dspy.InputField()
    relevant: bool = dspy.OutputField()
