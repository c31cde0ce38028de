"""Chinese SimpleQA (He et al., 2024): short questions with one answer that does not change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keqa.data.benchmark import Benchmark, HubSource, whole
from keqa.data.example import Example
from keqa.data.records import field, make, usable
from keqa.data.rows import json_list

__all__ = ["BENCHMARKS", "simpleqa"]


def simpleqa(record: Mapping[str, Any]) -> Example:
    """Convert a record of Chinese SimpleQA.

    Raises:
        InputError: It is malformed.
    """
    field(record, "primary_category", str)
    fields = {"id": field(record, "id", str), "question": record.get("question")}
    return make({**fields, "answers": usable(field(record, "answer", str))})


BENCHMARKS = (
    Benchmark(
        name="chinese-simpleqa",
        title="Chinese SimpleQA",
        licence="MIT (the authors' repository)",
        has=(),
        multi_hop=False,
        language="zh",
        expected="lines of JSON objects with id, primary_category, question and answer",
        rows=whole(json_list),
        convert=simpleqa,
        files={"test": "chinese_simpleqa.jsonl"},
        hub=HubSource("OpenStellarTeam/Chinese-SimpleQA", None, ("train",)),
    ),
)
