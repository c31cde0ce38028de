"""Hundreds of kills of commands: what is left of the work, and what is done twice.

    python benchmarks/kills.py [--kills 100] [--commands index compile …] [--seed 0] [--folder FOLDER]

Each command is run once to its end, against a scripted language model behind a server on this machine. Then it is begun
in another folder and killed (``kill -9``) at a point drawn at random: after a time, after a number of requests, or
while it writes its last files. The same command is started again until it ends, and what it wrote is compared with what
the first run wrote; then it is begun again, until all kills are spent.

It is checked that every final file is the same but for times (and for which of two runs paid for a call), that nothing
else lies about, and that no more requests are repeated than were in flight at the kills: those that the server had in
work, and those whose answers were on their way to the disk. The last line is JSON. Exit code: 0 where both hold.

`keqa index add`, `remove` and `sync` are killed at each of their writes in turn, and as often at any other time. After
each kill the index is as it was or as it should be, and the same command ends with exit code 0 and an index that
answers, to the last digit of a score, as one that was built anew, with files that have their checksums.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from faulty.server import MODEL, Server
from faulty.trees import differences
from faulty.world import passages, questions

CHANGES = ("add", "remove", "sync")
COMMANDS = ("index", "compile", "evaluate", "compare", *CHANGES)
TRAIN, CORPUS = 8, 6000
IN_FLIGHT = 4
LATENCY = 0.02
WORKERS = 16
"""Calls that a command has in flight at most."""
SETTLED = 0.25
"""Seconds after which an answer must have reached the disk."""
POLL = 0.002
TOWNS = 30
"""Documents of an index that is changed."""
WRITES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree", "sqlite3.connect")
"""What a process tells an audit hook before it does it, besides opening a file to write to it."""


@dataclass
class Result:
    """What became of a command that was killed again and again.

    Attributes:
        kills: How often it was killed.
        rounds: How often it came to its end.
        repeated: Requests beyond those of the runs that were not killed.
        in_flight: Requests that were in flight at the kills.
        broken: What of the promise did not hold.
        requests: Of a run that is not killed.
        seconds: That it takes.
    """

    kills: int = 0
    rounds: int = 0
    repeated: int = 0
    in_flight: int = 0
    broken: list[str] = field(default_factory=list)
    requests: int = 0
    seconds: float = 0.0


class Killing:
    """One command, killed at random points.

    Args:
        name: Of the command.
        server: Which it asks.
        folder: For what it writes.
        start: Starts it with an output folder.
        rng: Draws the points.
    """

    def __init__(
        self, name: str, server: Server, folder: Path, start: Callable[[Path], BaseProcess], rng: random.Random
    ) -> None:
        self.name, self.server, self.folder, self.start, self.rng = name, server, folder, start, rng
        self.result = Result()
        # Of the same name, for a run's header says how to run it again.
        self.whole, self.killed = (folder / f"{name}-{end}" / "out" for end in ("whole", "killed"))
        self.bodies: Counter[str] = Counter()
        self.tail = 0.0

    def measure(self) -> None:
        """Run it to its end, and see what it asks and how long it takes.

        Raises:
            SystemExit: It does not end well even when nobody kills it.
        """
        # The first process takes longer than all others, which find everything imported.
        self._ended(self._started(self.killed))
        self.server.plan()
        started = time.monotonic()
        self._ended(self._started(self.whole, afresh=True))
        ended = time.monotonic()
        self.bodies = self.server.bodies()
        self.result.requests, self.result.seconds = self.bodies.total(), ended - started
        self.tail = ended - max(self.server.finished, default=started)

    def kill(self, count: int) -> Result:
        """Kill it so many times, and compare each time that it comes to its end."""
        while self.result.kills < count:
            self._round(count)
        return self.result

    def _started(self, out: Path, *, afresh: bool = False) -> BaseProcess:
        if afresh:
            shutil.rmtree(out.parent, ignore_errors=True)
        out.parent.mkdir(exist_ok=True)
        return self.start(out)

    def _ended(self, process: BaseProcess) -> None:
        process.join()
        if process.exitcode:
            raise SystemExit(f"keqa {self.name} ended with exit code {process.exitcode}")

    def _round(self, count: int) -> None:
        """From nothing to the end of the command."""
        self.server.plan()
        in_flight, afresh = 0, True
        while True:
            point = self._point() if self.result.kills < count else lambda: False
            process = self._started(self.killed, afresh=afresh)
            afresh = False
            while process.is_alive() and not point():
                time.sleep(POLL)
            if not process.is_alive():
                break
            process.kill()
            unsettled = min(WORKERS, self.server.unsettled(SETTLED))
            process.join()
            self.result.kills += 1
            in_flight += unsettled
            self._settle()
        if process.exitcode:
            self.result.broken.append(f"after {self.result.kills} kills it ended with exit code {process.exitcode}")
            return
        self.result.rounds += 1
        asked = self.server.bodies()
        repeated, missing = (asked - self.bodies).total(), (self.bodies - asked).total()
        self.result.repeated += repeated
        self.result.in_flight += in_flight
        if repeated > in_flight:
            self.result.broken.append(f"{repeated} requests repeated, {in_flight} in flight at the kills")
        if missing:
            self.result.broken.append(f"{missing} requests were never made")
        self.result.broken += differences(self.killed, self.whole)

    def _settle(self) -> None:
        """Wait for the server to notice, so that no request of the killed process counts for the next one."""
        time.sleep(2 * LATENCY)

    def _point(self) -> Callable[[], bool]:
        """A condition that comes true at a random point of a process that is started now."""
        kind = self.rng.choice(("seconds", "requests", "end") if self.bodies else ("seconds",))
        began, before = time.monotonic(), self.server.bodies().total()
        if kind == "seconds":
            seconds = self.rng.uniform(0, self.result.seconds)
            return lambda: time.monotonic() - began >= seconds
        if kind == "requests":
            further = self.rng.randint(1, max(1, self.bodies.total() - before))
            return lambda: self.server.bodies().total() - before >= further
        pause, ready = self.rng.uniform(0, self.tail), [0.0]

        def at_the_end() -> bool:
            if not ready[0] and not self.bodies - self.server.bodies():
                ready[0] = time.monotonic()
            return bool(ready[0]) and time.monotonic() - ready[0] >= pause

        return at_the_end


class Changing:
    """A command that changes an index, killed at its writes and at random times.

    Args:
        name: Of the command.
        folder: For what it writes.
        rng: Draws the times.
    """

    def __init__(self, name: str, folder: Path, rng: random.Random) -> None:
        self.name, self.folder, self.rng = name, folder / name, rng
        self.result = Result()
        self.before, self.index, self.counted = (self.folder / name for name in ("before", "index", "writes"))
        docs, other = self.folder / "docs", self.folder / "other.md"
        self.arguments: list[Any] = {
            "add": ["index", "add", self.index, other],
            "remove": ["index", "remove", self.index, docs / "town3.txt", "town5.txt#1"],
            "sync": ["index", "sync", self.index, docs],
        }[name]
        self.sources: list[Path] = [docs, *([other] if name == "add" else [])]

    def measure(self) -> None:
        """Build the index, run the command to its end, and build anew what it should then be."""
        from servers.process import start

        docs = self.sources[0]
        docs.mkdir(parents=True)
        for number, passage in enumerate(passages(TOWNS)):
            (docs / f"town{number}.txt").write_text(f"{passage['title']}. {passage['text']}")
        (self.folder / "other.md").write_text("# Okapi\nThe okapi lives in the forest. " * 40)
        self._ended(start(["index", docs, "--out", self.before]))
        self.states = [self._answers(self.before, scores=False)]
        if self.name != "add":
            (docs / "town3.txt").unlink()
            if self.name == "remove":
                (docs / "town5.txt").unlink()
            else:
                (docs / "town5.txt").write_text("The okapi has moved.")
        self._ended(start(["index", *self.sources, "--out", self.folder / "whole"]))
        self.states.append(self._answers(self.folder / "whole", scores=False))
        self.whole = self._answers(self.folder / "whole")
        shutil.copytree(self.before, self.index)
        started = time.monotonic()
        self._ended(self._started())
        self.result.seconds, self.result.requests = time.monotonic() - started, int(self.counted.read_text())

    def kill(self, count: int) -> Result:
        """Kill it so many times, and see each time that the same command ends as it should."""
        while self.result.kills < count:
            # Where this process has opened it, the engine may still watch it.
            shutil.rmtree(self.index.rename(self.folder / f"after{self.result.kills}"), ignore_errors=True)
            shutil.copytree(self.before, self.index)
            half, odd = divmod(self.result.kills, 2)
            process = self._started(0 if odd else half % self.result.requests + 1)
            if odd:
                time.sleep(self.rng.uniform(0, self.result.seconds))
                process.kill()
            process.join()
            self.result.kills += 1
            if self._answers(self.index, scores=False) not in self.states:
                self._broken("a state that is neither that before nor that after")
            process = self._started()
            process.join()
            self.result.rounds += 1
            if process.exitcode:
                self._broken(f"the same command ends with exit code {process.exitcode}")
            elif self._answers(self.index) != self.whole:
                self._broken("the same command leaves another index than a build")
        return self.result

    def _broken(self, what: str) -> None:
        self.result.broken.append(f"kill {self.result.kills}: {what}")

    def _started(self, write: int = 0) -> BaseProcess:
        from servers.process import context

        process = context().Process(target=_dying, args=(list(map(str, self.arguments)), write, str(self.counted)))
        process.start()
        return process

    def _ended(self, process: BaseProcess) -> None:
        process.join()
        if process.exitcode:
            raise SystemExit(f"keqa index {self.name} ended with exit code {process.exitcode}")

    def _answers(self, index: Path, *, scores: bool = True) -> list[Any]:
        from keqa.retrievers import open_index
        from keqa.retrievers.local.build import verify

        found = open_index(index).search_many(["okapi forest", "mayor", "which town lies at the sea"], 50)
        wrong = verify(index)

        def row(hit: Any) -> tuple[Any, ...]:
            # Before the same command has rewritten it, deleted passages count in an index.
            return hit.passage.id, hit.passage.text, scores and round(hit.score, 5)

        return [*(sorted(map(row, hits)) for hits in found), [*wrong.damaged, *(wrong.unknown if scores else ())]]


def _dying(arguments: list[str], write: int, counted: str) -> None:
    """Run a command that kills itself right before one of its writes, or at none and counts them."""
    from servers.process import run

    from keqa.retrievers import readers
    from keqa.retrievers.readers.formats import passages_of

    def here(*given: Any) -> Any:
        found, lost = passages_of(*given)
        return list(found), lost

    # Nobody reads its progress.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    # A process beside this one for each of hundreds would take most of the time.
    readers.read_beside = here
    count = 0

    def written(event: str, given: tuple[Any, ...]) -> None:
        nonlocal count
        changes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        if event in WRITES or (event == "open" and isinstance(given[2], int) and given[2] & changes):
            count += 1
            if count == write:
                os.kill(os.getpid(), signal.SIGKILL)

    sync = os.fsync
    os.fsync = lambda descriptor: (written("os.rename", ()), sync(descriptor))[1]
    sys.addaudithook(written)
    try:
        run(arguments)
    finally:
        if not write:
            Path(counted).write_text(str(count))


def starters(folder: Path, server: Server, count: int) -> dict[str, Callable[[Path], BaseProcess]]:
    """By command, what starts it with an output folder."""
    from servers.process import start

    _lines(folder / "corpus.jsonl", passages(CORPUS))
    _lines(folder / "questions.jsonl", questions(count))
    pairs = [row for row in questions(TRAIN * 3) if "answer_type" not in row]
    _lines(folder / "train.jsonl", pairs[:TRAIN])
    _lines(folder / "val.jsonl", pairs[TRAIN : TRAIN + TRAIN // 2])
    small = folder / "small.jsonl"
    _lines(small, passages(max(count, TRAIN * 3)))
    process = start(["index", small, "--out", folder / "small"])
    process.join()
    lm = ["--index", folder / "small", "--lm", MODEL, "--api-base", server.api_base, "--top-k", 3]
    asked = ["--questions", folder / "questions.jsonl", "--in-flight", IN_FLIGHT, *lm]
    pairs_given = [folder / "train.jsonl", "--val", folder / "val.jsonl", "--sets", 1, "--no-tuning", "--tries", 3]
    return {
        "index": lambda out: start(["index", folder / "corpus.jsonl", "--name", "towns", "--out", out]),
        "compile": lambda out: start(["compile", *pairs_given, "--in-flight", 2, *lm, "--out", out]),
        "evaluate": lambda out: start(["evaluate", "keqa", "--unanswered", "guess", *asked, "--out", out]),
        "compare": lambda out: start(["compare", "keqa", "closed-book", "rag-cot", *asked, "--out", out]),
    }


def _lines(path: Path, rows: Any) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def main(arguments: list[str] | None = None) -> int:
    """Kill, and print what became of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="over all commands")
    parser.add_argument("--questions", type=int, default=24, help="of evaluate and compare")
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=COMMANDS)
    parser.add_argument("--seed", type=int, default=0, help="of the points")
    parser.add_argument("--folder", type=Path, default=None, help="for what is written, kept for a look at it")
    options = parser.parse_args(arguments)
    os.environ["OPENAI_API_KEY"] = "sk-no-key-is-needed-here"
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    started = time.monotonic()
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory() as temporary, Server(latency=LATENCY, varied=False) as server:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        others = set(options.commands) - set(CHANGES)
        start = starters(folder, server, options.questions) if others else {}
        for place, name in enumerate(options.commands):
            share = options.kills // len(options.commands) + (place < options.kills % len(options.commands))
            rng = random.Random(f"{options.seed} {name}")
            killing: Killing | Changing
            if name in CHANGES:
                killing = Changing(name, folder, rng)
            else:
                killing = Killing(name, server, folder, start[name], rng)
            killing.measure()
            results[name] = killing.kill(share)
            _show(name, results[name])
    broken = {name: len(result.broken) for name, result in results.items() if result.broken}
    total = {
        name: sum(getattr(result, name) for result in results.values())
        for name in ("kills", "rounds", "repeated", "in_flight")
    }
    print(json.dumps({**total, "seed": options.seed, "broken": broken, "seconds": round(time.monotonic() - started)}))
    return 1 if broken else 0


def _show(name: str, result: Result) -> None:
    print(
        f"{name:<9} {result.requests:>5} requests and {result.seconds:4.1f} s a run; {result.kills:>3} kills in "
        f"{result.rounds:>3} runs; {result.repeated:>4} requests repeated, {result.in_flight:>4} in flight; "
        f"{len(result.broken)} differences",
        flush=True,
    )
    for one in result.broken[:6]:
        print(f"      {one}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
