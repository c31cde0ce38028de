"""Real language models on real questions: the sets and methods that are asked, what was collected, and its tables.

What ships is an archive for each language model of what `keqa reproduce real --lm …` collected: run files with the
replies, scores and costs, without prompts, passages, questions and gold answers; for each question stands its digest.
"""

import re
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

from keqa.data.benchmarks import BENCHMARKS
from keqa.data.loading import sampled
from keqa.errors import InputError
from keqa.evaluation.questions import Questions, of_name
from keqa.evaluation.records import Run, RunLine, header_line, run_line
from keqa.evaluation.reports.grid import EMPTY, Cell, Grid, Named, count, number, table, text
from keqa.evaluation.reports.questions import UNREADABLE
from keqa.evaluation.run_file import read_run
from keqa.metrics.significance import Interval, bootstrap_mean, paired_bootstrap
from keqa.programs.fingerprint import digest
from keqa.programs.records import QuestionRecord, QuizRecord
from keqa.programs.registry import Spec, parse_spec

_PACKAGE = files("keqa.evaluation.reproduction")
DESIGN: dict[str, Any] = yaml.safe_load((_PACKAGE / "real.yaml").read_text("utf-8"))
COMPILED = "-compiled"
"""Ends the rows of methods that learn from the training questions first."""

_ENDING, _ARCHIVE = ".jsonl", ".zip"
_UNUSUAL = re.compile(r"[^\w.+=@-]+")
# Of what was read, whose owners are others: it stands in the index, and is not needed for a table.
_READ = {"passages": [], "evidence": [], "selected": [], "triples": [], "support": ""}
_ALL = ""
_KEQA = "expanding"
"""The row whose lead is shown: KEQA as it comes over an index of one's own."""
_LOOP, _SHORTEST_LOOP = re.compile(r"(.{4,}?)\1{3,}", re.DOTALL), 40


@dataclass(frozen=True)
class RealSet:
    """A data set: its questions and corpus in a folder of data sets."""

    name: str
    test: str
    train: str
    corpus: str
    parted: int | None = None

    def questions(self, folder: Path, sample: int) -> Questions:
        """The test questions, of which a larger sample begins with the smaller one."""
        loaded = self._loaded(folder, self.test)
        examples = list(loaded.examples)[self.parted or 0 :]
        return replace(loaded, examples=sampled(examples, min(sample, DESIGN["sample"]), 0))

    def training(self, folder: Path) -> list[Any]:
        """As many questions to learn from, none of which is ever asked as a test question."""
        examples, most = list(self._loaded(folder, self.train).examples)[: self.parted], DESIGN["sample"]
        shared = self.train == self.test and self.parted is None
        return sampled(examples, 2 * most, 0)[most:] if shared else sampled(examples, most, 0)

    def _loaded(self, folder: Path, file: str) -> Questions:
        if not (folder / file).is_file():
            raise InputError(
                f"{folder / file} is not there: --data is a folder of data sets as docs/real.md lists them"
            )
        return of_name(self.name, folder / file)


SETS: dict[str, RealSet] = {name: RealSet(name, **about) for name, about in DESIGN["sets"].items()}


class RealRun(NamedTuple):
    """A method on a set with a language model, and what it replied."""

    lm: str
    dataset: str
    label: str
    lines: dict[str, RunLine]


def spec_of(row: str) -> Spec:
    about = DESIGN["rows"][row]
    return replace(parse_spec(about.get("method", row)), arguments=about.get("arguments", {}), label=row)


def folder_of(out: Path, lm: str) -> Path:
    """Where the runs of a language model are; of a folder of weights the last part stays."""
    provider, _, name = lm.partition("/")
    return out / _UNUSUAL.sub("-", f"{provider}-{name.rstrip('/').rpartition('/')[2]}")


def shipped(line: RunLine) -> RunLine:
    """A line without the question, its gold answers and what was read; its digest stands for the question."""
    asked = digest([line.question, list(line.choices)])

    def own(text: str | None) -> str | None:
        return asked if text == line.question else text

    def quiz(of: QuizRecord) -> QuizRecord:
        return of.model_copy(update={**_READ, "text": own(of.text), "resolved": own(of.resolved)})

    def record(of: QuestionRecord) -> QuestionRecord:
        kept = {
            "question": asked,
            "quizzes": [quiz(one) for one in of.quizzes],
            "fallback": of.fallback and quiz(of.fallback),
            "whole": of.whole and quiz(of.whole),
            "passages": [],
            # A message may repeat the prompt.
            "degradations": [one.model_copy(update={"message": ""}) for one in of.degradations],
            "failure": of.failure and of.failure.model_copy(update={"message": ""}),
        }
        return of.model_copy(update=kept)

    return line.model_copy(
        update={
            **{"question": asked, "answers": [], "choices": [], "golds": None, "quiz_golds": None},
            "record": line.record and record(line.record),
            "error": line.error and line.error.model_copy(update={"message": ""}),
        }
    )


