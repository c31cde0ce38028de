"""The reader of each format, among them plain text and Markdown with its front matter, in YAML or TOML.

What stands between two lines of three hyphens is front matter only where it is a list of entries. Those that are not
the title or the date are text of the document, so that its author or another name of it can be found.
"""

import re
import string
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from keqa.retrievers.base import Notice, Passage
from keqa.retrievers.readers.cards import read_cards
from keqa.retrievers.readers.code import read_code, read_notebook
from keqa.retrievers.readers.common import (
    CODE,
    LONGEST_TITLE,
    RefusedError,
    UnreadError,
    decode,
    plain_stem,
    plain_suffix,
)
from keqa.retrievers.readers.document import (
    ReadDocument,
    ReadSection,
    fenced,
    fenced_literals,
    first_heading,
    heading_of,
    iso_date,
    markdown_sections,
    stated_date,
)
from keqa.retrievers.readers.html import read_html
from keqa.retrievers.readers.mail import read_mail, read_mailbox
from keqa.retrievers.readers.office import OFFICE
from keqa.retrievers.readers.pdf import read_pdf
from keqa.retrievers.readers.records import json_passages
from keqa.retrievers.readers.rtf import read_rtf
from keqa.retrievers.readers.tables import read_csv
from keqa.retrievers.readers.transcripts import is_slack_day, read_captions, read_slack
from keqa.retrievers.text import clean_text, one_line

Entries = list[tuple[str, str]]
"""Names and values of entries, in order; what has no name, such as a comment, has an empty one."""

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
# Of code or a comment: where it is no mark of a heading, it would be read as one in Markdown.
_HASHED: Final = re.compile(r"^(?=#{1,6}\s)", re.MULTILINE)
_ORG_TITLE: Final = re.compile(r"^#\+title:(.+)", re.IGNORECASE | re.MULTILINE)
_TEX_LEVELS: Final = {"part": 1, "chapter": 2, "section": 3, "subsection": 4, "subsubsection": 5}
_BRACED: Final = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
_TEX_HEADING: Final = re.compile(rf"\\({'|'.join(_TEX_LEVELS)})\*?(?:\[[^][]*\])?{_BRACED}")
_TEX_HEAD: Final = [re.compile(rf"\\{name}{_BRACED}") for name in ("title", "date")]
_TEX_STYLE: Final = re.compile(r"\\(?:emph|text[a-z]{2})\{([^{}]*)\}")
_TEX_UNSEEN: Final = re.compile(r"(?<!\\)%.*|\\label\{[^{}]*\}")


def front_matter(text: str) -> tuple[str, str, str, str]:
    """Take the front matter off a text: its title, its date, its other entries, and the rest."""
    first, *lines = text.split("\n")
    fence = first.rstrip()
    end = next((number for number, line in enumerate(lines) if line.rstrip() == fence), None)
    front = "\n".join(lines[:end])
    # Of more than is taken for front matter, some YAML and TOML takes time by the square of its length.
    if fence not in ("---", "+++") or end is None or len(front) > _LONGEST:
        return "", "", "", text
    entries = _of_toml(front) if fence == "+++" else _of_yaml(front) or _of_lines(front)
    if entries is None:
        return "", "", "", text
    title = next((value for name, value in entries if name.lower() == "title" and value), "")
    named = {re.sub(r"[ -]", "_", name.lower()): value for name, value in reversed(entries)}
    # As metadata has it, or as people write it.
    dated = (iso_date(named[name]) or stated_date(f"as of {named[name]}") for name in _DATES if name in named)
    date = next(filter(None, dated), "")
    taken = {("title", title), *(("date", value) for _, value in entries if date and iso_date(value) == date)}
    left = [(name, value) for name, value in entries if value and (name.lower(), value) not in taken]
    others = "\n".join(f"{name}: {value}" if name else value for name, value in left)
    return title, date, others, "\n".join(lines[end + 1 :])


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
    return [*entries, *_comments(front, entries)]


def _comments(front: str, entries: Entries) -> Entries:
    """Comments, except one on the title: what follows the # of ``see: issue #5`` is one to YAML and to nobody else."""
    values = "\n".join(value for _, value in entries)
    found = [_COMMENT.search(line) for line in front.split("\n") if not line.lower().startswith("title")]
    texts = [comment[0].strip() for comment in found if comment]
    # One that would be a heading is none here.
    return [("", heading_of(text) or text) for text in texts if text.strip("#") and text not in values]


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
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return _COMMENT.split(value)[0].strip()


