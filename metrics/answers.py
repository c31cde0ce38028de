"""When two short answers are the same: normalisation, exact match and F1.

SQuAD's normalisation (Rajpurkar et al., 2016), with four additions that it needs outside SQuAD: option letters are
not articles, symbols that tell names and numbers apart carry meaning (C++ and C#, -3 and 3), Chinese is compared by
character, and yes and no have several spellings. On ordinary English strings the result equals ``dspy.evaluate``'s.

Options of a choice are compared as other answers are, as long as that distinguishes them. Where it does not (``6或－4``
beside ``6或4``, ``**`` beside ``//``, ``TT`` beside ``Tt``), they are compared by more and more of their writing, so
that a wrong option is never taken for the right one.

Throughout, `answer_type` is ``short``, ``yes/no`` or ``choice``, `choices` are the options of a choice, `golds` at
least one gold answer (a ValueError where there is none), and a prediction of None is that of a failed question.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

from keqa.metrics.refusals import is_refusal

_CJK = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u30ff"
_CJK_CHARACTER = re.compile(f"([{_CJK}])")
_CJK_SPACE = re.compile(rf"(?<=[{_CJK}])\s+|\s+(?=[{_CJK}])")
_ARTICLE = re.compile(r"\b(a|an|the)\b")
# An option's letter and nothing else, and one before its text.
_OPTION = re.compile(
    r"^\s*(?:\*\*)?(?:(?:(?:the\s+)?(?:correct\s+|right\s+|best\s+)?(?:option|answer|choice)(?:\s+is\b)?"
    r"|(?:正确|正確)?(?:答案|选项?|選項?|选择|選擇|選択肢)[是为為]?)\s*+(?:[:：]\s*+)?)?"
    r"(?:\*\*)?[(\[（【]?((?-i:[A-Za-zＡ-Ｚａ-ｚ]))[)\].:）】、．。：]*(?:\*\*)?[.。]?\s*$",
    re.IGNORECASE,
)
_LABELLED = re.compile(
    r"^\s*(?:[(\[（【]([A-Za-zＡ-Ｚａ-ｚ])[)\]）】]|([A-Za-zＡ-Ｚａ-ｚ])[).:）、．：])\s*(\S.*)$", re.DOTALL
)
_LEADING_POINT = re.compile(r"(?<![\w.])\.(?=\d)")
# Kept through the deletion of punctuation: a minus before a number, a point within one, and what names of one letter or
# more end in (C++, C#, A*), but not the stars of emphasis.
_KEPT = re.compile(
    r"(?<![\w.)\]])[-\u2212](?=\d)|(?<=\d)\.(?=\d)|(?<=[^\W\d_])\++(?!\w)"
    r"|(?<=\b[^\W\d_])\#(?!\w)|(?<=(?<![*\w])[^\W\d_])\*(?![*\w])"
)
_HIDDEN = {ord(symbol): 0xE000 + place for place, symbol in enumerate("-.+#*")} | {0x2212: 0xE000}
_SHOWN = {hidden: symbol for symbol, hidden in _HIDDEN.items() if symbol != 0x2212}
_DELETED = str.maketrans("", "", string.punctuation + "，。！？、；：（）《》〈〉【】「」『』“”‘’…·•・‧〝〞〜")
_UNIT = re.compile(r"[$€£¥₹]\s*(?=[\d.])|(?<=\d)\s*[$€£¥₹%‰]")
# Numbers and grades that differ in punctuation alone: 2:1 and 21, < 5 and > 5, A- and A.
_NUMBER = re.compile(r"\d+|[<>](?=[\s=]*\d)|(?<=[^\W\d_])-(?!\w)")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")

_YES = frozenset(
    """
    yes y true correct 是 是的 对 对的 對 對的 正确 正確 没错 可以 可以的 能 能够 会 會 有 需要 允许 はい ええ
    できます oui vrai sí si verdadero cierto ja wahr richtig sì vero sim verdadeiro waar tak prawda да верно نعم
    """.split()
)
_NO = frozenset(
    """
    no n false incorrect 否 不 不是 不对 不對 错 錯 错误 錯誤 不可以 不能 不会 不會 没有 沒有 不需要 无需
    不允许 不行 禁止 并非 いいえ いえ できません non faux falso nein falsch não nee onwaar nie fałsz нет неверно لا
    """.split()
)
# No space stands behind these: 不可以带宠物.
_UNSPACED_VERDICT = re.compile("(是的|可以|允许)|不可|不能|不允许|不会|不會|不需|不必|不得|没有|沒有|并非|禁止|严禁")
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
    """The form in which answers are compared; empty only for mere punctuation that is no option."""
    if answer_type == "choice":
        return _normalize_choice(text, choices)
    option = _OPTION.match(text)
    if option:
        text = unicodedata.normalize("NFKC", option[1])
    plain = text.lower() if option else _normalize_text(text)
    if answer_type == "yes/no":
        return verdict_in(text) or _unspaced_verdict(text) or plain
    return plain


def _normalize_text(text: str) -> str:
    """SQuAD's steps, with signs, decimals, lone articles and Chinese looked after."""
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text)).lower()
    # NFD also splits Japanese and Korean syllables; that is harmless, both sides are split alike.
    text = _LEADING_POINT.sub("0.", text)
    text = _KEPT.sub(lambda kept: kept[0].translate(_HIDDEN), text).translate(_DELETED).translate(_SHOWN)
    # "The The" and "A" are names: where only articles are left, they stay.
    bare = " ".join(_ARTICLE.sub(" ", text).split()) or " ".join(text.split())
    return _CJK_SPACE.sub("", bare)