def ship(folder: Path, archive: Path) -> int:
    """Put the finished runs of a language model into an archive, the same bytes each time; returns its size."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as whole:
        for path, run in _finished(folder):
            lines = [header_line(run.header.model_copy(update={"command": ""}))]
            lines += [run_line(shipped(line)) for line in run.lines]
            entry = zipfile.ZipInfo(f"{path.parent.name}/{path.name}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            whole.writestr(entry, b"".join(lines))
    return archive.stat().st_size


def shipped_runs() -> list[RealRun]:
    found: list[RealRun] = []
    for archive in sorted((_PACKAGE / "real").iterdir(), key=lambda one: one.name):
        if archive.name.endswith(_ARCHIVE):
            with tempfile.TemporaryDirectory(prefix="keqa-") as folder, archive.open("rb") as stream:
                zipfile.ZipFile(stream).extractall(folder)
                found += [_real(run) for _, run in _finished(Path(folder))]
    return found


def collected_runs(out: Path) -> list[RealRun]:
    """What was collected into a folder, as it would ship."""
    return [_real(run, shipped) for folder in sorted(out.glob("*")) for _, run in _finished(folder)]


def with_most(runs: Iterable[RealRun]) -> list[RealRun]:
    """In the order of the tables, of the runs of one row that with the most questions; of a tie the later one."""
    found: dict[tuple[str, str, str], RealRun] = {}
    for run in runs:
        there = found.get(run[:3])
        if run.lines and (there is None or len(run.lines) >= len(there.lines)):
            found[run[:3]] = run
    sets, rows = list(SETS), list(DESIGN["rows"])
    return sorted(found.values(), key=lambda run: (run.lm, sets.index(run.dataset), rows.index(run.label)))


def _finished(folder: Path) -> Iterator[tuple[Path, Run[RunLine]]]:
    """The finished runs of a language model, in the order of the tables."""
    for path in (folder / name / f"{row}{_ENDING}" for name in SETS for row in DESIGN["rows"]):
        # What is under way has the questions that ended soonest, which are no sample.
        if path.is_file() and (run := read_run(path)).finished:
            yield path, run


def _real(run: Run[RunLine], kept: Callable[[RunLine], RunLine] = lambda line: line) -> RealRun:
    lm = (run.header.configuration.lm or "").partition("@")[0]
    return RealRun(lm, run.header.dataset, run.header.label, {line.id: kept(line) for line in run.lines})


def real_tables(runs: Sequence[RealRun]) -> list[Grid]:
    """Of each language model scores, costs and KEQA's lead by set and method, and what went wrong by method."""
    grids: list[Grid] = []
    for number_, lm in enumerate(dict.fromkeys(run.lm for run in runs), start=1):
        own = [run for run in runs if run.lm == lm]
        grids += [_scores(f"real-{number_}", lm, own), _failures(f"real-{number_}-failures", lm, own)]
    return grids


def title_of(label: str) -> str:
    return str(DESIGN["rows"][label].get("title") or spec_of(label).method.title)


def _scores(name: str, lm: str, runs: Sequence[RealRun]) -> Grid:
    shown = [*runs, *_over_all(runs)]
    keqa = {run.dataset: run for run in shown if run.label == _KEQA}
    rows, ruled = [], []
    for place, run in enumerate(shown):
        if place and run.dataset != shown[place - 1].dataset:
            ruled.append(place)
        scores = [_quality(line) for line in run.lines.values()]
        lead = None if run.label == _KEQA else _lead(keqa.get(run.dataset), run)
        rows.append(
            [
                *(("set", text(_title_of_set(run.dataset))), ("method", text(title_of(run.label)))),
                ("questions", count(len(scores))),
                *_interval("F1", bootstrap_mean(scores) if len(scores) > 1 else None),
                ("EM", number(fmean(line.scores.get("em", 0.0) for line in run.lines.values()))),
                *_costs(run.lines.values()),
                *_interval("KEQA's lead in F1", lead, signed=True),
            ]
        )
    notes = (
        "F1 of yes/no questions is their accuracy; a failed question scores 0. Intervals are of 95 %, by bootstrap "
        "over questions. LM calls, tokens of prompts and replies, and retrievals are for one question. KEQA's lead is "
        "that of KEQA as it comes, over the questions that both were asked; an interval without 0 is beyond chance.",
        *_verdict(runs, keqa),
    )
    return table(name, f"Real questions, {lm}", rows, *notes, ruled=ruled)


