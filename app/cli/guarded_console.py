"""A console through which only rich itself acts on the terminal, and which shows no key."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from keqa.storage.redaction import UNSAFE, visible, without_keys


class GuardedConsole(Console):
    """A console that makes visible whatever in a text would act on the terminal or hide in it.

    Everything is rendered by `render`, cells of tables and descriptions of bars included. Texts are made visible before
    they are laid out; and whatever else came to be rendered is afterwards.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render with what is unsafe made visible."""
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
        made.append_text(text[end : found.start()])
        made.append(visible(found.group()))
        end = found.end()
    return made.append_text(text[end:])
