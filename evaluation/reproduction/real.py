"""Real language models on real questions: the sets and methods that are asked, what was collected, and its tables.

What ships is an archive for each language model of what `keqa reproduce real --lm …` collected: run files with the
replies, scores and costs, without prompts, passages, questions and gold answers; for each question stands its digest.
"""

import re
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from keqa.data.benchmarks import BENCHMARKS
from keqa.data.loading import sampled
from keqa.errors import InputError
from keqa.evaluation.questions import Questions, of_name
from keqa.evaluation.records import Run, RunLine, header_line, run_line
from keqa.evaluation.reports.grid import EMPTY, Cell, Grid, Named, count, number, table, text
from keqa.evaluation.reports.questions import UNREADABLE, QuestionRow, brief_of, measure
from keqa.evaluation.reports.rows import Entry, paired, whole
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
_ALL = "all"
_KEQA = "expanding"
"""The row whose lead is shown: KEQA as it comes over an index of one's own."""
_COSTS = (("LM calls", "samples", 1), ("tokens", "tokens", 0), ("retrievals", "retrievals", 2))
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


def lm_of(run: Run[RunLine]) -> str:
    """The language model that answered, without its revision."""
    return (run.header.configuration.lm or "").partition("@")[0]


def shipped_runs() -> list[Run[RunLine]]:
    found: list[Run[RunLine]] = []
    for archive in sorted((_PACKAGE / "real").iterdir(), key=lambda one: one.name):
        if archive.name.endswith(_ARCHIVE):
            with tempfile.TemporaryDirectory(prefix="keqa-") as folder, archive.open("rb") as stream:
                zipfile.ZipFile(stream).extractall(folder)
                found += [run for _, run in _finished(Path(folder))]
    return found


def collected_runs(out: Path) -> list[Run[RunLine]]:
    """What was collected into a folder, as it would ship."""
    runs = (run for folder in sorted(out.glob("*")) for _, run in _finished(folder))
    return [Run(run.header, list(map(shipped, run.lines))) for run in runs]


def with_most(runs: Iterable[Run[RunLine]]) -> list[Run[RunLine]]:
    """In the order of the tables, of the runs of one row that with the most questions; of a tie the later one."""
    found: dict[tuple[str, int, int], Run[RunLine]] = {}
    sets, rows = list(SETS), list(DESIGN["rows"])
    for run in runs:
        place = (lm_of(run), sets.index(run.header.dataset), rows.index(run.header.label))
        if run.lines and len(run.lines) >= len(found.get(place, run).lines):
            found[place] = run
    return [found[place] for place in sorted(found)]


def _finished(folder: Path) -> Iterator[tuple[Path, Run[RunLine]]]:
    """The finished runs of a language model, in the order of the tables."""
    for path in (folder / name / f"{row}{_ENDING}" for name in SETS for row in DESIGN["rows"]):
        # What is under way has the questions that ended soonest, which are no sample.
        if path.is_file() and (run := read_run(path)).finished:
            yield path, run


def real_tables(runs: Sequence[Run[RunLine]]) -> list[Grid]:
    """Of each language model scores, costs and KEQA's lead by set and method, and what went wrong by method."""
    grids: list[Grid] = []
    for place, lm in enumerate(dict.fromkeys(map(lm_of, runs)), start=1):
        own = [run for run in runs if lm_of(run) == lm]
        grids += [_scores(f"real-{place}", lm, _entries(own)), _failures(f"real-{place}-failures", lm, own)]
    return grids


def _entries(runs: Sequence[Run[RunLine]]) -> list[Entry]:
    """A row for each method, with its questions of all sets, whose digests need not be of one version."""
    found: dict[str, Entry] = {}
    for run in runs:
        entry = found.setdefault(run.header.label, Entry(run.header, title_of(run.header.label)))
        entry.lines.update({(run.header.dataset, "", line.id): brief_of(line) for line in run.lines})
    return [found[label] for label in DESIGN["rows"] if label in found]


def title_of(label: str) -> str:
    return str(DESIGN["rows"][label].get("title") or spec_of(label).method.title)


def _scores(name: str, lm: str, entries: Sequence[Entry]) -> Grid:
    keqa = next((entry for entry in entries if entry.label == _KEQA), None)
    rows: list[list[Named]] = []
    ruled, behind = [], []
    for dataset in (*SETS, _ALL):
        ruled.append(len(rows))
        title = "All sets" if dataset == _ALL else BENCHMARKS[dataset].title
        for entry in (entry for entry in entries if _lines(entry, dataset)):
            lines, lead = _lines(entry, dataset), _lead(keqa, entry, dataset)
            if lead is not None and lead.mean < 0 and dataset != _ALL:
                beyond = ", beyond chance" if lead.excludes_zero else ""
                behind.append(f"{entry.title} on {title} ({lead.mean:+.3f}{beyond})")
            scores = [line.quality for line in lines]
            rows.append(
                [
                    *(("set", text(title)), ("method", text(entry.title)), ("questions", count(len(lines)))),
                    *_interval("F1", bootstrap_mean(scores) if len(scores) > 1 else None),
                    ("EM", number(measure("em", lines))),
                    *((head, number(measure(of, lines), digits)) for head, of, digits in _COSTS),
                    *_interval("KEQA's lead in F1", lead, signed=True),
                ]
            )
    verdict = f"KEQA is behind: {'; '.join(behind)}." if behind else "KEQA is behind no method on any set."
    notes = (
        "F1 of yes/no questions is their accuracy; a failed question scores 0. Intervals are of 95 %, by bootstrap "
        "over questions. LM calls, tokens of prompts and replies, and retrievals are for one question. KEQA's lead is "
        "that of KEQA as it comes, over the questions that both were asked; an interval without 0 is beyond chance.",
        *([] if keqa is None else [verdict]),
    )
    return table(name, f"Real questions, {lm}", rows, *notes, ruled=ruled)


def _lines(entry: Entry, dataset: str) -> list[QuestionRow]:
    """What a method replied on a set, or on all that it was asked about, where there are several."""
    several = len({name for name, _, _ in entry.lines}) > 1
    return entry.on(dataset) if dataset != _ALL else entry.within() if several else []


def _lead(keqa: Entry | None, entry: Entry, dataset: str) -> Interval | None:
    """How far KEQA is ahead on the questions of both."""
    if keqa is None or keqa is entry or not _lines(keqa, dataset):
        return None
    ours, theirs = paired(keqa, entry, lambda line: line.quality, whole([entry], dataset))
    return paired_bootstrap(ours, theirs) if len(ours) > 1 else None


def _interval(group: str, of: Interval | None, *, signed: bool = False) -> Iterator[Named]:
    for name in ("mean", "low", "high"):
        yield (name, group), EMPTY if of is None else number(getattr(of, name), signed=signed)


def _failures(name: str, lm: str, runs: Sequence[Run[RunLine]]) -> Grid:
    by_row: dict[str, list[RunLine]] = {}
    for run in runs:
        by_row.setdefault(run.header.label, []).extend(run.lines)
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
