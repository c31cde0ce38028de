"""Long documents into passages of about 100 words that end where a sentence ends.

Where a sentence ends is decided by its last word and the word that follows: no library that is kept up does it at the
speed at which documents are read (pysbd, which is not, takes fifty times as long and loses characters).
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from keqa.retrievers.stopwords import ENGLISH
from keqa.retrievers.text import UNSPACED, WORD_LENGTH, one_line, text_length

PASSAGE_WORDS = 100

# What a passage may be longer than the target, so that a sentence need not be cut; and the last one, so that a
# document does not end in a scrap of a passage.
_SLACK = 1.2
_SCRAP = 0.25
# No text of so many characters for each word of the target is as short as a passage.
_LONG = 120

_PARAGRAPHS = re.compile(r"\n[^\S\n]*\n\s*")
# A line break ends a sentence only before an item of a list or table, or around a Markdown heading: text is often
# wrapped at a fixed width.
_NUMBERED: Final = r"[一二三四五六七八九十百\d]{1,4}"
_UNSPACED_ITEM: Final = (
    rf"[一二三四五六七八九十]{{1,3}}、|\d{{1,3}}、|（{_NUMBERED}）|第{_NUMBERED}[条條章节節]|[①-⑳・]"
)
# What begins an admonition or a tab in Markdown, whose body stands below.
_MARKED: Final = r"[!?=]{3}\+? "
# Before what somebody says in a chat or a transcript: its day and time, or the time alone in brackets or with seconds.
_DAY: Final = r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?:,? |T)"
_STAMP: Final = rf"\u200e?(?:\[(?:{_DAY})?|{_DAY}|(?=\d{{1,2}}:\d\d:\d\d))\d{{1,2}}:\d\d"
# A colon stands before the definition of a term.
_LINE: Final = rf"(?:[>*+\-•:]|\d{{1,3}}[.)])\s|{_MARKED}|\||{_UNSPACED_ITEM}|{_STAMP}"
_ITEMS = re.compile(rf"\n(?=\s*(?:#\s|{_LINE}))|^((?:#{{1,6}} |{_MARKED})[^\n]*)\n", re.MULTILINE)
LISTED: Final = re.compile(rf"\s*(?:{_LINE})")
"""What an item begins with, of a list, a table, a quotation or definitions, or an admonition."""
_STAMPED: Final = re.compile(_STAMP)
# What somebody says in so many words is not cut from who says it and when.
_TURN: Final = 50
_FENCE = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})")
# A paragraph that no mark ends keeps its end, so that it is not read as one sentence with the next.
_ENDED = re.compile(r"[.!?…。！？][\"'”’»)\]」』）*_`]*\Z")
# In a text without spaces, a line is wrapped where it is no shorter than this and its sentence continues on the next.
_FULL: Final = 20
_GOES_ON = re.compile(rf"[{UNSPACED}，、；：][{UNSPACED}\d《“「（]|\d[{UNSPACED}]")
BELOW_HEAD: Final = r"\|(?: ?:?-{2,}:? ?\|)+"
"""What stands below the head of a table in Markdown; a row may have a hyphen in each cell."""
_BELOW_HEAD = re.compile(rf"{BELOW_HEAD}\s*")
_UNIT = re.compile(f"[{UNSPACED}]|[^\\s{UNSPACED}]{{1,100}}")

# A run of marks is looked at from its beginning only, and given up as a whole: a page of dots is read once.
_END = re.compile(
    f"""
    (?<![.!?…])([.!?…]++)[\\]"'”’»)]*+\\ (?=[\\["'“„«‘(¿¡–—-]{{0,5}}(\\w{{0,30}}))
    | (?<![。！？])[。！？]++…?[”’」』）]*+\\ ?
    | (?<![!?])[!?]++(?=[{UNSPACED}])
    """,
    re.VERBOSE,
)
_OPENING = "([\"'“„«‘"

# Words that begin a sentence far more often than they follow an abbreviation within one, in capitals as they are.
_STARTERS: Final = ENGLISH | frozenset(
    """
    aber auch auf bei da das den der des die dies diese ein eine er es für im ist man mit nach nur sie sind so und von
    vor wenn wer wie wir zu zum zur ce cette ces dans de des elle en et il ils la le les leur mais on pour un une el
    ella en es esta este la las los no pero por se su un una gli il in l lo nel si un è
    """.split()
)
# No sentence ends with these: a name or a number follows.
_TITLES: Final = frozenset(
    """
    adm attys brig capt cmdr col cpl det dr fr frl gen gov hl ing lt maj messrs mlle mme mons mr mrs ms mssrs mt ph prof
    rep reps rev sen sens sgt skt sr sra srta st sta ste supt vs
    """.split()
)
_BEFORE_NUMBERS: Final = frozenset("abb abs art bd cap chap eq ext fig figs kap no nos nr núm p pp s tab vol z".split())
# A sentence may end with these, and mostly does not.
_ABBREVIATIONS: Final = frozenset(
    """
    abt adj apr asst aug ausg ave bld bldg blvd bros bzgl bzw ca calif cf co corp ct dec dept dez dipl dir ed eds ehem
    engl env esp esq etc evtl ex feb ff franz ggf hon hosp hrsg ibid inc incl inkl insp jan jan jhd jr jul jun kath ltd
    mar mass max med min mind mio mrd nov okt oct op orig rd ref resp sec sep sept sog sq str suiv tel univ usf usw ver
    verh verl vgl viz wash zzgl ed aprox ej pág págs ud uds av núm ecc pag sig sigg avv dott ing
    """.split()
)
# The day of a date or the number of a century has as many digits in languages that put a period after it.
_ORDINAL: Final = 2
_INITIALS: Final = re.compile(r"\w{1,4}(?:\.\w{1,4})*")


def split_text(text: str, words: int = PASSAGE_WORDS) -> list[str]:
    """Split a text into passages of about so many words, on sentence ends.

    Items of lists, tables and code between fences keep their lines. Nothing but white space is lost, and nothing added
    but the head of a table (in Markdown) before rows that a passage begins with, and the fence before code. No passage
    is longer than one and a half times the target. Chinese and Japanese count by character, five for three words.
    """
    target = words * WORD_LENGTH
    if len(text) <= _LONG * words and text_length(text) <= target * _SLACK:
        whole = "".join(sentences(text)).strip() if "\n" in text else one_line(text)
        return [whole] if whole else []
    passages: list[tuple[str, int]] = []
    current: list[str] = []
    head, last = list[tuple[str, int]](), ("", 0)
    length = repeated = 0
    parts = ((one, fence, *part) for one, fence in _fenced_sentences(text) for part in _cut(one, target))
    for whole, fence, sentence, size in parts:
        if fence or not whole.startswith("|"):
            head = []
        above = [(fence, 0)] if fence else head
        overshoot = length + size - target
        # What only ends code begins no passage; many such lines are code.
        closes = bool(fence) and overshoot <= target * _SCRAP and not sentence.strip(f"{fence.lstrip()[0]}\n ")
        if current and not closes and (overshoot > target - length or overshoot > target * (_SLACK - 1)):
            passages.append(("".join(current), length))
            current, length, repeated = [one for one, _ in above], sum(one for _, one in above), len(above)
        current.append(sentence)
        length += size
        if not above and _BELOW_HEAD.fullmatch(sentence) and last[0].startswith("|") and last[1] <= target * _SCRAP:
            head = [last, (sentence, 0)]
        last = sentence, size
    if passages and length <= target * _SCRAP:
        before, size = passages.pop()
        current, length = [before, *current[repeated:]], size + length
    passages.append(("".join(current), length))
    return [passage for passage in (one.strip() for one, _ in passages) if passage]


def _cut(sentence: str, target: int) -> Iterator[tuple[str, int]]:
    """A sentence and its length; one that is too long is cut between words, a 'word' of over 100 letters inside it."""
    start = length = 0
    if (size := text_length(sentence)) <= target * _SLACK:
        yield sentence, size
        return
    for unit in _UNIT.finditer(sentence):
        size = text_length(unit.group())
        if length + size > target:
            yield sentence[start : unit.start()], length
            start, length = unit.start(), 0
        length += size
    yield sentence[start:], length


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, each with a space, or with the end of its line in items, tables and code."""
    yield from (sentence for sentence, _ in _fenced_sentences(text))


