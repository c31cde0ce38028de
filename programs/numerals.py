"""Numbers in whatever writing, as digits: 三十 and thirty are 30, 3 p.m. is 15:00, and 12 April 2021 2021-04-12."""

import re
import unicodedata
from decimal import Decimal
from functools import cache

from keqa.retrievers.readers.document import dates_in_iso
from keqa.retrievers.text import spaced_language, usual_width

# The data of Python lack the second one.
_WRITTEN = "零〇一二三四五六七八九兩壹贰叁肆伍陆柒捌玖十百千拾佰仟万萬亿億"
_VALUES = {"两": Decimal(2)} | {char: Decimal(int(unicodedata.numeric(char))) for char in _WRITTEN}
_TEN, _MYRIAD = 10, 10_000
_ONES = "".join(char for char, value in _VALUES.items() if value < _TEN)
# No longer than what is read, or a long run of digits would be gone through from each of them.
_DIGITS = r"\d{1,40}(?:,\d{3}){0,12}(?:\.\d{1,40})?"
_NUMERAL = f"[{''.join(_VALUES)}]"
_PART = re.compile(f"{_DIGITS}|{_NUMERAL}")
_POWER = f"[{''.join(char for char, value in _VALUES.items() if value >= _TEN)}]"
_RUN = rf"(?:(?<!\d){_DIGITS}\s?(?={_POWER}))?{_NUMERAL}(?:{_NUMERAL}|(?<={_POWER}){_DIGITS})*"
_NUMBER = re.compile(rf"(百分之)?({_RUN}|(?<=百分之){_DIGITS})")
_DAY = re.compile(r"(?<!\d)(\d{4})\s?年\s?(\d\d?)\s?月\s?(\d\d?)\s?[日号號]")
_LONGEST = 40
# The millions and, without a third group, the thousands.
_ROUND = re.compile(
    r"(?<![\d.,])(\d{1,3})(?:[.,](\d\d?))?"
    r"(?:\s?(mio|mln|mil+i?[oó]n\w{0,2})\b|(?:k|\s?(?:tsd\.|thousand|tausend|mil))(?!\w|-[^\W\d]))",
    re.IGNORECASE,
)
# 3 p.m., 15h00, 15 h 00, 15 Uhr, and the 8 of 8–15 Uhr.
_OCLOCK = re.compile(
    r"(?<![\d:.,])(?:(1[0-2]|0?[1-9])(?:[:.]([0-5]\d))?\s?([ap])(?:m\b|\.\s?m\b\.?)"
    r"|([01]?\d|2[0-4])(?:\s?h\s?([0-5]\d)|(?:[:.]([0-5]\d))?(?:\s?Uhr|(?=\s?(?:[-–]|bis|und)\s?\d\d?(?:[:.]\d\d)?\s?Uhr)))\b)",
    re.IGNORECASE,
)
_AM = re.compile(r"\bam\b")
# The ones, what follows them up to twenty, the tens from twenty on, and how tens and ones are written together.
_LANGUAGES = (
    (
        "one two three four five six seven eight nine".split(),
        "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split(),
        "twenty thirty forty fifty sixty seventy eighty ninety".split(),
        "{ten} {one}",
    ),
    (
        "ein zwei drei vier fünf sechs sieben acht neun".split(),
        "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split(),
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split(),
        "{one}und{ten}",
    ),
    (
        "un deux trois quatre cinq six sept huit neuf".split(),
        [*"dix onze douze treize quatorze quinze seize".split(), "dix sept", "dix huit", "dix neuf"],
        "vingt trente quarante".split(),
        "{ten} {one}",
    ),
    (
        "uno dos tres cuatro cinco seis siete ocho nueve".split(),
        "diez once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve veinte veintiuno veintidós "
        "veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve".split(),
        "veinte treinta cuarenta".split(),
        "{ten} y {one}",
    ),
)
_IN_A_WORD = {"zero": 0}
for _ones, _teens, _tens, _together in _LANGUAGES:
    _IN_A_WORD |= {word: number for number, word in enumerate(_ones + _teens, 1)}
    for _number, _ten in enumerate(_tens, 2):
        joint = {_together.format(ten=_ten, one=one): 10 * _number + number for number, one in enumerate(_ones, 1)}
        _IN_A_WORD |= {_ten: 10 * _number, **joint}
