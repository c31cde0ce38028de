"""Hundreds of kills of commands: what is left of the work, and what is done twice.

    python benchmarks/kills.py [--kills 100] [--commands index compile …] [--seed 0] [--questions 24]

Each command is run once to its end, against a scripted language model behind a server on this machine. In another
folder it is begun and killed (``kill -9``) at random: after a time, after a number of requests, or while it writes its
last files; and started again until it ends. Every final file must then be the same but for times (and for which of two
runs paid for a call), and no more requests be repeated than were in flight at the kills: those that the server had in
work, and those whose answers were on their way to the disk. The last line is JSON. Exit code: 0 where both hold.
"""

import csv
import json
import os
import random
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from common import options, read_lines, timed, write_lines
from faulty.server import MODEL, Server
from faulty.world import passages, questions
from servers.process import start

from keqa.retrievers import open_index

COMMANDS = ("index", "compile", "evaluate", "compare")
TRAIN, CORPUS = 8, 6000
IN_FLIGHT = 4
LATENCY = 0.02
WORKERS = 16
"""Calls that a command has in flight at most."""
SETTLED = 0.25
"""Seconds after which an answer must have reached the disk."""
POLL = 0.002
DRAWN = (".png", ".pdf", ".md", ".tex")
"""Drawn from the .csv beside them; that they are there is what is compared."""
# Names of what is a time, or depends on what the last process has paid for itself.
_TIMES = re.compile(r"second|^(created|spent)|^(time|p50|p95|total|timings?|critical_path|retrievals_cached|sent)$")
_PAID = ("calls", "cached")


class Killed:
    """A command that is killed at random points, and what became of it."""

    def __init__(self, name: str, seed: int, folder: Path, server: Server, arguments: list[Any]) -> None:
        self.name, self.rng, self.server, self.arguments = name, random.Random(f"{seed} {name}"), server, arguments
        self.kills = self.rounds = self.repeated = self.in_flight = 0
        self.broken: list[str] = []
        # Of the same name, for a run's header says how to run it again.
        self.whole, self.killed = (folder / f"{name}-{end}" / "out" for end in ("whole", "killed"))

    def spend(self, count: int) -> None:
        # The first process takes longer than all others, which find everything imported.
        self._started(self.killed).join()
        self.server.plan()
        self.seconds, _ = timed(lambda: self._ended(self._started(self.whole)))
        self.bodies = self.server.bodies()
        self.requests = self.bodies.total()
        self.tail = min(self.seconds, time.monotonic() - max(self.server.finished, default=0.0))
        while self.kills < count:
            self.round(count)
        print(
            f"{self.name:<9} {self.requests:>5} requests and {self.seconds:4.1f} s a run; {self.kills:>3} kills in "
            f"{self.rounds:>3} runs; {self.repeated:>4} requests repeated, {self.in_flight:>4} in flight; "
            f"{len(self.broken)} differences",
            *(f"      {one}" for one in self.broken[:6]),
            sep="\n",
            flush=True,
        )

    def _ended(self, process: Any) -> None:
        process.join()
        if process.exitcode:
            raise SystemExit(f"keqa {self.name} ended with exit code {process.exitcode}")

    def _started(self, out: Path, anew: bool = True) -> Any:
        if anew:
            shutil.rmtree(out.parent, ignore_errors=True)
            out.parent.mkdir()
        return start([*self.arguments, "--out", out])

    def round(self, count: int) -> None:
        self.server.plan()
        in_flight, process = 0, None
        while True:
            point = self._point() if self.kills < count else lambda: False
            process = self._started(self.killed, anew=process is None)
            while process.is_alive() and not point():
                time.sleep(POLL)
            if not process.is_alive():
                break
            process.kill()
            in_flight += min(WORKERS, self.server.unsettled(SETTLED))
            process.join()
            self.kills += 1
            # The server notices, so that no request of the killed process counts for the next one.
            time.sleep(2 * LATENCY)
        if process.exitcode:
            self.broken.append(f"after {self.kills} kills it ended with exit code {process.exitcode}")
            return
        asked = self.server.bodies()
        repeated, missing = (asked - self.bodies).total(), (self.bodies - asked).total()
        self.rounds += 1
        self.repeated += repeated
        self.in_flight += in_flight
        if repeated > in_flight:
            self.broken.append(f"{repeated} requests repeated, {in_flight} in flight at the kills")
        if missing:
            self.broken.append(f"{missing} requests were never made")
        self.broken += differences(self.killed, self.whole)

    def _point(self) -> Callable[[], bool]:
        """A condition that comes true at a random point of a process that is started now."""
        kind = self.rng.choice(("seconds", "requests", "end") if self.requests else ("seconds",))
        began, before = time.monotonic(), self.server.bodies().total()
        if kind == "seconds":
            seconds = self.rng.uniform(0, self.seconds)
            return lambda: time.monotonic() - began >= seconds
        if kind == "requests":
            further = self.rng.randint(1, max(1, self.requests - before))
            return lambda: self.server.bodies().total() - before >= further
        pause = self.rng.uniform(0, self.tail)

        def at_the_end() -> bool:
            answered = max(began, *self.server.finished, 0.0)
            return not self.bodies - self.server.bodies() and time.monotonic() - answered >= pause

        return at_the_end


