"""Recall of gold passages over real text: BM25, dense retrieval and both together, on four of the shared corpora.

    python benchmarks/recall.py [DATA] [--engine bm25] [--passages 2000] [--questions 200] [--url URL] [--work FOLDER]
    python benchmarks/recall.py [DATA] --languages
    python benchmarks/recall.py [DATA] --expand

Recall is macro-averaged. The model is MiniLM, which encodes 30 to 80 passages a second on a core; vectors are kept in
the work folder, and a run that was killed resumes there. Exit code 1 where the hybrid is more than a point below the
better of the two. With `--url` an Elasticsearch cluster is loaded as well (an index of a random name, which is removed
afterwards), and exit code 1 says that an engine of it is more than a point below the embedded one.

With `--languages` it is that of a folder in eight languages, beside that of each in an index of its own. English and
Chinese are XQuAD's where the shared data are there. The others are towns that do not exist: of each a passage on eight
topics, asked for by its name and by a word of the topic in another form. Exit code 1 where the mixed index is more than
a point below a separate one, at five.

With `--expand` it is how often BM25 finds all gold passages of a question: among five, among eight, and among five and
three further ones, which a second search finds for the question and the beginning of the best passage.
"""

import json
import random
import sys
import tempfile
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml
from common import DATA, options, remove_indexes, show

from keqa.data.benchmarks import load
from keqa.data.example import Example
from keqa.errors import KeqaError
from keqa.programs.stages.passages import expanded
from keqa.programs.stages.picking import merged
from keqa.retrievers import Hit, HybridRetriever, Passage, Retriever, build_dense, build_index, open_index, read_corpus
from keqa.retrievers.elasticsearch.client import index_address
from keqa.retrievers.elasticsearch.writing import load_index
from keqa.retrievers.embedding import LOCAL
from keqa.retrievers.engines import facts_of
from keqa.retrievers.text import clean_text, one_line

ENGINES = ("bm25", "dense", "hybrid")
# How far an engine may be below what it is compared with.
_POINT = 0.01
_TOWNS = 60
LANGUAGES = yaml.safe_load(Path(__file__).with_name("languages.yaml").read_text("utf-8"))
"""For each language what towns are called, what any passage begins with, and what is said and asked of each topic."""


@dataclass(frozen=True)
class Benchmark:
    """Files of a data set's folder, and what names a gold passage: its ``title``, or its ``text`` if none is unique."""

    name: str
    corpus: str
    questions: tuple[str, ...]
    gold: str


_WIKI, _HOTPOT = ("dev.json", "dev_nocontext.json"), ("hotpot_dev_distractor_v1.json", "hotpot_dev_fullwiki_v1.json")
BENCHMARKS = (
    Benchmark("2WikiMultihopQA", "2wikimultihopqa_corpus.json", _WIKI, "title"),
    Benchmark("HotpotQA", "hotpotqa_corpus.json", _HOTPOT, "title"),
    Benchmark("MuSiQue", "musique_corpus.json", ("musique_ans_v1.0_dev.jsonl",), "text"),
    Benchmark("NQ", "psgs_w100.tsv", ("nq-open-oracle.jsonl",), "text"),
)


def key(gold: str, title: str, text: str) -> str:
    return one_line(clean_text(title if gold == "title" else f"{title} {text}"))


def gold_keys(benchmark: Benchmark, example: Example) -> set[str]:
    if benchmark.gold == "title":
        return {key("title", fact.title, "") for fact in example.supporting_facts}
    return {key("text", one.title, one.text) for one in example.context if one.role == "supporting"}


