"""The events of a calendar (.ics) and the people of an address book (.vcf), each a record.

No library reads both as they are found: vobject takes seconds for a line of 24 equals signs, twice as many with each
further one, and icalendar refuses a file for a line of vCard 2.1 or an entry that does not end.
"""

import quopri
import re
from pathlib import Path
from typing import Final

from keqa.retrievers.base import Notice
from keqa.retrievers.readers.common import decode, decode_declared
from keqa.retrievers.readers.document import ReadDocument, ReadSection
from keqa.retrievers.text import one_line

# What begins an entry ends one that has no end of its own, as after a bad export.
_ENTRY: Final = re.compile(r"^BEGIN:(VEVENT|VTODO|VJOURNAL|VCARD)[ \t]*$", re.IGNORECASE | re.MULTILINE)
# What is read of an entry, and under which name; others, such as pictures, are for programs.
_NAMES: Final = dict(
    one.split("=")
    for one in """
    SUMMARY=title FN=title N=title DTSTART=start DTEND=end DUE=due DURATION=duration RRULE=repeats EXDATE=except
    STATUS=status LOCATION=location URL=URL ORGANIZER=organizer ATTENDEE=attendee DESCRIPTION=description
    CATEGORIES=categories TEL=phone EMAIL=e-mail ADR=address ORG=organization TITLE=position ROLE=role BDAY=birthday
    NICKNAME=nickname NOTE=note
    """.split()
)
_FOLDED: Final = re.compile(r"\n[ \t]")
_QUOTED: Final = re.compile(r"^[^:\n]*QUOTED-PRINTABLE.*(?:(?<==)\n.*)*", re.IGNORECASE | re.MULTILINE)
_PROPERTY: Final = re.compile(r"(?:[\w-]+\.)?([\w-]+)((?:;(?:\"[^\"]*\"|[^\":;])*)*):(.*)")
_KINDS: Final = re.compile(r";(?:TZID|CN|TYPE)=\"?([^\";]+)|;(CELL|HOME|WORK|FAX)(?=;|$)", re.IGNORECASE)
_CHARSET: Final = re.compile(r"CHARSET=([\w-]+)", re.IGNORECASE)
_TIME: Final = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:T(\d\d):?(\d\d)(?::?\d\d)?)?")
_ESCAPED: Final = re.compile(r"\\([nN,;:\\])|^mailto:", re.IGNORECASE)


def read_cards(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    text = decode(data, str(path), notice).replace("\r\n", "\n")
    text = _FOLDED.sub("", _QUOTED.sub(lambda found: found[0].replace("=\n", ""), text))
    _, *parts = _ENTRY.split(text)
    entries = (_entry(kind.upper(), lines) for kind, lines in zip(parts[::2], parts[1::2], strict=True))
    return ReadDocument("", [entry for entry in entries if entry.text], records=True)


def _entry(kind: str, lines: str) -> ReadSection:
    title, within, values = "", "", list[str]()
    for found in filter(None, map(_PROPERTY.fullmatch, map(str.strip, lines.split("\n")))):
        name, given, value = found[1].upper(), found[2], found[3]
        if name == "END" and value.upper() == kind:
            break
        # What is in an entry, such as its alarm, is none.
        if name in ("BEGIN", "END"):
            within = value if name == "BEGIN" else ""
        elif name in _NAMES and not within and (shown := _value(name, given, value)):
            if _NAMES[name] == "title":
                title = title if name == "N" and title else shown
            else:
                kinds = ", ".join(one or other for one, other in _KINDS.findall(given))
                values.append(f"{_NAMES[name]}: {shown}" + (f" ({kinds})" if kinds else ""))
    return ReadSection("; ".join(values) or title, title, title=title)


def _value(name: str, given: str, value: str) -> str:
    if "QUOTED-PRINTABLE" in given.upper():
        raw, charset = quopri.decodestring(value.encode()), _CHARSET.search(given)
        value = decode_declared(raw, charset[1] if charset else "utf-8") or raw.decode("cp1252", "replace")
    if name in ("DTSTART", "DTEND", "DUE", "BDAY", "EXDATE", "RRULE"):
        # A day that is no end any more, and the year that Apple writes where it is unknown.
        before = "before " if name == "DTEND" and "T" not in value else ""
        value = _TIME.sub(lambda one: "-".join(one.group(1, 2, 3)) + (f" {one[4]}:{one[5]}" if one[4] else ""), value)
        return before + value.removeprefix("1604-").replace("Z", " UTC")
    if name in ("ADR", "ORG", "N"):
        value = ", ".join(filter(None, re.split(r"(?<!\\);", value)))
    return one_line(_ESCAPED.sub(lambda one: " " if one[1] in ("n", "N") else one[1] or "", value))
