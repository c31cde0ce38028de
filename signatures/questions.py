"""Questions and triples written from a question: its quizzes, other wordings, search queries."""

import dspy


# GenQ: break a complex question into quizzes (KEQA, section 3.3, quiz generation).
class DecomposeQuestion(dspy.Signature):
    """Break the question into the quizzes whose answers settle it.

    Each quiz asks for one piece of knowledge and is complete in itself. Where it needs the answer to an earlier quiz, write
    #1 for the answer to quiz 1, #2 for the answer to quiz 2. A question that asks for one piece of knowledge is its own quiz.
    """

    question: str = dspy.InputField()
    quizzes: list[str] = dspy.OutputField(desc="in the order in which they can be answered")


# Perturbation: the same question in other words (Rowen, the consistency checks).
class RephraseQuestion(dspy.Signature):
    """Ask the same question in other words. Names, and everything that the answer depends on, stay as they are."""

    question: str = dspy.InputField()
    rephrased: str = dspy.OutputField()


# Triples that a question needs, as guides to evidence sentences (KS-LLM, step 1).
class ConstructTriples(dspy.Signature):
    """Write the knowledge triples that answering the question needs, each as subject | relation | object.

    Write ? for what the question asks.
    """

    question: str = dspy.InputField()
    triples: list[str] = dspy.OutputField()


# Perturbation: the same question in another language (Rowen, the cross-language check).
class TranslateQuestion(dspy.Signature):
    """Translate the question into the language, and ask for an answer in that language."""

    question: str = dspy.InputField()
    language: str = dspy.InputField()
    translated: str = dspy.OutputField()


# Search queries from a question and what a proxy claims in answer to it (SlimPLM, query rewriting).
class RewriteQueries(dspy.Signature):
    """Write the search queries that check the heuristic answer to the question, claim by claim.

    Each query asks for one fact and is complete in itself: it names what the heuristic answer names.
    """

    question: str = dspy.InputField()
    heuristic_answer: str = dspy.InputField()
    queries: list[str] = dspy.OutputField()
