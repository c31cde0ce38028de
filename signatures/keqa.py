"""KEQA's own prompts, in the order in which a question meets them, and those over somebody's own documents."""

from typing import Literal

import dspy


# GenQ: break a complex question into quizzes (KEQA, section 3.3, quiz generation).
class DecomposeQuestion(dspy.Signature):
    """Break the question into the quizzes whose answers settle it.

    Each quiz asks for one piece of knowledge and is complete in itself. Where it needs the answer to an earlier quiz, write
    #1 for the answer to quiz 1, #2 for the answer to quiz 2. A question that asks for one piece of knowledge is its own quiz.
    """

    question: str = dspy.InputField()
    quizzes: list[str] = dspy.OutputField(desc="in the order in which they can be answered")


# GenQ and Quiz in one call: the quizzes, each with a draft of its answer from memory.
class DraftQuizzes(dspy.Signature):
    """Break the question into the quizzes whose answers settle it, and answer each from memory where you are sure.

    Each quiz asks for one piece of knowledge and is complete in itself. Where it needs the answer to an earlier quiz, write
    #1 for the answer to quiz 1, #2 for the answer to quiz 2. A question that asks for one piece of knowledge is its own quiz.
    The draft of a quiz is UNKNOWN where you are not sure of its answer, or of the earlier one that it needs.
    """

    question: str = dspy.InputField()
    quizzes: list[str] = dspy.OutputField(desc="in the order in which they can be answered")
    drafts: list[str] = dspy.OutputField(desc="for each quiz its answer, as briefly as possible, or UNKNOWN")


# Quiz: one closed-book try at a quiz (KEQA, section 3.3, quiz assessment).
class AnswerQuiz(dspy.Signature):
    """Answer the quiz from memory, as briefly as possible."""

    quiz: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    answer: str = dspy.OutputField(desc="the answer alone")


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


# Utility of several passages in one call: the listwise form of `JudgeUtility` (KEQA, section 3.4, D_u).
class JudgeUtilities(dspy.Signature):
    """Judge of each passage whether it helps to answer the quiz correctly.

    A passage on the same subject that does not tell the answer does not help, nor does one that misleads or is out of
    date. All of them may help, or none.
    """

    quiz: str = dspy.InputField()
    passages: dict[int, str] = dspy.InputField(desc="each under its number")
    helpful: dict[int, bool] = dspy.OutputField(desc="for the number of each passage, whether it helps")


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


# Utility and RAG in one call: the answer, and which of the passages carry it.
class AnswerAndCite(dspy.Signature):
    """Answer the question from the passages, as briefly as possible, and cite the passages that tell the answer.

    A passage on the same subject that does not tell the answer is not cited, nor is one that misleads or is out of date.
    Where no passage tells the answer, write UNKNOWN and cite none.
    """

    passages: dict[int, str] = dspy.InputField(desc="each under its number")
    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    answer: str = dspy.OutputField(desc="the answer alone, or UNKNOWN")
    citations: list[int] = dspy.OutputField(desc="the numbers of the passages that tell the answer")


# Summ: conclude an explanation and the answer from the answered quizzes (KEQA, Algorithm 2, line 20).
class Summarize(dspy.Signature):
    """Explain what the answered quizzes say about the question, then give its answer as briefly as possible."""

    question: str = dspy.InputField()
    answered_quizzes: list[str] = dspy.InputField(desc="each quiz with its answer")
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    explanation: str = dspy.OutputField()
    answer: str = dspy.OutputField(desc="the answer alone")


# A follow-up question made to stand alone, before it is decomposed or searched for.
#
# The conversation is a list of lines, not a `dspy.History`: adapters render a history as turns of this very prompt, with its
# own outputs, which the turns of a conversation do not have, and leave it out of demonstrations.
class RewriteFollowUp(dspy.Signature):
    """Rewrite the follow-up question so that it can be understood without the conversation before it.

    Write the names that its pronouns and allusions stand for, and complete what it leaves out. Ask for nothing else.
    A question that stands alone stays as it is.
    """

    history: list[str] = dspy.InputField(desc="the earlier questions in their order, each with its answer")
    question: str = dspy.InputField()
    standalone: str = dspy.OutputField(desc="the question alone")


# Quiz over somebody's own documents: one closed-book try that may say that it does not know.
class AnswerQuizIfSure(AnswerQuiz):
    """Answer the quiz from memory, as briefly as possible. Write UNKNOWN where you are not sure."""

    answer: str = dspy.OutputField(desc="the answer alone, or UNKNOWN")


# RAG over somebody's own documents: what they do not say is not answered.
class AnswerFromDocuments(AnswerWithKnowledge):
    """Answer from the passages alone, never from memory, as briefly as possible, in the question's language.

    Above a passage stand its title, place and date. Where passages differ, the latest date counts. Write UNKNOWN where
    they do not tell, or where they contradict each other and no date decides.
    """

    answer: str = dspy.OutputField(desc="the answer alone, or UNKNOWN")


ASKED_TODAY = "{question} (today: {today})"
"""A question over somebody's own documents that depends on the day."""


# A search over documents in another language than the question's.
class TranslateQuery(dspy.Signature):
    """Translate the question into the language of the documents that are searched. Names stay as they are."""

    question: str = dspy.InputField()
    language: str = dspy.InputField()
    translated: str = dspy.OutputField()


# A search over documents that call what is asked for otherwise.
class RewordQuery(dspy.Signature):
    """Write the words by which documents may tell the answer, where they use other words than the question.

    These are synonyms, technical and everyday terms, in the language of the question. What has a name keeps it.
    """

    question: str = dspy.InputField()
    words: list[str] = dspy.OutputField(desc="at most eight")


TOOL_NAME = "answer_question"
"""How a program is called by an agent that may use it as a tool; what describes it follows."""

TOOL_DESCRIPTION = (
    "Answers a factual question in a few words, with the passages that the answer rests on. Ask one complete question "
    "that can be understood by itself."
)

TOOL_QUESTION = "One complete question, such as: In which country was the author of Hamlet born?"
