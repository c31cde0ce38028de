"""RAG over somebody's own documents: what they do not say is not answered."""

from typing import Literal

import dspy


class AnswerFromDocuments(dspy.Signature):
    """Answer from the passages alone, never from memory, as briefly as possible, in the question's language.

    Above a passage stand its title, place and date. Where passages differ, the latest date counts. Write UNKNOWN where
    they do not tell, or where they contradict each other and no date decides.
    """

    passages: list[str] = dspy.InputField()
    evidence: list[str] = dspy.InputField(default=[], desc="sentences of the passages that bear on the question")
    triples: list[str] = dspy.InputField(default=[], desc="subject | relation | object; they may be wrong")
    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    answer: str = dspy.OutputField(desc="the answer alone, or UNKNOWN")
