"""The date of a document as its file's name or its text says it: never that of the file, which a copy changes.

A text says it with words that lead to a date ("as of", "Stand:", "действует с", "截至"), at the beginning of a line or
a clause: what a date in running text is about, nobody can tell.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

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

# What leads to a date by itself, and what does only before a colon.
_CUES: Final = r"""
    as\ (?:of|at) | (?:last\ )?(?:updated|modified|revised|reviewed) | date\ of\ issue | issued | published
    | version\ of | (?:effective|valid|in\ force|applies|applicable)(?:\ date)?(?:\ (?:as\ of|from|since|on))? | status
    | stand(?:\ vom)? | (?:gültig|in\ kraft|wirksam|gilt)\ (?:ab|seit|am) | fassung\ vom
    | (?:zuletzt\ )?(?:aktualisiert|geändert|überarbeitet|veröffentlicht) | letzte\ (?:aktualisierung|änderung)
    | (?:mise?s?\ )?à\ jour | dernière\ mise\ à\ jour | (?:en\ vigueur|valable|applicable)(?:\ (?:depuis|à\ partir))?
    | état | publiée? | version\ d[ue]
    | (?:última\ )?actualizaci[óo]n | actualizad[oa] | (?:vigente|en\ vigor|válid[oa])(?:\ (?:desde|a\ partir))?
    | a\ fecha | publicad[oa] | aggiornat[oa] | in\ vigore(?:\ dal)? | atualizad[oa] | em\ vigor
    | по\ состоянию | действует | действительно | вступа[ею]т\ в\ силу | обновлен[оа]? | последнее\ обновление
    | (?:в\ )?редакци[ия] | опубликован[оа]? | по\ данным
    | 截至 | 截止 | (?:最后)?更新(?:日期|时间|于|日)? | (?:生效|发布|修订|施行|实施|公布)(?:日期|时间|于)? | 自 | 从
    | (?:最終)?更新日?時? | (?:施行|発効|改定|改訂|公開|作成)日 | (?:최종\ )?(?:업데이트|수정일?|개정일?) | 시행일
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
    rf"{_DATE}\s?(?:現在|时点|時点|改定|改訂|施行|修订|起施行|起生效|起执行|起实施|기준|부터 시행)", re.IGNORECASE
)
_TOP: Final = 1500
# Most texts have none of either, which is seen at once.
_ANY_YEAR = re.compile(_YEAR)
_ANY_FOLLOWER = re.compile("[現时時改施修起기부]")
_IN_NAME: Final = (
    re.compile(r"(?<!\d)(?P<y1>(?:19|20)\d\d)[-. ](?P<m1>0[1-9]|1[0-2])(?:[-. ](?P<d1>0[1-9]|[12]\d|3[01]))?(?![\d])"),
    re.compile(r"(?<!\d)(?P<y1>(?:19|20)\d\d)(?P<m1>0[1-9]|1[0-2])(?P<d1>0[1-9]|[12]\d|3[01])(?!\d)"),
    re.compile(r"(?<!\d)(?:" + "|".join(_DATES[number] for number in (1, 2, 4, 5)) + ")", re.IGNORECASE),
)
_ONLY_YEAR = re.compile(r"(?<!\d)(?P<y1>(?:19|20)\d\d)(?!\d)")


def stated_date(text: str) -> str:
    """The latest date that a text says at its beginning, such as ``2024-05-31`` or ``2024-05``; may be empty."""
    top = text[:_TOP]
    if _ANY_YEAR.search(top) is None:
        return ""
    patterns = [_LED, _FOLLOWED] if _ANY_FOLLOWER.search(top) else [_LED]
    found = [_iso(match) for pattern in patterns for match in pattern.finditer(top)]
    return max(found, default="")


def date_in_name(stem: str) -> str:
    """The last date in the name of a file, of a month at least; empty where there is none."""
    name = re.sub(r"[_+\s]+", " ", stem)
    written = (name, name.replace("-", " "))
    found = (_iso(one) for text in written for pattern in _IN_NAME for one in reversed(list(pattern.finditer(text))))
    return next(filter(None, found), "")


def year_in_name(stem: str) -> str:
    """The last year in the name of a file, which says less than what the text does; may be empty."""
    years = _ONLY_YEAR.findall(stem)
    return str(years[-1]) if years else ""


def _iso(match: re.Match[str]) -> str:
    """A date as it is written in ISO 8601; empty where there is no such day."""
    parts = {name[0]: value for name, value in match.groupdict().items() if value is not None and name[1:].isdigit()}
    year, month = int(parts["y"]), parts.get("m", "")
    number = _NUMBERS.get(month.lower(), 0) or (int(month) if month.isdecimal() else 0)
    day = int(parts.get("d", 0))
    if match.groupdict().get("mark") == "/" and day != number:
        if day <= 12 and number <= 12:
            # Of 03/04/2024 nobody knows which is the month.
            return str(year)
        number, day = (day, number) if number > 12 else (number, day)
    try:
        date(year, number or 1, day or 1)
    except ValueError:
        return ""
    return "-".join([str(year), *(f"{one:02}" for one in (number, day) if one)])
