"""Whether passages carry an answer: by its words, in whatever writing, and where these prove nothing by a judge."""

import re
from collections.abc import Sequence
from typing import Any

import dspy

from keqa.metrics.answers import is_abstention, verdict_in
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import note
from keqa.programs.citations import without_pointers
from keqa.programs.numerals import in_digits
from keqa.programs.sentences import (
    asking,
    asks_what,
    content_words,
    is_named,
    joints_of,
    language_of,
    names_of,
    sentences_of,
    spoken_of,
    stands_in,
    ungrouped,
    words_of,
)
from keqa.programs.today import dated
from keqa.retrievers.splitting import stripped_sentences
from keqa.retrievers.text import UNSPACED

# Symbols that tell answers apart, as in C++, C#, A* and -3, and not those of emphasis.
_SYMBOLS = re.compile(r"\b\w+[+#]+|(?<![*\w])[^\W\d_]\*(?![*\w])|(?<![\w-])-\d[\d.,]*\b")
# The parts of 1.5, which have to stand side by side; those of a date may stand otherwise.
_DECIMAL = re.compile(r"(?<![\d.,:/-])(\d+)[.,](\d+)(?![.,:/-]?\d)")
# What is written in one piece and means another thing in other pieces: flags, paths, versions, names with underscores.
_IN_ONE_PIECE = re.compile(r"(?<![\w-])--[^\W\d_](?:[\w-]*\w)?|(?:/[\w-]++(?:\.\w++)*+){2,}|(?<!\d)\d++(?:\.\d++){2,}")
_QUALIFIED = re.compile(r"[\w.:]+")
_UNDERSCORED = re.compile(r"[^\W_]_+[^\W_]")
# A number with its unit, as in 30s and 4MiB, which no ordinal is, and the v of a version.
_UNIT = re.compile(r"(?<![^\W_])(\d+)(?!(?:st|nd|rd|th)\b)([A-Za-z]{1,3})(?![^\W_])")
# A number and what it counts or measures, beside which it stands.
_COUNTED = re.compile(
    r"(?<![\w.,])(\d\d?\.|\d(?:[\d.,]*\d)?)\s+(?!(?:and|or|to|in|und|oder|bis|et|ou)\b)([^\W\d_]{2,})"
)
_UNITS = dict(
    unit.split("=")
    for unit in "ms=milliseconds? s=seconds? sec=seconds? min=minutes? h=hours? d=days? k=thousand "
    "m=(?:minute|meter|metre)s?|million km=kilomet(?:er|re)s? cm=centimet(?:er|re)s? "
    "g=grams? kg=kilo(?:gram)?s? mg=milligrams? l=lit(?:er|re)s? v=volts? w=watts? "
    "kb=kilobytes? mb=megabytes? gb=gigabytes? tb=terabytes?".split()
)
# Whom one calls Ms. is no other.
_HE, _SHE = r"\b(?:Mr\b\.?|Herrn?\b|Monsieur\b|Señor\b)", r"\b(?:Mrs\b\.?|Ms\b\.?|Frau\b|Madame\b|Señora\b)"
# In small letters, and before no name, they are other words: 500 ms.
_CAPITAL = r"(?=\s+[A-ZÀ-Þ])"
_ADDRESSED = re.compile(rf"(?i:https?)://|(?:{_HE}|{_SHE}){_CAPITAL}|(?<=[{UNSPACED}][{UNSPACED}])(?:先生|女士|小姐)")
_NAMED = r"((?:\s+[A-ZÀ-Þ][\w'’-]*){1,3})"
_CALLED = [
    re.compile(f"{title}{_NAMED}|([{UNSPACED}]{{2}})(?:{behind})")
    for title, behind in ((_HE, "先生"), (_SHE, "女士|小姐"))
]
_COUNT = re.compile(r"\d{1,2}")
# Of a place that stands above a passage.
_NUMBERED = re.compile(r"\b(?:row|page|slide) \d+")
_VERSION = re.compile(r"\b[vV](?=\d)")
_MEASURES = ("EUR", "USD", "GBP", "CHF", "percent", *"¥￥元円")
# In their other writings; what is left of them stands apart.
_MEASURED = re.compile(
    r"(?P<EUR>€|\beuros?\b)|(?P<USD>(?:\bUS[ -]?)?(?:\$(?![A-Za-z_{(])|\bdollars?\b))|(?P<GBP>£)"
    r"|(?P<percent>%|\bper cent\b|\bprozent\b|\bpour ?cent\b)",
    re.IGNORECASE,
)
_YEAR = re.compile(r"\d{4}")
# Chinese and Japanese have no space between a word of theirs and one of another script.
_CHAR = rf"[^\W{UNSPACED}]"
_APART = rf"(?<!{_CHAR})(?<!-)"
# A number with all that makes another one of it: HH-2023-0417, 2024-05-31, 5月31日, -€5, 12.5, 10:30, v2.10.3 and 1/2.
# In 20 EUR–30 EUR, the first EUR belongs to what is before it.
_NUMBER = re.compile(
    rf"{_APART}(?:(?<!\d\s)[A-Za-z]{{1,5}}|\d{{4}})[-‐‑–]\d(?:[-‐‑–]|{_CHAR})*|(?:\d{{4}}年)?\d\d?月(?:\d\d?日)?"
    rf"|(?:(?<![\w.,)%€$£-])[-\N{{MINUS SIGN}}][€$£]?|(?<!{_CHAR})[vV]?)\d+(?:[.,:/]\d+)*"
)
# A part of a day or of 2,000–10,000, and none of an amount.
_LONG = re.compile(r"\d{4,}")
_AMOUNT = re.compile(r"[-\N{MINUS SIGN}]?[€$£]?\d+(?:[.,]\d+)?")
_PLAIN = str.maketrans("‐‑–\N{MINUS SIGN},", "----.", "€$£")
# Where a list begins, or code; and what is shortened, so that its stop ends no sentence.
_LISTED = re.compile(r"^\s*(?:[-*•|]|\d+[.)]|```)", re.MULTILINE)
_SHORTENED = re.compile(r"\b(?:approx|ca|min|max|incl|excl|resp|bzw|env|aprox)\.$", re.IGNORECASE)
_LONGEST = 1_000
"""What is longer than so many characters was written, and is left as it is."""
# What bounds what was said, or makes it less sure.
_HEDGES = frozenset(
    "may might could perhaps possibly probably likely but however although though unless except only aber jedoch "
    "vielleicht möglicherweise vermutlich nur außer mais cependant toutefois sauf seulement pero aunque salvo quizás "
    "但是 不过 可能 也许 除非".split()
)
_REMARKS = 5
"""So many sentences may stand behind a short answer: each is looked up in all passages."""
# How much longer a form of a word may be.
_ENDING = 2
UNREADABLE = "the judge said nothing that can be read"
"""What is said of a judge whose replies are of no use."""
# A passage that says that something is so does not support an answer that it is not.
NEGATIONS = frozenset(
    "not no never none cannot without nicht kein keine keinen nie ohne pas jamais sans nunca sin".split()
)
_NOT_SO = re.compile(r"不(?![仅僅但同断斷少锈鏽])|[没沒勿]|未(?![来來])|[无無](?:法|需|须|須|权|權)|禁止|ません|ない")
_OR_NOT = re.compile(r"(\w)[不没沒]\1")
_SHORT_NOT = re.compile(r"(?:\b(?:ca|wo|sha))?n['’]t\b", re.IGNORECASE)


