"""The SQuAD layout (Rajpurkar et al., 2016, 2018): SQuAD, XQuAD, ChineseSquad, CMRC 2018."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keqa.data.benchmark import Benchmark, HubSource, whole
from keqa.data.evidence import ContextPassage, Evidence, one_text
from keqa.data.records import Converted, LeftOut, field, items, make, usable
from keqa.data.rows import Row, json_document
from keqa.errors import InputError

__all__ = ["BENCHMARKS", "squad", "squad_rows"]

_LAYOUT = "a JSON object whose data holds articles, their paragraphs and qas"


def squad_rows(path: Path) -> Iterator[Row]:
    """Each question of the file with title and context of its paragraph.

    Raises:
        InputError: The file cannot be read, or is not of articles with paragraphs.
    """
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


def squad(record: Mapping[str, Any]) -> Converted:
    """Convert a question with its context: of `squad_rows`, or a row of the hub.

    Questions that the context does not answer (SQuAD 2) are left out: whether one knows a thing cannot be measured on
    a question without an answer.

    Raises:
        InputError: It is malformed.
    """
    listed = field(record, "answers", (list, tuple, dict))
    if isinstance(listed, dict):
        texts = field(listed, "text", (list, tuple))
    else:
        texts = [field(answer, "text", (str, int, float)) for answer in items(record, "answers")]
    if record.get("is_impossible") is True or not texts:
        return LeftOut("unanswerable")
    passage = ContextPassage(
        one_text(record.get("title") or "", "the title").replace("_", " "),
        one_text(field(record, "context", str), "the context"),
        "supporting",
    )
    fields = {"id": field(record, "id", (str, int)), "question": record.get("question"), "answers": usable(texts)}
    return make(fields, Evidence(context=(passage,)))


BENCHMARKS = (
    Benchmark(
        name="squad",
        title="SQuAD",
        licence="CC BY-SA 4.0",
        has=("aliases", "context"),
        multi_hop=False,
        language="en",
        expected=_LAYOUT,
        rows=whole(squad_rows),
        convert=squad,
        files={"dev": "dev-v1.1.json", "train": "train-v1.1.json"},
        hub=HubSource("rajpurkar/squad", None, ("validation", "train")),
    ),
    Benchmark(
        name="squad2",
        title="SQuAD 2",
        licence="CC BY-SA 4.0",
        has=("aliases", "context"),
        multi_hop=False,
        language="en",
        expected=_LAYOUT,
        rows=whole(squad_rows),
        convert=squad,
        files={"dev": "dev-v2.0.json", "train": "train-v2.0.json"},
        hub=HubSource("rajpurkar/squad_v2", None, ("validation", "train")),
    ),
    Benchmark(
        name="xquad-en",
        title="XQuAD (English)",
        licence="CC BY-SA 4.0",
        has=("context",),
        multi_hop=False,
        language="en",
        expected=_LAYOUT,
        rows=whole(squad_rows),
        convert=squad,
        files={"dev": "xquad.en.json"},
        hub=HubSource("google/xquad", "xquad.en", ("validation",)),
    ),
    Benchmark(
        name="xquad-zh",
        title="XQuAD (Chinese)",
        licence="CC BY-SA 4.0",
        has=("context",),
        multi_hop=False,
        language="zh",
        expected=_LAYOUT,
        rows=whole(squad_rows),
        convert=squad,
        files={"dev": "xquad.zh.json"},
        hub=HubSource("google/xquad", "xquad.zh", ("validation",)),
    ),
    Benchmark(
        name="chinesesquad",
        title="ChineseSquad",
        licence="no licence file; a translation of SQuAD, which is CC BY-SA 4.0",
        has=("context",),
        multi_hop=False,
        language="zh",
        expected=_LAYOUT,
        rows=whole(squad_rows),
        convert=squad,
        files={"dev": "dev-v2.0-zh.json", "train": "train-v2.0-zh.json"},
        hub=HubSource("lighteval/ChineseSquad", None, ("validation", "train")),
    ),
    Benchmark(
        name="cmrc2018",
        title="CMRC 2018",
        licence="CC BY-SA 4.0",
        has=("aliases", "context"),
        multi_hop=False,
        language="zh",
        expected=_LAYOUT,
        rows=whole(squad_rows),
        convert=squad,
        files={"dev": "cmrc2018_dev.json", "train": "cmrc2018_train.json"},
        hub=HubSource("hfl/cmrc2018", None, ("validation", "train")),
    ),
)