def _normalize_choice(text: str, choices: Sequence[str]) -> str:
    """The form of the option that an answer names by letter or text, which no other has; else its own."""
    option, labelled = _OPTION.match(text), _LABELLED.match(text)
    letter = option[1] if option else (labelled[1] or labelled[2]) if labelled else ""
    letter = unicodedata.normalize("NFKC", letter).lower()
    if not choices:
        return letter if option else _normalize_text(labelled[3] if labelled else text)
    # From the coarsest form to the text as it is written.
    options = [_forms(choice) for choice in choices]
    own = _forms(text)
    lettered = bool(letter) and ord(letter) - ord("a") < len(options)
    # "C" is the third option unless one is written just so; that another is "c", or comes to it, does not count.
    place = _named(own, options, coarsest=2 if option and lettered else 0)
    if place is None and lettered:
        # A bare letter, or one before a text that no option has: the letter decides.
        place = ord(letter) - ord("a")
    if place is not None:
        return _telling(place, options)
    return own[-1] if own[0] and any(own[0] == forms[0] for forms in options) else own[0]


def _forms(text: str) -> tuple[str, ...]:
    labelled = _LABELLED.match(text)
    bare = " ".join((labelled[3] if labelled else text).split())
    return _normalize_text(bare), bare.casefold(), bare, " ".join(text.split())


def _named(own: Sequence[str], options: Sequence[Sequence[str]], coarsest: int) -> int | None:
    """The option that a text is closest to; None where it is none, or could be several."""
    for level in reversed(range(coarsest, len(own))):
        same = [place for place, forms in enumerate(options) if own[level] and forms[level] == own[level]]
        if same:
            return same[0] if len({options[place][-1] for place in same}) == 1 else None
    return None


def _telling(place: int, options: Sequence[Sequence[str]]) -> str:
    """The coarsest form of an option that no option of another text has."""
    forms = options[place]
    others = [other for other in options if other[-1] != forms[-1]]
    telling = (form for level, form in enumerate(forms) if form and all(other[level] != form for other in others))
    return next(telling, "")


