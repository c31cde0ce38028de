"""What a language model is asked about the boundary of its own knowledge."""

from collections.abc import Mapping, Sequence
from typing import Literal

import dspy


# The knowledge boundary, asked of the LM itself: is a quiz mastered, and would its answer stay (KBM, section 3.1).
class JudgeKnowledge(dspy.Signature):
    """Judge what you would answer to the quiz: from the reference where it tells the answer, else from memory.

    mastery: the answer is right. Memories of what changes over time may be out of date.
    certainty: asked again and again, you would always give the same answer.
    """

    reference: list[str] = dspy.InputField(default=[], desc="passages; none to judge your memory alone")
    quiz: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, the answer is one of them")
    mastery: bool = dspy.OutputField()
    certainty: bool = dspy.OutputField()


# Retrieve: does the language model need passages for a question (Self-RAG, section 3.1, table 1).
class DecideRetrieval(dspy.Signature):
    """Decide whether the question calls for retrieval.

    Say False only if you surely know from memory every fact that the answer rests on.
    """

    question: str = dspy.InputField()
    retrieve: bool = dspy.OutputField()


# Verbalised confidence: how likely an answer is right (Tian et al., 2023, the second stage of Verb. 2S).
class StateConfidence(dspy.Signature):
    """State how likely it is that the proposed answer to the quiz is right."""

    quiz: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, the answer is one of them")
    proposed_answer: str = dspy.InputField()
    confidence: str = dspy.OutputField(desc="a whole number, from 0 for surely wrong to 100 for surely right")


# KBM's prompts for its fine-tuned model of the knowledge boundary, in English and Chinese (first version, figure 14).
# They are no DSPy signatures: a model is trained to reply to one of them with JSON, and asked in no other words.
Language = Literal["en", "zh"]

TEMPLATES: Mapping[Language, str] = {
    "en": (
        "Please assess your mastery and certainty regarding the question based on the information below.\n"
        "Reference: {reference}\n"
        "Question: {question}\n"
        "Please respond: Do you fully master this question? (mastery: True/False); Are you confident in your ability "
        "to answer this question? (certainty: True/False)\n"
        "Answer: "
    ),
    "zh": (
        "给定一个问题,评估你在此问题上的熟练度(mastery)以及确定性(certainty)\n"
        "参考资料: {reference}\n"
        "问题: {question}\n"
        "回复: 你是否完全掌握该问题? (mastery: True/False); 你对自己能回答这个问题有信心吗? (certainty: True/False)\n"
        "输出: "
    ),
}
REPLY = '{{"mastery": "{mastery}", "certainty": "{certainty}"}}'
# KBM's prompt for the accuracy of open Chinese answers (first version, figure 13).
ACCURACY = "给定预测和答案,如果预测中含有答案请输出1,不包含则输出0.\n预测: {predicted}\n答案: {answer}\n输出: "
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def assessment_prompt(
    question: str, choices: Sequence[str] = (), reference: str | None = None, language: Language = "en"
) -> str:
    """What the model reads; passages may be its reference, and the choices follow the question, a line each."""
    letters = (_LETTERS[place] if place < len(_LETTERS) else str(place + 1) for place in range(len(choices)))
    options = "".join(f"\n{letter}. {choice}" for letter, choice in zip(letters, choices, strict=True))
    # Replaced in one pass, so that a brace or a field's name in a question stays what it is.
    before, _, rest = TEMPLATES[language].partition("{reference}")
    between, _, after = rest.partition("{question}")
    return f"{before}{reference or 'None'}{between}{question}{options}{after}"


def assessment_reply(mastery: bool, certainty: bool) -> str:
    """What the model writes."""
    return REPLY.format(mastery=mastery, certainty=certainty)


def accuracy_prompt(predicted: str, answer: str) -> str:
    """Asks whether a prediction contains the answer, as 1 or 0."""
    before, _, rest = ACCURACY.partition("{predicted}")
    between, _, after = rest.partition("{answer}")
    return f"{before}{predicted}{between}{answer}{after}"
