"""Options: OpenBookQA (Mihaylov et al., 2018), MMLU (Hendrycks et al., 2021) and CMMLU (Li et al., 2023)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from keqa.data.benchmark import Benchmark, HubSource
from keqa.data.evidence import SupportingFact, one_text
from keqa.data.example import Example
from keqa.data.records import field, items, make
from keqa.data.rows import Row, table
from keqa.errors import InputError

_LETTERS = "ABCD"
_SPLIT = re.compile(r"_(test|dev|val)$")


def _openbookqa(record: Mapping[str, Any]) -> Example:
    """A record of the authors or the hub; `fact1` becomes the supporting fact."""
    asked = record if "question_stem" in record else field(record, "question", dict)
    if isinstance(asked.get("choices"), Mapping):
        labels, texts = (list(field(asked["choices"], name, (list, tuple))) for name in ("label", "text"))
    else:
        labels, texts = ([choice.get(name) for choice in items(asked, "choices")] for name in ("label", "text"))
    key = field(record, "answerKey", str)
    if key not in labels[: len(texts)]:
        raise InputError(f"answerKey is {key!r}, and there are the choices {', '.join(map(str, labels))}")
    fact = record.get("fact1")
    return make(
        {
            "id": field(record, "id", str),
            "question": asked.get("question_stem", asked.get("stem")),
            "choices": texts,
            "answers": (texts[labels.index(key)],),
            "answer_type": "choice",
            "supporting_facts": [SupportingFact(text=one_text(fact, "fact1"))] if fact else [],
        }
    )


def _mmlu(record: Mapping[str, Any]) -> Example:
    """A row of the authors or the hub. MMLU has no ids; they are made from subject and question."""
    choices = field(record, "choices", (list, tuple)) if record.get("choices") else map(record.get, _LETTERS)
    example = _choice(record.get("question"), list(choices), record.get("answer"))
    return replace(example, id=f"{field(record, 'subject', str)}/{example.id}")


def _cmmlu(record: Mapping[str, Any]) -> Example:
    """A row of CMMLU; its id is subject and index."""
    example = _choice(record.get("Question"), list(map(record.get, _LETTERS)), record.get("Answer"))
    index = field({"index": record.get("") or None}, "index", str)
    return replace(example, id=f"{field(record, 'subject', str)}/{index}")


def _mmlu_rows(path: Path, split: str | None) -> Iterator[Row]:
    return _subjects(path, split, lambda file: table(file, ("question", *_LETTERS, "answer")))


def _cmmlu_rows(path: Path, split: str | None) -> Iterator[Row]:
    return _subjects(path, split, lambda file: table(file, look_for=("", "Question", *_LETTERS, "Answer")))


def _subjects(path: Path, split: str | None, read: Callable[[Path], Iterator[Row]]) -> Iterator[Row]:
    """The rows of a subject's table, or of all tables in a folder, or in its folder for the split."""
    folder = path if split is None else path / split
    if split is None and (path / "test").is_dir():
        folder = path / "test"
    files = sorted(folder.glob("*.csv")) if folder.is_dir() else [path] if split is None else []
    if not files:
        raise InputError(f"{folder} is no folder of .csv files; one for each subject is expected")
    for file in files:
        subject = _SPLIT.sub("", file.stem)
        for row in read(file):
            value = {**row.value, "subject": subject} if isinstance(row.value, Mapping) else row.value
            yield Row(row.path, row.number, value, row.unit)


def _choice(question: Any, choices: list[Any], answer: Any) -> Example:
    """A question with its options, where the answer is a letter or a position."""
    place = _LETTERS.find(answer.strip().upper()) if isinstance(answer, str) and len(answer.strip()) == 1 else answer
    if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(choices):
        raise InputError(f"the answer must be a letter from A to D, not {answer!r}")
    return make({"question": question, "choices": choices, "answers": (choices[place],), "answer_type": "choice"})


BENCHMARKS = (
    Benchmark(
        "openbookqa",
        "OpenBookQA",
        files={"test": "Main/test.jsonl", "dev": "Main/dev.jsonl", "train": "Main/train.jsonl"},
        hub=HubSource("allenai/openbookqa", "additional", ("test", "validation", "train")),
        has=("choices", "supporting facts"),
        licence="Apache-2.0 for the authors' code; the data is released with it",
        expected="lines of JSON objects with id, question (stem and choices) and answerKey",
        convert=_openbookqa,
    ),
    Benchmark(
        "mmlu",
        "MMLU",
        hub=HubSource("cais/mmlu", "all", ("test", "validation", "dev")),
        has=("choices",),
        licence="MIT",
        expected="a CSV table without a header: question, four choices, letter; or a folder of one for each subject",
        rows=_mmlu_rows,
        splits_itself=True,
        convert=_mmlu,
    ),
    Benchmark(
        "cmmlu",
        "CMMLU",
        has=("choices",),
        language="zh",
        licence="CC BY-NC-SA 4.0 (no commercial use)",
        expected="a CSV table with Question, A, B, C, D and Answer; or a folder of one for each subject",
        rows=_cmmlu_rows,
        splits_itself=True,
        convert=_cmmlu,
    ),
)
