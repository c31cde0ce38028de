"""Where the command line writes: results to stdout, everything else to stderr.

Whatever is shown passes through one kind of console, which lets nothing from outside act on the terminal and shows no
key (see `keqa.storage.redaction`). Text is plain: brackets and colons in it are neither markup nor emoji.
"""

import sys
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from keqa.storage.redaction import UNSAFE, json_text, visible, without_keys

if TYPE_CHECKING:
    from rich.progress import TaskID

_NAMED = 5
"""How many of many things are named."""

UNANSWERED = 1
"""Exit code of a command that asked what was sound, and got no answer to a question or to any question of a method."""

NOT_IN_DOCUMENTS = 3
"""Exit code of a question that the documents do not answer, which is a finding and no failure."""


class GuardedConsole(Console):
    """A console that makes visible whatever in a text would act on the terminal or hide in it."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render anything, cells of tables and descriptions of bars included: a text is made safe before its layout."""
        if isinstance(renderable, str):
            renderable = visible(without_keys(renderable))
        elif isinstance(renderable, Text):
            renderable = _shown(renderable)
        for text, style, control in super().render(renderable, options):
            # A link is a sequence for the terminal that holds an address from the text.
            plain = style.update_link(None) if style is not None and style.link else style
            yield Segment(visible(text) if control is None else text, plain, control)


def _shown(text: Text) -> Text:
    plain = without_keys(text.plain)
    if plain != text.plain:
        return Text(visible(plain), text.style, no_wrap=text.no_wrap, overflow=text.overflow)
    if not UNSAFE.search(plain):
        return text
    made, end = text.blank_copy(), 0
    for found in UNSAFE.finditer(plain):
        made.append_text(text[end : found.start()]).append(visible(found.group()))
        end = found.end()
    return made.append_text(text[end:])


def results() -> Console:
    """The console for what was asked for. It is made each time, since tests and callers may replace the stream."""
    return _console(sys.stdout)


def status() -> Console:
    """The console for progress and messages, so that stdout holds nothing but the result."""
    return _console(sys.stderr, stderr=True)


def _console(stream: Any, *, stderr: bool = False) -> Console:
    # While a bar is shown, rich stands before the stream. `keqa.storage.redaction.guard_streams` always does, and would
    # take rich's own sequences for others'.
    stream = getattr(stream, "rich_proxied_file", stream)
    stream = getattr(stream, "unguarded", stream)
    return GuardedConsole(file=stream, stderr=stderr, highlight=False, markup=False, emoji=False)


def show_json(value: Any) -> None:
    """Write a value to stdout as JSON: it parses to the same value, and nothing in it acts on the terminal."""
    typer.echo(json_text(value, encoding=getattr(sys.stdout, "encoding", None) or "utf-8"))


def emit(value: Any, shown: Iterable[Any], *, as_json: bool) -> None:
    """Write a result: as JSON, or what is shown of it, of which a text by itself is not wrapped."""
    if as_json:
        show_json(value)
        return
    for one in shown:
        results().print(one, soft_wrap=isinstance(one, str))


def table(
    names: Sequence[str], rows: Iterable[Sequence[Any]], *, left: Container[int] = (0,), **settings: Any
) -> Table:
    """A table whose columns of text stand left and are folded, and those of numbers right."""
    made = Table(**{"box": SIMPLE_HEAD, **settings})
    for place, name in enumerate(names):
        made.add_column(name, justify="left" if place in left else "right", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def warn(line: str) -> None:
    status().print(line, style="yellow", soft_wrap=True)


def warn_of_many(before: str, things: Sequence[str], say: Callable[[str], None] = warn) -> None:
    """Name the first few of things that the user should know, a line each, and count the others."""
    for thing in things[:_NAMED]:
        say(f"{before}{thing}")
    if len(things) > _NAMED:
        say(f"{before}{len(things) - _NAMED} more")


def complain(error: Exception) -> None:
    """Write an error for the user, as it is: messages hold paths and brackets that are no markup."""
    status().print(f"keqa: {error}", style="red", soft_wrap=True)


class Bars:
    """A bar for each step."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        step, note = (TextColumn(f"{{task.{of}}}", markup=False) for of in ("description", "fields[note]"))
        columns = (step, BarColumn(), MofNCompleteColumn(), note, TimeElapsedColumn())
        self._bar = Progress(*columns, console=status(), transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "Bars":
        self._bar.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._bar.stop()

    def report(self, step: str, done: int, total: int, note: str = "") -> None:
        """Show progress as `keqa.optimize.asking.Progress` reports it, with a note where there is one."""
        if step not in self._tasks:
            self._tasks[step] = self._bar.add_task(step, total=total, note="")
        self._bar.update(self._tasks[step], completed=done, total=total, note=note)

    def advance(self, step: str, total: int) -> None:
        done = self._bar.tasks[self._tasks[step]].completed if step in self._tasks else 0
        self.report(step, int(done) + 1, total)

    def say(self, line: str) -> None:
        self._bar.console.print(line, style="yellow", markup=False, soft_wrap=True)
