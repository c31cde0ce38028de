"""An index that follows its files: how long a change takes, whether it is as one built again, and what kills leave.

    python benchmarks/living.py [--passages 1000000] [--engines embedded dense elasticsearch] [--kills 10] [--repeat 5]
                                [--folder FOLDER] [--url http://localhost:9200]

So many made-up passages (Zipfian words, one file of records and 1,000 documents) are indexed. Then one document is
changed, one added, one removed, and the folder brought in step after three further changes, several times and each by a
process of its own, whose start stands apart from the change; seconds that pass stand beside those of a processor, and
on a cluster beside those of its nodes. Of 200 questions the ten best passages are compared with those of an index that
is built from the same files. At last a process that brings the index in step is killed (``kill -9``) at points in time
spread over what the change takes: the index must open, hold what it held before or what it should hold, and come in
step by the same command. The dense engine encodes with stand-in vectors of 64 counts of words, as its model is not what
is measured. The last line is JSON. Exit code: 0 where every kill left the old or the new state.
"""

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import accumulate, chain
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import fmean, median
from typing import Any

from common import ROOT, alone, options, remove_indexes, timed, write_lines

from keqa.retrievers import Passage, build_dense, build_index, open_index, read_corpus
from keqa.retrievers.changing import add_files, remove_files, sync_folder
from keqa.retrievers.stopwords import ENGLISH

DOCUMENTS = 1000
VOCABULARY = 50_000
WORDS = 60
FUNCTION = sorted(ENGLISH)
QUESTIONS = 200
MODEL = "made/64"
# What a command loads when it gets to its index.
LOADED = {
    "embedded": ("tantivy", "keqa.retrievers.local.build"),
    "dense": ("faiss", "keqa.retrievers.local.dense"),
    "elasticsearch": ("elasticsearch.helpers", "keqa.retrievers.elasticsearch.writing"),
}
Change = Callable[[str, Path], Any]
UNDISTURBED = "a reader opened before finds the same"
# A node counts its processor time no more often than each second.
_COUNTED = 1.2


