"""The next sentence of a chain of thought (IRCoT, Trivedi et al., 2023; FLARE, Jiang et al., 2023)."""

from typing import Literal

import dspy


class ExtendReasoning(dspy.Signature):
    """Reason towards the answer one sentence at a time: write the one sentence that follows the thoughts so far.

    It states the next fact, from the passages or, where they do not tell, from memory.
    Once the thoughts settle the question, write: So the answer is ... .
    """

    passages: list[str] = dspy.InputField()
    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    thoughts: list[str] = dspy.InputField(default=[], desc="the sentences so far")
    thought: str = dspy.OutputField(desc="one sentence")
