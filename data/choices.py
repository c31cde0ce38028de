"""Options: OpenBookQA (Mihaylov et al., 2018), MMLU (Hendrycks et al., 2021) and CMMLU (Li et al., 2023)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keqa.data.benchmark import Benchmark, HubSource, whole
from keqa.data.evidence import Evidence, SupportingFact, one_text
from keqa.data.example import Example
from keqa.data.records import field, items, make
from keqa.data.rows import Row, json_list, table
from keqa.errors import InputError

__all__ = ["BENCHMARKS", "cmmlu", "cmmlu_rows", "mmlu", "mmlu_rows", "openbookqa"]

_LETTERS = "ABCD"
_SPLIT = re.compile(r"_(test|dev|val)$")


def openbookqa(record: Mapping[str, Any]) -> Example:
    """Convert a record of OpenBookQA, the authors' or the hub's; `fact1` becomes the supporting fact.

    Raises:
        InputError: It is malformed.
    """
    asked = record if "question_stem" in record else field(record, "question", dict)
    stem = asked.get("question_stem", asked.get("stem"))
    if isinstance(asked.get("choices"), Mapping):
        labels, texts = (list(field(asked["choices"], name, (list, tuple))) for name in ("label", "text"))
    else:
        labels, texts = ([choice.get(name) for choice in items(asked, "choices")] for name in ("label", "text"))
    key = field(record, "answerKey", str)
    if key not in labels:
        raise InputError(f"answerKey is {key!r}, and there are the choices {', '.join(map(str, labels))}")
    gold = texts[labels.index(key)]
    fact = record.get("fact1")
    facts = (SupportingFact(text=one_text(fact, "fact1")),) if fact else ()
    fields = {"id": field(record, "id", str), "question": stem, "choices": texts, "answers": (gold,)}
    return make({**fields, "answer_type": "choice"}, Evidence(supporting_facts=facts))


def mmlu(record: Mapping[str, Any]) -> Example:
    """Convert a row of MMLU, the authors' or the hub's. It has no ids; they are made from subject and question.

    Raises:
        InputError: It is malformed.
    """
    choices = record.get("choices") or [record.get(letter) for letter in _LETTERS]
    example = _choice(record, "question", choices, record.get("answer"))
    return replace(example, id=f"{field(record, 'subject', str)}/{example.id}")


def cmmlu(record: Mapping[str, Any]) -> Example:
    """Convert a row of CMMLU; its id is subject and index.

    Raises:
        InputError: It is malformed.
    """
    choices = [record.get(letter) for letter in _LETTERS]
    example = _choice(record, "Question", choices, record.get("Answer"))
    return replace(
        example, id=f"{field(record, 'subject', str)}/{field({'index': record.get('') or None}, 'index', str)}"
    )


def mmlu_rows(path: Path, split: str | None) -> Iterator[Row]:
    """The rows of a subject's table, or of all tables in a folder, or in its folder for the split.

    Raises:
        InputError: A file cannot be read.
    """
    names = ("question", *_LETTERS, "answer")
    yield from _subjects(path, split, lambda file: table(file, names))


def cmmlu_rows(path: Path, split: str | None) -> Iterator[Row]:
    """The rows of a subject's table, or of all tables in a folder, or in its folder for the split.

    Raises:
        InputError: A file cannot be read or is no such table.
    """
    yield from _subjects(path, split, lambda file: table(file, look_for=("", "Question", *_LETTERS, "Answer")))


def _subjects(path: Path, split: str | None, read: Callable[[Path], Iterator[Row]]) -> Iterator[Row]:
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


def _choice(record: Mapping[str, Any], question: str, choices: Sequence[Any], answer: Any) -> Example:
    """A question with its options, where the answer is a letter or a position."""
    if isinstance(answer, str) and len(answer.strip()) == 1:
        answer = _LETTERS.find(answer.strip().upper())
    if isinstance(answer, bool) or not isinstance(answer, int) or not 0 <= answer < len(choices):
        raise InputError(f"the answer must be a letter from A to D, not {record.get('answer', record.get('Answer'))!r}")
    fields = {"question": record.get(question), "choices": list(choices), "answers": (choices[answer],)}
    return make({**fields, "answer_type": "choice"})


BENCHMARKS = (
    Benchmark(
        name="openbookqa",
        title="OpenBookQA",
        licence="Apache-2.0 for the authors' code; the data is released with it",
        has=("choices", "supporting facts"),
        multi_hop=False,
        language="en",
        expected="lines of JSON objects with id, question (stem and choices) and answerKey",
        rows=whole(json_list),
        convert=openbookqa,
        files={"test": "Main/test.jsonl", "dev": "Main/dev.jsonl", "train": "Main/train.jsonl"},
        hub=HubSource("allenai/openbookqa", "additional", ("test", "validation", "train")),
    ),
    Benchmark(
        name="mmlu",
        title="MMLU",
        licence="MIT",
        has=("choices",),
        multi_hop=False,
        language="en",
        expected="a CSV table without a header: question, four choices, letter; or a folder of one for each subject",
        rows=mmlu_rows,
        convert=mmlu,
        splits_itself=True,
        hub=HubSource("cais/mmlu", "all", ("test", "validation", "dev")),
    ),
    Benchmark(
        name="cmmlu",
        title="CMMLU",
        licence="CC BY-NC-SA 4.0 (no commercial use)",
        has=("choices",),
        multi_hop=False,
        language="zh",
        expected="a CSV table with Question, A, B, C, D and Answer; or a folder of one for each subject",
        rows=cmmlu_rows,
        convert=cmmlu,
        splits_itself=True,
    ),
)
