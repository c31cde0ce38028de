"""The events of a calendar (.ics) and the people of an address book (.vcf), each a record."""

import quopri
import re
from pathlib import Path
from typing import Final

from keqa.retrievers.base import Notice
from keqa.retrievers.readers.common import decode
from keqa.retrievers.readers.document import ReadDocument, ReadSection
from keqa.retrievers.text import one_line

_ENTRIES: Final = ("VEVENT", "VTODO", "VJOURNAL", "VCARD")
_TITLES: Final = ("SUMMARY", "FN")
# What is read of an entry, and under which name; others, such as pictures, are for programs.
_NAMES: Final = {
    **{"DTSTART": "start", "DTEND": "end", "DUE": "due", "RRULE": "repeats", "LOCATION": "location", "URL": "URL"},
    **{"ORGANIZER": "organizer", "ATTENDEE": "attendee", "DESCRIPTION": "description", "CATEGORIES": "categories"},
    **{"TEL": "phone", "EMAIL": "e-mail", "ADR": "address", "ORG": "organization", "TITLE": "position", "ROLE": "role"},
    **{"BDAY": "birthday", "NICKNAME": "nickname", "NOTE": "note"},
}
_FOLDED: Final = re.compile(r"\n[ \t]")
_SOFT_BREAK: Final = re.compile(r"=\n")
_PROPERTY: Final = re.compile(r"(?:[\w-]+\.)?([\w-]+)((?:;(?:\"[^\"]*\"|[^\":;])*)*):(.*)")
_KINDS: Final = re.compile(r";(?:TZID|CN|TYPE)=\"?([^\";]+)|;(CELL|HOME|WORK|FAX)(?=;|$)", re.IGNORECASE)
_TIME: Final = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:T(\d\d):?(\d\d)(?::?\d\d)?(Z?))?")
_ESCAPED: Final = re.compile(r"\\([nN,;:\\])")


def read_cards(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    text = decode(data, str(path), notice).replace("\r\n", "\n")
    text = _FOLDED.sub("", _SOFT_BREAK.sub("", text) if "QUOTED-PRINTABLE" in text.upper() else text)
    sections, within, title, said = list[ReadSection](), [""], "", list[str]()
    for found in filter(None, map(_PROPERTY.fullmatch, map(str.strip, text.split("\n")))):
        name, given, value = found[1].upper(), found[2], found[3]
        if name == "BEGIN":
            within.append(value.upper())
        elif name == "END" and len(within) > 1:
            if within.pop() in _ENTRIES and (title or said):
                sections.append(ReadSection("; ".join(said) or title, title, title=title))
                title, said = "", []
        # What is in an entry, such as its alarm, is none.
        elif within[-1] in _ENTRIES and name in (*_TITLES, *_NAMES):
            if "QUOTED-PRINTABLE" in given.upper():
                value = quopri.decodestring(value.encode()).decode(errors="replace")
            shown = _value(name, value)
            if name in _TITLES:
                title = shown
            elif shown:
                kinds = ", ".join(one or other for one, other in _KINDS.findall(given))
                said.append(f"{_NAMES[name]}: {shown}" + (f" ({kinds})" if kinds else ""))
    return ReadDocument("", sections, records=True)


def _value(name: str, value: str) -> str:
    time = _TIME.fullmatch(value)
    if time and name in ("DTSTART", "DTEND", "DUE", "BDAY"):
        year, month, day, hour, minute, utc = time.groups()
        return f"{year}-{month}-{day}" + (f" {hour}:{minute}" if hour else "") + (" UTC" if utc else "")
    if name in ("ADR", "ORG"):
        value = ", ".join(filter(None, re.split(r"(?<!\\);", value)))
    return one_line(_ESCAPED.sub(lambda one: " " if one[1] in "nN" else one[1], value).removeprefix("mailto:"))
