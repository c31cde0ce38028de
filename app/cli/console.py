"""Where the command line writes: results to stdout, everything else to stderr.

Whatever is shown passes through one kind of console, which lets nothing from outside act on the terminal (see
`keqa.terminal`) and shows no key (see `keqa.redaction.without_keys`). Text is plain: brackets and colons in it are
neither markup nor emoji.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["complain", "results", "show_json", "status"]


def results() -> Console:
    """The console for what was asked for. It is made anew, since tests and callers may replace the stream."""
    return _guarded()(file=_behind(sys.stdout), highlight=False, markup=False, emoji=False)


def status() -> Console:
    """The console for progress and messages, so that stdout holds nothing but the result."""
    return _guarded()(file=_behind(sys.stderr), stderr=True, highlight=False, markup=False, emoji=False)


def show_json(value: Any) -> None:
    """Write a value to stdout as JSON: it parses to the same value, and nothing in it acts on the terminal.

    Args:
        value: What `json.dumps` takes.
    """
    import typer

    from keqa.terminal import json_text

    typer.echo(json_text(value, encoding=getattr(sys.stdout, "encoding", None) or "utf-8"))


def complain(error: Exception) -> None:
    """Write an error for the user, as it is: messages hold paths and brackets that are no markup."""
    status().print(f"keqa: {error}", style="red", soft_wrap=True)


def _behind(stream: Any) -> Any:
    """The stream behind the guard of `keqa.terminal.guard_streams`, which would take rich's own sequences for others'.

    While a bar is shown, rich stands before the stream as well.
    """
    stream = getattr(stream, "rich_proxied_file", stream)
    return getattr(stream, "unguarded", stream)


@cache
def _guarded() -> type[Console]:
    """The class of the consoles; rich is imported when the first one is made."""
    from collections.abc import Iterable

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

    from keqa.redaction import without_keys
    from keqa.terminal import UNSAFE, visible

    def shown(text: Text) -> Text:
        plain = without_keys(text.plain)
        if plain != text.plain:
            return Text(visible(plain), text.style, no_wrap=text.no_wrap, overflow=text.overflow)
        if not UNSAFE.search(plain):
            return text
        made, end = text.blank_copy(), 0
        for found in UNSAFE.finditer(text.plain):
            made.append_text(text[end : found.start()])
            made.append(visible(found.group()))
            end = found.end()
        return made.append_text(text[end:])

    class GuardedConsole(Console):
        """A console through which only rich itself acts on the terminal.

        Everything is rendered by `render`, cells of tables and descriptions of bars included. Texts are made visible
        before they are laid out; and whatever else came to be rendered is afterwards.
        """

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            """Render with what is unsafe made visible."""
            if isinstance(renderable, str):
                renderable = visible(without_keys(renderable))
            elif isinstance(renderable, Text):
                renderable = shown(renderable)
            for segment in super().render(renderable, options):
                if segment.control is None and UNSAFE.search(segment.text):
                    segment = Segment(visible(segment.text), segment.style)
                yield segment

    return GuardedConsole
