"""The command line: ``keqa`` and ``python -m keqa``."""

import errno
import io
import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType

from keqa.errors import KeqaError, StageError

# What the user can put right: bad input, a missing package, key or index; Ctrl-C (SIGINT); SIGTERM.
MISUSED, INTERRUPTED, TERMINATED = 2, 130, 143

# What a disk or a bound on files says that the user can put right, whatever was being written.
_OF_THE_SYSTEM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE)

_QUESTIONS_KEPT = "questions that ended are kept; the same command resumes and asks the others"
_KEPT = {
    "evaluate": _QUESTIONS_KEPT,
    "compare": _QUESTIONS_KEPT,
    "reproduce": "with --out, questions that ended are kept, and the same command resumes and asks the others",
    "compile": "finished work is kept; the same command resumes",
    "documents": "documents that were made are kept; the same command resumes",
    "ask": "replies that came are in DSPy's cache unless it is off; the same command makes only the other calls",
    "view": "the runs are as they were",
    "index": "an index that was there before is untouched; the same command builds the new one, and resumes a dense "
    "one or one of Elasticsearch",
    "chat": "questions and answers are kept unless --no-keep is given; --resume last continues them",
    "boundary": "draws that were made are kept; the same command makes the others",
    "serve": "questions in work got the time of --grace to end",
}
_WAITING = ("evaluate", "compare", "reproduce", "compile", "documents")
_OPENING = ("ask", "chat")


def main() -> None:
    """Run the command line as this process; an error meant for the user is one message on stderr, not a traceback."""
    stops = _Stops()
    try:
        _show_life()
        from keqa.storage.redaction import guard_streams

        guard_streams()
        if isinstance(sys.stdin, io.TextIOWrapper):
            # A question may come from a file in another encoding.
            sys.stdin.reconfigure(errors="surrogateescape")
        _run()
    except KeyboardInterrupt:
        _leave(stops.report())
    except SystemExit as ended:
        # The library of the command line turns an interrupt into this code.
        if ended.code == INTERRUPTED:
            _leave(stops.report())
        raise
    finally:
        stops.over = True


def _show_life() -> None:
    """On a terminal, say that something happens before the imports that take long; what comes next stands over it."""
    if _command() in _OPENING and not {"-h", "--help"} & {*sys.argv} and sys.stderr.isatty():
        # As `AskedOptions.open` says it, without its spinner.
        sys.stderr.write("  opening\r")
        sys.stderr.flush()


def _run() -> None:
    from keqa.cli import app
    from keqa.cli.console import UNANSWERED, complain

    try:
        app(prog_name="keqa")
    except StageError as error:
        complain(error)
        sys.exit(UNANSWERED)
    except KeqaError as error:
        complain(error)
        sys.exit(MISUSED)
    except OSError as error:
        if error.errno not in _OF_THE_SYSTEM:
            raise
        place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        complain(KeqaError(f"{place}{error.strerror}; {_kept()}"))
        # What waits to be written would fail again.
        _leave(MISUSED)


class _Stops:
    """Lets SIGINT and SIGTERM end the command, the first one in an orderly way and the second at once.

    The handlers stay: while the interpreter waits for its last threads, an interrupt would be a traceback.
    """

    def __init__(self) -> None:
        self.over = False
        self._code: int | None = None
        # Handlers can be set by the main thread only, and one that was set to ignore (nohup) stays.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    signal.signal(number, self._stop)

    def report(self) -> int:
        """Say what was kept, and return the exit code."""
        code = self._code or INTERRUPTED
        how = "ended by SIGTERM" if code == TERMINATED else "interrupted"
        _say(f"{how}: {_kept()}")
        return code

    def _stop(self, number: int, frame: FrameType | None) -> None:
        # In a conversation each one gives up a question.
        again = self._code is not None and _command() != "chat"
        self._code = TERMINATED if number == signal.SIGTERM else INTERRUPTED
        if self.over:
            _leave(self._code)
        if again:
            _leave(self.report())
        if _command() in _WAITING:
            _say("stopping: what is in work is finished first; once more ends at once")
        raise KeyboardInterrupt


def _command() -> str:
    return next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")


def _kept() -> str:
    return _KEPT.get(_command(), "nothing was kept")


def _say(message: str) -> None:
    line = f"keqa: {message}\n"
    try:
        # Past the layers of the stream: a signal may have come in the middle of a write.
        os.write(sys.stderr.fileno(), line.encode())
    except (AttributeError, OSError, ValueError):
        sys.stderr.write(line)


def _leave(code: int) -> None:
    """End the process without waiting for threads whose calls are still under way."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError, RuntimeError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
