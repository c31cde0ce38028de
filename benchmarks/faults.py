"""A server that fails at nearly a third of its calls, in every way we know: what becomes of the answers and figures.

    python benchmarks/faults.py [--questions 1000] [--share 0.3] [--seed 0]

KEQA and three baselines are asked the same questions of a scripted language model behind a server of this program:
without faults, with faults, and, after the server has recovered, once more with `retry_failed`. Whether and how a call
fails depends on the seed, on what is asked and on how often it was asked, so that a campaign repeats. The promises that
are checked are printed with how often they were tested. The last line is JSON. Exit code: 0 where all were kept.
"""

import argparse
import builtins
import json
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import dspy
from common import Beside, options, read_lines
from faulty.server import KINDS, MODEL, Server
from faulty.world import passages, questions

from keqa.evaluation.evaluate import evaluate
from keqa.evaluation.records import Run, RunLine
from keqa.evaluation.run_file import read_run
from keqa.lms import build_roles
from keqa.programs.build import Parts, make
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.registry import parse_spec
from keqa.retrievers import Passage, build_index, open_index

METHODS = ("keqa", "closed-book", "rag-cot", "ircot")
STAGES = ("without faults", "with faults", "retried")
TIMEOUT, RETRIES = 2.0, 1
"""Seconds that a call may take, and how often one that failed and may pass is made again."""
SETTINGS = {"top_k": 4, "workers": 64}
LATE = 1.01
"""How many times the requests that arrived may be reported, for those that came too late to arrive."""
RESUMED = 20
"""How often a run is resumed that an error has ended."""
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
        verdict = f"{len(self.broken):,} BROKEN" if self.broken else "kept"
        return f"  {self.promise:<58} {self.tested:>9,}  {verdict}{shown}"


def marked(line: RunLine) -> bool:
    return line.failed or bool(line.impairments)


def whole(path: Path, asked: Sequence[str]) -> list[Check]:
    # Line by line, for a run file that is read as one has the last line of each question alone.
    found = Counter(line["id"] for line in read_lines(path) if "id" in line)
    lost = Check("every question has its line", len(asked), [name for name in asked if name not in found])
    twice = [f"{name}: {count} lines" for name, count in found.items() if count > 1 or name not in set(asked)]
    return [lost, Check("no question has two", len(asked), twice)]


def compared(run: Run, sound: Run) -> Check:
    broken = _differing([line for line in run.lines if not marked(line)], sound)
    return Check("an answer that a failure changed is failed or marked", len(run.lines), broken)


def _differing(lines: Iterable[RunLine], sound: Run) -> list[str]:
    expected, found = {line.id: line.answer for line in sound.lines}, []
    for line in lines:
        if line.answer != expected[line.id]:
            notes = line.record.degradations if line.record is not None else []
            noted = ", ".join(f"{note.stage}: {note.cause}, {note.action}" for note in notes) or "nothing noted"
            found.append(f"{line.id}: {line.answer!r} for {expected[line.id]!r}; {noted}")
    return found


def healed(run: Run, sound: Run) -> list[Check]:
    healed, count = "retried on the healed server", len(run.lines)
    touched = [f"{line.id}: {line.error or line.impairments}" for line in run.lines if marked(line)]
    scores = Check(f"{healed}: the same figures", len(sound.lines[0].scores))
    for name in sound.lines[0].scores:
        ours, theirs = (fmean(line.scores.get(name, 0.0) for line in one.lines) for one in (run, sound))
        if abs(ours - theirs) > 1e-12:
            scores.broken.append(f"{name} {ours:.4f} for {theirs:.4f}")
    answers = Check(f"{healed}: the same answers", count, _differing(run.lines, sound))
    return [answers, Check(f"{healed}: nothing failed or marked", count, touched), scores]


def programming_errors(run: Run) -> Check:
    check = Check("no failure is a programming error", len(run.lines))
    for line in run.lines:
        notes = line.record.degradations if line.record is not None else []
        causes = [*((line.error.cause,) if line.error else ()), *(note.cause for note in notes)]
        kinds = {cause: getattr(builtins, cause, None) for cause in causes}
        ours = [cause for cause, kind in kinds.items() if isinstance(kind, type) and not issubclass(kind, OSError)]
        check.broken += [f"{line.id}: {cause}" for cause in ours]
    return check


def costs(run: Run) -> Check:
    check = Check("no negative or absurd sum of tokens", len(run.lines))
    for line in run.lines:
        for role, cost in line.record.cost.by_role.items() if line.record is not None else ():
            absurd = [one for one in (cost.prompt_tokens, cost.completion_tokens) if not 0 <= one <= MOST_TOKENS]
            check.broken += [f"{line.id}: {count} tokens of {role}" for count in absurd]
    return check


def leaks(folder: Path, words: Mapping[str, str]) -> Check:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    check = Check("no file holds the key or the server's address", len(files))
    for path in files:
        found = [what for what, word in words.items() if word.encode() in path.read_bytes()]
        check.broken += [f"{path.relative_to(folder)} holds {what}" for what in found]
    return check


def requests(done: Sequence[dict[str, Any]], *stages: list[RunLine]) -> Check:
    """Of each stage that no error ended, the requests that its lines report are those that arrived.

    A few more may be reported: one whose deadline ends on the way, on a machine that is busy, never reaches the server.
    """
    check = Check("the requests reported are those that arrived")
    for stage, counted, lines in zip(STAGES, done, stages, strict=True):
        reported = sum(line.record.cost.calls for line in lines if line.record is not None)
        arrived = counted["requests"]
        check.tested += 0 if counted["raised"] else arrived
        if not counted["raised"] and not arrived <= reported <= arrived * LATE + 2:
            check.broken.append(f"{stage}: {reported:,} reported, {arrived:,} arrived")
    return check


