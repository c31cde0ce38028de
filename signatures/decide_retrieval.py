"""Retrieve: does the language model need passages for a question (Self-RAG, section 3.1, table 1)."""

import dspy


class DecideRetrieval(dspy.Signature):
    """Decide whether the question calls for retrieval.

    Say False only if you surely know from memory every fact that the answer rests on.
    """

    question: str = dspy.InputField()
    retrieve: bool = dspy.OutputField()