def code_of(lines: Iterable[str]) -> Iterator[int]:
    """Of each line, the number of that which opens the code it is in, up to the end where it is cut; 0 outside code."""
    opened, fence = 0, ""
    for number, line in enumerate(lines, start=1):
        bare = line.strip()
        if not fence:
            fence = found[1] if (found := _FENCE.match(bare)) else ""
            opened = number if fence else 0
        elif bare.startswith(fence) and not bare.strip(fence[0]):
            fence = ""
        yield opened


def _fenced_sentences(text: str) -> Iterator[tuple[str, str]]:
    """The sentences of a text, of which each line of code is one; with it comes the fence above it."""
    rows, prose = text.split("\n"), list[str]()
    for number, (row, begun) in enumerate(zip(rows, code_of(rows), strict=True), start=1):
        if not begun:
            prose.append(f"{row}\n")
        elif row.strip():
            yield from ((sentence, "") for sentence in _prose_sentences("".join(prose), "\n"))
            prose = []
            yield f"{row.rstrip()}\n", "" if number == begun else f"{rows[begun - 1].rstrip()}\n"
    yield from ((sentence, "") for sentence in _prose_sentences("".join(prose), " "))


def _prose_sentences(text: str, end: str) -> Iterator[str]:
    items: list[tuple[str, bool]] = []
    for paragraph in _PARAGRAPHS.split(text):
        found = list(filter(None, _ITEMS.split(paragraph)))
        items += [(item, place == len(found)) for place, item in enumerate(found, start=1)]
    for (item, is_last), (following, _) in itertools.pairwise([*items, ("", False)]):
        line = _unwrapped(item)
        apart = following and (LISTED.match(item) or (is_last and not _ENDED.search(line)))
        whole = line + ("\n" if LISTED.match(following) else "\n\n" if apart else " " if following else end)
        start = 0
        # A row of a table is one sentence, whatever its cells say.
        row = line.startswith("|") and line.endswith("|")
        turn = _STAMPED.match(line) and text_length(line) <= _TURN * WORD_LENGTH
        for mark in () if row or turn else _END.finditer(whole):
            if mark.end() < len(line) and _ends(whole, mark):
                yield whole[start : mark.end()]
                start = mark.end()
        if line:
            yield whole[start:]


