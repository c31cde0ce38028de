"""The prompts of the methods that KEQA is compared with."""

from typing import Literal

import dspy

UNSOLVED = "unsolved"
"""What stands for the answer to a query that the LM cannot give."""


# The plain closed-book answer to a whole question.
class AnswerQuestion(dspy.Signature):
    """Answer the question, as briefly as possible."""

    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    answer: str = dspy.OutputField(desc="the answer alone")


# The closed-book answer with a chain of thought (Wei et al., 2022; Kojima et al., 2022).
class ReasonFromMemory(dspy.Signature):
    """Reason step by step from memory to a brief answer."""

    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
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


# The next sentence of a chain of thought (IRCoT, Trivedi et al., 2023; FLARE, Jiang et al., 2023).
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


# Chain-of-Query: the queries that lead to an answer, each with its own answer (SearChain, Xu et al., 2024).
class PlanQueryChain(dspy.Signature):
    """Plan the chain of queries that leads from the verified ones to the answer of the question.

    Each query asks for one piece of knowledge and is complete in itself. Answer each from memory, as briefly as possible.
    Write unsolved where you do not know the answer. A query that needs an unsolved answer waits for the next plan.
    Where the verified queries settle the question, plan none.
    """

    question: str = dspy.InputField()
    verified: list[str] = dspy.InputField(default=[], desc="each query with its answer, as sources confirm it")
    queries: list[str] = dspy.OutputField(desc="the further queries")
    answers: list[str] = dspy.OutputField(desc="for each query its answer, or unsolved")


# ISREL: does a passage bear on a question (Self-RAG, section 3.1, table 1).
class JudgeRelevance(dspy.Signature):
    """Judge whether the passage is relevant: whether it tells something that is needed to answer the question.

    A passage about somebody or something else is not relevant, nor is one that tells other things about the right one.
    """

    passage: str = dspy.InputField()
    question: str = dspy.InputField()
    relevant: bool = dspy.OutputField()


# ISSUP: is an answer backed by the passage that it was written from (Self-RAG, section 3.1, table 1).
class JudgeSupport(dspy.Signature):
    """Judge how far the passage supports the answer to the question.

    fully: the passage shows by itself that the answer is right. partially: it shows a part of what the answer rests on,
    and another part is not in it. no: it tells nothing that supports the answer, is about somebody or something else, or
    tells another answer.
    """

    passage: str = dspy.InputField()
    question: str = dspy.InputField()
    answer: str = dspy.InputField()
    support: Literal["fully", "partially", "no"] = dspy.OutputField()


# ISUSE: is an answer a useful response to a question, whatever supports it (Self-RAG, section 3.1, table 1).
class RateUsefulness(dspy.Signature):
    """Rate how useful the answer is as a response to the question, whether or not it is right.

    5 is a complete answer of the kind that is asked for, 1 is no answer, or one to something that was not asked.
    """

    question: str = dspy.InputField()
    answer: str = dspy.InputField()
    usefulness: Literal[1, 2, 3, 4, 5] = dspy.OutputField()


# Does the language model know: judged from a proxy's answer (SlimPLM, retrieval necessity judgement).
class JudgeHeuristicAnswer(dspy.Signature):
    """Judge from a heuristic answer, written from memory, whether the answer to the question is known.

    The heuristic answer may hold more than the question asks for. Say True only if all that it says of the question is
    surely right. Say False if any of it is wrong, guessed or missing, so that it has to be looked up.
    """

    question: str = dspy.InputField()
    heuristic_answer: str = dspy.InputField()
    known: bool = dspy.OutputField()


# Search queries from a question and what a proxy claims in answer to it (SlimPLM, query rewriting).
class RewriteQueries(dspy.Signature):
    """Write the search queries that check the heuristic answer to the question, claim by claim.

    Each query asks for one fact and is complete in itself: it names what the heuristic answer names.
    """

    question: str = dspy.InputField()
    heuristic_answer: str = dspy.InputField()
    queries: list[str] = dspy.OutputField()


# Perturbation: the same question in other words (Rowen, the consistency checks).
class RephraseQuestion(dspy.Signature):
    """Ask the same question in other words. Names, and everything that the answer depends on, stay as they are."""

    question: str = dspy.InputField()
    rephrased: str = dspy.OutputField()


# Perturbation: the same question in another language (Rowen, the cross-language check).
class TranslateQuestion(dspy.Signature):
    """Translate the question into the language, and ask for an answer in that language."""

    question: str = dspy.InputField()
    language: str = dspy.InputField()
    translated: str = dspy.OutputField()
