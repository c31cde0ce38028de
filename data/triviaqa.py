"""TriviaQA for reading comprehension (Joshi et al., 2017): questions with evidence files, and the verified subset.

The archive of the authors holds the questions in ``qa`` and a text file for each document in ``evidence/wikipedia`` and
``evidence/web``. Each pair of a question and a document is an example of its own, whose id is the question's and the
document's, as the authors' scripts write it: ``tc_40--Los_Angeles.txt``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from keqa.data.benchmark import Benchmark, whole
from keqa.data.evidence import ContextPassage, PassageRole, one_text
from keqa.data.records import Converted, LeftOut, field, items, make, usable
from keqa.data.rows import Row, json_document
from keqa.errors import InputError
from keqa.retrievers.readers.common import read_whole

_LARGEST = 16 << 20
_LISTS = (("EntityPages", "wikipedia"), ("SearchResults", "web"))
_QUESTION, _PAGE = "QuestionPartOfVerifiedEval", "DocPartOfVerifiedEval"
_UNVERIFIED = LeftOut("not verified")


def _rows(path: Path) -> Iterator[Row]:
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
            yield from (Row(path, number, value, "question") for value in _pairs(record, evidence, verified=verified))


def _pairs(record: Mapping[str, Any], evidence: Path, *, verified: bool) -> Iterator[Any]:
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
                text = _text(evidence / folder, file)
            except InputError as error:
                yield error
            else:
                yield {**record, "document": (file, page.get("Title") or "", text), "verified": verified}
    if not found:
        yield InputError(f"there is no document: neither {_LISTS[0][0]} nor {_LISTS[1][0]} names one")


def _text(folder: Path, file: str) -> str:
    """An evidence file, which a record names: it lies inside its folder, of the web's files within one more."""
    place = PurePosixPath(file)
    if place.is_absolute() or ".." in place.parts or "\\" in file or ":" in file or "\0" in file or not place.parts:
        raise InputError(f"Filename {file[:80]!r} leads out of the folder of evidence")
    try:
        return read_whole(folder / place, _LARGEST).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{folder / place}: not UTF-8 ({error.reason})") from error


def _convert(record: Mapping[str, Any]) -> Converted:
    if isinstance(record.get("left_out"), LeftOut):
        return _UNVERIFIED
    if "document" not in record:
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
    rows=whole(_rows),
    convert=_convert,
)

BENCHMARKS = (
    _RC,
    _RC.peer(
        "triviaqa-verified",
        "TriviaQA-verified",
        files={"dev": "qa/verified-wikipedia-dev.json", "web-dev": "qa/verified-web-dev.json"},
    ),
)
