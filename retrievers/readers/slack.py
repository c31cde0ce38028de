"""A day of a channel as Slack exports it: ``general/2024-05-31.json``, below the ``users.json`` of those who speak."""

import html
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from keqa.retrievers.base import Notice
from keqa.retrievers.readers.common import RefusedError, decode, malformed, read_whole
from keqa.retrievers.readers.document import ReadDocument, ReadSection
from keqa.retrievers.text import one_line

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d\.json")
_LARGEST: Final = 64 << 20
# A person, a channel, all who are there, or an address, and what is shown for it.
_LINK: Final = re.compile(r"<([@#!]?)([^<>|]+)(?:\|([^<>]*))?>")
_NOTHING_SAID: Final = ("channel_join", "channel_leave")


def is_slack_day(path: Path) -> bool:
    return _DAY.fullmatch(path.name) is not None and (path.parent.parent / "users.json").is_file()


def read_slack(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """What is said, in lines that begin with the time (UTC) and the speaker."""
    users = path.parent.parent / "users.json"
    try:
        names = _names(users, users.stat().st_mtime_ns)
        said = [_said(one, names) for one in json.loads(decode(data, str(path), notice))]
    except (ValueError, RecursionError) as error:
        raise RefusedError("damaged", malformed(error)) from error
    except (TypeError, KeyError, AttributeError, OverflowError) as error:
        raise RefusedError("damaged", f"it is no day of an export of Slack's ({type(error).__name__})") from error
    return ReadDocument(f"#{path.parent.name}", [ReadSection("\n".join(filter(None, said)))])


# The same for all days of all channels.
@lru_cache(maxsize=1)
def _names(users: Path, changed: int) -> Mapping[str, str]:
    people = json.loads(read_whole(users, _LARGEST))
    return {one["id"]: _name({**(one.get("profile") or {}), **one}) for one in people}


def _name(person: Mapping[str, Any]) -> str:
    return str(person.get("real_name") or person.get("display_name") or person.get("name") or "")


def _said(message: Mapping[str, Any], names: Mapping[str, str]) -> str:
    if message.get("subtype") in _NOTHING_SAID:
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
    time = datetime.fromtimestamp(float(message["ts"]), UTC)
    return f"[{time:%Y-%m-%d %H:%M}] {who or message.get('username') or by}: {one_line(text)}" if text.strip() else ""