def _unwrapped(item: str) -> str:
    """An item on a line, without spaces where a text that has none was wrapped."""
    if item.isascii():
        return one_line(item)
    lines = [one_line(line) for line in item.split("\n")]
    pairs = itertools.pairwise(lines)
    spaces = ["" if len(one) >= _FULL and _GOES_ON.fullmatch(one[-1:] + other[:1]) else " " for one, other in pairs]
    return one_line("".join(itertools.chain(*zip(lines, [*spaces, ""], strict=True))))


def stripped_sentences(text: str) -> list[str]:
    """The sentences of a text without the space around them; see `sentences`."""
    return [sentence.strip() for sentence in sentences(text)]


def without_stop(text: str) -> str:
    """A text without the stop at its end, but for that of an abbreviation: “Acme Inc.” and “the U.S.” keep theirs."""
    bare = text.removesuffix(".").removesuffix("。")
    word = bare[bare.rfind(" ") + 1 :].lstrip(_OPENING)
    initials = _INITIALS.fullmatch(word) and ("." in word or (len(word) == 1 and bare[-3:-1] == ". "))
    open_ended = not word or word.endswith((".", "。")) or initials or word.lower() in _ABBREVIATIONS | _TITLES
    return text if open_ended else bare


def _ends(line: str, mark: re.Match[str]) -> bool:
    """Whether a sentence ends with a mark and what follows it belongs to another."""
    marks, following = mark.group(1, 2)
    if marks is None:
        return True
    if following[:1].islower():
        return False
    if marks != ".":
        return True
    word = line[line.rfind(" ", 0, mark.start()) + 1 : mark.start()].lstrip(_OPENING).lower()
    if word in _TITLES or (word in _BEFORE_NUMBERS and following[:1].isdigit()):
        return False
    open_ended = (
        word in _ABBREVIATIONS
        or (word.isdigit() and len(word) <= _ORDINAL)
        or ((len(word) == 1 or "." in word) and _INITIALS.fullmatch(word) is not None)
    )
    if not open_ended:
        return True
    # "J. A. Smith": an initial may look like a word that begins a sentence.
    initial = len(following) == 1 and line[mark.end(2) : mark.end(2) + 1] == "."
    return not initial and following.lower() in _STARTERS
