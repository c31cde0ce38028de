"""Perturbation: the same question in another language (Rowen, the cross-language check)."""

import dspy


class TranslateQuestion(dspy.Signature):
    """Translate the question into the language, and ask for an answer in that language."""

    question: str = dspy.InputField()
    language: str = dspy.InputField()
    translated: str = dspy.OutputField()
