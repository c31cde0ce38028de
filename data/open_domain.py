"""Questions without passages: NQ-open, TriviaQA, WebQuestions and FreshQA; and TriviaQA with its evidence files.

NQ-open is of Kwiatkowski et al. (2019) and Lee et al. (2019), TriviaQA of Joshi et al. (2017), WebQuestions of Berant
et al. (2013), FreshQA of Vu et al. (2023). The archive of TriviaQA's authors holds questions in ``qa`` and documents in
``evidence/wikipedia`` and ``evidence/web``. Each pair of the two is an example, whose id is both, as the authors'
scripts write it: ``tc_40--Los_Angeles.txt``.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from keqa.data.benchmark import (
    Benchmark,
    HubSource,
    field,
    items,
    listed_below,
    make,
    one_text,
    pick_split,
    usable,
)
from keqa.data.example import ContextPassage, Example, is_polar
from keqa.data.loading import NotAsked
from keqa.data.rows import SourceRow, json_document, json_list, table
from keqa.errors import InputError
from keqa.retrievers.readers.common import plain_suffix, read_whole

# WebQuestions writes its answers as (list (description "Jazmyn Bieber") (description London)).
_DESCRIPTION: Final = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^()"]+))\)')
_LARGEST: Final = 16 << 20
# What KBM distinguishes questions by: how fast the answer changes (its Table 2), and the hops to it (its Table 3).
_KINDS: Final = ("fact_type", "num_hops")


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
    answers = usable(field(record, name, (list, tuple)))
    return make(id=record.get("id"), question=record.get("question"), answers=answers, context=context)


def _triviaqa(record: Mapping[str, Any]) -> Example:
    """A record in the original layout, FlashRAG's or the hub's. Those of the test set have no answers."""
    if "golden_answers" in record:
        return _nq_open(record)
    names = "QuestionId Question Answer Value Aliases HumanAnswers".split()
    if "QuestionId" not in record:
        names = "question_id question answer value aliases human_answers".split()
    gold = field(record, names[2], dict)
    answers = usable(*(gold.get(name) for name in names[3:]))
    return make(id=field(record, names[0], str), question=record.get(names[1]), answers=answers)


def _triviaqa_rows(path: Path) -> Iterator[SourceRow]:
    """The records of ``Data`` in the original, of a list or lines in FlashRAG's layout."""
    if plain_suffix(path) != ".json":
        yield from json_list(path)
        return
    document = json_document(path)
    if not isinstance(document, list):
        document = listed_below(document, "Data", path, "the authors' files are")
    yield from (SourceRow(path, number, record) for number, record in enumerate(document, start=1))


def _webquestions(record: Mapping[str, Any]) -> Example:
    if "targetValue" in record:
        listed = _DESCRIPTION.findall(field(record, "targetValue", str))
        described = [quoted.replace('\\"', '"') or bare for quoted, bare in listed]
        return make(question=record.get("utterance"), answers=usable(described))
    if "qText" not in record and "url" not in record:
        raise InputError("there is neither qText, utterance nor url")
    question = record["qText"] if "qText" in record else record.get("question")
    answers = usable(field(record, "answers", (list, tuple)))
    return make(id=record.get("qId"), question=question, answers=answers)


def _archive(path: Path) -> Iterator[SourceRow]:
    """A row for each pair of a question and a document, with the document's text."""
    document = json_document(path)
    records = listed_below(document, "Data", path, "in the folder qa of TriviaQA's archive")
    verified = document.get("VerifiedEval") is True
    evidence = path.parent.parent / "evidence"
    for number, record in enumerate(records, start=1):
        found = _pairs(record, evidence, verified=verified)
        yield from (SourceRow(path, number, value, "question") for value in found)


def _pairs(record: Any, evidence: Path, *, verified: bool) -> Iterator[Any]:
    """The pairs of a question with its documents, or the errors that keep some of them from being read."""
    if not isinstance(record, Mapping):
        yield InputError(f"an object is expected, not {type(record).__name__}")
        return
    if verified and record.get("QuestionPartOfVerifiedEval") is not True:
        yield NotAsked("not verified")
        return
    folders = {"EntityPages": evidence / "wikipedia", "SearchResults": evidence / "web"}
    try:
        pages = [(folders[name], page) for name in folders if name in record for page in items(record, name)]
    except InputError as error:
        yield error
        return
    for folder, page in pages:
        if verified and page.get("DocPartOfVerifiedEval", True) is not True:
            yield NotAsked("not verified")
            continue
        try:
            file = field(page, "Filename", str)
            document = (file, page.get("Title") or "", _document(folder, file))
            yield {**record, "document": document, "verified": verified}
        except InputError as error:
            yield error
    if not pages:
        yield InputError("there is no document: neither EntityPages nor SearchResults names one")


