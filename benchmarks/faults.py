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
import json
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from faulty import checks
from faulty.checks import Check
from faulty.kinds import KINDS
from faulty.server import MODEL, Process
from faulty.world import passages, questions

METHODS = ("keqa", "closed-book", "rag-cot", "ircot")
STAGES = ("without faults", "with faults", "retried")
LATE = 1.01
"""How many times the requests that arrived may be reported, for those that came too late to arrive."""
RESUMED = 20
"""How often a run is resumed that an error has ended."""


class TimeOverError(Exception):
    """The campaign has taken as long as it may."""


class Campaign:
    """The runs of all methods, and what is checked of them.

    Attributes:
        checks: By method and promise.
        faults: How often each way of failing was met.
        requests: By stage, how many requests arrived.
    """

    def __init__(self, options: argparse.Namespace, folder: Path, server: Process) -> None:
        from keqa.lms import build_roles
        from keqa.retrievers import open_index

        self.options, self.folder, self.server = options, folder, server
        self.until = time.monotonic() + options.minutes * 60
        self.rows = questions(options.questions, options.seed)
        self.key = f"sk-campaign-{secrets.token_hex(12)}"
        self.retriever = open_index(_index(folder, options))
        # The server knows the papers' prompts.
        self.retriever.own_documents = False
        self.roles = build_roles(
            MODEL, api_base=server.api_base, api_key=self.key, timeout=options.timeout, num_retries=options.retries
        )
        # The first call imports the client's library, which takes longer than a call may.
        self.roles.task.copy(timeout=60.0)("Hello", cache=False)
        self.state = _state(folder, options)
        self.checks: dict[str, list[Check]] = {}
        self.faults: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()

    def run(self) -> None:
        """Ask every method in every stage, and check.

        Raises:
            TimeOverError: Not all was asked in time.
        """
        for method in self.options.methods:
            for stage in STAGES:
                self._stage(method, stage)
            self._check(method)

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
            done = self._ask(method, stage)
            self.state["done"][f"{method}, {stage}"] = done
            _written(self.folder / "campaign.json", self.state)
        self.faults.update(done["faults"])
        self.requests[stage] += done["requests"]
        print(f"{method}, {stage}: {done['told']}", flush=True)

    def _ask(self, method: str, stage: str) -> dict[str, Any]:
        from keqa.evaluation.evaluate import evaluate
        from keqa.programs.build import Parts, make
        from keqa.programs.calls.call_cache import CallCache
        from keqa.programs.registry import parse_spec

        options, path = self.options, self._path(method, stage)
        settings = {"top_k": options.top_k, "workers": options.workers}
        program = make(parse_spec(method), Parts(self.retriever, self.roles, settings))
        share = options.share if stage == STAGES[1] else 0.0
        self.server.ask("plan", share=share, kinds=options.kinds, seed=options.seed)
        resumed = path.exists() and stage != STAGES[2]
        raised: list[str] = []
        started = time.monotonic()
        with CallCache(path.parent / f"{method}.sqlite") as cache:
            while True:
                try:
                    tally = evaluate(
                        program,
                        self.rows,
                        out=path,
                        in_flight=options.in_flight,
                        cache=cache,
                        retry_failed=stage == STAGES[2],
                        progress=self._progress,
                    )
                    break
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

    def _check(self, method: str) -> None:
        from keqa.evaluation.run_file import read_run

        sound, faulty = read_run(self._path(method, STAGES[0])), read_run(self.folder / "before" / f"{method}.jsonl")
        retried = read_run(self._path(method, STAGES[2]))
        done = [self.state["done"][f"{method}, {stage}"] for stage in STAGES]
        raised = [message for one in done for message in one["raised"]]
        touched = [line.id for line in sound.lines if checks.marked(line)]
        asked_again = {line.id for line in faulty.lines if checks.marked(line)}
        again = [line for line in retried.lines if line.id in asked_again]
        strayed = [
            f"{count} requests, {keys} with the key" for count, keys in (one["strayed"] for one in done) if count
        ]
        self.checks[method] = [
            Check("the run without faults has no failure", len(sound.lines), touched),
            Check("no error ends a run", len(STAGES), raised),
            *checks.whole(self.folder / "before" / f"{method}.jsonl", [row["id"] for row in self.rows]),
            checks.compared(faulty, sound),
            checks.programming_errors(faulty),
            checks.costs(faulty),
            Check("no redirect leads to another server", len(self.rows), strayed),
            _requests(done, sound.lines, faulty.lines, again),
            *checks.healed(retried, sound),
        ]
        for check in self.checks[method]:
            print(check, flush=True)

    def finish(self) -> dict[str, Any]:
        """Check what concerns all runs together, and sum up."""
        address = self.server.api_base.partition("://")[2].partition("/")[0]
        words = {"the key": self.key, "the key's start": self.key[:24], "the address": address}
        overall = [checks.secrets(self.folder, words)]
        met = [kind for kind in self.options.kinds if self.faults[kind]]
        if self.options.share:
            absent = sorted(set(self.options.kinds) - set(met))
            overall.append(Check("every way of failing was met", len(self.options.kinds), absent))
        print("all runs")
        for check in overall:
            print(check, flush=True)
        broken = {
            f"{method}: {check.promise}": len(check.broken)
            for method, found in [*self.checks.items(), ("all", overall)]
            for check in found
            if check.broken
        }
        return {
            "faults": sum(self.faults.values()),
            "ways": len(met),
            "requests": dict(self.requests),
            "broken": broken,
        }


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


def _index(folder: Path, options: argparse.Namespace) -> str:
    from keqa.retrievers import Passage, build_index

    if not (folder / "index").exists():
        build_index([Passage(**row) for row in passages(options.questions, options.seed)], folder / "index")
    return str(folder / "index")


def _state(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What of the campaign was done before.

    Raises:
        SystemExit: The folder is that of another campaign.
    """
    asked = {name: getattr(options, name) for name in ("questions", "share", "seed", "timeout", "retries", "top_k")}
    asked["kinds"] = list(options.kinds)
    path = folder / "campaign.json"
    if not path.exists():
        return {"options": asked, "done": {}}
    state: dict[str, Any] = json.loads(path.read_text())
    if state["options"] != asked:
        raise SystemExit(f"{folder} holds a campaign with other options: name another folder")
    return state


def _written(path: Path, value: Any) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(value, indent=1))
    temporary.replace(path)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--share", type=float, default=0.3, help="of the calls that fail")
    parser.add_argument("--seed", type=int, default=0, help="another one lets other calls fail")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=tuple(KINDS), metavar="KIND", help="ways to fail")
    parser.add_argument("--timeout", type=float, default=2.0, help="seconds that a call may take")
    parser.add_argument("--retries", type=int, default=1, help="of a call that failed and may pass")
    parser.add_argument("--top-k", type=int, default=4)
    parser.add_argument("--in-flight", type=int, default=32, help="questions in work at once")
    parser.add_argument("--workers", type=int, default=64, help="calls in flight at most")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which it stops")
    parser.add_argument("--folder", type=Path, default=None, help="of the run files, kept to resume from")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign."""
    import dspy

    options, started, over = parsed(arguments), time.monotonic(), False
    # DSPy's own caches would answer across campaigns.
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    with tempfile.TemporaryDirectory() as temporary, Process(patience=options.timeout * 5) as server:
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
