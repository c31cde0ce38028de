"""KS-LLM's prompts: triples as guides to evidence sentences."""

from typing import Literal

import dspy


# Triples that a question needs, as guides to evidence sentences (KS-LLM, step 1).
class ConstructTriples(dspy.Signature):
    """Write the knowledge triples that answering the question needs, each as subject | relation | object.

    Write ? for what the question asks.
    """

    question: str = dspy.InputField()
    triples: list[str] = dspy.OutputField()


# The subject entity of a question and what the LM remembers of it (KS-LLM, step 1, equation 1).
class ExpandSubject(dspy.Signature):
    """Name the subject entity of the question, then write from memory knowledge triples about it.

    Each is subject | relation | object, begins with the subject entity, and tells something that bears on the question.
    Write every object out: your best guess where you are not sure, never a question mark.
    """

    question: str = dspy.InputField()
    subject: str = dspy.OutputField(desc="its name alone; both names, joined by and, where two are compared")
    triples: list[str] = dspy.OutputField()


# The answer from triples and evidence sentences, without whole passages (KS-LLM, step 3, equation 4).
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


# A background document written from memory, in place of a retrieved one (GenRead, Yu et al., 2023; KS-LLM, 4.1).
class GenerateDocument(dspy.Signature):
    """Write from memory a background document that helps to answer the question, in full sentences.

    It reads like an encyclopedia: it states facts about what the question names, and does not mention the question.
    """

    question: str = dspy.InputField()
    title: str = dspy.OutputField(desc="what the document is about, by name")
    document: str = dspy.OutputField()
