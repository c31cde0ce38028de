"""KS-LLM: its selection alone on real contexts.

    python benchmarks/ks_llm.py [--data DATA] [--work FOLDER] [--limit 30] [--lm local/smollm2]

It takes the distractor contexts of HotpotQA and 2WikiMultihopQA (10 passages, about 42 sentences) and
selects k of their sentences by the question (KS-Q) and, where the benchmark has them, by its own evidence triples,
compared apart and joined as one text; with ``--lm``, also by the triples that a language model writes from memory, or
by the question where it writes none. It reports the recall of the supporting sentences and of the answer, and resumes
in its work folder.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

import numpy as np
import typer
from common import DATA, Lines
from rich.console import Console
from rich.table import Table

from keqa.data.question import Question
from keqa.lms import build_roles
from keqa.metrics.accuracy import holds_answer
from keqa.programs.baselines.ks_llm import KSLLM, as_text, subject_of
from keqa.programs.program import RecordBuilder
from keqa.programs.stages.selection import DistanceMeter, nearest

SETS = {"hotpotqa": "hotpotqa/hotpot_dev_distractor_v1.json", "2wikimultihopqa": "2wikimultihopqa/dev.json"}
KEPT = (1, 2, 3, 5, 10)
_AT_ONCE = 48
METERS: tuple[tuple[str, str | None, Literal["euclidean", "cosine"]], ...] = (
    ("words", None, "cosine"),
    ("MiniLM, Euclid", "local/minilm", "euclidean"),
    ("MiniLM, cosine", "local/minilm", "cosine"),
)


@dataclass(frozen=True)
class Context:
    """A question with the sentences of its passages."""

    id: str
    question: str
    answer: str
    sentences: tuple[str, ...]
    needed: frozenset[int]
    triples: tuple[tuple[str, str, str], ...]


def contexts(path: Path) -> Iterator[Context]:
    """The records of a file in HotpotQA's layout, whose sentences are already split."""
    for record in json.loads(path.read_text(encoding="utf-8")):
        places: dict[tuple[str, int], int] = {}
        sentences: list[str] = []
        for title, page in record["context"]:
            for number, sentence in enumerate(page):
                if sentence.strip():
                    places[title, number] = len(sentences)
                    sentences.append(sentence.strip())
        facts = {(title, number) for title, number in record["supporting_facts"]}
        yield Context(
            record["_id"],
            record["question"],
            record["answer"],
            tuple(sentences),
            frozenset(places[fact] for fact in facts if fact in places),
            tuple(tuple(triple) for triple in record.get("evidences") or ()),
        )


def selections(
    context: Context, measure: Callable[..., np.ndarray], written: Sequence[str] | None = None
) -> Iterator[tuple[str, Sequence[Sequence[int]]]]:
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


def main(
    data: Annotated[Path, typer.Option(help="Folder of the benchmarks' files.")] = DATA,
    work: Annotated[Path, typer.Option(help="Where finished work is kept.")] = Path("build/ks_llm"),
    limit: Annotated[int | None, typer.Option(help="Questions of each set.")] = None,
    lm: Annotated[str | None, typer.Option(help="Writes triples from memory.")] = None,
    max_tokens: Annotated[int, typer.Option(help="Of its longest reply.")] = 128,
) -> None:
    console, every = Console(width=150), {name: list(contexts(data / file))[:limit] for name, file in SETS.items()}
    folder = work / lm.replace("/", "-") if lm else work
    triples = _written(lm, every, Lines(folder / "triples.jsonl"), max_tokens) if lm else {}
    done = Lines(folder / "selection.jsonl")
    there = {(line["set"], line["meter"], line["id"]) for line in done.done}
    meters = {embedder: DistanceMeter(embedder) for _, embedder, _ in METERS}
    for name, own in every.items():
        for context, (meter, embedder, distance) in itertools.product(own, METERS):
            if (name, meter, context.id) not in there:
                measure = partial(meters[embedder].measure, distance=distance)
                found = _measured(context, measure, triples.get((name, context.id)))
                done.add({"set": name, "meter": meter, "id": context.id, **found})
        console.print(_selection_table(name, [line for line in done.done if line["set"] == name]))
        if lm:
            empty = sum(not triples[name, context.id] for context in own)
            console.print(f"{lm} wrote no triple for {empty} of {len(own)} questions; the question selects there")


