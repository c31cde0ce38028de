"""What every reader of documents gives: text in sections that know where they stand, a title and a date.

The date of a document is that which its file's name or its text says: never that of the file, which a copy changes. A
text says it with words that lead to a date ("as of", "Stand:", "действует с", "截至"), at the beginning of a line or a
clause: what a date in running text is about, nobody can tell.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from keqa.retrievers.base import LONGEST_HEADING, Place, placed
from keqa.retrievers.readers.common import LONGEST_TITLE, plain_stem
from keqa.retrievers.splitting import LISTED, code_of, split_text
from keqa.retrievers.text import WORD_LENGTH, clean_text, one_line, text_length

# What programs write where nobody gave a title.
_NO_TITLE = re.compile(
    r"""
    microsoft\ (?:word|excel|powerpoint)\b.* | untitled.* | unbenannt.* | sans\ (?:nom|titre).* | sin\ título.*
    | (?:[无無][标標][题題]|無題|未命名|新建\ ?(?:microsoft|文本|文档)).*
    | (?:document|dokument|documento|presentation|präsentation|présentation|presentación|book|mappe|workbook|slide
        |folie|diapositive?|title|titel|文档|文件|文書|工作簿|活頁簿|演示文稿|簡報|幻灯片|スライド)[\ _-]?\d*
    | (?:powerpoint[\ -])?(?:presentation|präsentation|演示文稿|簡報|プレゼンテーション)
    | (?:présentation|presentación\ de|apresentação\ do|presentazione\ standard\ di)\ powerpoint
    | about:blank | .+\.(?:docx?|pptx?|xlsx?|pdf|odt|rtf|tex|dvi|ps|indd|qxd|pmd|html?)
    """,
    re.IGNORECASE | re.VERBOSE,
)
BELOW: Final = " › "
"""Stands between headings of which one belongs to the other."""
MARKDOWN: Final = {"=": 1, "-": 2}
"""The levels of headings that are underlined."""
_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")
_INDENT: Final = 4
# What opens a literal block of reStructuredText, or one of code.
_LITERAL = re.compile(r"(?!\.\. ).*::|\.\. (?:code|code-block|sourcecode|parsed-literal)::.*")
_TITLED = re.compile(r"(?![#>|+*-]\s?|\d+[.)]\s)[^\n]*\w")
# So much of a section may say of what date it is.
_SECTION_HEAD = 400
# What has no more words goes with the first passage.
_SHORT = 50
_TOP, _TOP_SECTIONS = 4000, 50
_ISO = re.compile(r"(?:D:)?(\d{4})(?:-?(\d{2})(?:-?(\d{2}))?)?")

_MONTHS: Final = (
    "january jan januar jänner janvier janv enero ene gennaio janeiro januari января январь يناير",
    "february feb februar février févr febrero febbraio fevereiro februari февраля февраль فبراير",
    "march mar märz mrz mars marzo março maart марта март مارس",
    "april apr avril avr abril abr aprile апреля апрель أبريل ابريل",
    "may mai mayo maggio maio mei мая май مايو",
    "june jun juni juin junio giugno junho июня июнь يونيو",
    "july jul juli juillet juil julio luglio julho июля июль يوليو",
    "august aug août aout agosto ago augustus августа август أغسطس",
    "september sep sept septembre septiembre settembre setembro сентября сентябрь سبتمبر",
    "october oct oktober okt octobre octubre ottobre outubro октября октябрь أكتوبر",
    "november nov novembre noviembre novembro ноября ноябрь نوفمبر",
    "december dec dezember dez décembre déc diciembre dic dicembre dezembro декабря декабрь ديسمبر",
)
_NUMBERS: Final = {name: number for number, names in enumerate(_MONTHS, start=1) for name in names.split()}
_MONTH = "|".join(sorted(_NUMBERS, key=len, reverse=True))
_YEAR = r"(?:19|20|١٩|٢٠)\d\d"
_DATES: Final = (
    rf"(?P<y1>{_YEAR})\s?[-./]\s?(?P<m1>\d\d?)(?:\s?[-./]\s?(?P<d1>\d\d?))?(?![\d])",
    rf"(?P<y2>{_YEAR})\s?[年년]\s?(?:(?P<m2>\d\d?)\s?[月월]\s?(?:(?P<d2>\d\d?)\s?[日일号]?)?)?",
    rf"(?P<d3>\d\d?)\s?(?P<mark>[-./])\s?(?P<m3>\d\d?)\s?(?P=mark)\s?(?P<y3>{_YEAR})(?!\d)",
    rf"(?P<m4>\d\d?)\s?[./]\s?(?P<y4>{_YEAR})(?!\d)",
    rf"(?:(?P<d5>\d\d?)(?:st|nd|rd|th|er|[.º])?\s(?:of\s|de\s)?)?(?P<m5>{_MONTH})\.?,?\s(?:de\s|of\s)?(?P<y5>{_YEAR})\b",
    rf"(?P<m6>{_MONTH})\.?\s(?P<d6>\d\d?)(?:st|nd|rd|th)?,?\s(?P<y6>{_YEAR})\b",
    rf"(?P<y7>{_YEAR})(?![\d\w])",
)
_DATE = "(?:" + "|".join(_DATES) + ")"
_FULL = "(?:" + "|".join(_DATES[place] for place in (0, 2, 4, 5)) + ")"
_DAY: Final = re.compile(rf"(?<![\w./-]){_FULL}(?![./-]?\d)", re.IGNORECASE)

# What leads to a date by itself, and what does only before a colon.
_CUES: Final = r"""
    as\ (?:of|at) | (?:last\ )?(?:updated|modified|revised|reviewed|changed?|edited)(?:\ time)?
    | date\ of\ issue | issued | published | version\ of
    | (?:effective|valid|in\ force|applies|applicable)(?:\ date)?(?:\ (?:as\ of|from|since|on))? | status
    | stand(?:\ vom)? | (?:gültig|in\ kraft|wirksam|gilt)\ (?:ab|seit|am) | fassung\ vom
    | (?:zuletzt\ )?(?:aktualisiert|geändert|überarbeitet|veröffentlicht) | letzte\ (?:aktualisierung|änderung)
    | (?:mise?s?\ )?à\ jour | dernière\ mise\ à\ jour | (?:en\ vigueur|valable|applicable)(?:\ (?:depuis|à\ partir))?
    | état | publiée? | version\ d[ue]
    | (?:última\ )?actualizaci[óo]n | actualizad[oa] | (?:vigente|en\ vigor|válid[oa])(?:\ (?:desde|a\ partir))?
    | a\ fecha | publicad[oa] | aggiornat[oa] | in\ vigore(?:\ dal)? | atualizad[oa] | em\ vigor
    | по\ состоянию | действует | действительно | вступа[ею]т\ в\ силу | обновлен[оа]? | последнее\ обновление
    | (?:в\ )?редакци[ия] | опубликован[оа]? | по\ данным
    | 截至 | 截止 | (?:最[后後近新終])?(?:更新|修改|编辑|編輯)(?:日期|时间|時間|于|於|日時?)?
    | (?:生效|发布|發布|修订|修訂|施行|实施|實施|公布|印发|制定|版本)(?:日期|时间|時間|于|於|日)?
    | (?:施行|発効|改定|改訂|公開|作成)日 | (?:최종\ )?(?:업데이트|수정일?|개정일?) | 시행일
    | اعتبار[اً]+\ من | (?:آخر|تاريخ)\ (?:تحديث|التحديث|السريان|النشر) | ساري?ة?\ من | حتى\ تاريخ | محدث\ في