# Articles are no numbers.
_IN_A_WORD = {word: number for word, number in _IN_A_WORD.items() if word not in ("ein", "un", "uno")}
# What is another word elsewhere is a number in a text of its language alone.
_ONLY_IN = dict.fromkeys(("acht", "elf", "sieben"), "de") | dict.fromkeys(("dix", "neuf", "seize", "sept"), "fr")
_ONLY_IN |= dict.fromkeys(("doce", "dos", "once", "quince"), "es")
# What makes another number of one beside it: one hundred and twenty, twenty-first, soixante-dix, treinta y una.
_LARGE = (
    "(?:hundred|thousand)(?: and)?|hundert|tausend|cents?|mille|cinquante|soixante|mil|cien|cientos?|cincuenta|sesenta"
    "|setenta|ochenta|noventa"
)
_BEHIND = (
    "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|half|thirds|fourths|fifths|dozen|dutzend|vingts"
    "|une?|un[ao]"
)
_NAMED = "|".join(sorted({word for name in _IN_A_WORD for word in name.split() if word != "y"}))
# All that stands side by side, so that no part of another number is taken for one.
_IN_WORDS = re.compile(
    rf"\b(?:{_NAMED}|{_LARGE})\b(?:[\s-](?:(?:et|y)[\s-])?(?:{_NAMED}|{_LARGE}|{_BEHIND})\b)*", re.IGNORECASE
)


def in_digits(text: str) -> str:
    """A text with its numbers in plain digits and its days as 2021-04-12; a word that holds a numeral changes, too."""
    text = _hours_in_digits(_words_in_digits(dates_in_iso(usual_width(text))))
    text = _ROUND.sub(lambda one: str(int(one[1] + (one[2] or "").ljust(6 if one[3] else 3, "0"))), text)
    return _DAY.sub(lambda day: f" {day[1]}-{day[2]:0>2}-{day[3]:0>2} ", _NUMBER.sub(_in_digits, text))


def _words_in_digits(text: str) -> str:
    language = cache(lambda: spaced_language([text]))

    def number(found: re.Match[str]) -> str:
        words = found[0].lower().replace("-", " ").replace(" et un", " un")
        if words not in _IN_A_WORD or (words in _ONLY_IN and _ONLY_IN[words] != language()):
            return found[0]
        return str(_IN_A_WORD[words])

    return _IN_WORDS.sub(number, text)


def _hours_in_digits(text: str) -> str:
    german = cache(lambda: spaced_language([_AM.sub("", text)]) == "de")

    def hour(found: re.Match[str]) -> str:
        twelve, minutes, half, hours, *others = found.groups()
        # A room 10 may be "am Flur".
        if half and not minutes and found[0].endswith("am") and german():
            return found[0]
        hours = int(hours) if hours else int(twelve) % 12 + 12 * (half.lower() == "p")
        return f"{hours}:{next(filter(None, (minutes, *others)), '00')}"

    return _OCLOCK.sub(hour, text)


def _in_digits(found: re.Match[str]) -> str:
    share, number = found.groups()
    if len(number) > _LONGEST:
        return found[0]
    if all(char in _ONES for char in number):
        value = "".join(str(_VALUES[char]) for char in number)
    else:
        value = f"{_value(_PART.findall(number)).normalize():f}"
    return f"{value}%" if share else value


def _value(parts: list[str]) -> Decimal:
    """What the parts of a number are worth together, such as 1, 亿, 2000 and 万."""
    whole = below = last = Decimal(0)
    for part in parts:
        value = _VALUES.get(part)
        if value is None or value < _TEN:
            last = value if value is not None else Decimal(part.replace(",", ""))
        elif value < _MYRIAD:
            below, last = below + (last or 1) * value, Decimal(0)
        elif below + last or not whole:
            whole, below, last = whole + (below + last or 1) * value, Decimal(0), Decimal(0)
        else:
            whole *= value
    return whole + below + last
