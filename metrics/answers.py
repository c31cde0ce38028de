"""When two short answers are the same: normalisation, exact match and F1.

SQuAD's normalisation (Rajpurkar et al., 2016), with four additions that it needs outside SQuAD: option letters are
not articles, symbols that tell names and numbers apart carry meaning (C++ and C#, -3 and 3), Chinese is compared by
character, and yes and no have several spellings. On ordinary English strings the result equals ``dspy.evaluate``'s.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

from keqa.metrics.choices import OPTION, normalize_choice
from keqa.metrics.refusals import is_refusal

_CJK = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u30ff"
_CJK_CHARACTER = re.compile(f"([{_CJK}])")
_CJK_SPACE = re.compile(rf"(?<=[{_CJK}])\s+|\s+(?=[{_CJK}])")
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_LEADING_POINT = re.compile(r"(?<![\w.])\.(?=\d)")
# Kept through the deletion of punctuation: a minus before a number, a point within one, and what names of one letter or
# more end in (C++, C#, A*), but not the stars of emphasis.
_KEPT = re.compile(
    r"(?<![\w.)\]])[-\u2212](?=\d)|(?<=\d)\.(?=\d)|(?<=[^\W\d_])\++(?!\w)"
    r"|(?<=\b[^\W\d_])\#(?!\w)|(?<=(?<![*\w])[^\W\d_])\*(?![*\w])"
)
_HIDDEN = {ord(symbol): 0xE000 + place for place, symbol in enumerate("-.+#*")} | {0x2212: 0xE000}
_SHOWN = {hidden: symbol for symbol, hidden in _HIDDEN.items() if symbol != 0x2212}
_DELETED = str.maketrans("", "", string.punctuation + "，。！？、；：（）《》〈〉【】「」『』“”‘’…·")
_UNIT = re.compile(r"[$€£¥₹]\s*(?=[\d.])|(?<=\d)\s*[$€£¥₹%‰]")

_YES = {"yes", "y", "true", "correct", "是", "是的", "对", "对的", "正确"}
_NO = {"no", "n", "false", "incorrect", "否", "不是", "不", "不对", "错", "错误"}
_BESIDE_VERDICT = " \t\n.,;:!?()-–—，。、"
_AGAINST_VERDICT = 0.6
"""How much surer a refusal has to be to take a verdict back ("Yes, no one disputes it")."""
_POLAR = {"yes", "no", "noanswer"}
_FIRST_WORD = re.compile(r"[\W_]*([^\W_]+)(.*)", re.DOTALL)
# What makes a first word a verdict: that nothing, a stop or a clause follows it. "No" begins "no one" too, and "true"
# "true story"; "yes" hardly begins anything else.
_VERDICT_ENDS = re.compile(
    r"""["'*_”’)\]]*+(?:\W*\Z|\s*[.,;:!(\n\u2013\u2014。、]|\s+-|\s+(?:i|you|he|she|it|we|they|this|that|these|those|there"""
    r"""|both|neither|the|his|her|its|their|not|never|because|since|but)\b)"""
)
_JOINED = re.compile(r"\W*(?:and|or)\b")
_NEXT_WORD = re.compile(r"\W*(?:(?:and|or)\b\W*)?([^\W_]+)(?!\s*\w)")

UNKNOWN = "unknown"
"""The word that prompts ask for where there is no answer."""


def normalize(text: str, answer_type: str = "short", choices: Sequence[str] = ()) -> str:
    """Bring an answer into the form in which answers are compared.

    Args:
        text: The answer.
        answer_type: ``short``, ``yes/no`` or ``choice``.
        choices: The options of a choice; an answer that names one by letter or by text becomes that option's text, in
            the form that distinguishes it from the others (see `keqa.metrics.choices`).

    Returns:
        The normal form; empty only where the text holds nothing but punctuation and is no option.
    """
    if answer_type == "choice":
        return normalize_choice(text, choices, _normalize_text)
    option = OPTION.match(text)
    if option:
        text = option[1]
    plain = text.lower() if option else _normalize_text(text)
    return _polar(text, plain) if answer_type == "yes/no" else plain


def _normalize_text(text: str) -> str:
    """SQuAD's steps, with signs, decimals, lone articles and Chinese looked after."""
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text)).lower()
    # NFD also splits Japanese and Korean syllables; that is harmless, both sides are split alike.
    text = _LEADING_POINT.sub("0.", text)
    text = _KEPT.sub(lambda kept: kept[0].translate(_HIDDEN), text).translate(_DELETED).translate(_SHOWN)
    # "The The" and "A" are names: where only articles are left, they stay.
    bare = " ".join(_ARTICLE.sub(" ", text).split()) or " ".join(text.split())
    return _CJK_SPACE.sub("", bare)