def _of_toml(front: str) -> Entries | None:
    try:
        entries = [(name, _text_of(value)) for name, value in tomllib.loads(front).items()]
    except (ValueError, RecursionError):
        return None
    return [*entries, *_comments(front, entries)]


def _text_of(value: Any) -> str:
    if isinstance(value, Mapping):
        parts = [(name, _text_of(inner)) for name, inner in value.items()]
        return "; ".join(f"{name}: {inner}" for name, inner in parts if inner)
    if isinstance(value, list):
        return ", ".join(filter(None, map(_text_of, value)))
    text = str(value).lower() if isinstance(value, bool) else str(value).strip()
    return "" if text in ("~", "null") else text


def read_text(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    return ReadDocument("", [ReadSection(decode(data, str(path), notice))])


def read_markdown(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    text = decode(data, str(path), notice).replace("\r\n", "\n").removeprefix("\ufeff")
    title, date, about, text = front_matter(text)
    sections = markdown_sections(fenced(text))
    return ReadDocument(title or first_heading(sections), sections, front=date, about=about)


def read_rst(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """A text in reStructuredText, of which headings and literal blocks are read and all else is text."""
    sections = markdown_sections(fenced_literals(decode(data, str(path), notice)), dict.fromkeys(string.punctuation, 0))
    return ReadDocument(first_heading(sections), sections)


def read_outline(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """A text of Org mode or in AsciiDoc, of which headings are read and all else is text."""
    mark = "*" if plain_suffix(path) == ".org" else "="
    marked = re.compile(rf"^\{mark}{{1,6}}(?= )", re.MULTILINE)
    text = _HASHED.sub(" ", decode(data, str(path), notice))
    title = _ORG_TITLE.search(text)
    sections = markdown_sections(marked.sub(lambda found: "#" * len(found[0]), text), {})
    return ReadDocument(title[1].strip() if title else first_heading(sections), sections)


def read_tex(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """A text in LaTeX, of which the title, the date and headings are read; all else but comments and labels is text."""
    text = _HASHED.sub(" ", _TEX_UNSEEN.sub("", decode(data, str(path), notice)))
    title, date = (_TEX_STYLE.sub(r"\1", found[1]) if (found := one.search(text)) else "" for one in _TEX_HEAD)
    text = _TEX_HEADING.sub(lambda found: f"\n\n{'#' * _TEX_LEVELS[found[1]]} {one_line(found[2])}\n\n", text)
    sections = markdown_sections(_TEX_STYLE.sub(r"\1", text).replace("~", " "), {})
    return ReadDocument(one_line(title) or first_heading(sections), sections, front=stated_date(f"as of {date}"))


READERS: Final[dict[str, Callable[[bytes, Path, Notice], ReadDocument]]] = {
    **OFFICE,
    **dict.fromkeys(CODE, read_code),
    **dict.fromkeys((".adoc", ".org"), read_outline),
    ".csv": read_csv,
    **dict.fromkeys((".eml", ".mht", ".mhtml"), read_mail),
    ".mbox": read_mailbox,
    **dict.fromkeys((".htm", ".html"), read_html),
    **dict.fromkeys((".ics", ".vcf"), read_cards),
    **dict.fromkeys((".srt", ".vtt"), read_captions),
    **dict.fromkeys((".markdown", ".md"), read_markdown),
    ".ipynb": read_notebook,
    ".pdf": read_pdf,
    ".rst": read_rst,
    ".rtf": read_rtf,
    ".tex": read_tex,
    ".txt": read_text,
}
"""The reader of each suffix of a document."""


def passages_of(data: bytes, path: Path, identifier: str, words: int, notice: Notice) -> tuple[Iterator[Passage], str]:
    """What `keqa.retrievers.readers.beside.read_beside` gives, read by this process."""
    suffix = plain_suffix(path)
    if suffix == ".json" and not is_slack_day(path):
        return json_passages(data, path, notice), ""
    try:
        document = (read_slack if suffix == ".json" else READERS[suffix])(data, path, notice)
    except RefusedError as error:
        kind = {".pdf": "PDF", ".htm": "HTML", ".html": "HTML"}.get(suffix, suffix)
        raise UnreadError(error.reason, f"{path} cannot be read as {kind}: {error}") from error
    title = one_line(clean_text(document.title))[:LONGEST_TITLE] or plain_stem(path).replace("_", " ")
    pieces = enumerate(document.passages(identifier, words), start=1)
    passages = (Passage(f"{identifier}#{number}", own or title, text, place) for number, (own, text, place) in pieces)
    return passages, document.lost