@dataclass(frozen=True)
class Case:
    """The questions of a benchmark whose gold passages are all in its corpus, and the passages to search."""

    benchmark: Benchmark
    passages: list[Passage]
    questions: list[str]
    gold: list[set[str]]
    left_out: int

    @classmethod
    def read(cls, benchmark: Benchmark, data: Path, limit: int | None, questions: int | None = None) -> "Case":
        """Read the files of a benchmark, or so much of them; gold passages of the questions are kept."""
        name = benchmark.name.lower()
        corpus = list(read_corpus([data / name / benchmark.corpus]))
        there = {key(benchmark.gold, one.title, one.text) for one in corpus}
        examples = [one for file in benchmark.questions for one in load(f"{name}:{data / name / file}").examples]
        pairs = [(one.question, gold_keys(benchmark, one)) for one in examples]
        usable = [(question, gold) for question, gold in pairs if gold and gold <= there]
        asked, golds = map(list, zip(*usable[:questions], strict=True))
        gold, places = set().union(*golds), range(len(corpus))
        needed = {place for place in places if key(benchmark.gold, corpus[place].title, corpus[place].text) in gold}
        others = [place for place in places if place not in needed]
        random.Random(0).shuffle(others)
        kept = needed.union(others if limit is None else others[: max(0, limit - len(needed))])
        return cls(benchmark, [corpus[place] for place in sorted(kept)], asked, golds, len(pairs) - len(usable))

    @classmethod
    def of_language(cls, language: str, passages: list[tuple[str, list[str]]]) -> "Case":
        """That of texts with what is asked of each."""
        found = [Passage(f"{language}/{number}", "", text) for number, (text, _) in enumerate(passages)]
        pairs = [(question, {key("text", "", text)}) for text, asked in passages for question in asked]
        asked, golds = map(list, zip(*pairs, strict=True))
        return cls(Benchmark(language, "", (), "text"), found, asked, golds, 0)

    def shares(self, found: Iterable[Sequence[Hit]]) -> list[float]:
        """Of each question, how much of what is wanted was found."""
        names = [[key(self.benchmark.gold, hit.passage.title, hit.passage.text) for hit in hits] for hits in found]
        return [len(wanted.intersection(one)) / len(wanted) for one, wanted in zip(names, self.gold, strict=True)]

    def recall(self, retriever: Retriever, k: int = 5) -> float:
        return fmean(self.shares(retriever.search_many(self.questions, k)))


def prepared(case: Case, folder: Path, engines: Sequence[str]) -> dict[str, Retriever]:
    """Build what is not there yet, and open it; the vectors of these passages are not made twice."""
    manifest = build_index(case.passages, folder / "bm25")
    bm25, there = open_index(folder / "bm25"), None
    if not {"dense", "hybrid"} & {*engines}:
        return {"bm25": bm25}
    with suppress(KeqaError):
        there = facts_of(folder / "dense")[0]["source_hash"]
    if there != manifest.source_hash:
        line = f"{folder.name}: {{:,}} of {{:,}} encoded\n"
        build_dense(case.passages, folder / "dense", progress=lambda *done: sys.stderr.write(line.format(*done)))
    dense = open_index(folder / "dense")
    return {"bm25": bm25, "dense": dense, "hybrid": HybridRetriever([bm25, dense])}


def on_cluster(case: Case, url: str) -> dict[str, float]:
    """Recall@5 of each engine on a cluster."""
    name = f"keqa-recall-{uuid.uuid4().hex[:12]}"
    address = index_address(url, name)
    dense = f"{address.replace('elasticsearch', 'elasticsearch+dense', 1)}@{LOCAL}"
    addresses = zip(ENGINES, (address, dense, f"{address},{dense}"), strict=True)
    try:
        load_index(case.passages, address, model=LOCAL)
        return {engine: case.recall(open_index(where)) for engine, where in addresses}
    finally:
        remove_indexes(address, f"{name}*")


def row_of(case: Case, found: dict[str, float], cluster: dict[str, float]) -> tuple[dict[str, Any], float]:
    """The cells of a corpus, and how far below what it is compared with the worse engine is."""
    gaps = [found[name] - one for name, one in cluster.items()]
    if not cluster and "hybrid" in found:
        gaps.append(max(found["bm25"], found["dense"]) - found["hybrid"])
    row = {"recall@5": case.benchmark.name, "passages": len(case.passages), "questions": len(case.questions)}
    row |= {"left out": case.left_out} | {name: found.get(name) for name in ENGINES}
    row |= {f"{name}, cluster": one for name, one in cluster.items()}
    gap = max(gaps, default=0.0)
    return row | {"below": gap if gaps else None}, gap


