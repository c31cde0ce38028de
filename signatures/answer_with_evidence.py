"""The answer from triples and evidence sentences, without whole passages (KS-LLM, step 3, equation 4)."""

from typing import Literal

import dspy


class AnswerWithEvidence(dspy.Signature):
    """Answer the question from the evidence and the triples, as briefly as possible.

    The triples were written from memory and may be wrong: where the evidence tells otherwise, believe the evidence.
    Where neither tells, answer from memory.
    """

    triples: list[str] = dspy.InputField(default=[], desc="subject | relation | object")
    evidence: list[str] = dspy.InputField(default=[], desc="sentences of a document")
    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    answer: str = dspy.OutputField(desc="the answer alone")