def _document(folder: Path, file: str) -> str:
    """An evidence file, which a record names: it lies inside its folder, of the web's files within one more."""
    place = PurePosixPath(file)
    if place.is_absolute() or ".." in place.parts or "\\" in file or ":" in file or "\0" in file or not place.parts:
        raise InputError(f"Filename {file[:80]!r} leads out of the folder of evidence")
    try:
        return read_whole(folder / place, _LARGEST).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{folder / place}: not UTF-8 ({error.reason})") from error


def _with_document(record: Mapping[str, Any]) -> Example:
    # Of JSON nothing is a tuple.
    if not isinstance(record.get("document"), tuple):
        raise InputError("it comes without its document: load the file of the authors' archive, beside its evidence")
    file, title, text = record["document"]
    gold = field(record, "Answer", dict)
    passage = ContextPassage(
        one_text(title, "Title"), one_text(text, "the document"), "supporting" if record["verified"] else "unknown"
    )
    return make(
        id=f"{field(record, 'QuestionId', str)}--{file}",
        question=record.get("Question"),
        answers=usable(gold.get("Value"), gold.get("Aliases"), gold.get("HumanAnswers")),
        context=(passage,),
    )


def _freshqa(record: Mapping[str, Any]) -> Example:
    """Its kind is such as ``fast-changing; one-hop``. Gold answers that are yes or no decide how it is scored only."""
    answers = usable([record.get(f"answer_{number}") or "" for number in range(10)])
    return make(
        id=field(record, "id", str),
        question=record.get("question"),
        answers=answers,
        scored_as="yes/no" if all(is_polar(answer) for answer in answers) else "",
        kind="; ".join(filter(None, (str(record.get(name) or "").strip() for name in _KINDS))),
    )


def _freshqa_rows(path: Path, split: str | None) -> Iterator[SourceRow]:
    """The rows of one split of the table, ``test`` by default; the questions of ``dev`` are for development."""
    wanted = pick_split(split, ("test", "dev"), "FreshQA")
    for row in table(path, look_for=("id", "split", "question", "answer_0")):
        if not isinstance(row.value, Mapping) or row.value["split"].strip().lower() == wanted:
            yield row


_RC = Benchmark(
    "triviaqa-rc",
    "TriviaQA with evidence files",
    files={
        "dev": "qa/wikipedia-dev.json",
        "web-dev": "qa/web-dev.json",
        "train": "qa/wikipedia-train.json",
        "web-train": "qa/web-train.json",
    },
    licence="Apache-2.0 for the questions as released; the evidence pages have their owners' licences",
    expected="a file of the folder qa of the authors' archive triviaqa-rc, whose folder evidence lies beside qa",
    rows=_archive,
    convert=_with_document,
)

BENCHMARKS = (
    Benchmark(
        "nq",
        "NQ-open",
        files={"dev": "NQ-open.dev.jsonl", "train": "NQ-open.train.jsonl"},
        hub=HubSource("google-research-datasets/nq_open"),
        licence="CC BY-SA 3.0",
        expected="lines of JSON objects with question and the list answer (or answers with ctxs, or golden_answers)",
        convert=_nq_open,
    ),
    Benchmark(
        "triviaqa",
        "TriviaQA",
        files={"dev": "verified-wikipedia-dev.json", "test": "test.jsonl", "train": "wikipedia-train.json"},
        hub=HubSource("mandarjoshi/trivia_qa", "unfiltered.nocontext"),
        licence=_RC.licence,
        expected="a JSON object whose Data holds QuestionId, Question and Answer, or lines with golden_answers",
        rows=_triviaqa_rows,
        convert=_triviaqa,
    ),
    Benchmark(
        "webquestions",
        "WebQuestions",
        files={"test": "test.json", "train": "trainmodel.json"},
        hub=HubSource("stanfordnlp/web_questions", splits=("test", "train")),
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
        licence="Apache-2.0; the answers change, so name the edition that you used",
        expected="a CSV table with id, split, question and answer_0 to answer_9",
        rows=_freshqa_rows,
        convert=_freshqa,
    ),
)
