"""Hostile patterns in twenty formats, at growing sizes: what each KB of them costs in time and in memory.

    python benchmarks/hostile_documents.py [--kb 16] [--only html]

Each pattern is repeated to a size, twice, four and eight times that, and read as `keqa index` reads it. Counted is the
time of a processor, of this process and of the one beside it that reads, and the most memory of the latter. The ratio
is how many times more than eight times as long it took at eight times the size; costs too small to be measured count as
0.02 s. The last line is JSON. Exit code: 0 where no ratio is above 2.5.
"""

import gc
import gzip
import io
import json
import re
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import common
import office_files as files

from keqa.errors import KeqaError
from keqa.retrievers import read_corpus
from keqa.retrievers.readers import beside

GROWTH = (1, 2, 4, 8)
LEAST, MOST_RATIO = 0.02, 2.5
_TICKS = 100
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TABLE = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
_SHEET = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'

Make = Callable[[int], bytes]


def _repeated(unit: str, before: str = "", after: str = "") -> Make:
    return lambda size: (before + unit * (size // len(unit.encode())) + after).encode("utf-8", "surrogatepass")


def _nested(opening: str, closing: str, before: str = "", after: str = "") -> Make:
    pair = len(opening) + len(closing)
    return lambda size: (before + opening * (size // pair) + "x" + closing * (size // pair) + after).encode()


def _with(whole: Callable[[], bytes], part: str, make: Make) -> Make:
    """An archive of which one part is a pattern, not compressed: what it unpacks to is its size."""

    def made(size: int) -> bytes:
        with zipfile.ZipFile(io.BytesIO(whole())) as packed:
            content = {name: packed.read(name) for name in packed.namelist()}
        return files.archive({**content, part: make(size)}, zipfile.ZIP_STORED)

    return made


def pdf_of(objects: list[bytes]) -> bytes:
    """A PDF of objects, numbered from 1; the first is the catalogue."""
    out, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n%b%b" % (len(objects) + 1, table, end)


def _stream(content: bytes) -> bytes:
    return b"<</Length %d>>stream\n%b\nendstream" % (len(content), content)


_FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
_CATALOG, _PAGES = b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
_PAGE = b"<</Type/Page/Parent 2 0 R/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>"
_SHOWN = b"BT /F1 12 Tf 20 700 Td (A harbour.) Tj ET\n"


def _page(make: Make) -> Make:
    return lambda size: pdf_of([_CATALOG, _PAGES, _PAGE, _stream(make(size)), _FONT])


def _same_page(size: int) -> bytes:
    kids = b"<</Type/Pages/Count %d/Kids[%b]>>" % (size // 6, b"3 0 R " * (size // 6))
    return pdf_of([_CATALOG, kids, _PAGE, _stream(_SHOWN * 20), _FONT])


def _deep_pages(size: int) -> bytes:
    depth = size // 60
    nodes = [b"<</Type/Pages/Count 1/Kids[%d 0 R]>>" % (6 + number) for number in range(depth)]
    return pdf_of([_CATALOG, nodes[0], _PAGE, _stream(_SHOWN), _FONT, *nodes[1:], _PAGE])


def _outline(size: int) -> bytes:
    count = size // 60
    entries = [b"<</Title(x)/Dest[3 0 R/Fit]/Next %d 0 R>>" % (8 + number) for number in range(count)]
    catalog = b"<</Type/Catalog/Pages 2 0 R/Outlines 6 0 R>>"
    return pdf_of([catalog, _PAGES, _PAGE, _stream(_SHOWN), _FONT, b"<</First 7 0 R>>", *entries, b"<</Title(x)>>"])


_TEXT: dict[str, Make] = {
    **{f"{unit!r} repeated": _repeated(unit) for unit in (" ", "\n ", ". ", ".", "\"'", "*", "[(", "\x0c\n", "\n- ")},
    **{f"{unit!r} repeated": _repeated(unit) for unit in ("a", "ä", "界", "。", "e\u0301\u0323", "1. ", "A. ", "#")},
    "no line end": _repeated("word "),
    "Latin-1": lambda size: b"caf\xe9 " * (size // 5),
}
_MARKDOWN: dict[str, Make] = {
    **{f"{unit!r} repeated": _repeated(unit) for unit in ("# x\n", "# " + "#" * 50, "```\n", "| a ", "[a](b) ", "> ")},
    "front matter never closed": _repeated("a: b\n", "---\n"),
    "front matter of spaces": _repeated(" ", "---\n\n---", "x"),
    "a title of spaces": _repeated(" ", "---\ntitle: x", "y\n---\n"),
    "a title of quotes": _repeated('"', "---\ntitle: ", "\n---\n"),
    "a heading of spaces": _repeated(" ", "# x", "y"),
    "front matter of lists": _nested("[", "]", "---\na: ", "\n---\nText."),
    "front matter of aliases": _repeated("*a, ", "---\na: &a x\nb: [", "]\n---\nText."),
    "front matter of dotted keys": _repeated("a.", "+++\n", "a = 1\n+++\nText."),
}
_TAGS = "<h1>,<h1>x,<div>,<b><i>x</b>,</p>,<a ,<a b=',<!,<!-- ,<?,<![,&,&#x,<table><tr><td>x,<nav>,<title>,<p>x</p>,< "
_HTML: dict[str, Make] = {
    **{f"{unit} repeated": _repeated(unit) for unit in (*_TAGS.split(","), "<script>", "</script", "<meta ")},
    **{f"{unit} then >": _repeated(unit, after=">") for unit in ("<a ", "<a b='", "<", "<meta charset=")},
    **{f"in {name}": _repeated("a", f'<meta charset="{name}">-') for name in "punycode idna utf-7 puny-code".split()},
    "nested headings": _nested("<h1>", "</h1>"),
    **{f"{unit} repeated": _repeated(unit, "<table><tr>") for unit in ("<tr><td rowspan=999>", "<td colspan=2>")},
    "many attributes": _repeated("a=b ", "<p ", ">x"),
}
_CSV: dict[str, Make] = {
    "lines of quotes": _repeated('"\n', "name,text\nx,y\n"),
    "quotes": _repeated('"', "name,text\nx,y\n"),
    "open quotes": _repeated('"a","b","c\n'),
    "quoted lines": _repeated('"' + "\n" * 30 + '"x,y\n', "name,text\n"),
    "columns": _repeated("a,"),
    "columns, then rows": lambda size: b"a," * (size // 4) + b"\n" + b"x\n" * (size // 4),
    "a long name, then rows": lambda size: b"a" * (size // 2) + b",b\n" + b"x\n" * (size // 4),
    "one cell": _repeated("a"),
    "commas": _repeated(","),
    "semicolons and bars": _repeated(";|\t,\n"),
    "empty lines": _repeated("\n", "a,b\n"),
}
_JSON: dict[str, Make] = {
    "empty lists": _repeated("[],", "[", "1]"),
    "nested lists": _nested("[", "]"),
    "records": _repeated('{"text": "x"},', "[", '{"text": "x"}]'),
    "escapes": _repeated("\\u0041", '[{"text": "', '"}]'),
    "digits": _repeated("9", '[{"text": "x", "id": ', "}]"),
    "keys": lambda size: json.dumps([{"text": "x", **{str(key): 0 for key in range(size // 12)}}]).encode(),
    "never closed": _repeated('{"a":'),
}
_LINES: dict[str, Make] = {
    "records": _repeated('{"text": "x"}\n'),
    "fields": lambda size: b"".join(b'{"text":"x","a%d":0}\n' % number for number in range(size // 24)),
    "empty lines": _repeated("\n", '{"text": "x"}\n'),
    "quoted titles": _repeated('\\"a', '{"text": "', '"}\n'),
}
_TSV: dict[str, Make] = {
    "quotes": _repeated('"', "id\ttext\ttitle\n1\t"),
    "lines in quotes": _repeated("a\n", 'id\ttext\ttitle\n1\t"', '"\tx\n'),
    "columns": _repeated("a\t", "id\ttext\ttitle\t"),
    "rows": _repeated("1\tx\ty\n", "id\ttext\ttitle\n"),
}
_IN_A_PAGE = {"open brackets": "[", "open strings": "(", "dictionaries": "<<", "saved states": "q ", "names": "/A "}
_PDF: dict[str, Make] = {
    "one page again and again": _same_page,
    "pages in pages": _deep_pages,
    "an outline": _outline,
    "texts": _page(_repeated("(a) Tj ", "BT /F1 12 Tf ", " ET")),
    **{name: _page(_repeated(unit)) for name, unit in _IN_A_PAGE.items()},
    "objects without a table": _repeated("1 0 obj\n", "%PDF-1.4\n"),
}
_BODY = (f'<w:document xmlns:w="{_WORD}"><w:body>', "</w:body></w:document>")
_ROWS = (_SHEET, "</sheetData></worksheet>")
_PAGE_OF = ("<html><body>", "</body></html>")
_DOCX = {
    "paragraphs": _repeated("<w:p/>", *_BODY),
    "texts": _repeated("<w:p><w:r><w:t>a</w:t></w:r></w:p>", *_BODY),
    "nested tables": _nested("<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>", *_BODY),
    "attributes": lambda size: b"<a " + b" ".join(b'a%d="x"' % one for one in range(size // 12)) + b"/>",
    "never closed": _repeated("<a>"),
}
_XLSX = {
    "rows": _repeated("<row><c><v>1</v></c></row>", *_ROWS),
    "cells": _repeated("<c><v>1</v></c>", f"{_SHEET}<row>", "</row></sheetData></worksheet>"),
    "formulas": _repeated("<row><c><f>A1</f></c></row>", *_ROWS),
    "nested rows": _nested("<row><c>", "</c></row>", *_ROWS),
}
_EPUB = {
    "headings": _nested("<h1>", "</h1>", *_PAGE_OF),
    "lists": _nested("<ul><li>", "</li></ul>", *_PAGE_OF),
    "paragraphs": _repeated("<p>x</p>", *_PAGE_OF),
}
_OPEN = (f'<b xmlns:table="{_TABLE}"><spreadsheet>', "</spreadsheet></b>")
_ROW_END = "</table:table-row></table:table>"
_ODS = {
    "tables": _nested("<table:table>", "</table:table>", *_OPEN),
    "empty cells": _repeated("<table:table-cell/>", f"{_OPEN[0]}<table:table><table:table-row>", _ROW_END + _OPEN[1]),
}
_CUE = "00:01.000 --> 00:02.000\n"
_NEWER: dict[str, dict[str, Make]] = {
    "js": {f"{unit!r} repeated": _repeated(unit) for unit in ("a", "a(b);", "[a]\n", "````\n")},
    "tex": {f"{unit} repeated": _repeated(unit) for unit in (r"\section[", r"\section{", r"\title{{}", r"\textbf{")},
    "vtt": {
        "marks": _repeated("<v a", _CUE),
        "lines": lambda size: "\n\n".join(
            _CUE + "\n".join(f"{x}{n}" for n in range(size // 14)) for x in "ab"
        ).encode(),
    },
    "rtf": {f"{unit} repeated": _repeated(unit, r"{\rtf1 ") for unit in ("{", r"\'e9a", r"\u233?", r"{\title ")},
    "mbox": {
        f"{unit!r} repeated": _repeated(unit, "From 00:00 2024 ") for unit in ("\n\nFrom 00:00\n", "00:00 ", "\n")
    },
    "ics": {
        f"{unit!r} repeated": _repeated(unit, "BEGIN:VEVENT\nSUMMARY;X=")
        for unit in ("\n ", ";a", '"', "\nBEGIN:VEVENT\nSUMMARY:a", "\nDTSTART:20240101T1")
    },
    "vcf": {
        f"{unit!r} repeated": _repeated(unit, "BEGIN:VCARD\nN;QUOTED-PRINTABLE:")
        for unit in ("=\n", "=41", ";", "\nQ:=")
    },
    "yml": {
        f"{unit!r} repeated": _repeated(unit) for unit in ("password", "token: a1", "\nkey-", "a://b:", 'secret="1')
    },
    "ipynb": {"lists": _repeated("["), "text": _repeated("\\n", '{"cells":[{"cell_type":"raw","source":"', '"}]}')},
}
_DEEP = {"deep properties": _nested("<a>", "</a>")}


def _within(whole: Callable[[], bytes], part: str, patterns: dict[str, Make]) -> dict[str, Make]:
    return {name: _with(whole, part, make) for name, make in patterns.items()}


PATTERNS: dict[str, Make] = {
    f"{suffix}: {name}": make
    for suffix, patterns in {
        **{"txt": _TEXT, "md": _MARKDOWN, "html": _HTML, "csv": _CSV, "json": _JSON, "jsonl": _LINES, "tsv": _TSV},
        "json.gz": {name: lambda size, make=make: gzip.compress(make(size)) for name, make in list(_JSON.items())[:3]},
        **{"pdf": _PDF, **_NEWER},
        "docx": _within(lambda: files.docx(["x"]), "word/document.xml", _DOCX),
        "xlsx": _within(lambda: files.xlsx({"S": [["x"]]}), "xl/worksheets/sheet1.xml", _XLSX),
        "ods": _within(lambda: files.open_document("", ""), "content.xml", _ODS),
        "pptx": _within(lambda: files.pptx([("A", "b")]), "docProps/core.xml", _DEEP),
        "epub": _within(lambda: files.epub("A", "B", "2000", "x"), "a.xhtml", _EPUB),
    }.items()
    for name, make in patterns.items()
}
"""By format and name, what makes about so many bytes of a pattern."""


def cost(path: Path) -> tuple[float, int, str]:
    """The seconds of reading a file, the bytes held by the process that read it, and what became of it."""
    begun, before, process = time.process_time(), _seconds(), beside._BESIDE._process
    if process is not None and process.poll() is None:
        Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    try:
        outcome = f"{len(list(read_corpus([path], notice=lambda text: None))):,} passages"
    except KeqaError as error:
        outcome = str(error).replace("\n", " ").replace(str(path), path.name)
    here, reader = time.process_time() - begun, beside._BESIDE._process
    peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{reader.pid}/status").read_text()) if reader is not None else None
    memory = int(peak[1]) << 10 if peak else beside.MEMORY
    return here + _seconds() - (before if reader is process else 0.0), memory, outcome


def _seconds() -> float:
    if (process := beside._BESIDE._process) is None or process.poll() is not None:
        return 0.0
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def grown(name: str, size: int, folder: Path) -> tuple[float, list[tuple[float, int, str]]]:
    """How many times more than its size a pattern costs when it is eight times as large, and each cost."""
    path = folder / f"x.{name.partition(':')[0]}"
    costs = []
    # No part of it are what is imported for a format, and the garbage of whoever measures.
    gc.disable()
    try:
        for times in (0, *GROWTH):
            path.write_bytes(PATTERNS[name](max(times * size, 100)))
            costs.append(cost(path))
    finally:
        gc.enable()
    first, last = costs[1][0], costs[-1][0]
    return last / max(first, LEAST) / GROWTH[-1], costs[1:]


def main(arguments: list[str] | None = None) -> int:
    options = common.options(__doc__, given=arguments, kb=16, only="")
    worst, chosen = (0.0, ""), [name for name in PATTERNS if name.startswith(options.only)]
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            ratio, costs = grown(name, options.kb << 10, Path(folder))
            seconds, memory, outcome = costs[-1]
            each = 1000 * seconds / (options.kb * GROWTH[-1])
            print(f"{ratio:5.2f}  {each:7.2f} ms/KB  {memory >> 20:5} MiB  {name}: {outcome[:90]}", flush=True)
            worst = max(worst, (ratio, name))
    formats = len({name.partition(":")[0] for name in chosen})
    print(json.dumps({"patterns": len(chosen), "formats": formats, "worst": worst[1], "ratio": round(worst[0], 2)}))
    return int(worst[0] > MOST_RATIO)


if __name__ == "__main__":
    raise SystemExit(main())
