"""FreshQA (Vu et al., 2023): questions whose answers change, and questions with false premises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from keqa.data.benchmark import Benchmark, pick_split
from keqa.data.example import Example
from keqa.data.records import field, is_polar, make, usable
from keqa.data.rows import Row, table

__all__ = ["BENCHMARKS", "freshqa", "freshqa_rows"]

_KINDS = ("fact_type", "num_hops")
"""What KBM distinguishes questions by: how fast the answer changes (its Table 2), and the hops to it (its Table 3)."""


def freshqa(record: Mapping[str, Any]) -> Example:
    """Convert a row of FreshQA; answers that are yes or no make it a yes/no question.

    Its kind is how fast the answer changes and how many hops lead to it, such as ``fast-changing; one-hop``.

    Raises:
        InputError: It is malformed.
    """
    answers = usable([record.get(f"answer_{number}") or "" for number in range(10)])
    polar = all(is_polar(answer) for answer in answers)
    example = make(
        {
            "id": field(record, "id", str),
            "question": record.get("question"),
            "answers": answers,
            "answer_type": "yes/no" if polar else "short",
        }
    )
    return replace(example, kind="; ".join(filter(None, (str(record.get(name) or "").strip() for name in _KINDS))))


def freshqa_rows(path: Path, split: str | None) -> Iterator[Row]:
    """The rows of one split of FreshQA's table, ``test`` by default; the questions of ``dev`` are for development.

    Raises:
        InputError: The file cannot be read or is no such table.
    """
    wanted = pick_split(split, ("test", "dev"), "FreshQA")
    for row in table(path, look_for=("id", "split", "question", "answer_0")):
        if not isinstance(row.value, Mapping) or row.value["split"].strip().lower() == wanted:
            yield row


BENCHMARKS = (
    Benchmark(
        name="freshqa",
        title="FreshQA",
        licence="Apache-2.0; the answers change, so name the edition that you used",
        has=("aliases",),
        multi_hop=False,
        language="en",
        expected="a CSV table with id, split, question and answer_0 to answer_9",
        rows=freshqa_rows,
        convert=freshqa,
        files={"test": "freshqa.csv", "dev": "freshqa.csv"},
        splits_itself=True,
    ),
)