class Campaign:
    """The runs of all methods, and what is checked of them."""

    def __init__(self, given: argparse.Namespace, folder: Path, server: Beside) -> None:
        self.given, self.folder, self.server = given, folder, server
        self.rows = questions(given.questions, given.seed)
        self.key = f"sk-campaign-{secrets.token_hex(12)}"
        build_index([Passage(**row) for row in passages(given.questions, given.seed)], folder / "index")
        self.retriever = open_index(folder / "index")
        # The server knows the papers' prompts.
        self.retriever.own_documents = False
        at = {"api_base": server.api_base, "api_key": self.key}
        self.roles = build_roles(MODEL, timeout=TIMEOUT, num_retries=RETRIES, **at)
        # The first call imports the client's library, which takes longer than a call may.
        self.roles.task.copy(timeout=60.0)("Hello", cache=False)
        self.broken: dict[str, int] = {}
        self.faults: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()

    def ask(self, method: str) -> None:
        sound, faulty = (self.folder / name / f"{method}.jsonl" for name in ("sound", "faulty"))
        done = [self._stage(method, *one) for one in zip(STAGES, (sound, faulty, faulty), strict=True)]
        self._check(method, self._checks(done))

    def _stage(self, method: str, stage: str, path: Path) -> dict[str, Any]:
        program = make(parse_spec(method), Parts(self.retriever, self.roles, SETTINGS))
        share = self.given.share if stage == STAGES[1] else 0.0
        self.server.ask("plan", share=share, seed=self.given.seed)
        how = {"out": path, "in_flight": self.given.in_flight, "retry_failed": stage == STAGES[2]}
        raised: list[str] = []
        started, tally = time.monotonic(), None
        with CallCache(path.with_suffix(".sqlite")) as cache:
            while tally is None:
                try:
                    tally = evaluate(program, self.rows, cache=cache, **how)
                except Exception as error:
                    raised.append(f"{stage}: the run ended with {type(error).__name__}: {str(error)[:300]}")
                    if len(raised) > RESUMED:
                        raise
        counts: dict[str, Any] = self.server.ask("counts")
        summary = f"{method}, {stage}: {tally.done:,} of {tally.questions:,}, F1 {tally.mean('f1'):.3f}, EM "
        summary += f"{tally.mean('em'):.3f}, {tally.failed:,} failed, {tally.impaired:,} impaired, "
        faults, seconds = sum(counts["faults"].values()), time.monotonic() - started
        print(f"{summary}{counts['requests']:,} requests, {faults:,} faults, {seconds:.0f} s", flush=True)
        self.faults.update(counts["faults"])
        self.requests[stage] += counts["requests"]
        # It is this file that a retried run changes.
        lines = whole(path, [row["id"] for row in self.rows])
        return {**counts, "raised": raised, "run": read_run(path), "lines": lines}

    def _checks(self, done: Sequence[dict[str, Any]]) -> Iterator[Check]:
        sound, faulty, retried = (one["run"] for one in done)
        asked_again = {line.id for line in faulty.lines if marked(line)}
        again = [line for line in retried.lines if line.id in asked_again]
        strayed = [f"{one['strayed']}: requests, and with the key" for one in done if one["strayed"][0]]
        touched = [line.id for line in sound.lines if marked(line)]
        yield Check("the run without faults has no failure", len(sound.lines), touched)
        yield Check("no error ends a run", len(STAGES), [message for one in done for message in one["raised"]])
        yield from done[1]["lines"]
        yield compared(faulty, sound)
        yield programming_errors(faulty)
        yield costs(faulty)
        yield Check("no redirect leads to another server", len(self.rows), strayed)
        yield requests(done, sound.lines, faulty.lines, again)
        yield from healed(retried, sound)

    def _check(self, name: str, checks: Iterable[Check]) -> None:
        for check in checks:
            print(check, flush=True)
            if check.broken:
                self.broken[f"{name}: {check.promise}"] = len(check.broken)

    def finish(self) -> dict[str, Any]:
        address = self.server.api_base.partition("://")[2].partition("/")[0]
        overall = [leaks(self.folder, {"the key": self.key, "the key's start": self.key[:24], "the address": address})]
        absent = sorted({*KINDS} - {*self.faults})
        if self.given.share:
            overall.append(Check("every way of failing was met", len(KINDS), absent))
        print("all runs")
        self._check("all", overall)
        counts = {"faults": self.faults.total(), "ways": len(KINDS) - len(absent), "requests": dict(self.requests)}
        return {**counts, "broken": self.broken}


def main(arguments: list[str] | None = None) -> int:
    started = time.monotonic()
    given = options(__doc__, given=arguments, questions=1000, share=0.3, seed=0, methods=METHODS, in_flight=32)
    # DSPy's own caches would answer across campaigns.
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    with tempfile.TemporaryDirectory() as folder, Beside(Server, patience=TIMEOUT * 5) as server:
        campaign = Campaign(given, Path(folder), server)
        for method in given.methods:
            campaign.ask(method)
        figures = campaign.finish()
    summary = {"questions": given.questions, "share": given.share, "seed": given.seed, **figures}
    print(json.dumps({**summary, "seconds": round(time.monotonic() - started)}))
    return int(bool(figures["broken"]))


if __name__ == "__main__":
    raise SystemExit(main())
