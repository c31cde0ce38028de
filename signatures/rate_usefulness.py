"""ISUSE: is an answer a useful response to a question, whatever supports it (Self-RAG, section 3.1, table 1)."""

from typing import Literal

import dspy


class RateUsefulness(dspy.Signature):
    """Rate how useful the answer is as a response to the question, whether or not it is right.

    5 is a complete answer of the kind that is asked for, 1 is no answer, or one to something that was not asked.
    """

    question: str = dspy.InputField()
    answer: str = dspy.InputField()
    usefulness: Literal[1, 2, 3, 4, 5] = dspy.OutputField()