def _over_all(runs: Sequence[RealRun]) -> Iterator[RealRun]:
    """What each method replied on all sets that it was asked about, where there are several."""
    by_row: dict[str, list[RealRun]] = {}
    for run in runs:
        by_row.setdefault(run.label, []).append(run)
    order = [label for label in DESIGN["rows"] if len(by_row.get(label, ())) > 1]
    for label in order:
        lines = {f"{run.dataset}/{place}": line for run in by_row[label] for place, line in run.lines.items()}
        yield RealRun(runs[0].lm, _ALL, label, lines)


def _title_of_set(dataset: str) -> str:
    return "All sets" if dataset == _ALL else BENCHMARKS[dataset].title


def _verdict(runs: Sequence[RealRun], keqa: Mapping[str, RealRun]) -> Iterator[str]:
    """Where KEQA as it comes is behind, whether or not that may be chance."""
    behind = []
    for run in runs:
        lead = None if run.label == _KEQA else _lead(keqa.get(run.dataset), run)
        if lead is not None and lead.mean < 0:
            beyond = ", beyond chance" if lead.excludes_zero else ""
            behind.append(f"{title_of(run.label)} on {BENCHMARKS[run.dataset].title} ({lead.mean:+.3f}{beyond})")
    if keqa:
        yield f"KEQA is behind: {'; '.join(behind)}." if behind else "KEQA is behind no method on any set."


def _lead(keqa: RealRun | None, run: RealRun) -> Interval | None:
    """How far KEQA is ahead on the questions of both."""
    both = [] if keqa is None else [(keqa.lines[one], line) for one, line in run.lines.items() if one in keqa.lines]
    if len(both) < 2:
        return None
    ours, theirs = zip(*((_quality(mine), _quality(other)) for mine, other in both), strict=True)
    return paired_bootstrap(ours, theirs)


def _quality(line: RunLine) -> float:
    return line.scores.get("accuracy", line.scores.get("f1", 0.0))


def _interval(group: str, of: Interval | None, *, signed: bool = False) -> Iterator[Named]:
    for name in ("mean", "low", "high"):
        yield (name, group), EMPTY if of is None else number(getattr(of, name), signed=signed)


def _costs(lines: Iterable[RunLine]) -> Iterator[Named]:
    costs = [line.record.cost for line in lines if line.record is not None]
    for name, of, digits in (("LM calls", "samples", 1), ("tokens", "tokens", 0), ("retrievals", "retrievals", 2)):
        yield name, number(fmean(getattr(cost, of) for cost in costs), digits) if costs else EMPTY


def _failures(name: str, lm: str, runs: Sequence[RealRun]) -> Grid:
    by_row: dict[str, list[RunLine]] = {}
    for run in runs:
        by_row.setdefault(run.label, []).extend(run.lines.values())
    rows = [
        [("method", text(title_of(label))), ("questions", count(len(lines))), *_kinds(lines)]
        for label, lines in by_row.items()
    ]
    return table(
        name,
        f"What went wrong, {lm}",
        rows,
        "Over all sets. Broken format: replies that could not be used, whether or not a second attempt mended it; cut "
        "off: those of them that reached the limit of tokens; loop: questions in whose answer or explanation the "
        "same words follow each other four times; refusal: answers that say that it is not known; failed: questions "
        "without an answer; other: what else was noted on the way, such as a decomposition that was of no use.",
    )


def _kinds(lines: Sequence[RunLine]) -> Iterator[Named]:
    causes: Counter[str] = Counter()
    for line in lines:
        causes.update([] if line.record is None else [one.cause for one in line.record.degradations])
    broken = sum(causes[one] for one in UNREADABLE)
    records = [line.record for line in lines if line.record is not None]
    yield "broken format", count(broken)
    yield "cut off", count(causes["TruncatedReplyError"])
    yield "loop", count(sum(any(map(loops, (one.explanation, one.answer or ""))) for one in records))
    yield "refusal", count(sum(line.declined for line in lines))
    yield "failed", count(sum(line.failed for line in lines))
    others = [(cause, some) for cause, some in causes.most_common() if cause not in UNREADABLE]
    named = ", ".join(f"{cause} {some}" for cause, some in others)
    yield "other", Cell(named, named)


def loops(text: str) -> bool:
    found = _LOOP.search(text)
    return found is not None and len(found.group()) >= _SHORTEST_LOOP
