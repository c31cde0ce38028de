"""Front matter: the entries about a Markdown document that stand before it, in YAML or TOML.

A line of three hyphens is a horizontal rule as well. So what stands between two of them is front matter only where it
is a list of entries; anything else is text. Of the entries nothing is lost: those that are not the title or the date
are text of the document, so that its author or another name of it can be found.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from keqa.retrievers.readers.dates import stated_date
from keqa.retrievers.readers.document import heading_of, iso_date

Entries = list[tuple[str, str]]
"""Names and values of entries, in order; what has no name, such as a comment, has an empty one."""

# More is taken for text: some YAML and TOML takes time by the square of its length.
_LONGEST: Final = 16 << 10
# Every value as it is written, whatever else it may stand for: `no` is a word, and 1.10 a version. The compiled loader
# ends the process where lists are nested deeply.
_LOADER: Final = yaml.BaseLoader
# What many people write and YAML refuses, as where a title has a colon in it: a name at the beginning of a line.
_ENTRY: Final = re.compile(r"(\w[\w .-]{0,60}):(?:[ \t]+(.*))?")
# What entries call the date of a document; what says when it was changed comes first.
_DATES: Final = """
    updated last_updated lastupdated last_modified lastmod lastmodified modified revised last_reviewed as_of effective
    effective_date effective_from valid_from date datum stand published published_at publish_date pubdate issued created
""".split()
_COMMENT: Final = re.compile(r"(?:^|\s)#.*")


def front_matter(text: str) -> tuple[str, str, str, str]:
    """Take the front matter off a text."""
    first, _, rest = text.partition("\n")
    fence = first.rstrip()
    if fence not in ("---", "+++"):
        return "", "", "", text
    lines = rest.split("\n")
    end = next((number for number, line in enumerate(lines) if line.rstrip() == fence), None)
    if end is None:
        return "", "", "", text
    front, body = "\n".join(lines[:end]), "\n".join(lines[end + 1 :])
    entries = _entries(front, toml=fence == "+++")
    if entries is None:
        return "", "", "", text
    title = next((value for name, value in entries if name.lower() == "title" and value), "")
    named = {re.sub(r"[ -]", "_", name.lower()): value for name, value in reversed(entries)}
    # As metadata has it, or as people write it.
    dated = (iso_date(named[name]) or stated_date(f"as of {named[name]}") for name in _DATES if name in named)
    date = next(filter(None, dated), "")
    taken = [(name, value) for name, value in entries if value and not _is_said(name, value, title, date)]
    others = "\n".join(f"{name}: {value}" if name else value for name, value in taken)
    return title, date, others, body


def _is_said(name: str, value: str, title: str, date: str) -> bool:
    return (name.lower(), value) == ("title", title) or (name.lower() == "date" and iso_date(value) == date != "")


def _entries(front: str, *, toml: bool) -> Entries | None:
    """The entries of a block; None where it is something else."""
    if len(front) > _LONGEST:
        return None
    if toml:
        return _of_toml(front)
    found = _of_yaml(front)
    return _of_lines(front) if found is None else found


def _of_yaml(front: str) -> Entries | None:
    try:
        # A few lines with aliases unfold to gigabytes.
        if "*" in front and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(front, Loader=_LOADER)):
            return None
        top = yaml.compose(front, Loader=_LOADER)
        if not isinstance(top, yaml.MappingNode):
            return None
        # Not as a mapping, where of two entries of one name the first is lost.
        read = yaml.constructor.BaseConstructor().construct_document
        entries = [(_text_of(read(name)), _text_of(read(value))) for name, value in top.value]
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    return [*entries, *_comments(front, [value for _, value in entries])]


def _comments(front: str, values: Iterable[str]) -> Entries:
    """Comments, except one on the title: what follows the # of ``see: issue #5`` is one to YAML and to nobody else."""
    said = "\n".join(values)
    found = [_COMMENT.search(line) for line in front.split("\n") if not line.lower().startswith("title")]
    texts = [comment[0].strip() for comment in found if comment]
    # One that would be a heading is none here.
    return [("", heading_of(text) or text) for text in texts if text.strip("#") and text not in said]


def _of_lines(front: str) -> Entries | None:
    """The entries of a block that is YAML but for some character; their text is the lines as they are."""
    lines = [line for line in front.split("\n") if line.strip()]
    if not lines or not _ENTRY.fullmatch(lines[0]):
        return None
    entries: Entries = []
    for line in lines:
        if entry := _ENTRY.fullmatch(line):
            name, value = entry[1], (entry[2] or "").strip()
            entries.append((name, _title(value) if name.lower() == "title" else value))
        elif line.startswith((" ", "\t", "- ", "#")):
            entries.append(("", line.strip()))
        else:
            return None
    return entries


def _title(value: str) -> str:
    """A title without its comment and its quotes."""
    for quote in ("'", '"'):
        if len(value) > 1 and value.startswith(quote) and value.endswith(quote):
            return value[1:-1]
    comment = _COMMENT.search(value)
    return value[: comment.start()].strip() if comment else value


def _of_toml(front: str) -> Entries | None:
    try:
        found = tomllib.loads(front)
        entries = [(name, _text_of(value)) for name, value in found.items()]
    except (ValueError, RecursionError):
        return None
    return [*entries, *_comments(front, [value for _, value in entries])]


def _text_of(value: Any) -> str:
    if isinstance(value, Mapping):
        parts = [(name, _text_of(inner)) for name, inner in value.items()]
        return "; ".join(f"{name}: {inner}" for name, inner in parts if inner)
    if isinstance(value, list):
        return ", ".join(filter(None, map(_text_of, value)))
    text = str(value).lower() if isinstance(value, bool) else str(value).strip()
    return "" if text in ("~", "null") else text