"""
_LABELS: Final = r"date | datum | fecha | data | дата | 日期 | 日付 | 날짜 | التاريخ"
_BETWEEN = r"(?:\s?(?:from|since|on|at|of|vom|am|ab|seit|zum|au|du|de|del|le|el|al|a|en|dal|desde|с|на|от|於|于|في)\b)?"
_MARKS = r"[\s*_\#>|]{0,6}"
_LED = re.compile(
    rf"""(?:^|[\n(\[（【,;.:：，。；|*_–—-]){_MARKS}
    (?:(?:{_CUES})[\s:：,*_|]{{0,4}}{_BETWEEN} | (?:{_LABELS})[\s*_]{{0,3}}[:：]){_MARKS}{_DATE}""",
    re.IGNORECASE | re.VERBOSE,
)
_FOLLOWED = re.compile(
    rf"""{_DATE}\s?(?:現在|时点|時点|改定|改訂|施行|修[订訂]|(?:起|より)(?:试行|施行|生效|执行|实施|實施)
    |기준|부터\ 시행|(?:更新|[发發公][布佈]|印发|制定)(?=\s*(?:[)）\]】。]|$)))""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
# Above a letter, where it was written and when.
_PLACE = r"(?-i:[A-ZÀ-Þ][\w.'-]*(?:\ (?:(?:am?|an|bei|de[lr]?|la|les?|of|sur)\b\.?|[A-ZÀ-Þ][\w.'-]*)){0,3})"
_HAS_DAY = r"(?=.*\b\d\d?(?!\d))"
_LETTER = re.compile(rf"^\ *{_PLACE},\ ?{_HAS_DAY}(?:(?:den|le|el|am)\s)?{_FULL}\.?\ *$", re.IGNORECASE | re.MULTILINE)
# A line that has nothing but the version and its day: "Version 4, 2024-11-05", "Rev. 3 (5 May 2024)".
_VERSION = re.compile(
    rf"""^{_MARKS}(?:version[ei]?|versi[óo]n|versão|v|rev(?:isi[oó]n)?|[ée]dition|issue|release|ausgabe|fassung)[.:]?\s?
    \d[\d.]{{0,9}}\s?[,;|(–—-]?\s?(?:(?:of|from|vom|du|de|del)\s)?{_FULL}[).]{{0,2}}[\ *_|]{{0,6}}$""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
# Of Japan and of Taiwan, each with the year before its first.
_ERAS: Final = {"令和": 2018, "平成": 1988, "昭和": 1925, "民國": 1911, "民国": 1911}
_ERA: Final = re.compile(rf"({'|'.join(_ERAS)})\s?(元|\d{{1,3}})(?=\s?年)")
_DATED: Final = 1500
_ANY_YEAR = re.compile(_YEAR)
_ANY_FOLLOWER = re.compile("[現时時改施起修更发發公印制기부]")
_IN_NAME: Final = (
    re.compile(r"(?<!\d)(?P<y1>(?:19|20)\d\d)[-. ](?P<m1>0[1-9]|1[0-2])(?:[-. ](?P<d1>0[1-9]|[12]\d|3[01]))?(?![\d])"),
    re.compile(r"(?<!\d)(?P<y1>(?:19|20)\d\d)(?P<m1>0[1-9]|1[0-2])(?P<d1>0[1-9]|[12]\d|3[01])(?!\d)"),
    re.compile(r"(?<!\d)(?:" + "|".join(_DATES[number] for number in (1, 2, 4, 5)) + ")", re.IGNORECASE),
)
_ONLY_YEAR = re.compile(r"(?<!\d)(?P<y1>(?:19|20)\d\d)(?!\d)")


@dataclass(frozen=True, slots=True)
class ReadSection:
    """A part of a document, with its heading and page or slide; a record has a title, and may have a date.

    `level` is that of the heading, 1 for the outermost, and 0 where headings do not stand below each other.
    """

    text: str
    heading: str = ""
    page: int | None = None
    title: str = ""
    level: int = 0
    date: str = ""


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document as it was read; `sections` are its text in order.

    `date` is when it was last changed, as its properties say; `front` the date that its front matter or the head of a
    message says; `about` is said of it as a whole, such as its author, and stands nowhere in it. Where it is `records`,
    such as rows of a table, its sections have nothing to do with each other and share no passage. `lost` tells the user
    what of it could not be read although the rest could, and what to do.
    """

    title: str
    sections: Sequence[ReadSection]
    date: str = ""
    front: str = ""
    about: str = ""
    records: bool = False
    lost: str = ""

    def passages(self, file: str, words: int) -> Iterator[tuple[str, str, Place]]:
        """Titles (empty where it is the document's), texts and places of its passages, each of one section.

        A heading stands in a line of its own before each passage under it, below those that it belongs to: there may be
        "Holidays" for each country. With nothing under it on its page, it goes with the next.
        """
        cut: list[tuple[str, list[str], ReadSection]] = []
        headings: list[str] = []
        about = clean_text(self.about).strip()
        is_short = text_length(about) <= _SHORT * WORD_LENGTH
        above = [about] if about and is_short else []
        for section, outer in self._nested(() if is_short else (ReadSection(about),)):
            if above and cut and cut[-1][2].page != section.page:
                cut[-1][1].append("\n".join(above))
                above = []
            text = clean_text(section.text)
            heading = "" if self.records else one_line(clean_text(section.heading))
            lead, body = ("", text) if self.records else _lead(text, heading, section.level)
            pieces = split_text(body, words)
            # A page may go on under a heading that stands on an earlier one.
            own = lead or (heading and f"{'#' * (section.level or 1)} {heading}")
            lines = [*(f"{'#' * one.level} {one.heading}" for one in outer), *filter(None, [own])]
            above += [line for line in lines if (lead or pieces) and line not in above]
            headings.append(_path_of([*outer, section]))
            if pieces:
                # The title stands with each passage.
                again = [line for line in lines if heading and heading_of(line) != self.title]
                further = ("\n".join([*again, one]) for one in pieces[1:])
                pieces, above = ["\n".join([*above, pieces[0]]), *further], []
            cut.append((text, pieces, section))
        if above and cut:
            # Headings at the end go with what stands before them.
            same = [pieces for _, pieces, section in cut if pieces and section.page == cut[-1][2].page]
            pieces = same[-1] if same else cut[-1][1]
            pieces[-1:] = ["\n".join([*pieces[-1:], *above])]
        date_of = self._dates(file)
        for (text, pieces, section), heading in zip(cut, headings, strict=True):
            title = one_line(clean_text(section.title))[:LONGEST_TITLE]
            place = placed(
                {"file": file, "page": section.page, "heading": heading, "date": section.date or date_of(text)}
            )
            yield from ((title, piece, place) for piece in pieces)

    def _nested(self, before: Sequence[ReadSection]) -> Iterator[tuple[ReadSection, list[ReadSection]]]:
        """The sections, each with those that its heading stands below, but for one that all others stand below."""
        yield from ((section, []) for section in before)
        first, *rest = [section.level for section in self.sections if section.level] or [0]
        lone = first < min(rest, default=0)
        above: list[ReadSection] = []
        for section in self.sections:
            above = [one for one in above if one.level < section.level]
            outer = above[lone:]
            # They are repeated in every passage.
            while outer and len(_path_of([*outer, section])) > LONGEST_HEADING:
                outer = outer[1:]
            yield section, outer
            above = [*above, section] if section.level else above

    def _dates(self, file: str) -> Callable[[str], str]:
        """What gives the date of a section of some text."""
        stem = plain_stem(Path(file))
        if given := self.front or date_in_name(stem):
            return lambda text: given
        if self.records:
            # What stands above the head of a table is in the heading; a column of dates is not the table's.
            top = next((section.heading for section in self.sections), "")
        else:
            top = "\n".join(section.text[:_TOP] for section in self.sections[:_TOP_SECTIONS])
        whole = stated_date(clean_text(top[:_TOP])) or year_in_name(stem) or self.date
        return lambda text: (not self.records and stated_date(text[:_SECTION_HEAD])) or whole


def _path_of(sections: Sequence[ReadSection]) -> str:
    return BELOW.join(one.heading for one in sections if one.heading)


def _lead(text: str, heading: str, level: int) -> tuple[str, str]:
    """The heading that a section begins with, as a line of Markdown, and the rest; empty where it begins otherwise."""
    text = text.lstrip()
    first, _, rest = text.partition("\n")
    if heading_of(first):
        return one_line(first), rest
    wanted, end = "".join(heading.split()), 0
    # White space may be elsewhere in it there.
    letters = (place for place, one in enumerate(text) if not one.isspace())
    for one in wanted:
        place = next(letters, len(text))
        if text[place : place + 1] != one:
            return "", text
        end = place + 1
    # A heading that goes on, as one that is never closed does, is text.
    ended = wanted and not text[end:].partition("\n")[0].strip()
    return (f"{'#' * (level or 1)} {heading}", text[end:]) if ended else ("", text)


def given_title(*candidates: Any) -> str:
    """The first of some titles that a person gave, and no program; empty where there is none."""
    for candidate in candidates:
        title = one_line(clean_text(str(candidate or "")[: 4 * LONGEST_TITLE]))[:LONGEST_TITLE]
        if title and not _NO_TITLE.fullmatch(title):
            return title
    return ""


def iso_date(given: object) -> str:
    """The date that something begins with, as ``2024-05-31``, ``2024-05`` or ``2024``; empty where it is none."""
    found = _ISO.match(str(given or "")[:40].strip().strip("'\""))
    return "" if found is None else _written(*(int(part or 0) for part in found.groups()))


# Line by line, not by patterns over the whole text: what a pattern may match in several ways, it tries in all of them.
def markdown_sections(text: str, underlines: Mapping[str, int] = MARKDOWN) -> list[ReadSection]:
    """A text in Markdown, cut before each heading, of which underlined ones get hashes; nothing else of it is lost.

    `underlines` has the level of each character that underlines a heading, or 0 where the first that does is highest.
    """
    sections: list[ReadSection] = []
    heading, level = "", 0
    lines: list[str] = []
    rows, levels, place = text.splitlines(keepends=True), {one: own for one, own in underlines.items() if own}, 0
    rules = (_RULE.fullmatch(row.rstrip()) for row in rows)
    marks = [rule[1] if rule and rule[1] in underlines else "" for rule in rules]
    code = list(code_of(rows)) if underlines is MARKDOWN else [0] * len(rows)
    while place < len(rows):
        line, used = rows[place], 1
        if not code[place] and not (place and rows[place - 1].strip()):
            over, *below = marks[place : place + 3]
            over = over if below[1:] == [over] else ""
            title, mark = (rows[place + 1], over) if over else (line, "".join(below[:1]))
            if mark and _TITLED.match(title):
                own = levels.setdefault(mark + over, min(6, len(levels) + 1))
                line, used = f"{'#' * own} {title.strip()}\n", 3 if over else 2
        found = "" if code[place] else heading_of(line)
        if found:
            sections.append(ReadSection("".join(lines), heading, level=level))
            heading, lines, level = found[:LONGEST_HEADING], [], len(line) - len(line.lstrip("#"))
        lines.append(line)
        place += used
    sections.append(ReadSection("".join(lines), heading, level=level))
    return [section for section in sections if section.text]


def fenced(text: str) -> str:
    """A text in Markdown whose code that is only indented stands between fences as well, in an item, too."""
    lines, inside, blank, item = list[str](), False, True, 0
    rows = text.split("\n")
    for line, code in zip(rows, code_of(rows), strict=True):
        indented = not code and _indent(line) >= item + _INDENT
        if line.strip() and (not indented if inside else indented and blank):
            lines += ["```\n"] if inside else ["```"]
            inside = not inside
        if not code and not inside:
            # What an item says begins below the end of its mark.
            mark = LISTED.match(line.expandtabs(_INDENT))
            if mark or line.startswith("[^"):
                item = mark.end() if mark else _INDENT
            elif line[:1].strip() and (blank or heading_of(line)):
                item = 0
        lines.append(line)
        blank = not line.strip()
    return "\n".join([*lines, *["```"] * inside])


def fenced_literals(text: str) -> str:
    """A text in reStructuredText whose literal blocks and code stand between fences."""
    lines, inside, above = list[str](), False, -1
    for line in text.split("\n"):
        if line.strip():
            if inside != (0 <= above < _indent(line)):
                # Directly below a line it would be read as underlining that.
                lines += ["```\n"] if inside else ["\n```"]
                inside = not inside
            if not inside:
                # The text of an item that is opened there continues below the end of its mark.
                item = LISTED.match(line)
                opens = _LITERAL.fullmatch(line.strip())
                above = -1 if opens is None else item.end() if item else _indent(line)
        lines.append(line)
    return "\n".join([*lines, *["```"] * inside])


def _indent(line: str) -> int:
    return len(wide := line.expandtabs(_INDENT)) - len(wide.lstrip())


def heading_of(line: str) -> str:
    """The heading that a line of Markdown is; empty where it is none."""
    level = len(line) - len(line.lstrip("#"))
    if not (1 <= level <= 6 and line[level : level + 1].isspace()):
        return ""
    heading = line[level:].strip()
    # Closing hashes stand after a space: those of C# belong to it.
    bare = heading.rstrip("#")
    return bare.rstrip() if not bare or bare[-1].isspace() else heading


def first_heading(sections: Sequence[ReadSection]) -> str:
    """The heading that a document begins with; none where others stand beside it, below the level of a title."""
    headed = [section for section in sections if section.heading]
    beside = len(headed) > 1 and headed[0].level > 1 and any(one.level == headed[0].level for one in headed[1:])
    return headed[0].heading if headed and not beside else ""


def stated_date(text: str) -> str:
    """The latest date that a text says at its beginning, such as ``2024-05-31`` or ``2024-05``; may be empty."""
    top = _in_our_years(text[:_DATED])
    # Most texts have none of either, which is seen at once.
    patterns = [_LED, _LETTER, _VERSION] if _ANY_YEAR.search(top) else []
    patterns += [_FOLLOWED] if patterns and _ANY_FOLLOWER.search(top) else []
    return max((_iso(match) for pattern in patterns for match in pattern.finditer(top)), default="")


def _in_our_years(text: str) -> str:
    """A text whose years of an era are those of our calendar."""
    return _ERA.sub(lambda found: str(_ERAS[found[1]] + int(found[2].replace("元", "1"))), text)


def date_in_name(stem: str) -> str:
    """The last date in the name of a file, of a month at least; empty where there is none."""
    name = re.sub(r"[_+\s]+", " ", _in_our_years(stem))
    written = (name, name.replace("-", " "))
    found = (_iso(one) for text in written for pattern in _IN_NAME for one in reversed(list(pattern.finditer(text))))
    return next(filter(None, found), "")


def year_in_name(stem: str) -> str:
    """The last year in the name of a file, which says less than what the text does; may be empty."""
    return str(["", *_ONLY_YEAR.findall(stem)][-1])


def dates_in_iso(text: str) -> str:
    """A text with its days as 2024-05-31, as which 31 May 2024 and 05/31/2024 are written, and May 2024 as 2024-05."""

    def written(date: re.Match[str]) -> str:
        found = _iso(date)
        return found if len(found) == len("2024-05-31") or (date["m5"] and found) else date[0]

    return _DAY.sub(written, text)


def _iso(match: re.Match[str]) -> str:
    parts = {name[0]: value for name, value in match.groupdict().items() if value is not None and name[1:].isdigit()}
    month = parts.get("m", "").lower()
    year, day = int(parts["y"]), int(parts.get("d", 0))
    number = _NUMBERS.get(month, 0) or (int(month) if month.isdecimal() else 0)
    if match.groupdict().get("mark") == "/" and day != number:
        if day <= 12 and number <= 12:
            # Of 03/04/2024 nobody knows which is the month.
            return str(year)
        number, day = (day, number) if number > 12 else (number, day)
    return _written(year, number, day)


def _written(year: int, month: int, day: int) -> str:
    """A date as it is written in ISO 8601; empty where there is no such day."""
    try:
        date(year, month or int(not day), day or 1)
    except ValueError:
        return ""
    return "-".join([f"{year:04}", *(f"{one:02}" for one in (month, day) if one)])
