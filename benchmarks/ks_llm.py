"""KS-LLM: its selection alone on real contexts.

    python benchmarks/ks_llm.py [--data DATA] [--limit 30] [--lm local/smollm2] [--work FOLDER]

Of the distractor contexts of HotpotQA and 2WikiMultihopQA it selects k sentences by the question (KS-Q) and by the
benchmark's own evidence triples, compared apart and joined as one text; with ``--lm``, also by the triples that a
language model writes from memory, which are kept in the work folder, or by the question where it writes none. S@k is
the share of the supporting sentences among the k selected; A@k, of the questions that are not of yes or no, those whose
answer stands in one of them.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from common import DATA, options, recorded, show

from keqa.data.question import Question
from keqa.lms import build_roles
from keqa.metrics.accuracy import holds_answer
from keqa.programs.baselines.reading import KSLLM, as_text, subject_of
from keqa.programs.stage import RecordBuilder
from keqa.programs.stages.selection import DistanceMeter, nearest

SETS = {"hotpotqa": "hotpotqa/hotpot_dev_distractor_v1.json", "2wikimultihopqa": "2wikimultihopqa/dev.json"}
KEPT = (1, 2, 3, 5, 10)
_MAX_TOKENS = 128
_NONE = "none"
EUCLID, COSINE = "MiniLM, Euclid", "MiniLM, cosine"


@dataclass(frozen=True)
class Context:
    """A question with the sentences of its passages."""

    question: str
    answers: tuple[str, ...]
    sentences: tuple[str, ...]
    needed: frozenset[int]
    triples: tuple[tuple[str, str, str], ...]


def contexts(path: Path) -> Iterator[Context]:
    """The records of a file in HotpotQA's layout, whose sentences are already split."""
    for record in json.loads(path.read_text(encoding="utf-8")):
        pages = ((title, *one) for title, page in record["context"] for one in enumerate(page))
        kept = [(title, number, text.strip()) for title, number, text in pages if text.strip()]
        places = {(title, number): place for place, (title, number, _) in enumerate(kept)}
        facts = {(title, number) for title, number in record["supporting_facts"]}
        needed = frozenset(places[fact] for fact in facts & {*places})
        triples = tuple(tuple(triple) for triple in record.get("evidences") or ())
        yield Context(record["question"], (record["answer"],), tuple(text for *_, text in kept), needed, triples)


def selections(
    context: Context, measure: Callable[..., np.ndarray], written: Sequence[str] | None = None
) -> Iterator[tuple[str, list[list[int]]]]:
    """By what selects, the places of the sentences selected for each k."""
    texts = list(context.sentences)
    yield "question", _for_each_k(measure([context.question], texts))
    if context.triples:
        wanted = [" ".join(triple) for triple in context.triples]
        measured = measure([*wanted, ", ".join(wanted)], texts)
        subjects = [triple[0].casefold() for triple in context.triples]
        yield "gold triples", _for_each_k(measured[:-1], subjects)
        yield "gold triples, joined", _for_each_k(measured[-1:])
    if written is not None:
        wanted = [as_text(triple) for triple in written] or [context.question]
        yield "written triples", _for_each_k(measure(wanted, texts), [subject_of(one) for one in written or wanted])


def _for_each_k(measured: np.ndarray, subjects: Sequence[str] | None = None) -> list[list[int]]:
    return [[one.position for one in nearest(measured, k, subjects)] for k in KEPT]


def main() -> None:
    given = options(__doc__, data=DATA, work=Path("build/ks_llm"), limit=int, lm=str)
    meters = {"words": DistanceMeter(None, "cosine"), EUCLID: DistanceMeter("local/minilm", "euclidean")}
    meters[COSINE] = DistanceMeter("local/minilm", "cosine")
    for dataset, file in SETS.items():
        own = list(contexts(given.data / file))[: given.limit]
        work = given.work / (given.lm or "").replace("/", "-")
        written = triples(given.lm, own, work / f"{dataset}.jsonl") if given.lm else [None] * len(own)
        scores: dict[tuple[str, str], list[list[float | None]]] = defaultdict(list)
        chosen: dict[str, list[list[int]]] = defaultdict(list)
        for name, meter in meters.items():
            for context, one in zip(own, written, strict=True):
                for by, selected in selections(context, meter.measure, one):
                    scores[by, name].append(scored(context, selected))
                    chosen[name] += [selected[KEPT.index(2)]] if by == "question" else []
        heads = [f"{what}@{k}" for what in "SA" for k in KEPT]
        rows = []
        for (by, name), found in sorted(scores.items()):
            means = map(_mean, zip(*found, strict=True))
            rows.append({"selected by": by, "distance": name, **dict(zip(heads, means, strict=True))})
        show(rows, f"{dataset}: {len(own)} questions, {fmean(len(one.sentences) for one in own):.1f} sentences each")
        differing = sum(one != other for one, other in zip(chosen[EUCLID], chosen[COSINE], strict=True))
        print(f"by MiniLM and the question, Euclid and cosine select other sentences at k=2 for {differing} questions")
        if given.lm:
            print(f"{given.lm} wrote no triple for {written.count([])} questions; the question selects there")


def scored(context: Context, selected: Sequence[Sequence[int]]) -> list[float | None]:
    """For each k the share of the supporting sentences, then for each k whether the answer is there."""
    needed = context.needed
    shares = [len(needed.intersection(places)) / len(needed) if needed else None for places in selected]
    held = [holds_answer([context.sentences[one] for one in places], context.answers) for places in selected]
    return [None if one is None else float(one) for one in (*shares, *held)]


class _TripleWriter(KSLLM):
    """Writes the triples of a question as KS-LLM does, and answers nothing."""

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        story.answer = "\n".join(await self._expanded(asked.question, True)) or _NONE


def triples(lm: str, own: Sequence[Context], out: Path) -> list[list[str]]:
    out.parent.mkdir(parents=True, exist_ok=True)
    program = _TripleWriter(None, lms=build_roles(lm, max_tokens=_MAX_TOKENS))
    answers_by = {id(one): record["answer"] for one, record in recorded(program, own, out, in_flight=16)}
    answers = [answers_by.get(id(one)) or _NONE for one in own]
    return [[] if one == _NONE else one.split("\n") for one in answers]


def _mean(values: Sequence[float | None] | Iterator[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return fmean(known) if known else None


if __name__ == "__main__":
    main()
