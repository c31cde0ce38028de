"""One's own documents: what is answered rightly, declined rightly and cited at the right place.

    python benchmarks/own_documents.py [--lm MODEL] [--work FOLDER] [--set NAME=VALUE …] [--limit N]

Makes the folder of a company that does not exist (`company/folder.py`: 26 files in nine formats and three languages),
indexes it, and asks KEQA forty questions, of which twelve have no answer there. Without ``--lm`` five language models
by rules answer behind a real server (`company/reader.py`): they read well, refuse in many wordings, and guess.
``--set`` sets a setting of `keqa.KEQA`. Finished questions are kept in the work folder, and a later start resumes.

right: the answer is in what was said · declined: the documents were said not to tell, or the reply was a refusal ·
finding: of these, those that are one by their type · wrong: anything else was said · cited: of the right answers from
passages, those whose sources have the file and the page, slide, heading or sheet · file: those that have the file ·
old: the outdated version was said · guess: marked as one · calls: replies drawn for a question.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import common  # noqa: F401
from company.folder import make
from company.questions import QUESTIONS, Asked
from company.reader import is_refusal, reply
from rich.console import Console
from rich.table import Table
from servers.openai_server import OpenAIServer

import keqa
from keqa.metrics.accuracy import contains_answer
from keqa.metrics.answers import is_abstention

COLUMNS = ("asked", "right", "declined", "finding", "wrong", "cited", "file", "old", "guess", "failed", "calls")

_BY_RULES = 5
"""How many models by rules are asked, which refuse and guess at other questions."""
_MAX_TOKENS = 64
"""Of a reply of a model in this process: what a weak one writes beyond an answer is of no use, and costs the most."""


def judged(asked: Asked, record: Mapping[str, Any]) -> dict[str, float]:
    """What became of a question, each as a 0 or a 1 but for the calls."""
    answer = record["answer"] or ""
    finding = record["answer_source"] == "unanswered"
    declined = bool(answer) and (finding or is_refusal(answer) or is_abstention(answer))
    said = not declined and bool(answer)
    right = said and bool(asked.answers) and contains_answer(answer, asked.answers)
    parts = [*record["quizzes"], *([record["fallback"]] if record["fallback"] else [])]
    sources = [one for part in parts if part["source"] == "passages" for one in part["passages"] if one["kept"]]
    from_passages = right and bool(sources)
    return {
        "asked": 1,
        "right": right,
        "declined": declined,
        "finding": finding,
        "wrong": said and not right,
        "read": from_passages,
        "cited": from_passages and any(_is_at(one, *place) for one in sources for place in asked.places),
        "file": from_passages and any(one["file"] == file for one in sources for file, _ in asked.places),
        "old": said and bool(asked.outdated) and contains_answer(answer, [asked.outdated]) and not right,
        "guess": bool(record.get("guessed")),
        "failed": not answer,
        "calls": sum(role["samples"] for role in record["cost"]["by_role"].values()),
    }


def _is_at(source: Mapping[str, Any], file: str, part: int | str | None) -> bool:
    place = source["page"] if isinstance(part, int) else source["heading"]
    return source["file"] == file and (part is None or place == part or str(part) in str(place or "").split(", "))


def run(lm: str | None, work: Path, settings: Mapping[str, Any], limit: int | None) -> list[dict[str, Any]]:
    """Ask the questions that are not asked yet, and return all lines of the run file."""
    documents, index = work / "documents", work / "index"
    if not index.exists():
        make(documents)
        keqa.build_index(keqa.read_corpus([documents]), index)
    rows = [
        {"id": f"{number:02}", "question": asked.question, "answer": (asked.answers or ("not in the documents",))[0]}
        for number, asked in enumerate(QUESTIONS)
    ]
    # So that what a slow language model has answered by some time is of all kinds alike.
    random.Random(0).shuffle(rows)
    asking = work / "questions.jsonl"
    asking.write_text("".join(f"{json.dumps(row)}\n" for row in rows[:limit]), encoding="utf-8")
    os.environ.setdefault("OPENAI_API_KEY", "none")
    runs = []
    with OpenAIServer(reply=reply) as server:
        for number in range(_BY_RULES if lm is None else 1):
            if lm is None:
                lms = keqa.build_roles(f"openai/rules-{number}", api_base=server.api_base)
            else:
                lms = keqa.build_roles(lm, max_tokens=_MAX_TOKENS)
            program = keqa.KEQA(keqa.open_index(index), lms=lms, **settings)
            runs.append(work / f"run-{number}.jsonl")
            keqa.evaluate(program, asking, out=runs[-1], in_flight=1 if lm else 8, progress=_progress)
    lines = [json.loads(line) for path in runs for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if "header" not in line]


def _progress(tally: Any) -> None:
    Console(stderr=True).print(f"{tally.done} done", highlight=False)


def table(rows: Iterable[tuple[Asked, Mapping[str, float]]], title: str) -> Table:
    """The sums by kind."""
    rows = list(rows)
    shown = Table("kind", *COLUMNS, title=title)
    kinds = list(dict.fromkeys(asked.kind for asked, _ in rows))
    groups = [(kind, {kind}) for kind in kinds]
    groups.append(("answerable", {kind for kind in kinds if not kind.startswith("none")}))
    groups.append(("unanswerable", {kind for kind in kinds if kind.startswith("none")}))
    for name, held in groups:
        found = [figures for asked, figures in rows if asked.kind in held]
        if not found:
            continue
        sums = {column: sum(figures[column] for figures in found) for column in (*COLUMNS, "read")}
        cells = {column: f"{sums[column]:.0f}" for column in COLUMNS}
        cells |= {"cited": f"{sums['cited']:.0f}/{sums['read']:.0f}", "calls": f"{sums['calls'] / len(found):.1f}"}
        cells["file"] = f"{sums['file']:.0f}/{sums['read']:.0f}"
        shown.add_row(name, *cells.values())
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm", help="a language model by its name; five by rules by default")
    parser.add_argument(
        "--work", type=Path, help="where index and finished questions are kept; a temporary folder by default"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of KEQA, as JSON")
    parser.add_argument("--limit", type=int, help="ask so many questions, of all kinds alike")
    parser.add_argument("--show", action="store_true", help="print each question with what was said, too")
    options = parser.parse_args()
    settings = {name: _value(value) for name, _, value in (given.partition("=") for given in options.set)}
    console = Console(width=140)
    with tempfile.TemporaryDirectory() as temporary:
        lines = run(options.lm, options.work or Path(temporary), settings, options.limit)
    lines.sort(key=lambda line: str(line["id"]))
    found = [(QUESTIONS[int(line["id"])], line["record"]) for line in lines if line.get("record")]
    rows = [(asked, judged(asked, record)) for asked, record in found]
    if options.show:
        for (asked, record), (_, figures) in zip(found, rows, strict=True):
            verdict = next((name for name in ("right", "declined", "old", "wrong", "failed") if figures[name]), "?")
            said = f"{record['answer']} ({record['answer_source']})"
            console.print(f"{asked.kind:18} {verdict:9} {asked.question} -> {said}", markup=False, highlight=False)
    console.print(table(rows, f"{options.lm or 'language models by rules'}, {len(rows)} questions"))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


if __name__ == "__main__":
    main()