async def support_of(
    judge: dspy.Predict,
    question: str,
    answer: str,
    passages: Sequence[str],
    number: int | None = None,
    *,
    worded: bool = True,
    named: bool = False,
    doubted: bool = False,
    translated: bool = False,
) -> tuple[bool | None, str]:
    """Whether passages carry an answer, and by what that was found: they have its words, or else the judge says so.

    Where they lack more than half of its words, nobody is asked: of 1.5 billion parameters and fewer, judges were
    seen to agree with whatever they are shown. Passages of another language than the question's lack any, also
    beside others where it was `translated` for them. Where the judge's replies are of no use, words alone decide; it
    is None where it could not be asked. The words of an answer that is not `worded`, such as a yes, prove nothing, nor
    do words that a passage says not to be so; where what is asked about has to be `named`, nor do those of passages
    that speak of none of its names. Passages that are `doubted` have to have all words of an answer that the question
    has not, and the judge has to agree fully.
    """
    lacking, asks = list[str](), asking(question)
    if worded and not verdict_in(answer):
        stated = without_pointers(answer)
        lacking = words_lacking(stated, passages)
        doubt = "" if lacking else _doubt(asks, stated, passages, named)
        if not lacking and not doubt and not doubted:
            return True, "the passages have its words"
        why = f"the passages lack “{' '.join(lacking)}”" if lacking else doubt or "the passages have its words alone"
        language, words = language_of(asks), _words(_spelled(stated))
        # In other languages, too, one word is yes or no.
        verdict = len(words) == 1 and asks.rstrip().endswith(("?", "？")) and not asks_what(asks)
        most = len(words) if verdict else len(words) / 2
        alike = [language_of(one) == language for one in passages]
        same = all(alike) if translated else any(alike)
        other_words = same and len({*lacking} - NEGATIONS) > most
        # Those of the question stand in nothing that only other words find.
        if words_lacking(stated, [*passages, asks]) if doubted else other_words:
            return False, why
    else:
        why = "its words prove nothing"
    asked: dict[str, Any] = {"passage": "\n\n".join(passages), "question": dated(question, judge), "answer": answer}
    try:
        found = (await ask(judge, "judge_support", number, **asked)).support
    except CallError as error:
        if doubted or (error.unusable and lacking):
            action = "took it for no answer" if doubted else "went by the answer's words"
            note("judge_support", error.cause, error.message, action, number)
            return False, f"{why}; {UNREADABLE}"
        note("judge_support", error.cause, error.message, "took the answer unchecked", number)
        return None, f"{why}; the judge could not be asked"
    return found == "fully" or (found != "no" and not doubted), f"{why}; judged: {found}"


