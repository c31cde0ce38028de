"""Documents that come by the page: checked, put into the folder that was indexed, and added to the index."""

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.changing import IndexChange, add_files
from keqa.retrievers.readers import passed_over
from keqa.retrievers.readers.common import DOCUMENTS
from keqa.server.limits import ProblemError, log
from keqa.storage.files import atomic_write
from keqa.storage.redaction import visible_line

_LONGEST = 200
"""Bytes that the name of a document may have."""
_DEVICE = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)\d) *(?:\.|$)", re.IGNORECASE)
"""Names that lead to a device on Windows, whatever ending they have."""
_MOST_FILES = 10_000
_AGAIN, _PAUSE = 20, 0.5


class Intake:
    """Takes one document at a time, as ``keqa index add`` does; what lies in the folder is never replaced."""

    kinds: Sequence[str] = sorted(DOCUMENTS)

    def __init__(self, address: str, folder: Path, most: int, changing: asyncio.Lock | None = None) -> None:
        """Take documents of so many bytes into a folder and into an index; the lock is that of who else changes it."""
        self._address, self._folder, self.most = address, folder.resolve(), most
        self._lock = changing or asyncio.Lock()

    async def add(self, name: str, content: bytes) -> dict[str, Any]:
        """Add a document; what is wrong with it is said, and nothing of it is left then."""
        self._check(name, content)
        async with self._lock:
            return await asyncio.to_thread(self._added, name, content)

    def _check(self, name: str, content: bytes) -> None:
        size = len(name.encode("utf-8", "surrogatepass"))
        # On Windows, a colon leads elsewhere; nobody sees where a name that turns its writing ends.
        plain = name == visible_line(name).strip() and not set(name) & set('/\\:*?"<>|') and not name.startswith(".")
        if not name or not plain or size > _LONGEST or _DEVICE.match(name):
            strange = f'a path, one of :*?"<>|, more than {_LONGEST} bytes'
            message = f"its name has {strange}, or is that of a hidden file or a device"
            raise ProblemError(400, message, param="name")
        if Path(name).suffix.lower() not in DOCUMENTS:
            raise ProblemError(415, f"documents are {', '.join(self.kinds)}", param="name")
        if why := passed_over(name):
            raise ProblemError(415, f"files that are {why} are passed over in a folder", param="name")
        if not content:
            raise ProblemError(400, "the document is empty")

    def _added(self, name: str, content: bytes) -> dict[str, Any]:
        path = self._folder / name
        if path.exists() or path.is_symlink():
            raise ProblemError(409, f"there is a document {name} already: give this one another name", code="exists")
        if sum(1 for _ in self._folder.iterdir()) >= _MOST_FILES:
            raise ProblemError(409, f"the folder holds {_MOST_FILES:,} files, and takes no more", code="full")
        try:
            atomic_write(path, content)
            change = self._indexed(path)
            if change.left_out.unexpected or not (change.added or change.changed or change.unchanged):
                raise InputError(f"{name} cannot be read as {path.suffix.lower()}, or holds no text")
        except BaseException as error:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            if isinstance(error, InputError):
                # Where the folder lies is nobody's business.
                raise InputError(str(error).replace(str(path), name)) from None
            if isinstance(error, RetrievalError):
                log.error("a document cannot be added (%s): keqa index add says why", type(error).__name__)
                message = "the index cannot be changed now, as while another process changes it: add the document later"
                raise ProblemError(503, message, "server_error", "index_busy") from None
            raise
        return {"file": name, "passages": change.passages_added}

    def _indexed(self, path: Path) -> IndexChange:
        """Add a file; the index may be in the hands of who brings it in step with its folder."""
        for attempt in range(_AGAIN):
            try:
                return add_files(self._address, path, notice=lambda text: None)[0]
            except RetrievalError:
                if attempt == _AGAIN - 1:
                    raise
                time.sleep(_PAUSE)
        raise AssertionError("the last attempt ends in one way or the other")
