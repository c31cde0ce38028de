"""Replies while they are written: who calls a language model may hear its words before the reply is whole.

A model in this process and one that is served tell them; a reply from a cache, or of an engine that gives it whole, is
there at once. What is told is a draft: the call may fail yet, or be made again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str | None], None]
"""Is told the next words of a reply, from any thread; None where the reply begins, also once more."""

_listener: ContextVar[Listener | None] = ContextVar("keqa_drafts", default=None)


@contextmanager
def drafts_to(listener: Listener) -> Iterator[None]:
    """Within this context somebody hears of replies while they are written."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def who_listens() -> Listener | None:
    """Who hears of the replies to calls that are made here."""
    return _listener.get()


class Telling:
    """Tells the text of tokens that are drawn one by one, each part of it once."""

    def __init__(self, listener: Listener, decode: Callable[[list[int]], str], stops: Sequence[str]) -> None:
        self._listener, self._decode, self._stops, self._told = listener, decode, stops, 0
        listener(None)

    def __call__(self, drawn: list[int]) -> None:
        """Tell what is new; half a character waits for its other half, and what ends a text is no part of it."""
        text = self._decode(drawn)
        text = text[: min([len(text), *(at for stop in self._stops if (at := text.find(stop)) >= 0)])]
        if len(text) > self._told and not text.endswith("\N{REPLACEMENT CHARACTER}"):
            self._listener(text[self._told :])
            self._told = len(text)
