"""Source code, configuration and logs, and notebooks: lines as they are, with those that they belong to."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from keqa.retrievers.base import Notice
from keqa.retrievers.readers.common import RefusedError, decode, plain_suffix
from keqa.retrievers.readers.document import ReadDocument, ReadSection, first_heading, markdown_sections
from keqa.retrievers.splitting import PASSAGE_WORDS
from keqa.retrievers.text import WORD_LENGTH, text_length
from keqa.storage.redaction import SECRET, USER

# Longer than any that code has in it.
_FENCE: Final = "````"
_MOST: Final = PASSAGE_WORDS * WORD_LENGTH
_ENOUGH: Final = _MOST / 2
_TAB: Final = 4
# So many lines that others belong to are repeated, and so many characters of each.
_MOST_ABOVE, _LONGEST_ABOVE = 5, 200
# A password in a handbook is what somebody asks for, and one in configuration opens a door.
_CONFIGURATION: Final = (".bash", ".cfg", ".conf", ".ini", ".properties", ".sh", ".tf", ".toml", ".yaml", ".yml")
# An entry that is called a secret, up to its value: a word without a digit is a label, a default or another entry.
_SECRET: Final = re.compile(
    r"""^([ \t]*(?:export[ ]|-[ ])?["']?[\w.-]*(?:passw(?:or)?d|passphrase|secret|(?:api|access|private|secret)[_-]?key
    |(?<!\w)token|(?:access|api|auth|bot|refresh)[_-]?token|(?-i:[A-Z]_TOKEN))["']?[ \t]*[:=][ \t]*["']?)
    (?=\S*\d)[^\s"'$!*&{<|>~/.]\S{4,}[^\s"',;]""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)


def read_code(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """The lines of a file in parts, each known by the number of its first line."""
    text = decode(data, str(path), notice).removeprefix("\ufeff").replace("\r\n", "\n")
    if plain_suffix(path) in _CONFIGURATION:
        text, users = USER.subn(SECRET, text)
        text, named = _SECRET.subn(rf"\1{SECRET}", text)
        if users + named:
            notice(f"{path}: the values of {users + named:,} passwords, keys or tokens are not read")
    lines = text.split("\n")
    sections = [ReadSection(f"{_FENCE}\n{text}\n{_FENCE}", f"line {number}") for number, text in _parts(lines)]
    return ReadDocument(path.name, sections, records=True)


def _parts(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Parts of about the length of a passage: cut before a new block, or else below the lines that open the block."""
    part: list[str] = []
    above: list[tuple[int, str]] = []
    first = size = 0
    for number, line in enumerate(lines, start=1):
        bare, own = line.strip(), text_length(line)
        indent = len(wide := line.expandtabs(_TAB)) - len(wide.lstrip())
        begins = bool(bare) and not indent and bare[0] not in ")]}" and part and not part[-1].strip()
        if part and (size + own > _MOST or (begins and size >= _ENOUGH)):
            yield first, "\n".join(part).rstrip()
            part, size = [], 0
        if bare and not part:
            outer = [text[:_LONGEST_ABOVE] for of, text in above if of < indent or of < 0][-_MOST_ABOVE:]
            part, first, size = outer, number, sum(map(text_length, outer))
        if bare and bare[0] not in ")]}":
            # A table of TOML or INI is not indented, and holds what follows.
            place = -1 if not indent and bare[0] == "[" and bare[-1] == "]" else indent
            above = [*(one for one in above if one[0] < place), (place, line.rstrip())]
        if bare or part:
            part.append(line)
            size += own
    if part:
        yield first, "\n".join(part).rstrip()


def read_notebook(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """The cells of a Jupyter notebook, with what code printed or gave as text."""
    try:
        cells = json.loads(decode(data, str(path), notice))["cells"]
        texts = [_cell(one) for one in cells]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RefusedError("damaged", f"it is no notebook of version 4 ({type(error).__name__})") from error
    sections = markdown_sections("\n\n".join(filter(str.strip, texts)))
    return ReadDocument(first_heading(sections), sections)


def _cell(cell: Mapping[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return source
    given = (one.get("text") or one.get("data", {}).get("text/plain", "") for one in cell.get("outputs", ()))
    return "\n\n".join(f"{_FENCE}\n{text.rstrip()}\n{_FENCE}" for text in (source, *map("".join, given)) if text)