def verdict_in(text: str) -> str:
    """The yes or no that an answer is or begins with, in whatever words that stand alone; may be empty."""
    return _verdict_of(_normalize_text(text)) or _first_verdict(unicodedata.normalize("NFKC", text).lower())


def _unspaced_verdict(text: str) -> str:
    """That of what begins with one as its verb, such as 不可以带宠物, and answers a question for yes or no."""
    found = _UNSPACED_VERDICT.match(text.strip())
    return "" if not found or is_refusal(text, _AGAINST_VERDICT) else "yes" if found[1] else "no"


def _verdict_of(word: str) -> str:
    word = unicodedata.normalize("NFC", word)
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
    rest_alone = rest.strip(_BESIDE_VERDICT)
    # "いいえ、できません" says it twice.
    if taken_back or (_verdict_of(rest_alone) != verdict and is_refusal(rest_alone, _AGAINST_VERDICT)):
        return ""
    meant = _VERDICT_ENDS.match(rest) or (word == "yes" and not _JOINED.match(rest))
    return verdict if meant else ""


def tokens(text: str, answer_type: str = "short", choices: Sequence[str] = ()) -> list[str]:
    """The words of a normalised answer; each Chinese character counts as a word."""
    return _CJK_CHARACTER.sub(r" \1 ", normalize(text, answer_type, choices)).split()


def same_answer(first: str, second: str, answer_type: str = "short", choices: Sequence[str] = ()) -> bool:
    """Whether two answers are equal after normalisation, and in units and numbers: neither 5 % is 5, nor 2:1 21."""
    return _equal(first, second, answer_type, choices) and (
        answer_type != "short" or all(part(first) == part(second) for part in (_units, _numbers))
    )


def _equal(first: str, second: str, answer_type: str, choices: Sequence[str]) -> bool:
    left = normalize(first, answer_type, choices)
    return bool(left) and left == normalize(second, answer_type, choices)


def _units(text: str) -> list[str]:
    return [unit.strip() for unit in _UNIT.findall(unicodedata.normalize("NFKC", text))]


def _numbers(text: str) -> list[str]:
    return _NUMBER.findall(_THOUSANDS.sub("", _LEADING_POINT.sub("0.", unicodedata.normalize("NFKC", text))))


def exact_match(
    prediction: str | None, golds: Sequence[str], answer_type: str = "short", choices: Sequence[str] = ()
) -> bool:
    """Whether a prediction equals one of the gold answers (EM).

    As in the official scripts a number may lack the gold answer's unit ($5 and 5); it may not have another (5 %).
    """
    _require_golds(golds)
    if prediction is None:
        return False
    found = [gold for gold in golds if _equal(prediction, gold, answer_type, choices)]
    units = _units(prediction) if answer_type == "short" else []
    return any(not units or _units(gold) in ([], units) for gold in found)


def f1(prediction: str | None, golds: Sequence[str], answer_type: str = "short", choices: Sequence[str] = ()) -> float:
    """The best F1 over words against the gold answers, by HotpotQA's rule for yes and no; else exact match."""
    _require_golds(golds)
    if prediction is None:
        return 0.0
    if answer_type != "short":
        return float(exact_match(prediction, golds, answer_type, choices))
    return max(overlap(tokens(prediction), tokens(gold)) for gold in golds)


def overlap(predicted: list[str], gold: list[str]) -> float:
    """F1 of words; yes, no and noanswer are right as a whole or not at all, as in HotpotQA's script."""
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
    own does, and so does one that comes first ("Paris, but I'm not sure"). `choices` are answers whatever they say.
    """
    if any(same_answer(text, choice, "choice", choices) for choice in choices):
        return False
    if {*map(_verdict_of, re.findall(r"[^\W_]+", text.lower()))} in ({"yes"}, {"no"}):
        return False
    # "The Unknown" is a name.
    bare = text.translate(_DELETED).strip().casefold()
    return bare == UNKNOWN or not _normalize_text(text) or is_refusal(text)
