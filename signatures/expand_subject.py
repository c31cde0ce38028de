"""The subject entity of a question and what the LM remembers of it (KS-LLM, step 1, equation 1)."""

import dspy


class ExpandSubject(dspy.Signature):
    """Name the subject entity of the question, then write from memory knowledge triples about it.

    Each is subject | relation | object, begins with the subject entity, and tells something that bears on the question.
    Write every object out: your best guess where you are not sure, never a question mark.
    """

    question: str = dspy.InputField()
    subject: str = dspy.OutputField(desc="its name alone; both names, joined by and, where two are compared")
    triples: list[str] = dspy.OutputField()
