"""Questions without passages: NQ-open, TriviaQA and WebQuestions.

NQ-open is of Kwiatkowski et al. (2019) and Lee et al. (2019), TriviaQA of Joshi et al. (2017), WebQuestions of Berant
et al. (2013).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keqa.data.benchmark import Benchmark, HubSource, whole
from keqa.data.evidence import ContextPassage, one_text
from keqa.data.example import Example
from keqa.data.records import field, items, make, usable
from keqa.data.rows import Row, json_document, json_list
from keqa.errors import InputError
from keqa.retrievers.readers.common import plain_suffix

# WebQuestions writes its answers as (list (description "Jazmyn Bieber") (description London)).
_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^()"]+))\)')


def _nq_open(record: Mapping[str, Any]) -> Example:
    """A record of the original, FlashRAG's, or DPR's with passages (`ctxs`). NQ-open has no ids."""
    name = next((name for name in ("answer", "answers", "golden_answers") if name in record), "answer")
    context = [
        ContextPassage(
            one_text(passage.get("title", ""), "the title of a passage"),
            one_text(passage.get("text"), "the text of a passage"),
            "supporting" if passage.get("isgold") is True else "unknown",
        )
        for passage in (items(record, "ctxs") if "ctxs" in record else ())
    ]
    fields = {"question": record.get("question"), "answers": usable(field(record, name, (list, tuple)))}
    return make({**fields, "id": record.get("id"), "context": context})


def _triviaqa(record: Mapping[str, Any]) -> Example:
    """A record in the original layout, FlashRAG's or the hub's. Those of the test set have no answers."""
    if "golden_answers" in record:
        return _nq_open(record)
    original = "QuestionId" in record
    names = ("QuestionId", "Question", "Answer", "Value", "Aliases", "HumanAnswers")
    names = names if original else ("question_id", "question", "answer", "value", "aliases", "human_answers")
    gold = field(record, names[2], dict)
    return make(
        {
            "id": field(record, names[0], str),
            "question": record.get(names[1]),
            "answers": usable(gold.get(names[3]), gold.get(names[4]), gold.get(names[5])),
        }
    )


def _triviaqa_rows(path: Path) -> Iterator[Row]:
    """The records of ``Data`` in the original, of a list or lines in FlashRAG's layout."""
    if plain_suffix(path) != ".json":
        yield from json_list(path)
        return
    document = json_document(path)
    records = document.get("Data") if isinstance(document, Mapping) else document
    if not isinstance(records, list):
        raise InputError(f"{path}: an object with the list Data is expected, as the authors' files are")
    yield from (Row(path, number, record) for number, record in enumerate(records, start=1))


def _webquestions(record: Mapping[str, Any]) -> Example:
    """A record of the original, the factoid copy or the hub's."""
    if "targetValue" in record:
        listed = _DESCRIPTION.findall(field(record, "targetValue", str))
        described = [quoted.replace('\\"', '"') or bare for quoted, bare in listed]
        return make({"question": record.get("utterance"), "answers": usable(described)})
    if "qText" not in record and "url" not in record:
        raise InputError("there is neither qText, utterance nor url")
    question = record["qText"] if "qText" in record else record.get("question")
    answers = usable(field(record, "answers", (list, tuple)))
    return make({"id": record.get("qId"), "question": question, "answers": answers})


BENCHMARKS = (
    Benchmark(
        "nq",
        "NQ-open",
        files={"dev": "NQ-open.dev.jsonl", "train": "NQ-open.train.jsonl"},
        hub=HubSource("google-research-datasets/nq_open"),
        has=("aliases",),
        licence="CC BY-SA 3.0",
        expected="lines of JSON objects with question and the list answer (or answers with ctxs, or golden_answers)",
        convert=_nq_open,
    ),
    Benchmark(
        "triviaqa",
        "TriviaQA",
        files={"dev": "verified-wikipedia-dev.json", "test": "test.jsonl", "train": "wikipedia-train.json"},
        hub=HubSource("mandarjoshi/trivia_qa", "unfiltered.nocontext"),
        has=("aliases",),
        licence="Apache-2.0 for the questions as released; the evidence pages have their owners' licences",
        expected="a JSON object whose Data holds QuestionId, Question and Answer, or lines with golden_answers",
        rows=whole(_triviaqa_rows),
        convert=_triviaqa,
    ),
    Benchmark(
        "webquestions",
        "WebQuestions",
        files={"test": "test.json", "train": "trainmodel.json"},
        hub=HubSource("stanfordnlp/web_questions", splits=("test", "train")),
        has=("aliases",),
        licence="CC BY 4.0",
        expected="a JSON list of objects with qId, qText and answers, or with url, utterance and targetValue",
        convert=_webquestions,
    ),
)