def carried_part(question: str, answer: str, passages: Sequence[str]) -> str:
    """An answer without the remarks at its end, where passages carry its first sentence and hardly a word of these.

    What takes back what was said, or limits it, is no remark: a step, a part of a list or a sentence
    of which passages have most words stays for the judge.
    """
    if len(answer) > _LONGEST or _LISTED.search(answer) or is_abstention(answer):
        return answer
    first, *others = sentences_of(answer) or [""]
    has_remarks = (
        0 < len(others) <= _REMARKS
        and not verdict_in(first)
        and not _SHORTENED.search(first)
        and words_lacking(first, [question])
    )
    if not has_remarks or words_lacking(first, passages):
        return answer
    part = answer
    for one in reversed(others):
        if 2 * len(words_lacking(one, passages)) <= len(_words(one)):
            break
        if _negated(one) or is_abstention(one) or not _HEDGES.isdisjoint(words_of(one)) or one not in part:
            return answer
        part = part[: part.rindex(one)].rstrip()
    return part


def _doubt(question: str, answer: str, passages: Sequence[str], named: bool) -> str:
    """Why passages that have the words of an answer may say something else; empty where they hardly do."""
    if another := _about_another(question, answer, passages, named):
        return another
    stated, written = in_digits(answer), list(dict.fromkeys([*passages, *map(in_digits, passages)]))
    if _lacking(stated, [other_numbers_left_out(stated, text) for text in written]):
        return "the passages have its words as parts of other numbers"
    there = {word for text in written for word in words_of(_spelled(text))}
    names = (name for one in stripped_sentences(_spelled(stated)) for name in names_of(f": {one}"))
    for word in (word for name in names for word in name if word.isalpha()):
        if not is_named(word, there):
            return f"the passages have a word like “{word}”"
    figures = [ungrouped(_spelled(text)) for text in written]
    if not all(_has_beside(number, word, figures) for number, word in _counted(ungrouped(_spelled(stated)))):
        return "the passages have its number and its words apart"
    texts = [_NUMBERED.sub(" ", text) for text in written]
    having = [text for text in texts if not _lacking(stated, [other_numbers_left_out(stated, text)])]
    if _COUNT.fullmatch(stated.strip(" .")) and not spoken_of(question, having):
        # What was counted stands somewhere, as any small number does.
        return "the passages that have its number do not speak of what is asked"
    return _not_so(question, answer, passages)


