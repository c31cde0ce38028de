"""The command line: ``keqa`` and ``python -m keqa``."""

from __future__ import annotations

import sys

from keqa.errors import KeqaError, StageError

__all__ = ["main"]

UNANSWERED = 1
"""Exit code of a question that ended without an answer, although what was asked was sound."""

MISUSED = 2
"""Exit code of everything that the user can put right: bad input, a missing package, key or index."""


def main() -> None:
    """Run the command line; an error meant for the user is one message on stderr, not a traceback."""
    # Text of any language, and lone surrogates in what is shown, must not end a run on a terminal of another encoding.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")

    from keqa.cli import app
    from keqa.cli.console import complain

    try:
        app(prog_name="keqa")
    except KeyboardInterrupt:
        sys.exit(130)
    except StageError as error:
        complain(error)
        sys.exit(UNANSWERED)
    except KeqaError as error:
        complain(error)
        sys.exit(MISUSED)


if __name__ == "__main__":
    main()
