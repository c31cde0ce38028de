"""Judgements of answers and passages, and of what the language model itself knows."""

from typing import Literal

import dspy


# Sim: do two answers to a quiz mean the same (KEQA, section 3.3, the discriminator D_s).
class JudgeConsistency(dspy.Signature):
    """Judge whether the two answers to the quiz mean the same.

    They may differ in wording or detail. They differ in meaning when they cannot both be right.
    """

    quiz: str = dspy.InputField()
    first_answer: str = dspy.InputField()
    second_answer: str = dspy.InputField()
    same: bool = dspy.OutputField()


# Utility: does a passage help to answer a quiz (KEQA, section 3.4, the discriminator D_u).
class JudgeUtility(dspy.Signature):
    """Judge whether the passage helps to answer the quiz correctly.

    A passage on the same subject that does not tell the answer does not help, nor does one that misleads or is out of date.
    """

    passage: str = dspy.InputField()
    quiz: str = dspy.InputField()
    helpful: bool = dspy.OutputField()


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


# Retrieve: does the language model need passages for a question (Self-RAG, section 3.1, table 1).
class DecideRetrieval(dspy.Signature):
    """Decide whether the question calls for retrieval.

    Say False only if you surely know from memory every fact that the answer rests on.
    """

    question: str = dspy.InputField()
    retrieve: bool = dspy.OutputField()


# Does the language model know: judged from a proxy's answer (SlimPLM, retrieval necessity judgement).
class JudgeHeuristicAnswer(dspy.Signature):
    """Judge from a heuristic answer, written from memory, whether the answer to the question is known.

    The heuristic answer may hold more than the question asks for. Say True only if all that it says of the question is
    surely right. Say False if any of it is wrong, guessed or missing, so that it has to be looked up.
    """

    question: str = dspy.InputField()
    heuristic_answer: str = dspy.InputField()
    known: bool = dspy.OutputField()


# Verbalised confidence: how likely an answer is right (Tian et al., 2023, the second stage of Verb. 2S).
class StateConfidence(dspy.Signature):
    """State how likely it is that the proposed answer to the quiz is right."""

    quiz: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, the answer is one of them")
    proposed_answer: str = dspy.InputField()
    confidence: str = dspy.OutputField(desc="a whole number, from 0 for surely wrong to 100 for surely right")
