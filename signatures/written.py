"""Written answers: prose, a list or a table from passages, each statement with the numbers of what it rests on."""

from typing import Literal

import dspy


# An answer in sentences, with citations within the text (ALCE, Gao et al., 2023, section 4).
class WriteAnswer(dspy.Signature):
    """Write the answer to the question from the passages alone, in full sentences and in the question's language.

    sentence: one sentence that answers it. report: a paragraph of all that the passages tell about it, without repetition.
    Each sentence ends with the numbers of the passages that tell what it says, such as [1] or [1][3]. What no passage
    tells is left out. Where no passage tells anything about it, write UNKNOWN.
    """

    passages: dict[int, str] = dspy.InputField(desc="each under its number")
    findings: list[str] = dspy.InputField(default=[], desc="quizzes on the way to the answer, each with its own answer")
    question: str = dspy.InputField()
    style: Literal["sentence", "report"] = dspy.InputField(default="sentence")
    text: str = dspy.OutputField(desc="the written answer alone")


# All that a question asks for, gathered from passages; asked of further passages until nothing new comes.
class ListItems(dspy.Signature):
    """List everything that the question asks for, from the passages alone.

    Each item stands once, as briefly as possible, followed by the numbers of the passages that tell it, such as
    Paris [2]. What the passages do not tell to be asked for is left out; where that is all of them, the list is empty.
    """

    passages: dict[int, str] = dspy.InputField(desc="each under its number")
    question: str = dspy.InputField()
    items: list[str] = dspy.OutputField(desc="in the order of the passages")


# A comparison as a table.
class CompareInTable(dspy.Signature):
    """Compare in a table what the question names, from the passages alone.

    Each row is one aspect: aspect | what holds of the first | what holds of the second, and so on. What holds is followed
    by the numbers of the passages that tell it, such as 1871 [2]; where no passage tells it, write -.
    """

    passages: dict[int, str] = dspy.InputField(desc="each under its number")
    question: str = dspy.InputField()
    subjects: list[str] = dspy.OutputField(desc="the names of what is compared")
    rows: list[str] = dspy.OutputField(desc="one for each aspect")
