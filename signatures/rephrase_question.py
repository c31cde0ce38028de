"""Perturbation: the same question in other words (Rowen, the consistency checks)."""

import dspy


class RephraseQuestion(dspy.Signature):
    """Ask the same question in other words. Names, and everything that the answer depends on, stay as they are."""

    question: str = dspy.InputField()
    rephrased: str = dspy.OutputField()
