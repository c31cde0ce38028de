"""Where the command line writes: results to stdout, everything else to stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["complain", "results", "status"]


def results() -> Console:
    """The console for what was asked for. It is made anew, since tests and callers may replace the stream."""
    from rich.console import Console

    return Console(highlight=False)


def status() -> Console:
    """The console for progress and messages, so that stdout holds nothing but the result."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def complain(error: Exception) -> None:
    """Write an error for the user, as it is: messages hold paths and brackets that are no markup."""
    status().print(f"keqa: {error}", style="red", markup=False, soft_wrap=True)
