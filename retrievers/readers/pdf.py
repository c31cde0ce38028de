"""PDF: the text of its pages, the headings of its outline, and its title."""

import io
import logging
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keqa.retrievers.base import LONGEST_HEADING, Notice
from keqa.retrievers.readers.common import LONGEST_TITLE, MOST_TEXT, RefusedError, allow
from keqa.retrievers.readers.document import ReadDocument, ReadSection, given_title, iso_date
from keqa.retrievers.text import one_line, plain

_SMALL = "a-zß-ÿа-яё"
_HYPHENATED = re.compile(rf"(?<=[{_SMALL}])[-\xad]\n(?=[{_SMALL}])")
# A page that ends within a sentence or a word, and what of the next one is its end.
_GOES_ON = re.compile(rf"([{_SMALL},;])([-\xad]?)\s*$")
_REST = re.compile(rf"\s*(?=[{_SMALL}])[^.!?…]{{0,400}}[.!?…]+[\"')\]»”]*(?=\s|$)")
# What stands before a heading of the outline in the text: its number.
_NUMBERING = 8
# Outlines of more entries, or deeper ones, are passed over: no reader's table of contents is like that.
_MOST_ENTRIES = 20_000
_DEEPEST = 50
_MOST_ON_PAGE = 100
# As many as Markdown has.
_LEVELS = 6
# So many lines at either end of a page may be its header or footer.
_RUNNING = 3
_NAMED = 10
_MOST_PAGES = 20_000
# What a PDF holds is packed, by about so much.
_PACKED = 10
# A title is set larger than the rest of its page, by as much at least.
_LARGER = 1.2
_SHORTEST_TITLE = 4


