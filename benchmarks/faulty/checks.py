"""What is promised of a run against a server that fails, checked beside a run without faults."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keqa.evaluation.records import Run, RunLine
from keqa.evaluation.run_file import iter_lines

__all__ = ["Check", "compared", "costs", "healed", "marked", "programming_errors", "secrets", "whole"]

SHOWN = 3
MOST_TOKENS = 10**9


@dataclass
class Check:
    """A promise, how often it was put to the test, and what broke it."""

    promise: str
    tested: int = 0
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        shown = "".join(f"\n      {one}" for one in self.broken[:SHOWN])
        more = f"\n      and {len(self.broken) - SHOWN:,} more" if len(self.broken) > SHOWN else ""
        verdict = f"{len(self.broken):,} BROKEN" if self.broken else "kept"
        return f"  {self.promise:<58} {self.tested:>9,}  {verdict}{shown}{more}"


def marked(line: RunLine) -> bool:
    """Whether a line says that a failure touched its answer, or took it."""
    return line.failed or bool(line.impairments)


def whole(path: Path, ids: Iterable[str]) -> list[Check]:
    """No question is lost, none is there twice, and none is there that was not asked."""
    asked, found = list(ids), Counter(line.id for line in iter_lines(path))
    lost = Check("every question has its line", len(asked), [name for name in asked if name not in found])
    twice = [f"{name}: {count} lines" for name, count in found.items() if count > 1 or name not in set(asked)]
    return [lost, Check("no question has two", len(asked), twice)]


def compared(run: Run, sound: Run) -> Check:
    """An answer other than that without faults is failed or marked."""
    expected = {line.id: line for line in sound.lines}
    check = Check("an answer that a failure changed is failed or marked", len(run.lines))
    for line in run.lines:
        if not marked(line) and line.answer != expected[line.id].answer:
            check.broken.append(f"{line.id}: {line.answer!r} for {expected[line.id].answer!r}; {_notes(line)}")
    return check


def healed(run: Run, sound: Run) -> list[Check]:
    """After the server has recovered nothing differs from the run without faults: no answer, score or mark."""
    expected = {line.id: line for line in sound.lines}
    answers = Check("retried on the healed server: the same answers", len(run.lines))
    marks = Check("retried on the healed server: nothing failed or marked", len(run.lines))
    for line in run.lines:
        if marked(line):
            marks.broken.append(f"{line.id}: {line.error or line.impairments}")
        if line.answer != expected[line.id].answer:
            answers.broken.append(f"{line.id}: {line.answer!r} for {expected[line.id].answer!r}; {_notes(line)}")
    scores = Check("retried on the healed server: the same figures", len(sound.lines[0].scores))
    for name in sound.lines[0].scores:
        sums = [sum(line.scores.get(name, 0.0) for line in one.lines) / len(one.lines) for one in (run, sound)]
        if abs(sums[0] - sums[1]) > 1e-12:
            scores.broken.append(f"{name} {sums[0]:.4f} for {sums[1]:.4f}")
    return [answers, marks, scores]


def programming_errors(run: Run) -> Check:
    """No failure is one of the program itself, such as an AttributeError."""
    check = Check("no failure is a programming error", len(run.lines))
    for line in run.lines:
        notes = line.record.degradations if line.record is not None else []
        causes = [*((line.error.cause,) if line.error else ()), *(note.cause for note in notes)]
        check.broken += [f"{line.id}: {cause}" for cause in causes if _of_the_program(cause)]
    return check


def _of_the_program(cause: str) -> bool:
    kind = getattr(builtins, cause, None)
    return isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, OSError)


def costs(run: Run) -> Check:
    """Whatever a server reports as usage, sums stay sums."""
    check = Check("no negative or absurd sum of tokens", len(run.lines))
    for line in run.lines:
        for role, cost in line.record.cost.by_role.items() if line.record is not None else ():
            for tokens in (cost.prompt_tokens, cost.completion_tokens):
                if not 0 <= tokens <= MOST_TOKENS:
                    check.broken.append(f"{line.id}: {tokens} tokens of {role}")
    return check


def secrets(folder: Path, words: Mapping[str, str]) -> Check:
    """No file holds a key or an address."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    check = Check("no file holds the key or the server's address", len(files))
    for path in files:
        held = path.read_bytes()
        check.broken += [
            f"{path.relative_to(folder)} holds {what}" for what, word in words.items() if word.encode() in held
        ]
    return check


def _notes(line: RunLine) -> str:
    notes = line.record.degradations if line.record is not None else []
    return ", ".join(f"{note.stage}: {note.cause}, {note.action}" for note in notes) or "nothing noted"