def _polar(text: str, plain: str) -> str:
    """Yes or no where a text is that, or begins with it as a verdict; else the text's normal form."""
    return _verdict_of(plain) or _first_verdict(unicodedata.normalize("NFKC", text).lower()) or plain


def _verdict_of(word: str) -> str:
    return "yes" if word in _YES else "no" if word in _NO else ""


def _first_verdict(text: str) -> str:
    """The verdict that a text begins with; empty for "no idea", "yes and no" and "no, I don't know"."""
    found = _FIRST_WORD.match(text)
    verdict = _verdict_of(found[1]) if found else ""
    if not found or not verdict:
        return ""
    word, rest = found.groups()
    second = _NEXT_WORD.match(rest)
    taken_back = second is not None and _verdict_of(second[1]) not in ("", verdict)
    if taken_back or is_refusal(rest.strip(_BESIDE_VERDICT), _AGAINST_VERDICT):
        return ""
    meant = _VERDICT_ENDS.match(rest) or (word == "yes" and not _JOINED.match(rest))
    return verdict if meant else ""


def tokens(text: str, answer_type: str = "short", choices: Sequence[str] = ()) -> list[str]:
    """The words of a normalised answer; each Chinese character counts as a word."""
    return _CJK_CHARACTER.sub(r" \1 ", normalize(text, answer_type, choices)).split()


def same_answer(first: str, second: str, answer_type: str = "short", choices: Sequence[str] = ()) -> bool:
    """Whether two answers are equal after normalisation; nothing equals an empty answer.

    Units that are symbols count, which normalisation deletes: neither 5 % nor $5 is 5.
    """
    return _equal(first, second, answer_type, choices) and (answer_type != "short" or _units(first) == _units(second))


def _equal(first: str, second: str, answer_type: str, choices: Sequence[str]) -> bool:
    left = normalize(first, answer_type, choices)
    return bool(left) and left == normalize(second, answer_type, choices)


def _units(text: str) -> list[str]:
    return [unit.strip() for unit in _UNIT.findall(unicodedata.normalize("NFKC", text))]


def exact_match(
    prediction: str | None, golds: Sequence[str], answer_type: str = "short", choices: Sequence[str] = ()
) -> bool:
    """Whether a prediction equals one of the gold answers (EM).

    As in the official scripts a number may lack the gold answer's unit ($5 and 5); it may not have another (5 %).

    Args:
        prediction: The answer; None, for a failed question, is never right.
        golds: At least one gold answer.
        answer_type: ``short``, ``yes/no`` or ``choice``.
        choices: The options of a choice.

    Raises:
        ValueError: There is no gold answer.
    """
    _require_golds(golds)
    if prediction is None:
        return False
    found = [gold for gold in golds if _equal(prediction, gold, answer_type, choices)]
    units = _units(prediction) if answer_type == "short" else []
    return any(not units or _units(gold) in ([], units) for gold in found)


def f1(prediction: str | None, golds: Sequence[str], answer_type: str = "short", choices: Sequence[str] = ()) -> float:
    """The best F1 over words against the gold answers, by HotpotQA's rule for yes and no.

    Args:
        prediction: The answer; None, for a failed question, scores 0.
        golds: At least one gold answer.
        answer_type: ``short``, ``yes/no`` or ``choice``; for the latter two it is exact match.
        choices: The options of a choice.

    Raises:
        ValueError: There is no gold answer.
    """
    _require_golds(golds)
    if prediction is None:
        return 0.0
    if answer_type != "short":
        return float(exact_match(prediction, golds, answer_type, choices))
    return max(_f1(tokens(prediction), tokens(gold)) for gold in golds)


def _f1(predicted: list[str], gold: list[str]) -> float:
    if predicted != gold and _POLAR & {" ".join(predicted), " ".join(gold)}:
        return 0.0
    common = (Counter(predicted) & Counter(gold)).total()
    return 2 * common / (len(predicted) + len(gold)) if common else 0.0


def _require_golds(golds: Sequence[str]) -> None:
    if isinstance(golds, str):
        raise ValueError("golds must be a sequence of answers, not one string")
    if not golds:
        raise ValueError("a question needs at least one gold answer")


def is_abstention(text: str, choices: Sequence[str] = ()) -> bool:
    """Whether an answer says that it is not known, in whatever words, or says nothing.

    A guess that is marked as one does not undo it ("I don't know, but perhaps Paris"); an answer in a sentence of its
    own does, and so does one that comes first ("Paris, but I'm not sure").

    Args:
        text: The answer.
        choices: What is an answer whatever it says: the options of a choice, or the gold answers.
    """
    if any(same_answer(text, choice, "choice", choices) for choice in choices):
        return False
    return _abstains(text)


def _abstains(text: str) -> bool:
    # "The Unknown" is a name.
    bare = text.translate(_DELETED).strip().casefold()
    return bare == UNKNOWN or not _normalize_text(text) or is_refusal(text)
