"""Numbers in whatever writing, as digits: 三十 and thirty are 30, 1.2 million 1200000, and 12 April 2021 2021-04-12."""

import re
import unicodedata
from decimal import Decimal

from keqa.retrievers.readers.document import days_in_iso
from keqa.retrievers.text import usual_width

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
_MILLIONS = re.compile(r"(?<![\d.,])(\d{1,3})(?:[.,](\d\d?))?\s?(?:mio|mln|mil+i?[oó]n\w{0,2})\b", re.IGNORECASE)
# What is an article as well is no number. Tens count from twenty on.
_ENGLISH = "one two three four five six seven eight nine ten eleven twelve".split()
_ENGLISH += [f"{stem}teen" for stem in "thir four fif six seven eigh nine".split()]
_GERMAN = "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
_GERMAN += [f"{stem}zehn" for stem in "drei vier fünf sech sieb acht neun".split()]
_FRENCH = "deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize".split()
_SPANISH = "dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince".split()
_ENGLISH_TENS = [f"{stem}ty" for stem in "twen thir for fif six seven eigh nine".split()]
_GERMAN_TENS = ["zwanzig", "dreißig", *(f"{stem}zig" for stem in "vier fünf sech sieb acht neun".split())]
_OTHER_TENS = ("vingt trente quarante".split(), "veinte treinta cuarenta".split())
_TENS = {word: ten for tens in (_ENGLISH_TENS, _GERMAN_TENS, *_OTHER_TENS) for ten, word in enumerate(tens, 2)}
_SMALL = {word: number for words in (_ENGLISH, _GERMAN) for number, word in enumerate(words, 1)}
_SMALL |= {word: number for words in (_FRENCH, _SPANISH) for number, word in enumerate(words, 2)}
_IN_WORDS = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_ENGLISH_TENS)})[ -](?P<ones>{'|'.join(_ENGLISH[:9])})"
    rf"|(?P<einer>{'|'.join(_GERMAN[:9])})und(?P<zehner>{'|'.join(_GERMAN_TENS)})"
    rf"|(?P<ten>{'|'.join(_TENS)})|(?!ein\b)(?P<small>{'|'.join(_SMALL)}))\b",
    re.IGNORECASE,
)


def in_digits(text: str) -> str:
    """A text with its numbers in plain digits and its days as 2021-04-12; a word that holds a numeral changes, too."""
    text = _IN_WORDS.sub(_of_words, text)
    text = _MILLIONS.sub(lambda one: one[1] + (one[2] or "").ljust(6, "0"), days_in_iso(usual_width(text)))
    if text.isascii():
        return text
    return _DAY.sub(lambda day: f" {day[1]}-{day[2]:0>2}-{day[3]:0>2} ", _NUMBER.sub(_in_digits, text))


def _of_words(found: re.Match[str]) -> str:
    ten = found["tens"] or found["zehner"] or found["ten"] or ""
    one = found["ones"] or found["einer"] or found["small"] or ""
    return str(10 * _TENS.get(ten.lower(), 0) + _SMALL.get(one.lower(), 0))


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
