"""KBM's prompts for its fine-tuned model of the knowledge boundary, in English and Chinese (first version, figure 14).

They are no DSPy signatures: a model is trained to reply to one of them with JSON, and asked in no other words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

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
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def assessment_prompt(
    question: str, choices: Sequence[str] = (), reference: str | None = None, language: Language = "en"
) -> str:
    """What the model reads.

    Args:
        question: A quiz.
        choices: Its options; they follow the question, a line each.
        reference: Passages; None to judge memory alone.
        language: Of the prompt.
    """
    letters = (_LETTERS[place] if place < len(_LETTERS) else str(place + 1) for place in range(len(choices)))
    options = "".join(f"\n{letter}. {choice}" for letter, choice in zip(letters, choices, strict=True))
    # Replaced in one pass, so that a brace or a field's name in a question stays what it is.
    before, _, rest = TEMPLATES[language].partition("{reference}")
    between, _, after = rest.partition("{question}")
    return f"{before}{reference or 'None'}{between}{question}{options}{after}"


def assessment_reply(mastery: bool, certainty: bool) -> str:
    """What the model writes."""
    return REPLY.format(mastery=mastery, certainty=certainty)
