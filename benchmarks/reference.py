"""What a utility reference costs: building it, and finding the demonstrations for a passage.

    python benchmarks/reference.py

The entries are made from the testbed's passages and questions about them. Lookups are timed on texts that the reference
has not met, their embedding included: one by one, and as the passages of a quiz, which are embedded in one batch.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from keqa.programs.reference.embedding import HASHING, open_embedder
from keqa.programs.reference.utility_reference import Entry, UtilityReference
from keqa.retrievers.base import Passage
from keqa.testbed.testbed import Testbed

PASSAGES_OF_A_QUIZ = 10
ASKED = ("Who leads {}?", "When was {} founded?", "To whom is {} married?", "Where does {} lie?", "What did {} write?")


def main(
    entries: Annotated[int, typer.Option(help="Entries of the reference.")] = 20_000,
    lookups: Annotated[int, typer.Option(help="Lookups to time.")] = 200,
    embedder: Annotated[str, typer.Option(help="hashing, local/minilm, or a sentence-transformers model.")] = HASHING,
) -> None:
    rng = random.Random("reference")
    model = open_embedder(embedder)
    passages = Testbed().passages
    made = [entry(rng, passages, number) for number in range(entries)]
    fresh = [entry(rng, passages, entries + number) for number in range(lookups)]

    reference = UtilityReference(model)
    building = seconds(lambda: reference.fit(made))
    vectors = reference.vectors()
    again = UtilityReference(model)
    loading = seconds(lambda: again.fit(made, vectors))
    embedding = [seconds(lambda one=one: model.embed([one.quiz, one.passage])) for one in fresh]
    alone = [seconds(lambda one=one: reference(one.quiz, one.passage)) for one in fresh]
    together = []
    for start in range(0, lookups - PASSAGES_OF_A_QUIZ + 1, PASSAGES_OF_A_QUIZ):
        group = [one.passage + " again" for one in fresh[start : start + PASSAGES_OF_A_QUIZ]]
        together.append(seconds(lambda quiz=fresh[start].quiz, group=group: quiz_of(again, quiz, group)))
    known = [seconds(lambda one=one: reference(one.quiz, one.passage)) for one in fresh]

    table = Table("", "median ms", "of a first lookup", title=f"{entries:,} entries, {embedder}, {lookups} lookups")
    base = statistics.median(alone)
    for name, values in (
        ("first lookup of a passage", alone),
        ("of these, embedding", embedding),
        ("lookup with known embeddings", known),
        (f"{PASSAGES_OF_A_QUIZ} passages of a quiz, each", [value / PASSAGES_OF_A_QUIZ for value in together]),
    ):
        if values:
            middle = statistics.median(values)
            table.add_row(name, f"{1000 * middle:.2f}", f"{middle / base:.2f}")
    console = Console()
    console.print(table)
    console.print(
        f"building: {building:.2f} s, {1000 * building / entries:.3f} ms an entry, {building / base:.0f} lookups"
    )
    console.print(f"with saved embeddings: {loading:.2f} s, {loading / building:.2f} of building")
    console.print(f"embeddings: {vectors.nbytes / 2**20:.0f} MiB")


def entry(rng: random.Random, passages: Sequence[Passage], number: int) -> Entry:
    passage = rng.choice(passages)
    quiz = rng.choice(ASKED).format(passage.title)
    # The number keeps two entries from showing the same, which would be indexed once.
    return Entry(f"q{number // 8}", quiz, f"{passage.rendered} ({number})", rng.random() < 0.4)


def quiz_of(reference: UtilityReference, quiz: str, passages: list[str]) -> None:
    reference.prepare(quiz, passages)
    for passage in passages:
        reference(quiz, passage)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    typer.run(main)
