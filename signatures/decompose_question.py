"""GenQ: break a complex question into quizzes (KEQA, section 3.3, quiz generation)."""

import dspy


class DecomposeQuestion(dspy.Signature):
    """Break the question into the quizzes whose answers settle it.

    Each quiz asks for one piece of knowledge and is complete in itself. Where it needs the answer to an earlier quiz, write
    #1 for the answer to quiz 1, #2 for the answer to quiz 2. A question that asks for one piece of knowledge is its own quiz.
    """

    question: str = dspy.InputField()
    quizzes: list[str] = dspy.OutputField(desc="in the order in which they can be answered")
