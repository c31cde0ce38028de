"""A server that fails at nearly a third of its calls, in every way we know: what becomes of the answers and figures.

    python benchmarks/faults.py [--questions 1000] [--share 0.3] [--seed 0] [--folder FOLDER] [--minutes 60]

KEQA and three baselines are asked the same questions three times, of a scripted language model behind a server on this
machine, which is part of this program: without faults, with faults, and, after the server has recovered, once more with
`retry_failed`. Whether and how a call fails depends on the seed, on what is asked and on how often it was asked, so
that a campaign repeats.

It is checked that no question is lost or there twice, that an answer which a failure changed is failed or marked, that
no failure is a programming error, that the requests reported are those that arrived, that no file holds the key or the
server's address, and that the retried run has the answers and figures of the one without faults.

With --folder, the same command resumes a campaign that was stopped. The last line is JSON. Exit code: 0 where every
promise was kept, 1 where one was broken, 2 where the time was over before the end.
"""

from __future__ import annotations

import argparse
import builtins
import json
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import common
import dspy
from common import Beside
from faulty.server import KINDS, MODEL, Server
from faulty.world import passages, questions

from keqa.evaluation.evaluate import evaluate
from keqa.evaluation.records import Run, RunLine
from keqa.evaluation.run_file import iter_lines, read_run
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
    changed = [line for line in run.lines if not marked(line) and line.answer != expected[line.id].answer]
    broken = [_differs(line, expected) for line in changed]
    return Check("an answer that a failure changed is failed or marked", len(run.lines), broken)


def _differs(line: RunLine, expected: Mapping[str, RunLine]) -> str:
    notes = line.record.degradations if line.record is not None else []
    noted = ", ".join(f"{note.stage}: {note.cause}, {note.action}" for note in notes) or "nothing noted"
    return f"{line.id}: {line.answer!r} for {expected[line.id].answer!r}; {noted}"


def healed(run: Run, sound: Run) -> list[Check]:
    """After the server has recovered nothing differs from the run without faults: no answer, score or mark."""
    expected = {line.id: line for line in sound.lines}
    healed, count = "retried on the healed server", len(run.lines)
    wrong = [_differs(line, expected) for line in run.lines if line.answer != expected[line.id].answer]
    touched = [f"{line.id}: {line.error or line.impairments}" for line in run.lines if marked(line)]
    scores = Check(f"{healed}: the same figures", len(sound.lines[0].scores))
    for name in sound.lines[0].scores:
        sums = [sum(line.scores.get(name, 0.0) for line in one.lines) / len(one.lines) for one in (run, sound)]
        if abs(sums[0] - sums[1]) > 1e-12:
            scores.broken.append(f"{name} {sums[0]:.4f} for {sums[1]:.4f}")
    answers = Check(f"{healed}: the same answers", count, wrong)
    return [answers, Check(f"{healed}: nothing failed or marked", count, touched), scores]


def programming_errors(run: Run) -> Check:
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
    check = Check("no negative or absurd sum of tokens", len(run.lines))
    for line in run.lines:
        for role, cost in line.record.cost.by_role.items() if line.record is not None else ():
            for tokens in (cost.prompt_tokens, cost.completion_tokens):
                if not 0 <= tokens <= MOST_TOKENS:
                    check.broken.append(f"{line.id}: {tokens} tokens of {role}")
    return check


def leaks(folder: Path, words: Mapping[str, str]) -> Check:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    check = Check("no file holds the key or the server's address", len(files))
    for path in files:
        found = [what for what, word in words.items() if word.encode() in path.read_bytes()]
        check.broken += [f"{path.relative_to(folder)} holds {what}" for what in found]
    return check


