"""What the readers share: opening, bounds, decoding, and long records."""

import codecs
import csv
import gzip
import io
import json
import os
import re
import signal
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeVar, cast

from keqa.errors import InputError
from keqa.retrievers.base import Notice, Passage
from keqa.retrievers.splitting import split_text
from keqa.retrievers.text import WORD_LENGTH, clean_text, one_line, text_length
from keqa.storage.untrusted import MAX_LINE, MissingFileError, open_regular

MAX_DOCUMENT: Final = 256 << 20
"""The most bytes of one document, unpacked."""

MOST_TEXT: Final = 256 << 20
"""The most characters of the passages of a document."""

SMALL: Final = 32 << 20
"""What unpacks to no more bytes is no bomb."""

DENSEST: Final = 200
"""So many times its size what is packed unpacks to at most: texts pack ten to one, a bomb a thousand to one."""

LONGEST_TITLE: Final = 500
"""The most characters of a title: it is repeated in every passage of a document."""

DELIMITERS: Final = ",;\t|"
"""What parts the cells of CSV files."""

CODE: Final = tuple(
    """
    .bash .bat .bib .c .cc .cfg .cmake .conf .cpp .cs .dart .go .gradle .graphql .h .hpp .hs .ini .java .jl .js .jsx .kt
    .log .lua .m .mjs .php .pl .properties .proto .ps1 .py .pyi .r .rb .rs .scala .sh .sql .swift .tf .toml .ts .tsx
    .vue .xml .yaml .yml
    """.split()
)
"""The suffixes of source code, configuration and logs."""

PROSE: Final = tuple(
    """
    .adoc .csv .docx .eml .epub .htm .html .ics .ipynb .markdown .mbox .md .mht .mhtml .odt .ods .org .pdf .pptx .rst
    .rtf .srt .tex .txt .vcf .vtt .xlsm .xlsx
    """.split()
)
"""The suffixes of all other documents."""

DOCUMENTS: Final = (*PROSE, *CODE)
"""The suffixes of documents, of which `keqa.retrievers.readers.formats` reads each."""

_WITHOUT_SUFFIX: Final = {
    **dict.fromkeys("authors changelog changes copying licence license news notice readme".split(), ".txt"),
    **dict.fromkeys("dockerfile jenkinsfile makefile".split(), ".cfg"),
}

READ_ERRORS: Final = (OSError, EOFError, zlib.error)
"""What reading a file raises that is damaged, cut off or on a failing disk, packed ones included."""

_Line = TypeVar("_Line", str, bytes)


class _Opened(threading.local):
    stream: BinaryIO | None = None


opened: Final = _Opened()
"""Its `stream` is the file that this thread opened last, so that somebody sees how far it was read."""

# A record up to this length is somebody's passage and is kept whole (the longest paragraph of the shared corpora has
# 1,535 words); beyond it, ten retrieved ones would overflow most models.
RECORD_WORDS = 2000

_SEPARATOR = re.compile(rf'"?sep=([{DELIMITERS}])"?')

_BOMS = {
    (codecs.BOM_UTF8,): "utf-8-sig",
    (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE): "utf-32",
    (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE): "utf-16",
}

# The encodings that pages and messages name, each with the one that browsers read it as; others can take any time.
_ENCODINGS: Final = {
    **{name: name for name in ("utf-8", "gb18030", "big5hkscs", "euc_jp", "iso2022_jp", "koi8-r", "koi8-u", "cp866")},
    **{name: name for name in (*(f"cp{number}" for number in (*range(1250, 1259), 874, 932, 949)), "mac-roman")},
    **{name: name for name in (f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16))},
    **{"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874"},
    **{"gbk": "gb18030", "gb2312": "gb18030", "big5": "big5hkscs", "shift_jis": "cp932", "euc_kr": "cp949"},
}

