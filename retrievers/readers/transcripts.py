"""What is said: subtitles and transcripts of meetings (WebVTT, SubRip), and a day of a channel as Slack exports it.

Such a day is ``general/2024-05-31.json``, below the ``users.json`` of those who speak.
"""

import html
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from keqa.retrievers.base import Notice
from keqa.retrievers.readers.common import SMALL, decode, read_whole
from keqa.retrievers.readers.document import ReadDocument, ReadSection
from keqa.retrievers.text import WORD_LENGTH, one_line, text_length

_BLANK: Final = re.compile(r"\n\s*\n")
_TIME: Final = re.compile(r"\s*((?:\d{1,3}:)?\d\d:\d\d)[.,]\d{3}\s+-->")
_SPEAKER: Final = re.compile(r"<v(?:\.[^\s>]*)?\s([^>]{1,100})>|([^\W\d_][\w .'’()-]{0,40}):\s")
_MARKS: Final = re.compile(r"<[^<>]*>|\{\\[^{}]*\}")
# What one speaker says is a line up to so many words.
_MOST: Final = 40 * WORD_LENGTH

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d\.json")
# A person, a channel, all who are there, or an address, and what is shown for it.
_LINK: Final = re.compile(r"<([@#!]?)([^<>|]+)(?:\|([^<>]*))?>")


def read_captions(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """What is said, in lines that begin with the time and, where that is known, with the speaker."""
    said: list[tuple[str, str]] = []
    before: set[str] = set()
    for block in _BLANK.split(decode(data, str(path), notice).replace("\r\n", "\n")):
        lines = block.strip().split("\n")
        # A number or a name may stand above the time.
        place, time = next(((at, one[1]) for at, line in enumerate(lines[:2]) if (one := _TIME.match(line))), (0, ""))
        if not time:
            continue
        shown = lines[place + 1 :]
        # Captions that roll show a line twice.
        text, before = one_line(" ".join(line for line in shown if line not in before)), set(shown)
        found = _SPEAKER.match(text)
        begun = f"{found[1] or found[2]}: " if found else ""
        text = one_line(html.unescape(_MARKS.sub("", text[found.end() :] if found else text)))
        if said and begun in ("", said[-1][0]) and text_length(said[-1][1] + text) <= _MOST:
            said[-1] = (said[-1][0], f"{said[-1][1]} {text}")
        elif text:
            said.append((begun, f"[{time}] {begun}{text}"))
    return ReadDocument("", [ReadSection("\n".join(line for _, line in said))])


def is_slack_day(path: Path) -> bool:
    return _DAY.fullmatch(path.name) is not None and (path.absolute().parent.parent / "users.json").is_file()


def read_slack(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """What is said, in lines that begin with the time (UTC) and the speaker."""
    users = path.parent.parent / "users.json"
    names = _names(users, users.stat().st_mtime_ns)
    lines = [_line(one, names) for one in json.loads(decode(data, str(path), notice))]
    return ReadDocument(f"#{path.parent.name}", [ReadSection("\n".join(filter(None, lines)))])


# The same for all days of all channels.
@lru_cache(maxsize=1)
def _names(users: Path, changed: int) -> Mapping[str, str]:
    people = json.loads(read_whole(users, SMALL))
    return {one["id"]: _name({**(one.get("profile") or {}), **one}) for one in people}


def _name(person: Mapping[str, Any]) -> str:
    return str(person.get("real_name") or person.get("display_name") or person.get("name") or "")


def _line(message: Mapping[str, Any], names: Mapping[str, str]) -> str:
    if message.get("subtype") in ("channel_join", "channel_leave"):
        return ""

    def shown(link: re.Match[str]) -> str:
        mark, target, label = link.groups()
        if mark:
            return f"{mark.replace('!', '@')}{label or names.get(target) or target}"
        return f"{label} ({target})" if label else target

    beside = [one.get("text") or one.get("fallback") for one in message.get("attachments") or ()]
    files = [f"[{one.get('name')}]" for one in message.get("files") or () if one.get("name")]
    text = html.unescape(_LINK.sub(shown, " ".join(filter(None, [message.get("text"), *beside, *files]))))
    by = str(message.get("user") or "")
    who = names.get(by) or _name(message.get("user_profile") or message.get("bot_profile") or {})
    time = f"{datetime.fromtimestamp(float(message['ts']), UTC):%Y-%m-%d %H:%M}"
    return one_line(f"[{time}] {who or message.get('username') or by}: {text}") if text.strip() else ""