def _not_so(question: str, answer: str, passages: Sequence[str]) -> str:
    """Why passages that have an answer may say that it is not so."""
    asked = words_of(question)
    if any(map(str.isdigit, answer)) and not any(stands_in(word, asked) for word in _words(answer)):
        # "Not more than 120 euros" has the value.
        return ""
    lacks = {one: len(words_lacking(answer, [one])) for text in passages for one in sentences_of(text)}
    nearest = [one for one, count in lacks.items() if count == min(lacks.values())]
    if nearest and not _negated(question) and all(_negated(one) != _negated(answer) for one in nearest):
        return f"the passages have its words, and {'no “not”' if _negated(answer) else 'a “not”'} beside them"
    return ""


def _about_another(question: str, answer: str, passages: Sequence[str], named: bool) -> str:
    names = named and any(not word.isdigit() for name in names_of(question) for word in name)
    if (names and not spoken_of(question, passages, least=0)) or _of_another_year(question, answer):
        return "the passages have its words, and speak of nobody and nothing that the question names"
    if _called_otherwise(answer, " ".join(passages)):
        return "the passages have its words, and speak of a man where it speaks of a woman, or the other way round"
    return ""


def _called_otherwise(answer: str, text: str) -> bool:
    """Whether somebody is Ms. Mohn in one of two texts, and nobody but Mr. Mohn in the other."""
    here, there = ([_called(one, pattern) for pattern in _CALLED] for one in (answer, text))
    return any(here[sex] & there[not sex] - there[sex] for sex in (False, True))


def _called(text: str, pattern: re.Pattern[str]) -> set[str]:
    return {word for found in pattern.findall(text) for name in found for word in name.casefold().split()}


def _of_another_year(question: str, answer: str) -> bool:
    """Whether an answer states a number, and for another year than the one that is asked about."""
    asked, stated = ({*_YEAR.findall(text)} for text in (question, answer))
    return bool(asked and stated) and asked.isdisjoint(stated) and len(re.findall(r"\d+", answer)) > len(stated)


def other_numbers_left_out(answer: str, text: str) -> str:
    """A text without the numbers that an answer has not: 12 is no part of 12.5, nor of a day, and a year is of that."""
    stated = _NUMBER.findall(ungrouped(answer))
    long = {one for one in stated if _LONG.fullmatch(one)}
    numbers = "|".join(re.escape(_plain_number(one)) for one in stated)
    kept = re.compile(rf"(?:\d{{4}}年)?(?:{numbers})(?::00|-\d\d|\d\d?日|(?:(?<=[./]\d)|(?<=[./]\d\d))[./]\d{{4}})?")

    def left(number: re.Match[str]) -> str:
        if kept.fullmatch(_plain_number(number[0])):
            return number[0]
        parts = set() if _AMOUNT.fullmatch(number[0]) else long
        return re.sub(r"\d+", lambda one: one[0] if one[0] in parts else " ", number[0])

    return _NUMBER.sub(left, ungrouped(text))


def _plain_number(number: str) -> str:
    return re.sub(r"\.0+$", "", number.lower().translate(_PLAIN).lstrip("0v"))


def _counted(text: str) -> list[tuple[str, str]]:
    """The numbers of a text, each with what it counts; in “2023 was” a year counts nothing."""
    content = content_words(text)
    pairs = _COUNTED.findall(text)
    return [(number, word) for number, word in pairs if not _YEAR.fullmatch(number) or word.casefold() in content]


def _has_beside(number: str, word: str, texts: Sequence[str]) -> bool:
    """Whether a number stands before or behind a form of a word, with a word between them at most."""
    counted = rf"(?<!\d){re.sub('[.,]', '[.,]', number)}(?:[.,]00?)?(?!\d)"
    own = rf"\b{word[: max(2, len(word) - _ENDING)]}\w*"
    between = r"[^\w.;!?\n]+(?:\w+[^\w.;!?\n]+)?"
    pairs = re.compile(f"{counted}{between}{own}|{own}{between}{counted}", re.IGNORECASE)
    return any(map(pairs.search, texts))


def _spelled(text: str) -> str:
    text = _SHORT_NOT.sub(" not", text).replace("\N{MINUS SIGN}", "-")
    text = _ADDRESSED.sub(" ", text)
    text = _MEASURED.sub(lambda one: f" {one.lastgroup} ", text)
    return _UNIT.sub(r"\1 \2", _VERSION.sub("", text))