# So many bytes distinguish text from anything else, as for git and grep.
_HEAD = 8192
_CHUNK, _PIECE = 1 << 16, 1 << 20
_MAGIC = {
    (b"%PDF-",): "a PDF",
    (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"): "an office document or another archive",
    (b"\x89PNG\r\n", b"GIF87a", b"GIF89a", b"\xff\xd8\xff"): "a picture",
    (b"\x7fELF",): "a program",
    (b"\x1f\x8b", b"BZh91AY&SY", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf"): "packed",
    (b"SQLite format 3",): "a database",
}
# All but tab, line ends, backspace, form feed and escape, which old texts and logs have.
_CONTROL = bytes({*range(32), 127} - {8, 9, 10, 11, 12, 13, 27})
_CONTROL_SHARE = 0.05

# So much of a text shows what it is in.
_SAMPLE: Final = 200_000
# The letters beyond ASCII in languages that Windows-1252 is for, as a share of all letters: French and German have less
# than a tenth. In another alphabet that is read as Windows-1252 nearly all of them are.
_WESTERN_SHARE: Final = 0.3
_CHINESE_SHARE: Final = 0.7
_KANA_SHARE: Final = 0.15
# Those that are still met, by their script; a list, because what resembles one of them is often also some encoding that
# nobody has used for decades.
_OTHERS: Final = (
    *("gb18030", "big5", "cp932", "euc_jp", "cp949"),
    *("cp1251", "koi8_r", "cp866", "cp1253", "cp1255", "cp1256", "cp1250", "cp874"),
)
_BEYOND_ASCII: Final = bytes(range(128, 256))
# A few bytes look like many things.
_EVIDENCE: Final = 8
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

limits: list[float] = []
"""In the process that reads: seconds of a processor that a document may take, and as many more for each MB of it."""


def allow(unpacked: int) -> None:
    """Say how many bytes the document unpacks to: its time begins anew, in the process beside (not on Windows)."""
    if limits and hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, max(limits[0] + limits[1] * unpacked / 1e6, 0.001))


class UnreadError(InputError):
    """One file cannot be read, which is no reason to stop where it is one of many; its reason is what it counts as."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class RefusedError(Exception):
    """A document is not what its name says, or more than is read: as what it counts, and why, without its name."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def plain_suffix(path: Path) -> str:
    """The suffix that names the format, in lower case and without ``.gz``; that of text for ``README`` and the like."""
    name = path.name.lower().removesuffix(".gz")
    return _WITHOUT_SUFFIX.get(name, Path(name).suffix)


def plain_stem(path: Path) -> str:
    return Path(path.name[:-3] if path.name.lower().endswith(".gz") else path.name).stem


def open_binary(path: Path) -> io.BufferedReader:
    """Open a regular file, unpacking ``.gz``. A pipe or device is refused, not waited for."""
    try:
        stream = open_regular(path, links=True, error=InputError)
    except MissingFileError as error:
        raise InputError(f"{path} cannot be read: there is no such file") from error
    opened.stream = stream
    if path.name.lower().endswith(".gz"):
        return io.BufferedReader(_UnpackedFile(stream, path), _CHUNK)
    return cast(io.BufferedReader, stream)


class _UnpackedFile(io.RawIOBase):
    """The content of a packed file, which is closed with it; no more than texts pack to."""

    def __init__(self, packed: BinaryIO, path: Path) -> None:
        self._packed, self._path, self._size = packed, path, 0
        self._content = gzip.GzipFile(fileobj=packed, mode="rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._content.read1(min(len(buffer), _CHUNK))
        buffer[: len(block)] = block
        self._size += len(block)
        if self._size > SMALL and self._size > DENSEST * os.fstat(self._packed.fileno()).st_size:
            raise UnreadError("too large", f"{self._path} unpacks to over {DENSEST} times its size: unpack it first")
        return len(block)

    def close(self) -> None:
        try:
            self._content.close()
            super().close()
        finally:
            self._packed.close()


def read_whole(path: Path, limit: int) -> bytes:
    data = bytearray()
    with open_binary(path) as stream:
        try:
            # A stream that is asked for all of it at once makes room for that first.
            while len(data) <= limit and (piece := stream.read(min(_PIECE, limit + 1 - len(data)))):
                data += piece
        except READ_ERRORS as error:
            raise InputError(f"{path} cannot be read: {error}") from error
    if len(data) > limit:
        raise UnreadError("too large", f"{path} has more than {_size(limit)}, the most that is read: divide it")
    return bytes(data)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a UTF-8 file, or one that begins with a byte order mark, line end included."""
    with open_binary(path) as stream:
        encoding = None
        try:
            encoding = bom_encoding(stream.peek(4))
            if encoding in ("utf-16", "utf-32"):
                wide = io.TextIOWrapper(stream, encoding, newline="\n")
                yield from enumerate(_bounded(path, lambda: wide.readline(MAX_LINE + 1)), start=1)
                return
            for number, line in enumerate(_bounded(path, lambda: stream.readline(MAX_LINE + 1)), start=1):
                yield number, _decode_line(path, number, line)
        except UnicodeError as error:
            raise InputError(f"{path} begins as {encoding} but is not: {error}") from error
        except READ_ERRORS as error:
            raise InputError(f"{path} cannot be read: {error}") from error


def _bounded(path: Path, read: Callable[[], _Line]) -> Iterator[_Line]:
    number = 0
    while line := read():
        number += 1
        if len(line) > MAX_LINE:
            raise InputError(f"{path}, line {number}: longer than {_size(MAX_LINE)}, the most that is read")
        yield line


def _size(count: int) -> str:
    return f"{count >> 20:,} MiB" if count >= 1 << 20 else f"{count:,} bytes"


def _decode_line(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number}: {not_utf8(error)}") from error


def not_utf8(error: UnicodeDecodeError) -> str:
    """What is wrong with a file that has to be in UTF-8, and what to do."""
    return f"not UTF-8 ({error.reason}); convert the file to UTF-8 first"


def bom_encoding(head: bytes) -> str | None:
    """The encoding that a byte order mark stands for."""
    return next((encoding for marks, encoding in _BOMS.items() if head.startswith(marks)), None)


def decode(data: bytes, name: str, notice: Notice) -> str:
    """Decode a text file: UTF-8, what its byte order mark says, or else what it looks like, with a notice."""
    marked = bom_encoding(data)
    try:
        return data.decode(marked or "utf-8")
    except UnicodeDecodeError:
        if marked not in (None, "utf-8-sig"):
            raise _undecodable(name, f"it begins as {marked} but is not") from None
    if repaired := mostly_utf8(data):
        text, wrong = repaired
        notice(f"{name} is UTF-8 except at {wrong:,} places, which were replaced")
        return text
    encoding = guess_encoding(data)
    try:
        text = data.decode(encoding or "ascii")
    except UnicodeDecodeError:
        raise _undecodable(name, "it is neither UTF-8 nor in another encoding that is known") from None
    notice(f"{name} is not UTF-8; it was read as {encoding}")
    return text


def decode_declared(data: bytes, declared: str) -> str | None:
    """A text in the encoding that it is said to be in, where that is known and true."""
    with suppress(LookupError, ValueError):
        return data.decode(_ENCODINGS[codecs.lookup(declared).name])
    return None


def _undecodable(name: str, why: str) -> UnreadError:
    return UnreadError("in an unknown encoding", f"{name} cannot be decoded: {why}; convert it to UTF-8 first")


def csv_reader(lines: Iterable[str], delimiter: str, *, strict: bool = False, quoted: bool = True) -> Any:
    """Parse CSV, with cells as long as a line may be: the module's own limit is less than an article."""
    if csv.field_size_limit() < MAX_LINE:
        csv.field_size_limit(MAX_LINE)
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    return csv.reader(lines, delimiter=delimiter, strict=strict, quoting=quoting)


def csv_rows(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str] | InputError]]:
    """The cells of each row, but blank ones, with the line that it begins on; a malformed row is its error."""
    reader = csv_reader(lines, delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            last = f", up to line {reader.line_num}" if reader.line_num > number else ""
            yield number, InputError(f"malformed CSV ({error}){last}")
            continue
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield number, cells


def malformed(error: Exception) -> str:
    """What is wrong with some JSON: its form, its depth, or a number of thousands of digits."""
    if isinstance(error, json.JSONDecodeError):
        return f"malformed JSON ({error.msg.removesuffix(' at')} at column {error.colno})"
    return f"malformed JSON ({error})"


def csv_delimiter(first_line: str) -> tuple[str, bool]:
    """What parts the cells of a CSV file: commas, semicolons, tabs or bars; and whether its first line says so."""
    named = _SEPARATOR.fullmatch(first_line.strip(" \r\n"))
    return (named[1], True) if named else (max(DELIMITERS, key=first_line.count), False)


def refuse_binary(data: bytes, path: Path) -> None:
    """Refuse what a text file's name does not make text: programs, pictures, archives."""
    head = data[:_HEAD]
    if bom_encoding(head) in ("utf-16", "utf-32"):
        return
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    control = len(head) - len(head.translate(None, _CONTROL))
    if kind is None and b"\0" in head:
        kind = "binary: it has NUL bytes (text in UTF-16 needs its byte order mark)"
    elif kind is None and control > _CONTROL_SHARE * len(head):
        kind = "binary: much of it is control characters"
    if kind is not None:
        raise UnreadError("binary", f"{path} is no text but {kind}")


def record_passages(identifier: str, title: object, text: object) -> Iterator[Passage]:
    """Yield a record as one passage; one of over 2,000 words as several with ``#n`` ids; an empty one not at all."""
    heading = one_line(clean_text(title))[:LONGEST_TITLE]
    body = clean_text(text).strip()
    if not body:
        return
    # No character counts as more than a word, so most texts need not be measured.
    if len(body) <= RECORD_WORDS or text_length(body) <= RECORD_WORDS * WORD_LENGTH:
        yield Passage(identifier, heading, body)
    else:
        pieces = enumerate(split_text(body), start=1)
        yield from (Passage(f"{identifier}#{number}", heading, piece) for number, piece in pieces)


def mostly_utf8(data: bytes) -> tuple[str, int] | None:
    """The text of a file in UTF-8 with a few bytes that are not: cut off, or put together from several."""
    text = data.decode("utf-8", errors="replace")
    wrong = text.count(_REPLACEMENT) - data.count(_REPLACEMENT.encode())
    right = len(text) - len(text.encode("ascii", "ignore")) - wrong
    return (text, wrong) if right > wrong else None


def guess_encoding(data: bytes) -> str | None:
    """The likely encoding of what is not in UTF-8: GB 18030, EUC-JP, Windows-1252, or what charset-normalizer finds."""
    with suppress(UnicodeDecodeError):
        # Both bytes of a common Chinese character are above 0xA0; accented letters mostly stand between plain ones.
        text = data.decode("gb18030")[:_SAMPLE]
        wide = [character.encode("gb18030") for character in text if character > "\x7f"]
        if wide and sum(len(code) == 2 and min(code) > 0xA0 for code in wide) >= _CHINESE_SHARE * len(wide):
            # Kana have the same bytes in Japanese, where every sentence has some.
            kana = sum("\u3041" <= character <= "\u30fe" for character in text)
            return "gb18030" if kana < _KANA_SHARE * len(wide) else _of_kana(data)
    with suppress(UnicodeDecodeError):
        letters = list(filter(str.isalpha, data.decode("cp1252")[:_SAMPLE]))
        if sum(letter > "\x7f" for letter in letters) <= _WESTERN_SHARE * len(letters):
            return "cp1252"
    if len(data) - len(data.translate(None, _BEYOND_ASCII)) < _EVIDENCE:
        return None
    from charset_normalizer import from_bytes

    # No character is cut where the sample ends with a line.
    sample = data if len(data) <= _SAMPLE else data[: data.rfind(b"\n", 0, _SAMPLE) + 1] or data[:_SAMPLE]
    best = from_bytes(sample, cp_isolation=list(_OTHERS)).best()
    return None if best is None else codecs.lookup(best.encoding).name


def _of_kana(data: bytes) -> str:
    """The encoding of Japanese: EUC-JP, also with the ① and ㈱ of Windows, or what Chinese systems write it in."""
    for encoding in ("euc_jp", "euc_jis_2004"):
        with suppress(UnicodeDecodeError):
            data.decode(encoding)
            return encoding
    return "gb18030"
