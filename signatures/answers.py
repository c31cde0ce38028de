"""Answers and conclusions: from memory, from passages, at once or after a chain of thought."""

from typing import Literal

import dspy


class _Asked(dspy.Signature):
    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")


# The plain closed-book answer to a whole question.
class AnswerQuestion(_Asked):
    """Answer the question, as briefly as possible."""

    answer: str = dspy.OutputField(desc="the answer alone")


# Quiz: one closed-book try at a quiz (KEQA, section 3.3, quiz assessment).
class AnswerQuiz(dspy.Signature):
    """Answer the quiz from memory, as briefly as possible."""

    quiz: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    answer: str = dspy.OutputField(desc="the answer alone")


# RAG: answer from picked knowledge (KEQA, section 3.4; KS-LLM, step 3, where evidence and triples are given).
class AnswerWithKnowledge(dspy.Signature):
    """Answer the question from the passages, as briefly as possible. Where they do not tell, answer from memory."""

    passages: list[str] = dspy.InputField()
    evidence: list[str] = dspy.InputField(default=[], desc="sentences of the passages that bear on the question")
    triples: list[str] = dspy.InputField(default=[], desc="subject | relation | object; they may be wrong")
    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    answer: str = dspy.OutputField(desc="the answer alone")


# The closed-book answer with a chain of thought (Wei et al., 2022; Kojima et al., 2022).
class ReasonFromMemory(_Asked):
    """Reason step by step from memory to a brief answer."""

    reasoning: str = dspy.OutputField()
    answer: str = dspy.OutputField(desc="the answer alone")


# Answer a complex question from passages, with reasoning (retrieval-augmented chain of thought).
class ReasonWithKnowledge(dspy.Signature):
    """Reason step by step from the passages to a brief answer. Where they do not tell, reason from memory."""

    passages: list[str] = dspy.InputField()
    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    reasoning: str = dspy.OutputField()
    answer: str = dspy.OutputField(desc="the answer alone")


# Summ: conclude an explanation and the answer from the answered quizzes (KEQA, Algorithm 2, line 20).
class Summarize(dspy.Signature):
    """Explain what the answered quizzes say about the question, then give its answer as briefly as possible."""

    question: str = dspy.InputField()
    answered_quizzes: list[str] = dspy.InputField(desc="each quiz with its answer")
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    explanation: str = dspy.OutputField()
    answer: str = dspy.OutputField(desc="the answer alone")