def _negated(text: str) -> bool:
    """Whether a text says that something is not so; 能不能 asks."""
    return not NEGATIONS.isdisjoint(words_of(_spelled(text))) or bool(_NOT_SO.search(_OR_NOT.sub("", text)))


def words_lacking(answer: str, passages: Sequence[str]) -> list[str]:
    """The names, numbers and other words of an answer that stand in none of some passages, in any of their forms."""
    lacking = _lacking(answer, passages)
    if not lacking or (given := [answer, *passages]) == (written := [in_digits(text) for text in given]):
        return lacking
    return min(lacking, _lacking(written[0], written[1:]), key=len)


def _lacking(answer: str, passages: Sequence[str]) -> list[str]:
    texts = [ungrouped(_spelled(text), spaced=False) for text in passages]

    def fewer_zeros(number: re.Match[str]) -> str:
        """A decimal that is not there without the zeros at its end: €9.90 is €9.9, and 120.00 is 120."""
        if _has_decimal(number, texts):
            return number[0]
        if not (part := number[2].rstrip("0")):
            return number[1]
        # 3.10 may be a day, a section or a version, and none of these is 3.1.
        before, after = number.string[: number.start()], number.string[number.end() :]
        amount = before.rstrip().endswith(_MEASURES) or after.lstrip().startswith(_MEASURES)
        return f"{number[1]}.{part}" if amount else number[0]

    units = _UNIT.findall(ungrouped(answer))
    answer = _DECIMAL.sub(fewer_zeros, ungrouped(_spelled(answer)))
    there = {_plain(word) for text in texts for word in words_of(f"{text} {ungrouped(text)}")}
    # What is counted may be a word of one character, such as the 天 of 15天, which stands in pairs there.
    there |= {char for text in texts for char in text if char >= "\u3040"}

    def stands_there(word: str) -> bool:
        """Whether a word is there, or a form of it that is about as long: Johnson is no form of John."""
        return stands_in(word, {other for other in there if abs(len(other) - len(word)) <= _ENDING})

    wanted = _words(answer)
    wanted += [word for word in words_of(answer) if word in NEGATIONS and there.isdisjoint(NEGATIONS)]
    lacking = [word for word in dict.fromkeys(wanted) if not stands_there(_plain(word))]
    # Where two words that are there meet, the last character of one and the first of the other are no word.
    met = {joint for before, joint, behind in joints_of(answer) if before not in lacking and behind not in lacking}
    lacking = [word for word in lacking if word not in met.union(unit.lower() for _, unit in units)]
    lacking += [one for one in _SYMBOLS.findall(answer) if not any(one in text for text in texts)]
    pieces = _IN_ONE_PIECE.findall(answer)
    pieces += [one.strip(".:") for one in _QUALIFIED.findall(answer) if _UNDERSCORED.search(one)]
    lacking += [one for one in pieces if not any(map(_in_one_piece(re.escape(one)).search, texts))]
    lacking += [f"{number} {unit}" for number, unit in units if not _has_unit(number, unit, texts)]
    return lacking + [number[0] for number in _DECIMAL.finditer(answer) if not _has_decimal(number, texts)]


def _has_decimal(number: re.Match[str], texts: Sequence[str]) -> bool:
    beside = re.compile(rf"(?<!\d)(?<!\d\.)0*{number[1].lstrip('0') or '0'}\W{number[2]}(?!\d)")
    return any(beside.search(text) or beside.search(ungrouped(text)) for text in texts)


def _has_unit(number: str, unit: str, texts: Sequence[str]) -> bool:
    words = _UNITS.get(unit.lower(), unit)
    return any(map(_in_one_piece(f"{number} (?:{unit}|{words})").search, texts))


def _in_one_piece(pattern: str) -> re.Pattern[str]:
    before = "" if pattern.startswith("/") else rf"{_APART}(?<!\d\.)"
    return re.compile(rf"{before}{pattern}(?!-?{_CHAR})(?!\.\d)", re.IGNORECASE)


def _plain(word: str) -> str:
    return word.lstrip("0") or "0" if word.isdigit() else word


def _words(answer: str) -> list[str]:
    return list(dict.fromkeys(content_words(answer) or words_of(answer)))
