"""A question while it is answered: each quiz as it settles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rich.text import Text

from keqa.cli.record_tree import QUIZ_SOURCES, plain

if TYPE_CHECKING:
    from keqa.programs.runtime.progress import Progress, QuizAnswered


class LiveStory:
    """Shows what happened so far beside a spinner; the finished story takes its place."""

    def __init__(self, update: Callable[[Text], Any]) -> None:
        """Begin with nothing.

        Args:
            update: Shows a text in the place of the one before, such as the ``update`` of a rich status.
        """
        self._update = update
        self._settled: list[Text] = []

    def follow(self, events: Iterable[Progress]) -> Any:
        """Show events until the answer is there.

        Args:
            events: Of `keqa.programs.program.Program.stream`.

        Returns:
            The prediction.

        Raises:
            Exception: What asking raises.
        """
        from keqa.programs.runtime.progress import Answered, QuizAnswered

        for event in events:
            if isinstance(event, Answered):
                return event.prediction
            if isinstance(event, QuizAnswered):
                self._settled.append(_settled(event))
            now = plain("asking…" if isinstance(event, QuizAnswered) else str(event))
            self._update(Text("\n").join([now, *self._settled]))
        raise AssertionError("a stream of events ends with the answer")


def _settled(event: QuizAnswered) -> Text:
    label = f"Quiz {event.index}: " if event.index else "The question itself: "
    provisional = "; provisional" if event.provisional and event.answer is not None else ""
    where = f" ({QUIZ_SOURCES.get(event.source, event.source)}{provisional})"
    answer = Text("no answer", "yellow") if event.answer is None else plain(event.answer, "green")
    return Text.assemble((label, "bold"), plain(event.text), " → ", answer, (where, "dim"))
