"""Triples that a question needs, as guides to evidence sentences (KS-LLM, step 1)."""

import dspy


class ConstructTriples(dspy.Signature):
    """Write the knowledge triples that answering the question needs, each as subject | relation | object.

    Write ? for what the question asks.
    """

    question: str = dspy.InputField()
    triples: list[str] = dspy.OutputField()
