"""FreshQA (Vu et al., 2023): questions whose answers change, and questions with false premises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keqa.data.benchmark import Benchmark, pick_split
from keqa.data.example import Example
from keqa.data.records import field, is_polar, make, usable
from keqa.data.rows import Row, table

_KINDS = ("fact_type", "num_hops")
"""What KBM distinguishes questions by: how fast the answer changes (its Table 2), and the hops to it (its Table 3)."""


def _convert(record: Mapping[str, Any]) -> Example:
    """Its kind is such as ``fast-changing; one-hop``. Gold answers that are yes or no decide how it is scored only."""
    answers = usable([record.get(f"answer_{number}") or "" for number in range(10)])
    return make(
        {
            "id": field(record, "id", str),
            "question": record.get("question"),
            "answers": answers,
            "scored_as": "yes/no" if all(is_polar(answer) for answer in answers) else "",
            "kind": "; ".join(filter(None, (str(record.get(name) or "").strip() for name in _KINDS))),
        }
    )


def _rows(path: Path, split: str | None) -> Iterator[Row]:
    """The rows of one split of the table, ``test`` by default; the questions of ``dev`` are for development."""
    wanted = pick_split(split, ("test", "dev"), "FreshQA")
    for row in table(path, look_for=("id", "split", "question", "answer_0")):
        if not isinstance(row.value, Mapping) or row.value["split"].strip().lower() == wanted:
            yield row


BENCHMARKS = (
    Benchmark(
        "freshqa",
        "FreshQA",
        files={"test": "freshqa.csv", "dev": "freshqa.csv"},
        splits_itself=True,
        has=("aliases",),
        licence="Apache-2.0; the answers change, so name the edition that you used",
        expected="a CSV table with id, split, question and answer_0 to answer_9",
        rows=_rows,
        convert=_convert,
    ),
)
