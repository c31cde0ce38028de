"""Chinese questions: Baidu WebQA (Li et al., 2016) and SogouQA with web passages, Chinese SimpleQA without.

Chinese SimpleQA (He et al., 2024) has short questions with one answer that does not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keqa.data.benchmark import Benchmark, HubSource, whole
from keqa.data.evidence import ContextPassage, one_text
from keqa.data.example import Example
from keqa.data.records import Converted, LeftOut, field, items, make, usable
from keqa.data.rows import Row, json_document, json_list
from keqa.errors import InputError

_NO_ANSWER = "no_answer"


def _webqa_rows(path: Path) -> Iterator[Row]:
    """The records of Baidu's files, whose keys are the ids."""
    document = json_document(path)
    if not isinstance(document, Mapping):
        raise InputError(f"{path}: an object from id to question and evidences is expected")
    for number, (identity, record) in enumerate(document.items(), start=1):
        yield Row(path, number, {**record, "id": identity} if isinstance(record, Mapping) else record)


def _webqa(record: Mapping[str, Any]) -> Converted:
    """A record of Baidu WebQA; an evidence without the answer says ``no_answer``. Where all do, it is left out."""
    evidences = list(field(record, "evidences", dict).values())
    if not all(isinstance(evidence, Mapping) for evidence in evidences):
        raise InputError("evidences must hold objects with answer and evidence")
    found = []
    for evidence in evidences:
        answers = [one for one in field(evidence, "answer", (list, tuple)) if one != _NO_ANSWER]
        found.append((one_text(field(evidence, "evidence", str), "an evidence"), answers))
    return _convert(record, found)


def _sogouqa(record: Mapping[str, Any]) -> Converted:
    """A record of SogouQA, or of WebQA in the same layout; passages without the answer have an empty one.

    A record where all are empty is left out.
    """
    found = []
    for passage in items(record, "passages"):
        answer = field(passage, "answer", str).strip()
        found.append((one_text(field(passage, "passage", str), "a passage"), [answer] if answer else []))
    return _convert(record, found)


def _convert(record: Mapping[str, Any], found: list[tuple[str, list[Any]]]) -> Converted:
    """The answer that most passages give comes first; the others are its aliases."""
    listed = [answer for _, answers in found for answer in answers]
    for answer in listed:
        if isinstance(answer, list | dict):
            raise InputError(f"the answer must be text, not {type(answer).__name__}")
    counts = Counter(listed)
    if found and not counts:
        return LeftOut("unanswerable")
    return make(
        {
            "id": record.get("id"),
            "question": record.get("question"),
            "answers": usable([answer for answer, _ in counts.most_common()]),
            "context": [
                ContextPassage("", text, "supporting" if answers else "distractor") for text, answers in found if text
            ],
        }
    )


def _simpleqa(record: Mapping[str, Any]) -> Example:
    field(record, "primary_category", str)
    fields = {"id": field(record, "id", str), "question": record.get("question")}
    return make({**fields, "answers": usable(field(record, "answer", str))})


_WEBQA = Benchmark(
    "webqa",
    "Baidu WebQA",
    files={"test": "me_test.ann.json", "dev": "me_validation.ann.json", "train": "me_train.json"},
    has=("aliases", "context"),
    language="zh",
    licence="for research; no licence file",
    expected="a JSON object from id to question and evidences",
    rows=whole(_webqa_rows),
    convert=_webqa,
)
_SOGOUQA = _WEBQA.peer(
    "sogouqa",
    "SogouQA",
    files={"train": "SogouQA.json"},
    expected="a JSON list of objects with id, question and passages (passage and answer)",
    rows=whole(json_list),
    convert=_sogouqa,
)
_SIMPLEQA = Benchmark(
    "chinese-simpleqa",
    "Chinese SimpleQA",
    files={"test": "chinese_simpleqa.jsonl"},
    hub=HubSource("OpenStellarTeam/Chinese-SimpleQA", splits=("train",)),
    language="zh",
    licence="MIT (the authors' repository)",
    expected="lines of JSON objects with id, primary_category, question and answer",
    convert=_simpleqa,
)
BENCHMARKS = (_WEBQA, _SOGOUQA, _SIMPLEQA)
