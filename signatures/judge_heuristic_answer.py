"""Does the language model know: judged from a proxy's answer (SlimPLM, retrieval necessity judgement)."""

import dspy


class JudgeHeuristicAnswer(dspy.Signature):
    """Judge from a heuristic answer, written from memory, whether the answer to the question is known.

    The heuristic answer may hold more than the question asks for. Say True only if all that it says of the question is
    surely right. Say False if any of it is wrong, guessed or missing, so that it has to be looked up.
    """

    question: str = dspy.InputField()
    heuristic_answer: str = dspy.InputField()
    known: bool = dspy.OutputField()
