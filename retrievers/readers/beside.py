"""Documents read by a process beside this one, which may be ended at any time and cannot take this one with it.

The readers and the libraries behind them promise little about hostile files. So this module runs itself beside the
process that indexes, with a bound on memory and, for each document, on the time of a processor; one that a document has
ended is replaced. It is given a line of JSON and then as many bytes as that says, and writes lines of JSON: lists of
passages, and in the end an object.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from keqa.errors import InputError, MissingExtraError
from keqa.retrievers.base import Notice, Passage, unpacked
from keqa.retrievers.readers.common import MOST_TEXT, UnreadError, allow, limits

MEMORY: Final = 4 << 30
"""The most bytes of address space that reading may take."""

SECONDS: Final = 60.0
"""The time of a processor that a document may take, and `SECONDS_PER_MB` more for each MB of it, unpacked."""

SECONDS_PER_MB: Final = 2.0

# So many passages are in a line, so that none takes much memory.
_IN_A_LINE: Final = 1000
# Where modules are found is said by this process: the folder that one happens to be in, which may be anyone's, is no
# such place.
_START: Final = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {__name__} import main; main()"


def read_beside(data: bytes, path: Path, identifier: str, words: int, notice: Notice) -> tuple[list[Passage], str]:
    head = {"path": os.fspath(path), "identifier": identifier, "words": words, "limits": [SECONDS, SECONDS_PER_MB]}
    rows, last = _BESIDE.ask({**head, "bytes": len(data)}, data)
    for text in last["notices"]:
        notice(text)
    if "missing" in last:
        raise MissingExtraError("documents", last["missing"])
    if "error" in last:
        raise UnreadError(last["reason"], last["error"]) if last["reason"] else InputError(last["error"])
    return [Passage(own, title, text, unpacked(place)) for own, title, text, place in rows], last["lost"]


class _Beside:
    """The process: begun with the first document, used for the next, ended with this one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.Lock()

    def ask(self, head: dict[str, Any], data: bytes) -> tuple[list[Any], dict[str, Any]]:
        rows: list[Any] = []
        with self._one_at_a_time:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(head).encode() + b"\n" + data)
                process.stdin.flush()
                for line in process.stdout:
                    found = json.loads(line)
                    if isinstance(found, dict):
                        if found.get("reason") == "too large":
                            # What it took is given back.
                            self.end()
                        return rows, found
                    rows += found
            except (OSError, ValueError):
                # It died in the middle of something; how, its exit code says.
                process.wait()
            except BaseException:
                # What it has still to say is about a document that nobody waits for.
                self.end()
                raise
            code = process.wait()
            self.end()
        late = hasattr(signal, "SIGPROF") and code == -signal.SIGPROF
        why = "it takes too long" if late else f"reading it ended the process that read it ({code})"
        error = f"{head['path']} cannot be read: {why}; divide it, or leave it out"
        return [], {"notices": [], "reason": "too large", "error": error}

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, json.dumps([os.path.abspath(one) for one in sys.path if one])],
                # The folder that one happens to be in may be gone when the next document is read.
                cwd=sys.prefix,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    def end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def forget(self) -> None:
        """In a copy of this process: the one beside is the other's."""
        self._process, self._one_at_a_time = None, threading.Lock()


_BESIDE = _Beside()
atexit.register(_BESIDE.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_BESIDE.forget)


def main() -> None:
    outgoing = sys.stdout
    # What libraries print belongs to nobody.
    sys.stdout = sys.stderr
    _bound_memory()

    def say(found: Any) -> None:
        outgoing.write(json.dumps(found) + "\n")
        outgoing.flush()

    for line in sys.stdin.buffer:
        head = json.loads(line)
        data = sys.stdin.buffer.read(head["bytes"])
        limits[:] = head["limits"]
        allow(len(data))
        say(_answer(say, head, data))


def _answer(say: Callable[[Any], None], head: dict[str, Any], data: bytes) -> dict[str, Any]:
    from keqa.retrievers.readers.formats import passages_of

    notices: list[str] = []
    rows: list[tuple[str, str, str, str]] = []
    path, size = Path(head["path"]), 0
    try:
        passages, lost = passages_of(data, path, head["identifier"], head["words"], notices.append)
        for one in passages:
            rows.append((one.id, one.title, one.text, one.place.packed()))
            size += len(one.title) + len(one.text)
            if size > MOST_TEXT:
                raise UnreadError("too large", f"{path} has more than {MOST_TEXT:,} characters of text: divide it")
            if len(rows) == _IN_A_LINE:
                say(rows)
                rows = []
        say(rows)
        found: dict[str, Any] = {"lost": lost}
    except ImportError:
        found = {"missing": f"Reading {path.name}"}
    except InputError as error:
        found = {"reason": getattr(error, "reason", ""), "error": str(error)}
    except MemoryError:
        why = "it takes more memory than is given to a document: divide it"
        found = {"reason": "too large", "error": f"{path} cannot be read: {why}"}
    # What the libraries raise they do not document; all of it means that they cannot read the file.
    except Exception as error:
        why = f"{type(error).__name__}: {str(error)[:300]}"
        found = {"reason": "damaged", "error": f"{path} cannot be read as {path.suffix}: {why}"}
    # Each message of a mailbox may say the same.
    return {**found, "notices": list(dict.fromkeys(notices))}


def _bound_memory() -> None:
    # Windows has none, and macOS refuses one below what libraries have reserved; documents are read there as well.
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        wanted = MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most)
        resource.setrlimit(resource.RLIMIT_AS, (wanted, most))
