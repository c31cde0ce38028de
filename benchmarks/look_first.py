"""What looking first is worth: how often the words of a quiz send it to the documents, and what that costs and gains.

    python benchmarks/look_first.py [DATA] [--questions 300] [--no-testbed]

Without a language model, over the shared corpora: the share of questions that are read from passages because these
speak of them, where the corpus holds what tells the answer, where just these passages are taken out, and of questions
of another corpus. Then the testbed as documents of one's own, with the language model that ships: answers as its paper
gives them, and without guesses, examining every quiz and looking first.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common import DATA
from recall import BENCHMARKS, Case, key
from rich.console import Console
from rich.table import Table

import keqa
from keqa.metrics.answers import f1
from keqa.programs.subjects import spoken_of
from keqa.retrievers import Retriever, build_index, open_index

_K = 10
_SPARE = 10


def share(retriever: Retriever, questions: Sequence[str], gold: Sequence[set[str]], form: str) -> float:
    """The share of questions that the passages found speak of, without the gold ones that are given."""
    read = 0
    for question, hits, left_out in zip(questions, retriever.search_many(questions, _K + _SPARE), gold, strict=True):
        texts = [one.passage for one in hits if key(form, one.passage.title, one.passage.text) not in left_out][:_K]
        read += bool(spoken_of(question, [f"{one.title} {one.text}" for one in texts]))
    return read / len(questions)


def over_corpora(data: Path, count: int) -> Table:
    """A row for each of the shared corpora."""
    table = Table("corpus", "passages", "questions", "told", "its passages taken out", "of another corpus")
    cases = [Case.read(one, data, None) for one in BENCHMARKS if all((data / file).exists() for file in one.files)]
    with tempfile.TemporaryDirectory() as folder:
        for place, case in enumerate(cases):
            index = Path(folder, str(place))
            build_index(case.passages, index, notice=lambda text: None)
            retriever, form = open_index(index), case.benchmark.gold
            asked, gold = case.questions[:count], case.gold[:count]
            others = cases[place - 1].questions[:count]
            nothing: list[set[str]] = [set()] * count
            shares = [
                share(retriever, asked, nothing[: len(asked)], form),
                share(retriever, asked, gold, form),
                share(retriever, others, nothing[: len(others)], form),
            ]
            sizes = [f"{len(case.passages):,}", str(len(asked))]
            table.add_row(case.benchmark.name, *sizes, *(f"{one:.3f}" for one in shares))
    return table


def over_testbed(count: int) -> Table:
    """A row for each way to answer the testbed's questions over its encyclopedia."""
    testbed = keqa.Testbed()
    searched = keqa.open_encyclopedia(testbed.passages)
    table = Table("program", "F1", "answered", "F1 of answered", "retrievals", "LM calls")
    rows = {
        "guessing": {"unanswered": "guess"},
        "examining first": {"unanswered": "say", "look_first": False},
        "looking first": {"unanswered": "say"},
    }
    for name, settings in rows.items():
        program = keqa.KEQA(searched, lms=keqa.build_roles("keqa/tiny"), **settings)
        outcomes = list(program.answer_many(testbed.dev[:count]))
        records = [one.record for one in outcomes]
        scores = [
            0.0 if one.record.unanswered else f1(one.answer, one.item.answers, one.item.answer_type, one.item.choices)
            for one in outcomes
        ]
        answered = sum(one.answer is not None and one.unanswered is None for one in records)
        costs = [sum(getattr(one.cost, what) for one in records) / len(records) for what in ("retrievals", "samples")]
        means = [f"{sum(scores) / most:.2f}" for most in (len(records), max(1, answered))]
        table.add_row(name, means[0], f"{answered}/{len(records)}", means[1], *(f"{one:.1f}" for one in costs))
    return table


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, default=DATA)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--no-testbed", action="store_true")
    options = parser.parse_args()
    console = Console(width=120)
    if options.data.exists():
        console.print(over_corpora(options.data, options.questions))
    if not options.no_testbed:
        console.print(over_testbed(60))


if __name__ == "__main__":
    main()
