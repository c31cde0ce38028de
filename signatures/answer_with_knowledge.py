"""RAG: answer from picked knowledge (KEQA, section 3.4; KS-LLM, step 3, where evidence and triples are given)."""

from typing import Literal

import dspy


class AnswerWithKnowledge(dspy.Signature):
    """Answer the question from the passages, as briefly as possible. Where they do not tell, answer from memory."""

    passages: list[str] = dspy.InputField()
    evidence: list[str] = dspy.InputField(default=[], desc="sentences of the passages that bear on the question")
    triples: list[str] = dspy.InputField(default=[], desc="subject | relation | object; they may be wrong")
    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    answer: str = dspy.OutputField(desc="the answer alone")
