"""Questions without passages: NQ-open, TriviaQA, WebQuestions and FreshQA; and TriviaQA with its evidence files.

NQ-open is of Kwiatkowski et al. (2019) and Lee et al. (2019), TriviaQA of Joshi et al. (2017), WebQuestions of Berant
et al. (2013), FreshQA of Vu et al. (2023): questions whose answers change, and questions with false premises.

The archive of TriviaQA's authors holds the questions in ``qa`` and a text file for each document in
``evidence/wikipedia`` and ``evidence/web``. Each pair of a question and a document is an example of its own, whose id
is the question's and the document's, as the authors' scripts write it: ``tc_40--Los_Angeles.txt``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from keqa.data.benchmark import Benchmark, HubSource, pick_split, whole
from keqa.data.evidence import ContextPassage, PassageRole, one_text
from keqa.data.example import Example
from keqa.data.records import Converted, LeftOut, field, is_polar, items, make, usable
from keqa.data.rows import Row, json_document, json_list, table
from keqa.errors import InputError
from keqa.retrievers.readers.common import plain_suffix, read_whole

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


_LARGEST = 16 << 20
_LISTS = (("EntityPages", "wikipedia"), ("SearchResults", "web"))
_QUESTION, _PAGE = "QuestionPartOfVerifiedEval", "DocPartOfVerifiedEval"
_UNVERIFIED = LeftOut("not verified")


def _archive(path: Path) -> Iterator[Row]:
    """A row for each pair of a question and a document, with the document's text."""
    document = json_document(path)
    records = document.get("Data") if isinstance(document, Mapping) else None
    if not isinstance(records, list):
        raise InputError(f"{path}: an object with the list Data is expected, as in the folder qa of TriviaQA's archive")
    verified = document.get("VerifiedEval") is True
    evidence = path.parent.parent / "evidence"
    for number, record in enumerate(records, start=1):
        if not isinstance(record, Mapping):
            yield Row(path, number, InputError(f"an object is expected, not {type(record).__name__}"), "question")
        elif verified and record.get(_QUESTION) is not True:
            yield Row(path, number, {"left_out": _UNVERIFIED}, "question")
        else:
            yield from (
                Row(path, number, value, "question") for value in _documents(record, evidence, verified=verified)
            )


def _documents(record: Mapping[str, Any], evidence: Path, *, verified: bool) -> Iterator[Any]:
    """The pairs of a question, or the errors that keep some of them from being read."""
    found = 0
    for name, folder in _LISTS:
        try:
            pages = items(record, name) if name in record else ()
        except InputError as error:
            yield error
            continue
        for page in pages:
            found += 1
            if verified and page.get(_PAGE, True) is not True:
                yield {"left_out": _UNVERIFIED}
                continue
            try:
                file = field(page, "Filename", str)
                text = _document(evidence / folder, file)
            except InputError as error:
                yield error
            else:
                yield {**record, "document": (file, page.get("Title") or "", text), "verified": verified}
    if not found:
        yield InputError(f"there is no document: neither {_LISTS[0][0]} nor {_LISTS[1][0]} names one")


def _document(folder: Path, file: str) -> str:
    """An evidence file, which a record names: it lies inside its folder, of the web's files within one more."""
    place = PurePosixPath(file)
    if place.is_absolute() or ".." in place.parts or "\\" in file or ":" in file or "\0" in file or not place.parts:
        raise InputError(f"Filename {file[:80]!r} leads out of the folder of evidence")
    try:
        return read_whole(folder / place, _LARGEST).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{folder / place}: not UTF-8 ({error.reason})") from error


def _with_document(record: Mapping[str, Any]) -> Converted:
    if isinstance(record.get("left_out"), LeftOut):
        return _UNVERIFIED
    # Of JSON nothing is a tuple.
    if not isinstance(record.get("document"), tuple):
        raise InputError("it comes without its document: load the file of the authors' archive, beside its evidence")
    file, title, text = record["document"]
    gold = field(record, "Answer", dict)
    role: PassageRole = "supporting" if record["verified"] else "unknown"
    return make(
        {
            "id": f"{field(record, 'QuestionId', str)}--{file}",
            "question": record.get("Question"),
            "answers": usable(gold.get("Value"), gold.get("Aliases"), gold.get("HumanAnswers")),
            "context": (ContextPassage(one_text(title, "Title"), one_text(text, "the document"), role),),
        }
    )


_RC = Benchmark(
    "triviaqa-rc",
    "TriviaQA with evidence files",
    files={
        "dev": "qa/wikipedia-dev.json",
        "web-dev": "qa/web-dev.json",
        "train": "qa/wikipedia-train.json",
        "web-train": "qa/web-train.json",
    },
    has=("aliases", "context"),
    licence="Apache-2.0 for the questions as released; the evidence pages have their owners' licences",
    expected="a file of the folder qa of the authors' archive triviaqa-rc, whose folder evidence lies beside qa",
    rows=whole(_archive),
    convert=_with_document,
)


_KINDS = ("fact_type", "num_hops")
"""What KBM distinguishes questions by: how fast the answer changes (its Table 2), and the hops to it (its Table 3)."""


def _freshqa(record: Mapping[str, Any]) -> Example:
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


def _freshqa_rows(path: Path, split: str | None) -> Iterator[Row]:
    """The rows of one split of the table, ``test`` by default; the questions of ``dev`` are for development."""
    wanted = pick_split(split, ("test", "dev"), "FreshQA")
    for row in table(path, look_for=("id", "split", "question", "answer_0")):
        if not isinstance(row.value, Mapping) or row.value["split"].strip().lower() == wanted:
            yield row


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
    _RC,
    _RC.peer(
        "triviaqa-verified",
        "TriviaQA-verified",
        files={"dev": "qa/verified-wikipedia-dev.json", "web-dev": "qa/verified-web-dev.json"},
    ),
    Benchmark(
        "freshqa",
        "FreshQA",
        files={"test": "freshqa.csv", "dev": "freshqa.csv"},
        splits_itself=True,
        has=("aliases",),
        licence="Apache-2.0; the answers change, so name the edition that you used",
        expected="a CSV table with id, split, question and answer_0 to answer_9",
        rows=_freshqa_rows,
        convert=_freshqa,
    ),
)