def read_pdf(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """The pages of a PDF; its title is the one it states, unless a program made it up, or what is set largest."""
    # It warns of what it finds in a file, in the file's words; what cannot be read is reported below.
    if (log := logging.getLogger("pypdf")).level == logging.NOTSET:
        log.setLevel(logging.CRITICAL)
    from pypdf import PdfReader

    allow(_PACKED * len(data))
    try:
        reader = PdfReader(io.BytesIO(data))
        # Many PDFs are encrypted with an empty password, which only restricts printing.
        if reader.is_encrypted and not reader.decrypt(""):
            raise RefusedError("protected by a password", "it is protected by a password")
        sized: list[tuple[float, str]] = []
        pages = _texts(reader, sized)
        about: Any = reader.metadata or {}
        stated, changed = about.get("/Title"), about.get("/ModDate") or about.get("/CreationDate")
        scanned = [number for number, text in enumerate(pages, start=1) if not text.strip() and _drawn(reader, number)]
    except RefusedError:
        raise
    # A damaged PDF makes the library fail in ways that it does not document; all of them mean the same here.
    except Exception as error:
        raise RefusedError("damaged", str(error)) from error
    title = given_title(stated, _largest(sized))
    named = ", ".join(map(str, scanned[:_NAMED])) + (" and so on" if len(scanned) > _NAMED else "")
    some = f"{path} has pages of pictures without text ({named}): if they are scanned, they need OCR first"
    lost = some if 0 < len(scanned) < len(pages) else ""
    return ReadDocument(title, _sections(pages, _headings(reader)), iso_date(changed), lost=lost)


def _drawn(reader: Any, number: int) -> bool:
    """Whether a page has pictures, or what is drawn as one."""
    resources = reader.pages[number - 1].get("/Resources")
    return resources is not None and "/XObject" in resources.get_object()


def _texts(reader: Any, sized: list[tuple[float, str]]) -> list[str]:
    """The text of each page; where a page is named again there is none."""
    if len(reader.pages) > _MOST_PAGES:
        raise RefusedError("too large", f"it has more than {_MOST_PAGES:,} pages: divide it")
    found: list[str] = []
    known: set[int] = set()
    size = 0
    for number, page in enumerate(reader.pages):
        own = getattr(page.indirect_reference, "idnum", -number)
        found.append("" if own in known else page.extract_text(visitor_text=None if number else _sizes(sized)))
        known.add(own)
        size += len(found[-1])
        if size > MOST_TEXT:
            raise RefusedError("too large", f"it has more than {MOST_TEXT:,} characters: divide it")
    return found


def _sections(pages: list[str], headings: dict[int, list[tuple[str, int]]]) -> list[ReadSection]:
    """The pages, each cut where one of its headings stands; a sentence that goes on is of the page where it begins."""
    sections: list[ReadSection] = []
    heading, level, carried = "", 0, ""
    parted = _parted(pages)
    for number, (top, text, bottom) in enumerate(parted, start=1):
        text = text[len(carried) :]
        following, carried = parted[number][1] if number < len(pages) else "", ""
        if (goes_on := _GOES_ON.search(text)) and (rest := _REST.match(following)):
            carried = rest[0]
            text = text[: goes_on.end(1)] + ("" if goes_on[2] else " ") + carried + "\n"
        levels = dict(on_page := headings.get(number - 1, []))
        for found, part in _under_headings(_HYPHENATED.sub("", top + text + bottom), [one for one, _ in on_page]):
            heading, level = (found, levels[found]) if found else (heading, level)
            sections.append(ReadSection(f"{part}\n", heading, number, level=level))
    return sections


def _parted(pages: list[str]) -> list[tuple[str, str, str]]:
    """Each page with what stands above and below its text and, numbers aside, on another page as well."""
    found = [page.splitlines(keepends=True) for page in pages]
    known = [[re.sub(r"\d+", "", plain(line)) for line in lines] for lines in found]
    counts = Counter(one for lines in known for one in {*lines[:_RUNNING], *lines[-_RUNNING:]})
    parted = []
    for lines, bare in zip(found, known, strict=True):
        apart = [counts[one] > 1 for one in bare]
        top = next((at for at, one in enumerate(apart[:_RUNNING]) if not one), min(_RUNNING, len(lines)))
        below = [*reversed(apart[top:])][:_RUNNING]
        end = len(lines) - next((at for at, one in enumerate(below) if not one), len(below))
        parted.append(("".join(lines[:top]), "".join(lines[top:end]), "".join(lines[end:])))
    return parted


def _under_headings(text: str, headings: Sequence[str]) -> list[tuple[str, str]]:
    """What stands under each heading of a page; one that stands nowhere is that of the page if it has no other."""
    lines = text.splitlines(keepends=True)
    bare = [plain(line) for line in lines]
    parts, begun, above = [], 0, ""
    for heading in headings:
        wanted = plain(heading)
        for place in range(begun, len(lines)):
            line = bare[place]
            if line.endswith(wanted) and len(line) <= len(wanted) + _NUMBERING:
                end = place + 1
            elif wanted == plain(" ".join(bare[place : place + 2])):
                end = place + 2
            else:
                continue
            parts.append((above, "".join(lines[begun:place])))
            # In a line of its own, as the outline has it.
            lines[place:end] = [f"{heading}\n", *[""] * (end - place - 1)]
            begun, above = place, heading
            break
    if not parts and headings:
        above = headings[0]
    return [*(part for part in parts if part[1].strip()), (above, "".join(lines[begun:]))]


def _headings(reader: Any) -> dict[int, list[tuple[str, int]]]:
    """The headings of the outline, with their levels, by page."""
    found: dict[int, list[tuple[str, int]]] = {}
    try:
        waiting = [(entry, 0) for entry in reversed(reader.outline)]
        for _ in range(_MOST_ENTRIES):
            if not waiting:
                break
            entry, depth = waiting.pop()
            if isinstance(entry, list):
                waiting += [(one, depth + 1) for one in reversed(entry)] if depth < _DEEPEST else []
                continue
            number = reader.get_destination_page_number(entry)
            heading = one_line(str(entry.title))[:LONGEST_HEADING]
            if number is not None and number >= 0 and heading:
                on_page = found.setdefault(number, [])
                on_page += [(heading, min(depth + 1, _LEVELS))] if len(on_page) < _MOST_ON_PAGE else []
    # An outline is a help; one that cannot be read takes nothing from the text.
    except Exception:
        return found
    return found


def _sizes(sized: list[tuple[float, str]]) -> Any:
    def visit(text: str, matrix: Any, text_matrix: Any, font: Any, size: Any) -> None:
        if text.strip() and isinstance(size, int | float):
            scale = abs(float(text_matrix[3] or text_matrix[0]) * float(matrix[3] or matrix[0])) or 1.0
            sized.append((round(float(size) * scale, 1), text))

    return visit


def _largest(sized: list[tuple[float, str]]) -> str:
    """What is set larger than the most of a page; empty where nothing is."""
    amounts: Counter[float] = Counter()
    for size, text in sized:
        amounts[size] += len(text)
    if len(amounts) < 2:
        return ""
    (usual, _), largest = amounts.most_common(1)[0], max(amounts)
    title = one_line(" ".join(text for size, text in sized if size == largest))
    return title if largest >= _LARGER * usual and _SHORTEST_TITLE <= len(title) <= LONGEST_TITLE else ""
