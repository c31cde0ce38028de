"""Chinese SimpleQA (He et al., 2024): short questions with one answer that does not change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keqa.data.benchmark import Benchmark, HubSource
from keqa.data.example import Example
from keqa.data.records import field, make, usable


def _convert(record: Mapping[str, Any]) -> Example:
    field(record, "primary_category", str)
    fields = {"id": field(record, "id", str), "question": record.get("question")}
    return make({**fields, "answers": usable(field(record, "answer", str))})


BENCHMARKS = (
    Benchmark(
        "chinese-simpleqa",
        "Chinese SimpleQA",
        files={"test": "chinese_simpleqa.jsonl"},
        hub=HubSource("OpenStellarTeam/Chinese-SimpleQA", splits=("train",)),
        language="zh",
        licence="MIT (the authors' repository)",
        expected="lines of JSON objects with id, primary_category, question and answer",
        convert=_convert,
    ),
)