class _TripleWriter(KSLLM):
    """Writes the triples of a question as KS-LLM does, and answers nothing."""

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        triples = await self._expanded(asked.question, True)
        story.answer = "\n".join(triples) or "none"


def _written(
    lm: str, every: dict[str, list[Context]], written: Lines, max_tokens: int
) -> dict[tuple[str, str], list[str]]:
    """The triples that a language model writes, by set and question."""
    program = _TripleWriter(None, lms=build_roles(lm, max_tokens=max_tokens))
    for name, own in every.items():
        asked = {line["id"] for line in written.done if line["set"] == name}
        left = [context for context in own if context.id not in asked]
        for begin in range(0, len(left), _AT_ONCE):
            some = left[begin : begin + _AT_ONCE]
            for context, outcome in zip(some, program.answer_many([one.question for one in some]), strict=True):
                said = outcome.answer or "none"
                written.add({"set": name, "id": context.id, "triples": [] if said == "none" else said.split("\n")})
    return {(line["set"], line["id"]): line["triples"] for line in written.done}


def _measured(
    context: Context, measure: Callable[..., np.ndarray], written: Sequence[str] | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {"sentences": len(context.sentences)}
    found["answerable"] = holds_answer(context.sentences, [context.answer])
    for by, selected in selections(context, measure, written):
        held = [holds_answer([context.sentences[one] for one in places], [context.answer]) for places in selected]
        needed = context.needed
        supporting = [len(needed.intersection(places)) / len(needed) if needed else None for places in selected]
        found[by] = {"supporting": supporting, "answer": held, "selected": selected}
    return found


def _selection_table(name: str, lines: Sequence[dict[str, Any]]) -> Table:
    questions = {line["id"] for line in lines}
    sizes = [line["sentences"] for line in lines]
    columns = (f"{what}@{k}" for what in "SA" for k in KEPT)
    title = f"{name}: {len(questions)} questions, {fmean(sizes):.1f} sentences each"
    table = Table("selected by", "distance", *columns, title=title)
    for by in ("question", "gold triples", "gold triples, joined", "written triples"):
        for meter, _, _ in METERS:
            rows = [line[by] for line in lines if line["meter"] == meter and by in line]
            if rows:
                both = itertools.product(("supporting", "answer"), range(len(KEPT)))
                table.add_row(by, meter, *(_mean(row[what][place] for row in rows) for what, place in both))
    apart = _differing(lines)
    table.caption = (
        "S@k: the share of the supporting sentences among the k selected; A@k: of the questions whose answer stands in "
        "one of them. "
        f"The answer stands in a sentence of {_mean(line['answerable'] for line in lines)} of the questions that are "
        f"not of yes or no. By MiniLM and the question, Euclid and cosine select other sentences at k=2 for {apart}."
    )
    return table


def _differing(lines: Sequence[dict[str, Any]]) -> str:
    """For how many questions the two distances select other sentences."""
    found: dict[str, list[Any]] = defaultdict(list)
    for line in lines:
        if line["meter"] != "words":
            found[line["id"]].append(line["question"]["selected"][KEPT.index(2)])
    pairs = [both for both in found.values() if len(both) == 2]
    return f"{sum(one != other for one, other in pairs)} of {len(pairs)}"


def _mean(values: Iterator[float | None]) -> str:
    known = [float(value) for value in values if value is not None]
    return f"{fmean(known):.3f}" if known else "-"


if __name__ == "__main__":
    typer.run(main)
