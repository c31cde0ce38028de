"""The one reader of files that may come from strangers: saved programs, indexes, run files and what lies beside them.

Nothing that is read here can leave its folder, block, fill the memory or slip past a check by a corner of its format.
What the values mean is checked by whoever asked for them. This module imports nothing heavy, so every room may use it.
"""

from __future__ import annotations

import io
import json
import math
import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from keqa.errors import ConfigurationError, InputError, KeqaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_DEPTH = 32
"""How deeply lists and objects may be nested in a JSON value, where a reader needs no other bound."""

MAX_LINE = 16 << 20
"""How many bytes a line of JSON may have."""

_MAX_NUMBER_CHARS = 64
_BYTES_IN_A_NAME = 255
_CHUNK = 1 << 20
_MOST_REASONS = 3
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    **dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), "a device"),
}


class MissingFileError(InputError, ConfigurationError):
    """There is no file of a name."""


def open_regular(path: str | Path, *, links: bool = False, error: type[KeqaError] = ConfigurationError) -> BinaryIO:
    """Open a regular file for reading, without ever waiting for one end of a pipe or touching a device."""
    path = Path(path)
    try:
        kind = (os.stat if links else os.lstat)(path).st_mode
        _refuse_special(path, kind, error)
        # What was looked at may have been exchanged since, so what is opened is looked at as well.
        flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
        descriptor = os.open(path, flags if links else flags | getattr(os, "O_NOFOLLOW", 0))
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(f"{path} is missing") from None
    except (OSError, ValueError) as problem:
        raise error(f"{path} cannot be read: {problem}") from problem
    stream = os.fdopen(descriptor, "rb")
    try:
        _refuse_special(path, os.fstat(descriptor).st_mode, error)
    except KeqaError:
        stream.close()
        raise
    return stream


def read_file(folder: str | Path, name: str, limit: int, *, error: type[KeqaError] = ConfigurationError) -> bytes:
    """Read a regular file that lies directly in a folder."""
    folder = Path(folder)
    if not _is_plain_name(name):
        raise error(f"{folder} names the file {_shown(name)}: a name within the folder is expected")
    return read_path(folder / name, limit, links=False, error=error)


def read_path(
    path: str | Path, limit: int, *, links: bool = True, error: type[KeqaError] = ConfigurationError
) -> bytes:
    """Read a regular file that the user named, which may be a link to it."""
    content = bytearray()
    with open_regular(path, links=links, error=error) as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            while size <= limit and (chunk := stream.read(min(_CHUNK, limit + 1 - len(content)))):
                content += chunk
                size = len(content)
        except OSError as problem:
            raise error(f"{path} cannot be read: {problem}") from problem
    if size > limit:
        raise error(f"{path} has more than {limit:,} bytes, the most that is read")
    return bytes(content)


def parse_json(
    content: bytes | str, where: str | Path, *, max_depth: int = MAX_DEPTH, error: type[KeqaError] = ConfigurationError
) -> Any:
    """A JSON value, read strictly."""
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        value = json.loads(
            text,
            parse_int=lambda literal: _number(literal, int),
            parse_float=lambda literal: _number(literal, float),
            parse_constant=_not_finite,
            object_pairs_hook=_without_duplicates,
        )
    except RecursionError:
        raise error(f"{where} cannot be read: it is nested too deeply") from None
    except ValueError as problem:
        raise error(f"{where} cannot be read: {problem}") from None
    if deeper_than(value, max_depth):
        raise error(f"{where} cannot be read: it is nested more than {max_depth} levels deep")
    return value


def read_json(folder: str | Path, name: str, limit: int, *, error: type[KeqaError] = ConfigurationError) -> Any:
    return parse_json(read_file(folder, name, limit, error=error), Path(folder) / name, error=error)


def parse_jsonl(
    content: bytes, where: str | Path, *, max_depth: int = MAX_DEPTH, error: type[KeqaError] = ConfigurationError
) -> Iterator[tuple[int, Any]]:
    """The values of JSON lines, each read strictly."""
    # Only a line feed ends a line of bytes; U+2028 and its kind may stand within a string.
    for number, line in enumerate(io.BytesIO(content), start=1):
        if len(line) > MAX_LINE:
            raise error(f"{where}, line {number}, has more than {MAX_LINE:,} bytes, the most that is read")
        if line.strip():
            yield number, parse_json(line, f"{where}, line {number},", max_depth=max_depth, error=error)


def reasons(error: ValueError) -> str:
    """Why a value is refused, in a line: of pydantic's errors the first few, each with the field that it is about."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    problems = errors(include_url=False, include_input=False)[:_MOST_REASONS]
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'line'}: {plain(one['msg'])}" for one in problems)


def plain(message: str) -> str:
    """A message of pydantic's as its validator wrote it: it puts the kind of the error before it."""
    return message.replace("Value error, ", "").replace("Assertion failed, ", "")


def parse_npy(content: bytes, where: str | Path) -> NDArray[np.float32]:
    """Rows of 32-bit floats from a .npy file; its header is checked before anything is allocated by it."""
    import numpy as np
    from numpy.lib import format as npy

    stream = io.BytesIO(content)
    try:
        if (version := npy.read_magic(stream)) != (1, 0):
            raise ValueError(f"format version {version}")
        shape, by_columns, dtype = npy.read_array_header_1_0(stream)
    # The header is a Python literal, by whose corners NumPy raises errors of many kinds.
    except Exception as problem:
        raise ConfigurationError(f"{where} is no array file that can be used: {_shown(str(problem))}") from None
    if dtype != np.dtype("<f4") or by_columns or len(shape) != 2 or min(shape) < 0:
        raise ConfigurationError(f"{where} does not hold rows of 32-bit floats")
    start = stream.tell()
    if len(content) - start != math.prod(shape) * 4:
        raise ConfigurationError(f"{where} has another length than its header says")
    rows = np.frombuffer(content, np.dtype("<f4"), offset=start).reshape(shape).astype(np.float32)
    if not np.isfinite(rows).all():
        raise ConfigurationError(f"{where} holds numbers that are not finite")
    return rows


def _refuse_special(path: Path, mode: int, error: type[KeqaError]) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise error(f"{path} is {kind}; a regular file is expected there")


def _is_plain_name(name: Any) -> bool:
    plain = isinstance(name, str) and name not in ("", ".", "..") and not set(name) & set("/\\:\0")
    return plain and len(name.encode("utf-8", "surrogatepass")) <= _BYTES_IN_A_NAME


def _shown(text: Any) -> str:
    shown = ascii(text)
    return shown if len(shown) <= 100 else f"{shown[:97]}..."


def _number(literal: str, kind: type[int] | type[float]) -> int | float:
    if len(literal) > _MAX_NUMBER_CHARS:
        raise ValueError(f"a number has {len(literal):,} characters")
    value = kind(literal)
    if not math.isfinite(value):
        raise ValueError(f"the number {literal} is too large")
    return value


def _not_finite(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not a number that JSON has")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {_shown(twice)} is there twice")
    return found


def deeper_than(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels + 1):
        layer = [one for one in layer if isinstance(one, dict | list)]
        if not layer:
            return False
        layer = [inner for outer in layer for inner in (outer.values() if isinstance(outer, dict) else outer)]
    return True