class World:
    """Files of made passages, which have two function words to three others where they are as in natural language."""

    def __init__(self, folder: Path, passages: int, natural: bool = False) -> None:
        self._natural = natural
        records, self.documents = folder / "records.jsonl", folder / "documents"
        self.sources = [str(records), str(self.documents)]
        self.documents.mkdir(parents=True, exist_ok=True)
        self._random = random.Random(0)
        self._weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
        numbers = range(max(0, passages - DOCUMENTS))
        write_lines(records, ({"id": f"r{one}", "title": self._text(3), "text": self._text()} for one in numbers))
        for number in range(min(passages, DOCUMENTS)):
            self.write(number)

    def _text(self, words: int = WORDS) -> str:
        drawn = self._random.choices(range(VOCABULARY), cum_weights=self._weights, k=words)
        function = self._random.choices(FUNCTION, k=words * 2 // 3) if self._natural else []
        return " ".join([*(f"w{word}" for word in drawn), *function])

    def write(self, number: int) -> Path:
        path = self.documents / f"d{number}.txt"
        path.write_text(self._text())
        return path

    def questions(self, count: int = QUESTIONS, function_words: int = 0) -> list[str]:
        """Words that some passages have and others have not, and function words as in natural language."""
        drawn = random.Random(1)
        # The commonest words are in every passage and part nothing.
        content = [[f"w{drawn.randrange(20, 5000)}" for _ in range(5)] for _ in range(count)]
        return [" ".join([*words, *drawn.sample(FUNCTION, function_words)]) for words in content]


def build(engine: str, folder: Path, name: str, sources: list[str], url: str | None) -> str:
    given: dict[str, Any] = {"sources": sources, "notice": lambda text: None}
    corpus = read_corpus(sources, notice=given["notice"])
    if engine == "embedded":
        build_index(corpus, folder / name, **given)
        return str(folder / name)
    if engine == "dense":
        build_dense(corpus, folder / name, model=MODEL, **given)
        return f"{folder / name}@{MODEL}"
    from keqa.retrievers.elasticsearch.client import index_address
    from keqa.retrievers.elasticsearch.writing import load_index

    address = index_address(str(url), f"keqa-living-{folder.name}-{name}")
    load_index(corpus, address, **given)
    return address


Found = list[list[tuple[Passage, float]]]


def found(retriever: Any, questions: list[str]) -> Found:
    return [[(hit.passage, hit.score) for hit in hits] for hits in retriever.search_many(questions, 10)]


def same(one: Found, other: Found) -> tuple[float, float]:
    """The share of questions with the same ten passages in the same order, and the largest difference of a score.

    Passages of equal scores have no order, and which of them is the tenth says nothing.
    """
    both = list(zip(one, other, strict=True))
    pairs = (pair for ours, theirs in both for pair in zip(ours, theirs, strict=False))
    apart = (abs(mine - yours) / max(abs(yours), 1e-9) for (_, mine), (_, yours) in pairs)
    return fmean(_ordered(ours) == _ordered(theirs) for ours, theirs in both), max(apart, default=0.0)


def _ordered(hits: list[tuple[Passage, float]]) -> list[str]:
    last = hits[-1][1] if hits else 0.0
    above = [(-round(score, 4), passage.id) for passage, score in hits if round(score, 4) > round(last, 4)]
    return [one for _, one in sorted(above)]


def changes(world: World, repeat: int, change: Callable[[Change, Path], Any]) -> Iterator[tuple[str, Any]]:
    for number in range(repeat):
        yield "change one", change(add_files, world.write(7))
        yield "add one", change(add_files, world.write(DOCUMENTS + 2 * number))
        gone = world.documents / f"d{20 + 2 * number}.txt"
        yield "remove one", change(remove_files, gone)
        gone.unlink()
        world.write(9)
        world.write(DOCUMENTS + 2 * number + 1)
        (world.documents / f"d{21 + 2 * number}.txt").unlink()
        yield "bring 1,000 documents in step", change(sync_folder, world.documents)
        yield "find them in step", change(sync_folder, world.documents)


def in_a_process(engine: str, address: str, url: str | None, change: Change, path: Path) -> dict[str, float]:
    before = _cluster_seconds(url)
    spent = alone(one, change, engine, address, path, time.time())
    del spent["cpu_s"], spent["peak_mb"]
    return spent | ({"cluster's CPU": _cluster_seconds(url) - before} if url else {})


def one(change: Change, engine: str, address: str, path: Path, started: float) -> dict[str, float]:
    for module in ("keqa.cli.index", *LOADED[engine]):
        import_module(module)
    ready = {"start": time.time() - started, "start's CPU": time.process_time()}
    seconds, _ = timed(lambda: change(address, path))
    return {**ready, "change": seconds, "change's CPU": time.process_time() - ready["start's CPU"]}


def _cluster_seconds(url: str | None) -> float:
    if url is None:
        return 0.0
    from keqa.retrievers.elasticsearch.client import connect, index_address, parse_address

    time.sleep(_COUNTED)
    with connect(parse_address(index_address(url, "any"))) as client:
        nodes = client.nodes.stats(metric="process")["nodes"].values()
    return sum(node["process"]["cpu"]["total_in_millis"] for node in nodes) / 1000


def kills(address: str, world: World, count: int, questions: list[str]) -> dict[str, int]:
    """Kill a change at points spread over its time; how often the old and the new state were left, and neither."""
    left = {"old": 0, "new": 0, "neither": 0}
    # Each begins with all imported, so that it is the change that is killed.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", *chain.from_iterable(LOADED.values())])

    def begun() -> BaseProcess:
        process = context.Process(target=sync_folder, args=(address, world.documents))
        process.start()
        return process

    def texts(*asked: str) -> set[str]:
        return {hit.passage.text for text in asked for hit in open_index(address).search(text, 3)}

    # One that is let be says how long a process takes.
    world.write(99)
    seconds, _ = timed(begun().join)
    for number in range(count):
        path = world.documents / f"d{100 + number}.txt"
        old, before = path.read_text(), len(found(open_index(address), questions))
        new = world.write(100 + number).read_text()
        process = begun()
        process.join(1.1 * seconds * (number + 0.5) / count)
        process.kill()
        process.join()
        there = texts(old, new)
        left[{(True, False): "old", (False, True): "new"}.get((old in there, new in there), "neither")] += 1
        sync_folder(address, world.documents)
        again = sync_folder(address, world.documents)[0]
        if new not in texts(new) or again.changed or len(found(open_index(address), questions)) != before:
            left["neither"] += 1
    return left


def measure(engine: str, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    world = World(folder / f"files-{engine}", given.passages)
    questions, result = world.questions(), {"engine": engine, "passages": given.passages}
    result["build"], address = timed(lambda: build(engine, folder, f"index-{engine}", world.sources, given.url))
    opened = open_index(address)
    before = [[passage for passage, _ in hits] for hits in found(opened, questions)]
    times: dict[str, list[dict[str, float]]] = defaultdict(list)
    change = partial(in_a_process, engine, address, given.url if engine == "elasticsearch" else None)
    for name, seconds in changes(world, given.repeat, change):
        times[name].append(seconds)
        # A cluster keeps the state before the last change, and no earlier one.
        if UNDISTURBED not in result or engine != "elasticsearch":
            result[UNDISTURBED] = before == [[passage for passage, _ in hits] for hits in found(opened, questions)]
    for name, some in times.items():
        result[name] = {part: round(median(one[part] for one in some), 3) for part in some[0]}
        shown = ", ".join(f"{what} {value:.2f}" for what, value in result[name].items())
        print(f"{engine}: {name}: {shown} s", flush=True)
    again = build(engine, folder, f"again-{engine}", world.sources, given.url)
    alike = same(*(found(open_index(one), questions) for one in (address, again)))
    result["same top ten as a build"], result["largest difference of a score"] = alike
    result["kills"] = kills(address, world, given.kills, questions[:20])
    if engine == "elasticsearch":
        remove_indexes(address, f"keqa-living-{folder.name}-*")
    return result


def main() -> int:
    known = {"engines": ["embedded", "dense"], "kills": 10, "repeat": 5, "folder": Path, "url": str}
    given = options(__doc__, passages=1_000_000, **known)
    if "elasticsearch" in given.engines and not given.url:
        given.refuse("--engines elasticsearch needs --url")
    # Here and in the processes that are begun.
    sys.path.insert(0, str(ROOT / "tests" / "fixtures" / "library"))
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        results = [measure(engine, Path(folder), given) for engine in given.engines]
    print(json.dumps(results))
    return int(any(result["kills"]["neither"] for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
