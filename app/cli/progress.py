"""Progress of long work that asks language models."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import dspy
from dspy.utils.usage_tracker import UsageTracker

from keqa.cli.console import status

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bars:
    """A bar for each step, and how many LM calls were made so far."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[calls]}{task.fields[note]}", markup=False),
            TimeElapsedColumn(),
        )
        self._bar: Progress = Progress(*columns, console=status(), transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._count = _CallCount()

    @property
    def calls(self) -> int:
        """The LM calls so far; those that a cache answered are none."""
        return self._count.calls

    def __enter__(self) -> Bars:
        self._context = dspy.context(usage_tracker=self._count)
        self._context.__enter__()
        self._bar.__enter__()
        return self

    def __exit__(self, *ended: Any) -> None:
        self._bar.__exit__(*ended)
        self._context.__exit__(*ended)

    def report(self, step: str, done: int, total: int, note: str = "") -> None:
        """Show progress as `keqa.optimize.asking.Progress` reports it, with a note where there is one."""
        if step not in self._tasks:
            self._tasks[step] = self._bar.add_task(step, total=total, calls="", note="")
        calls = f"{self.calls:,} LM calls in all"
        self._bar.update(self._tasks[step], completed=done, total=total, calls=calls, note=note and f"; {note}")

    def say(self, line: str) -> None:
        """Write a line above the bars."""
        self._bar.console.print(line, style="yellow", markup=False, soft_wrap=True)


class _CallCount(UsageTracker):
    """Counts, where DSPy's own would keep what every call of a long run has used."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> _CallCount:
        # DSPy copies the usage tracker into each of its threads; a call of any of them is a call.
        return self

    def add_usage(self, lm: str, usage_entry: dict[str, Any]) -> None:
        with self._lock:
            self.calls += 1
