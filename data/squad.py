"""The SQuAD layout (Rajpurkar et al., 2016, 2018): SQuAD, XQuAD, ChineseSquad, CMRC 2018."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from keqa.data.benchmark import Benchmark, HubSource, whole
from keqa.data.evidence import ContextPassage, one_text
from keqa.data.records import Converted, LeftOut, field, items, make, usable
from keqa.data.rows import Row, json_document
from keqa.errors import InputError


def _rows(path: Path) -> Iterator[Row]:
    """Each question of the file with title and context of its paragraph."""
    document = json_document(path)
    if not isinstance(document, Mapping) or not isinstance(document.get("data"), list):
        raise InputError(f"{path}: an object with the list data is expected, as SQuAD has it")
    number = 0
    for place, article in enumerate(document["data"], start=1):
        try:
            questions = list(_questions(article))
        except InputError as error:
            yield Row(path, place, error, "article")
            continue
        for question in questions:
            number += 1
            yield Row(path, number, question, "question")


def _questions(article: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(article, Mapping):
        raise InputError(f"an article with paragraphs is expected, not {type(article).__name__}")
    for paragraph in items(article, "paragraphs"):
        context = field(paragraph, "context", str)
        for question in items(paragraph, "qas"):
            yield {**question, "context": context, "title": article.get("title", "")}


def _convert(record: Mapping[str, Any]) -> Converted:
    """A question with its context, of a file or a row of the hub.

    Questions that the context does not answer (SQuAD 2) are left out: whether one knows a thing cannot be measured on
    a question without an answer.
    """
    listed = field(record, "answers", (list, tuple, dict))
    if isinstance(listed, dict):
        texts = field(listed, "text", (list, tuple))
    else:
        texts = [field(answer, "text", (str, int, float)) for answer in items(record, "answers")]
    if record.get("is_impossible") is True or not texts:
        return LeftOut("unanswerable")
    title = one_text(record.get("title") or "", "the title").replace("_", " ")
    passage = ContextPassage(title, one_text(field(record, "context", str), "the context"), "supporting")
    fields = {"id": field(record, "id", (str, int)), "question": record.get("question"), "answers": usable(texts)}
    return make({**fields, "context": [passage]})


_SQUAD = Benchmark(
    "squad",
    "SQuAD",
    has=("aliases", "context"),
    files={"dev": "dev-v1.1.json", "train": "train-v1.1.json"},
    hub=HubSource("rajpurkar/squad"),
    licence="CC BY-SA 4.0",
    expected="a JSON object whose data holds articles, their paragraphs and qas",
    rows=whole(_rows),
    convert=_convert,
)


def _xquad(language: Literal["en", "zh"], title: str) -> Benchmark:
    hub = HubSource("google/xquad", f"xquad.{language}", ("validation",))
    files = {"dev": f"xquad.{language}.json"}
    return _SQUAD.peer(f"xquad-{language}", title, files=files, hub=hub, has=("context",), language=language)


BENCHMARKS = (
    _SQUAD,
    _SQUAD.peer(
        "squad2",
        "SQuAD 2",
        files={"dev": "dev-v2.0.json", "train": "train-v2.0.json"},
        hub=HubSource("rajpurkar/squad_v2"),
    ),
    _xquad("en", "XQuAD (English)"),
    _xquad("zh", "XQuAD (Chinese)"),
    _SQUAD.peer(
        "chinesesquad",
        "ChineseSquad",
        language="zh",
        files={"dev": "dev-v2.0-zh.json", "train": "train-v2.0-zh.json"},
        hub=HubSource("lighteval/ChineseSquad"),
        has=("context",),
        licence="no licence file; a translation of SQuAD, which is CC BY-SA 4.0",
    ),
    _SQUAD.peer(
        "cmrc2018",
        "CMRC 2018",
        language="zh",
        files={"dev": "cmrc2018_dev.json", "train": "cmrc2018_train.json"},
        hub=HubSource("hfl/cmrc2018"),
    ),
)
