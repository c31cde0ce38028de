"""Table 6 of the KEQA paper: questions with all the steps that KEQA took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keqa.evaluation.records import RunLine
from keqa.evaluation.reports.grid import Column, Grid, Row, text
from keqa.programs.records import QuizRecord

_EXCERPT = 200
_SOURCES = {
    "memory": "known",
    "passages": "from passages",
    "largest_cluster": "from memory, as no passage helped",
    "closed_book": "from memory, as no passage helped",
    "failed": "failed",
    "blocked": "not asked, for an earlier answer is missing",
    "skipped": "not asked",
}


def cases(runs: Iterable[tuple[str, str, Sequence[RunLine]]], most: int = 1) -> Grid | None:
    """A few questions of each data set with quizzes, verdicts, passages, explanation and answer.

    Taken are the first questions, in the order of the run, that show most of the method: answered rightly, with a quiz
    that was known and one that was answered from passages; where there is none, the next best. The choice says nothing
    of how often KEQA is right.

    Args:
        runs: Data set, what the row is called, and the lines of KEQA's run.
        most: Questions of each data set.

    Returns:
        None where no question was answered.
    """
    rows: list[Row] = []
    for dataset, title, lines in runs:
        answered = [line for line in lines if line.record is not None and line.answer is not None]
        for line in sorted(answered, key=_interest)[:most]:
            for place, (step, said) in enumerate(_steps(line, title)):
                rows.append(Row((text("" if place else dataset), text(step), text(said)), ruled=not place))
    if not rows:
        return None
    columns = (Column("data set", right=False), Column("step", right=False), Column("", right=False))
    note = "Chosen for what they show of the method, not for how often it is right."
    return Grid("table6", "Questions with all their steps", columns, tuple(rows), (note,))


def _interest(line: RunLine) -> tuple[bool, int, bool]:
    """Sorts first what shows most: right, known and unknown quizzes, several of them."""
    assert line.record is not None
    right = line.scores.get("accuracy", line.scores.get("em", 0.0)) >= 1
    sources = {quiz.source for quiz in line.record.quizzes}
    return not right, -len(sources & {"memory", "passages"}), len(line.record.quizzes) < 2


def _steps(line: RunLine, title: str) -> Iterator[tuple[str, str]]:
    record = line.record
    assert record is not None
    yield "question", line.question
    for quiz in record.quizzes:
        yield from _quiz(f"q{quiz.index}", quiz)
    if record.fallback is not None:
        yield from _quiz("the question itself, with retrieval", record.fallback)
    for note in record.degradations:
        if note.touches:
            yield "went wrong", f"{note.message}: {note.action}"
    if record.explanation:
        yield "explanation", record.explanation
    yield "gold answer", "; ".join(line.answers)
    yield f"{title} answers", str(line.answer)


def _quiz(name: str, quiz: QuizRecord) -> Iterator[tuple[str, str]]:
    yield name, quiz.resolved or quiz.text
    if quiz.consistency_exact is not None:
        asked_for = "" if quiz.threshold_exact is None else f" (\u03b1 is {quiz.threshold_exact})"
        yield f"{name}: T_c", f"{'' if quiz.complete else 'at least '}{quiz.consistency_exact}{asked_for}"
    for passage in quiz.passages:
        if passage.kept:
            whole = f"{passage.title}: {passage.text}" if passage.title else passage.text
            yield f"{name}: retrieval", whole if len(whole) <= _EXCERPT else f"{whole[:_EXCERPT]}…"
    if quiz.retrieved and not any(passage.kept for passage in quiz.passages):
        yield f"{name}: retrieval", f"none of {len(quiz.passages)} passages was judged helpful"
    answer = "no answer" if quiz.answer is None else quiz.answer
    yield f"{name}: answer", f"{answer} ({_SOURCES.get(quiz.source, quiz.source)})"