def _requests(done: list[dict[str, Any]], *stages: list[Any]) -> Check:
    """Of each stage that was asked in one go, the requests that its lines report are those that arrived.

    A few more may be reported: one whose deadline ends on the way, on a machine that is busy, never reaches the server.
    """
    check = Check("the requests reported are those that arrived")
    for stage, counted, lines in zip(STAGES, done, stages, strict=True):
        reported = sum(line.record.cost.calls for line in lines if line.record is not None)
        if not counted["resumed"]:
            check.tested += counted["requests"]
            if not counted["requests"] <= reported <= counted["requests"] * LATE + 2:
                check.broken.append(f"{stage}: {reported:,} reported, {counted['requests']:,} arrived")
    return check


class TimeOverError(Exception):
    """The campaign has taken as long as it may."""


class Campaign:
    """The runs of all methods, and what is checked of them."""

    def __init__(self, options: argparse.Namespace, folder: Path, server: Beside) -> None:
        self.options, self.folder, self.server = options, folder, server
        self.until = time.monotonic() + options.minutes * 60
        self.rows = questions(options.questions, options.seed)
        self.key = f"sk-campaign-{secrets.token_hex(12)}"
        if not (folder / "index").exists():
            build_index([Passage(**row) for row in passages(options.questions, options.seed)], folder / "index")
        self.retriever = open_index(folder / "index")
        # The server knows the papers' prompts.
        self.retriever.own_documents = False
        self.roles = build_roles(
            MODEL, api_base=server.api_base, api_key=self.key, timeout=TIMEOUT, num_retries=RETRIES
        )
        # The first call imports the client's library, which takes longer than a call may.
        self.roles.task.copy(timeout=60.0)("Hello", cache=False)
        asked = {name: getattr(options, name) for name in ("questions", "share", "seed")}
        self.state: dict[str, Any] = {"options": asked | {"kinds": list(options.kinds)}, "done": {}}
        self.kept = folder / "campaign.json"
        if self.kept.exists():
            kept = json.loads(self.kept.read_text())
            if kept["options"] != self.state["options"]:
                raise SystemExit(f"{folder} holds a campaign with other options: name another folder")
            self.state = kept
        self.checks: dict[str, list[Check]] = {}
        self.faults: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()

    def run(self) -> None:
        """Ask every method in every stage, and check."""
        for method in self.options.methods:
            for stage in STAGES:
                self._stage(method, stage)
            self._checked(method, self._checks(method))

    def _path(self, method: str, stage: str) -> Path:
        return self.folder / ("sound" if stage == STAGES[0] else "faulty") / f"{method}.jsonl"

    def _stage(self, method: str, stage: str) -> None:
        """Ask one method, unless that was done before; what is counted is kept beside the run files."""
        done = self.state["done"].get(f"{method}, {stage}")
        if done is None:
            if stage == STAGES[2]:
                # It is this file that the retried run changes.
                kept = self.folder / "before" / f"{method}.jsonl"
                kept.parent.mkdir(exist_ok=True)
                kept.write_bytes(self._path(method, stage).read_bytes())
            done = self.state["done"][f"{method}, {stage}"] = self._ask(method, stage)
            temporary = self.kept.with_suffix(".new")
            temporary.write_text(json.dumps(self.state, indent=1))
            temporary.replace(self.kept)
        self.faults.update(done["faults"])
        self.requests[stage] += done["requests"]
        print(f"{method}, {stage}: {done['told']}", flush=True)

    def _ask(self, method: str, stage: str) -> dict[str, Any]:
        options, path, again = self.options, self._path(method, stage), stage == STAGES[2]
        program = make(parse_spec(method), Parts(self.retriever, self.roles, SETTINGS))
        share = options.share if stage == STAGES[1] else 0.0
        self.server.ask("plan", share=share, kinds=options.kinds, seed=options.seed)
        resumed = path.exists() and not again
        how = {"out": path, "in_flight": options.in_flight, "retry_failed": again, "progress": self._progress}
        raised: list[str] = []
        started, tally = time.monotonic(), None
        with CallCache(path.parent / f"{method}.sqlite") as cache:
            while tally is None:
                try:
                    tally = evaluate(program, self.rows, cache=cache, **how)
                except TimeOverError:
                    raise
                except Exception as error:
                    raised.append(f"{stage}: the run ended with {type(error).__name__}: {str(error)[:300]}")
                    if len(raised) > RESUMED:
                        raise
        counts: dict[str, Any] = self.server.ask("counts")
        summary = f"{tally.done:,} of {tally.questions:,}, F1 {tally.mean('f1'):.3f}, EM {tally.mean('em'):.3f}, "
        summary += f"{tally.failed:,} failed, {tally.impaired:,} impaired, {counts['requests']:,} requests, "
        summary += f"{sum(counts['faults'].values()):,} faults, {time.monotonic() - started:.0f} s"
        return {**counts, "raised": raised, "resumed": resumed or bool(raised), "told": summary}

    def _progress(self, tally: Any) -> None:
        if time.monotonic() > self.until:
            raise TimeOverError

    def _checks(self, method: str) -> list[Check]:
        before = self.folder / "before" / f"{method}.jsonl"
        sound, faulty, retried = map(read_run, (self._path(method, STAGES[0]), before, self._path(method, STAGES[2])))
        done = [self.state["done"][f"{method}, {stage}"] for stage in STAGES]
        asked_again = {line.id for line in faulty.lines if marked(line)}
        again = [line for line in retried.lines if line.id in asked_again]
        strayed = [
            f"{count} requests, {keys} with the key" for count, keys in (one["strayed"] for one in done) if count
        ]
        touched = [line.id for line in sound.lines if marked(line)]
        return [
            Check("the run without faults has no failure", len(sound.lines), touched),
            Check("no error ends a run", len(STAGES), [message for one in done for message in one["raised"]]),
            *whole(before, [row["id"] for row in self.rows]),
            compared(faulty, sound),
            programming_errors(faulty),
            costs(faulty),
            Check("no redirect leads to another server", len(self.rows), strayed),
            _requests(done, sound.lines, faulty.lines, again),
            *healed(retried, sound),
        ]

    def _checked(self, name: str, checks: list[Check]) -> None:
        self.checks[name] = checks
        for check in checks:
            print(check, flush=True)

    def finish(self) -> dict[str, Any]:
        """Check what concerns all runs together, and sum up."""
        address = self.server.api_base.partition("://")[2].partition("/")[0]
        overall = [leaks(self.folder, {"the key": self.key, "the key's start": self.key[:24], "the address": address})]
        absent = sorted(kind for kind in self.options.kinds if not self.faults[kind])
        if self.options.share:
            overall.append(Check("every way of failing was met", len(self.options.kinds), absent))
        print("all runs")
        self._checked("all", overall)
        found = [(f"{name}: {one.promise}", len(one.broken)) for name, some in self.checks.items() for one in some]
        return {
            "faults": sum(self.faults.values()),
            "ways": len(self.options.kinds) - len(absent),
            "requests": dict(self.requests),
            "broken": {name: count for name, count in found if count},
        }


def main(arguments: list[str] | None = None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--share", type=float, default=0.3, help="of the calls that fail")
    parser.add_argument("--seed", type=int, default=0, help="another one lets other calls fail")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=tuple(KINDS), metavar="KIND", help="ways to fail")
    parser.add_argument("--in-flight", type=int, default=32, help="questions in work at once")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which it stops")
    parser.add_argument("--folder", type=Path, default=None, help="of the run files, kept to resume from")
    options, started, over = parser.parse_args(arguments), time.monotonic(), False
    # DSPy's own caches would answer across campaigns.
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    with tempfile.TemporaryDirectory() as temporary, Beside(Server, patience=TIMEOUT * 5) as server:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        campaign = Campaign(options, folder, server)
        try:
            campaign.run()
        except TimeOverError:
            over = True
            print("the time is over; the same command with the same --folder resumes", file=sys.stderr)
        figures = campaign.finish()
    summary = {"questions": options.questions, "share": options.share, "seed": options.seed, **figures}
    print(json.dumps({**summary, "finished": not over, "seconds": round(time.monotonic() - started)}))
    return 2 if over else 1 if figures["broken"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
