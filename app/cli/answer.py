"""An answer for the terminal: each quiz as it settles, and then the answer, what it rests on, and its story."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from keqa.cli.record_tree import ANSWER_SOURCES, QUIZ_SOURCES, plain, record_tree
from keqa.programs.unanswered import lines_of, said

if TYPE_CHECKING:
    from rich.console import RenderableType

    from keqa.programs.calls.progress import Progress, QuizAnswered
    from keqa.programs.records import QuestionRecord
    from keqa.programs.sources import Source

_INDENT = (0, 0, 0, 4)


def shown_answer(record: QuestionRecord, *, full: bool = False) -> Group:
    """The answer, how it follows, its sources with the sentences that carried it, and the story of the question."""
    from keqa.programs.sources import disagreements_of, sources_of

    parts: list[RenderableType] = [head(record)]
    for line, beneath in lines_of(record.unanswered) if record.unanswered is not None else ():
        parts += [plain(line), *(Padding(plain(one, "dim", whole=True), _INDENT, expand=False) for one in beneath)]
    if record.withheld is not None:
        parts.append(Text.assemble(("Withheld: ", "bold"), plain(record.withheld, "dim")))
    if record.confidence is not None:
        parts.append(Text.assemble(("Confidence: ", "bold"), f"{record.confidence:.2f}"))
    if record.explanation:
        parts.append(Text.assemble(("Explanation: ", "bold"), plain(record.explanation)))
    sources = sources_of(record)
    if sources:
        parts.append(Text("Sources:", "bold"))
        for number, source in enumerate(sources, start=1):
            parts += _source(number, source, full)
    parts += [plain(str(one), "yellow") for one in disagreements_of(record)]
    return Group(*parts, Text(), record_tree(record, full=full))


def head(record: QuestionRecord) -> Text:
    """The answer in a line; a guess is marked, and what the documents do not say is no answer."""
    if record.failure is not None:
        failure = record.failure
        what = f"No answer: {failure.stage} failed ({failure.cause}): "
        return Text.assemble((what, "bold"), plain(failure.message, "red"))
    if record.unanswered is not None:
        return plain(record.unanswered.message, "bold yellow", whole=True)
    if record.guessed:
        return Text.assemble(("Answer: ", "bold"), plain(said(record), "bold yellow"))
    answer = plain(record.answer or "", "bold green")
    return Text.assemble(("Answer: ", "bold"), answer, (f" ({ANSWER_SOURCES[record.answer_source]})", "dim"))


def _source(number: int, source: Source, full: bool) -> list[RenderableType]:
    label = Text.assemble((f"[{number}] ", "bold"), plain(source.label))
    if source.date:
        label.append_text(plain(f", {source.date}"))
    if source.quizzes:
        quizzes = ", ".join(map(str, source.quizzes))
        label.append(f" · quiz {quizzes}", "dim")
    lines = [plain(source.text, "dim", whole=True)] if full else []
    lines += [plain(f"“{sentence}”") for sentence in source.sentences]
    return [label, *(Padding(line, _INDENT, expand=False) for line in lines)]


def follow(events: Iterable[Progress], update: Callable[[Text], Any]) -> Any:
    """Show what happened so far, beside a spinner, until the answer is there; the finished story takes its place."""
    from keqa.programs.calls.progress import Answered, QuizAnswered

    settled: list[Text] = []
    for event in events:
        if isinstance(event, Answered):
            return event.prediction
        if isinstance(event, QuizAnswered):
            settled.append(_settled(event))
        now = plain("asking…" if isinstance(event, QuizAnswered) else str(event))
        update(Text("\n").join([now, *settled]))
    raise AssertionError("a stream of events ends with the answer")


def _settled(event: QuizAnswered) -> Text:
    label = f"Quiz {event.index}: " if event.index else "The question itself: "
    provisional = "; provisional" if event.provisional and event.answer is not None else ""
    where = f" ({QUIZ_SOURCES.get(event.source, event.source)}{provisional})"
    answer = Text("no answer", "yellow") if event.answer is None else plain(event.answer, "green")
    return Text.assemble((label, "bold"), plain(event.text), " → ", answer, (where, "dim"))