def differences(ours: Path, theirs: Path) -> list[str]:
    """A line for each file of two folders that differs but for times, or is in one of them only."""
    beside = [sorted(path.name for path in folder.parent.iterdir()) for folder in (ours, theirs)]
    found = [f"beside it: {beside[0]} for {beside[1]}"] if beside[0] != beside[1] else []
    contents = [_contents(folder) for folder in (ours, theirs)]
    for name in sorted({*contents[0], *contents[1]}):
        both = name in contents[0] and name in contents[1]
        if place := _place(contents[0][name], contents[1][name]) if both else "in one of the two only":
            found.append(f"{name}: {place}")
    return found


def _contents(folder: Path) -> dict[str, Any]:
    """What the files of a folder say; of an index its manifest, what is found and what lies about."""
    if not (folder / "data").is_dir():
        return {str(path.relative_to(folder)): _content(path) for path in folder.rglob("*") if path.is_file()}
    # The engine names its files by chance.
    index = open_index(str(folder))
    searches = [index.search(f"Who governs Town{number}?", 6) for number in range(0, 200, 7)]
    rounded = [sorted((-round(hit.score, 4), hit.passage.text) for hit in hits) for hits in searches]
    # Of equals it is chance which come first, so the last are left out.
    hits = [[pair for pair in found if pair[0] < found[-1][0]] for found in rounded]
    names = sorted(path.name for path in folder.iterdir())
    return {"its manifest": _timeless(json.loads(index.manifest.to_json())), "search": hits, "the folder": names}


def _content(path: Path) -> Any:
    if path.suffix in DRAWN:
        return None
    if path.suffix == ".sqlite":
        with closing(sqlite3.connect(path)) as file:
            tables = file.execute("select name from sqlite_master where type = 'table' order by 1").fetchall()
            return {name: sorted(str(row[0]) for row in file.execute(f'select * from "{name}"')) for (name,) in tables}
    if path.suffix == ".csv":
        head, *rows = csv.reader(path.read_text().splitlines())
        kept = [place for place, name in enumerate(head) if not _TIMES.search(name)]
        return [[row[place] for place in kept] for row in (head, *rows)]
    if path.suffix == ".json":
        return _timeless(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        # The lines of a run file are in the order in which questions ended.
        return [_timeless(value) for value in sorted(read_lines(path), key=lambda one: str(one.get("id", "")))]
    return path.read_text()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _timeless(inner) for name, inner in value.items() if not _TIMES.search(name)}
        if "samples" in kept and "calls" in kept:
            # A record counts the calls that its own run has made, and by role how many the cache has answered.
            paid = [kept.pop(name) for name in _PAID if name in kept]
            kept |= {"requests": sum(paid)} if len(paid) == len(_PAID) else {}
        return kept
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def _place(ours: Any, theirs: Any, where: str = "") -> str | None:
    """Where two values differ first, and in what; None where they do not."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and set(ours) == set(theirs):
        parts = [(f"{where}.{name}", ours[name], theirs[name]) for name in ours]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        parts = [(f"{where}[{place}]", *pair) for place, pair in enumerate(zip(ours, theirs, strict=True))]
    else:
        return None if ours == theirs else f"{where or 'the whole'}: {str(ours)[:120]} for {str(theirs)[:120]}"
    return next((found for place, one, other in parts if (found := _place(one, other, place))), None)


def commands(folder: Path, server: Server, count: int) -> dict[str, list[Any]]:
    corpus = write_lines(folder / "corpus.jsonl", passages(CORPUS))
    rows = write_lines(folder / "questions.jsonl", questions(count))
    pairs = [row for row in questions(TRAIN * 3) if "answer_type" not in row]
    train = write_lines(folder / "train.jsonl", pairs[:TRAIN])
    val = write_lines(folder / "val.jsonl", pairs[TRAIN : TRAIN + TRAIN // 2])
    small = write_lines(folder / "small.jsonl", passages(max(count, TRAIN * 3)))
    start(["index", small, "--out", folder / "small"]).join()
    lm = ["--index", folder / "small", "--lm", MODEL, "--api-base", server.api_base, "--top-k", 3]
    asked = ["--questions", rows, "--in-flight", IN_FLIGHT, *lm]
    return {
        "index": ["index", corpus, "--name", "towns"],
        "compile": ["compile", train, "--val", val, "--sets", 1, "--no-tuning", "--tries", 3, "--in-flight", 2, *lm],
        "evaluate": ["evaluate", "keqa", "--unanswered", "guess", *asked],
        "compare": ["compare", "keqa", "closed-book", "rag-cot", *asked],
    }


def main(arguments: list[str] | None = None) -> int:
    given = options(__doc__, given=arguments, kills=100, questions=24, commands=COMMANDS, seed=0)
    os.environ["OPENAI_API_KEY"] = "sk-no-key-is-needed-here"
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    started, spent = time.monotonic(), []
    with tempfile.TemporaryDirectory() as temporary, Server(latency=LATENCY, varied=False) as server:
        folder = Path(temporary)
        asking = commands(folder, server, given.questions)
        for place, name in enumerate(given.commands):
            spent.append(Killed(name, given.seed, folder, server, asking[name]))
            spent[-1].spend(len(range(place, given.kills, len(given.commands))))
    total = {one: sum(getattr(killed, one) for killed in spent) for one in ("kills", "rounds", "repeated", "in_flight")}
    broken = {killed.name: len(killed.broken) for killed in spent if killed.broken}
    print(json.dumps({**total, "seed": given.seed, "broken": broken, "seconds": round(time.monotonic() - started)}))
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