def invented(language: str) -> Case:
    words, drawn = LANGUAGES[language], random.Random(language)
    parts = words["towns"].split()
    names = sorted({"".join(drawn.sample(parts, 2)).capitalize() for _ in range(3 * _TOWNS)})
    passages = []
    for town in drawn.sample(names, _TOWNS):
        for stated, asked in (topic.split("|") for topic in words["topics"]):
            passages.append((f"{words['begins'].format(town=town)} {stated}", [asked.format(town=town)]))
    return Case.of_language(language, passages)


def xquad(path: Path, language: str) -> Case:
    documents = json.loads(path.read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for document in documents for paragraph in document["paragraphs"]]
    return Case.of_language(
        language, [(one["context"], [asked["question"] for asked in one["qas"]]) for one in paragraphs]
    )


def in_languages(data: Path) -> int:
    cases = []
    for language in LANGUAGES:
        path = data / "squad" / f"xquad.{language}.json"
        cases.append(xquad(path, language) if path.is_file() else invented(language))
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        every = [passage for case in cases for passage in case.passages]
        random.Random(1).shuffle(every)
        manifest = build_index(every, Path(temporary, "mixed"))
        for case in cases:
            name = case.benchmark.name
            build_index(case.passages, Path(temporary, name), notice=lambda text: None)
            row = {"language": name, "passages": len(case.passages), "questions": len(case.questions)}
            for way, folder in (("separate", name), ("mixed", "mixed")):
                index = open_index(Path(temporary, folder))
                row |= {f"{way} @{k}": case.recall(index, k) for k in (1, 5)}
            rows.append(row | {"worse by": max(0.0, row["separate @5"] - row["mixed @5"])})
    show(rows, f"analyzer of the mixed index: {manifest.language}")
    return int(any(row["worse by"] > _POINT for row in rows))


def in_two_searches(case: Case, bm25: Retriever) -> dict[str, Any]:
    """How often all that is wanted is found by one search, and by a second one for what its best passage leads to."""
    found = bm25.search_many(case.questions, 5)
    queries = [
        expanded(question, hits) if hits else question for question, hits in zip(case.questions, found, strict=True)
    ]
    led_to = zip(found, bm25.search_many(queries, 8), strict=True)
    further = [merged([[*hits, *more]], len(hits) + 3) for hits, more in led_to]
    lists = {"five": found, "eight": bm25.search_many(case.questions, 8), "five and three further": further}
    shares = {name: fmean(share == 1 for share in case.shares(hits)) for name, hits in lists.items()}
    return {"all found": case.benchmark.name, "questions": len(case.questions), **shares}


def main(arguments: list[str] | None = None) -> int:
    known = {"engine": ENGINES, "passages": int, "questions": int, "url": str, "work": Path("runs/recall")}
    given = options(__doc__, "data", given=arguments, data=DATA, languages=False, expand=False, **known)
    if given.languages:
        return in_languages(given.data)
    files = [f"{one.name.lower()}/{file}" for one in BENCHMARKS for file in (one.corpus, *one.questions)]
    if missing := [file for file in files if not (given.data / file).is_file()]:
        given.refuse(f"not in {given.data}: {', '.join(missing)}")
    rows, worst = [], 0.0
    for benchmark in BENCHMARKS:
        case = Case.read(benchmark, given.data, given.passages, given.questions)
        folder = given.work / f"{benchmark.name.lower()}-{len(case.passages)}"
        if given.expand:
            rows.append(in_two_searches(case, prepared(case, folder, ("bm25",))["bm25"]))
            continue
        engines = ENGINES if given.url else given.engine
        found = {name: case.recall(one) for name, one in prepared(case, folder, engines).items()}
        row, gap = row_of(case, found, on_cluster(case, given.url) if given.url else {})
        rows.append(row)
        worst = max(worst, gap)
    show(rows)
    return int(worst > _POINT)


if __name__ == "__main__":
    raise SystemExit(main())
