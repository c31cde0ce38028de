"""One's own documents: what is answered rightly, declined rightly and cited at the right place.

    python benchmarks/own_documents.py [--lm MODEL] [--work FOLDER] [--set NAME=VALUE …]
    python benchmarks/own_documents.py --ways

Makes the folder of a company that does not exist (`company/`: 26 files in nine formats and three languages), indexes
it, and asks KEQA forty questions, of which twelve have no answer there. Without ``--lm`` five language models by rules
answer. Finished questions are kept in the work folder, and a later start resumes. With ``--ways`` one of these puts
what it says into other words, and its fields into other formats, as ``ways_of_replying.yaml`` has them.

right: the answer is in what was said · declined: the documents were said not to tell, or the reply was a refusal ·
finding: of these, those that are one by their type · wrong: anything else was said · cited: of the right answers from
passages, those whose sources have the file and the page, slide, heading or sheet · file: those that have the file ·
old: the outdated version was said · guess: marked as one · calls: replies drawn for a question.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import yaml
from common import ROOT, listed, options, recorded, replies_of, settings, show, working_in
from company import QUESTIONS, Asked, make
from servers.openai_server import OpenAIServer, inputs_of, markers

import keqa
from keqa.metrics.accuracy import contains_answer
from keqa.metrics.answers import is_abstention
from keqa.signatures.chat_format import COMPLETED, sections

COLUMNS = ("asked", "right", "declined", "finding", "wrong", "cited", "file", "old", "guess", "failed", "calls")

_BY_RULES = 5
"""How many models by rules are asked, which refuse and guess at other questions."""
_MAX_TOKENS = 64
"""Of a reply of a model in this process: what a weak one writes beyond an answer is of no use, and costs the most."""

# It knows nothing of the company, and reads what its rules find in passages: the newest where they show dates. Where
# they tell nothing, and from memory, it refuses half of the time and guesses otherwise. A prompt's word for not knowing
# or for contradictions it takes three times of four. As a judge it errs once in eight. All depends on the prompt and
# the model's name alone, so that two versions of a program meet the same models.
_RULES: Final = yaml.safe_load((ROOT / "benchmarks" / "company" / "reader.yaml").read_text("utf-8"))

_WAYS: Final = yaml.safe_load((ROOT / "benchmarks" / "ways_of_replying.yaml").read_text("utf-8"))
_AS_IT_COMES: Final = {"settle": "cascade", "draft": True, "pick": False, "read_together": True, "expand": 3}
"""What `keqa ask` does over an index of one's own."""

_DATE = re.compile(r"\b(?:19|20)\d\d-\d\d(?:-\d\d)?\b")
_SAYING_SO = re.compile(r"\b(?:UNKNOWN|NOT FOUND|NOT STATED|NOT IN THE DOCUMENTS)\b")
_BROKEN = {asked.question: asked.quizzes for asked in QUESTIONS if asked.quizzes}


class _Instructed(NamedTuple):
    """A prompt's word for not knowing."""

    word: str
    of_contradictions: bool


def reply(messages: list[dict[str, Any]], n: int, body: Mapping[str, Any]) -> list[str]:
    """What the model says to a request; for `OpenAIServer`."""
    system, last = str(messages[0]["content"]), str(messages[-1]["content"])
    given = inputs_of(last)
    described = system.partition("Your output fields are:")[2].partition("All interactions")[0]
    outputs = re.findall(r"^\d+\. `(\w+)` \((.+?)\):", described, re.MULTILINE)
    found = _SAYING_SO.search(system)
    instructed = _Instructed(found.group() if found else "", "contradict" in system)
    # Requests for more samples of the same are further draws.
    seeds = (f"{body['model']}|{number}|{last}" for number in range(n))
    return [markers(**{name: _value(name, kind, given, seed, instructed) for name, kind in outputs}) for seed in seeds]


def _value(name: str, kind: str, given: Mapping[str, str], seed: str, instructed: _Instructed) -> str:
    quiz = given.get("quiz") or given.get("question") or ""
    parts = _BROKEN.get(quiz, (quiz,))
    if name == "quizzes":
        return json.dumps(list(parts), ensure_ascii=False)
    if name == "words":
        return json.dumps(["amount", "rule", "staff", "office", "Betrag", "Regel", "金额", "规定"])
    if name == "drafts":
        return json.dumps([_answer([], part, f"{seed}|{part}", instructed) for part in parts], ensure_ascii=False)
    if name == "citations":
        # It reads as it does where it is not asked to cite, and cites what it read.
        answer, passages = _answer(listed(given["passages"]), quiz, seed, instructed), json.loads(given["passages"])
        return str([int(number) for number, text in passages.items() if _read(text, quiz) == answer])
    if kind.startswith("list[bool]"):
        return json.dumps([_helps(passage, quiz, seed) for passage in listed(given.get("passages", ""))])
    if name == "support":
        return "fully" if _judged(name, given, quiz, seed) else "no"
    if kind == "bool":
        return str(_judged(name, given, quiz, seed))
    if name == "answer" and "answered_quizzes" in given:
        last = (listed(given["answered_quizzes"]) or [""])[-1]
        return re.split(r"[?？]\s*", last, maxsplit=1)[-1] or last
    if name == "answer":
        return _answer(listed(given.get("passages", "")), quiz, seed, instructed)
    return "As the quizzes say." if kind == "str" else "[]"


def _judged(name: str, given: Mapping[str, str], quiz: str, seed: str) -> bool:
    if name == "same":
        first, second = given["first_answer"], given["second_answer"]
        return _bare(first) == _bare(second) or (is_refusal(first) and is_refusal(second))
    text = " ".join(value for field, value in given.items() if field not in ("quiz", "question", "answer"))
    if "answer" not in given:
        return _helps(text, quiz, seed)
    read = _read(text, quiz)
    return (read is not None and _bare(given["answer"]) in _bare(read)) == _drawn(f"errs|{seed}", 8)


def _helps(passage: str, quiz: str, seed: str) -> bool:
    # No judge takes a passage about something else for one that helps.
    shared = set(re.findall(r"[A-Z]\w{3,}", quiz)) & set(re.findall(r"[A-Z]\w{3,}", passage))
    found = _read(passage, quiz) is not None
    return found if not found and not shared else found == _drawn(f"errs|{passage}|{seed}", 8)


def _answer(passages: Sequence[str], quiz: str, seed: str, instructed: _Instructed) -> str:
    read = [(max(_DATE.findall(passage), default=""), value) for passage in passages if (value := _read(passage, quiz))]
    if read:
        newest = [value for date, value in read if date == max(read)[0]]
        contradict = instructed.of_contradictions and len(set(newest)) > 1
        return instructed.word if contradict and _drawn(f"obeys|{seed}", 4) else newest[0]
    language = "de" if re.match(r"(?:Wie|Was|Wer|Wann) ", quiz) else "en"
    language = "zh" if re.search(r"[\u4e00-\u9fff]", quiz) else language
    model = seed.partition("|")[0]
    if _drawn(f"refuses|{model}|{quiz}|{bool(passages)}", 2):
        obeys = instructed.word and _drawn(f"obeys|{seed}", 4)
        return instructed.word if obeys else _of(_RULES["refusals"][language], seed)
    guesses = next(pool for asked, pool in _RULES["guesses"].items() if re.search(asked, quiz, re.IGNORECASE))
    return _of(guesses, f"{model}|{quiz}" if _drawn(f"sure|{model}|{quiz}", 2) else seed)


def _read(passage: str, quiz: str) -> str | None:
    if quiz in _BROKEN:
        # What its parts ask for is no answer to it.
        return None
    for asked, pattern in _RULES["reading"].items():
        if wanted := re.search(asked, quiz):
            found = re.search(pattern.replace("{0}", re.escape(wanted.group(wanted.lastindex or 0))), passage)
            return found.group(1) if found else None
    return None


def is_refusal(answer: str) -> bool:
    known = {_bare(text) for pool in _RULES["refusals"].values() for text in pool}
    return _bare(answer) in known or bool(_SAYING_SO.fullmatch(answer.strip()))


def _bare(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _number(seed: str) -> int:
    return int(hashlib.sha256(seed.encode()).hexdigest()[:12], 16)


def _drawn(seed: str, of: int) -> bool:
    """True but for one time in so many."""
    return _number(seed) % of != 0


def _of(pool: Sequence[str], seed: str) -> str:
    return pool[_number(seed) % len(pool)]


def judged(asked: Asked, record: Mapping[str, Any]) -> dict[str, float]:
    answer = record["answer"] or ""
    finding = record["answer_source"] == "unanswered"
    declined = bool(answer) and (finding or is_refusal(answer) or is_abstention(answer))
    answered = not declined and bool(answer)
    right = answered and bool(asked.answers) and contains_answer(answer, asked.answers)
    parts = [*record["quizzes"], *([record["fallback"]] if record["fallback"] else [])]
    sources = [one for part in parts if part["source"] == "passages" for one in part["passages"] if one["kept"]]
    from_passages = right and bool(sources)
    return {
        "asked": 1,
        "right": right,
        "declined": declined,
        "finding": finding,
        "wrong": answered and not right,
        "read": from_passages,
        "cited": from_passages and any(_is_at(one, asked) for one in sources),
        "file": from_passages and any(one["file"] == asked.file for one in sources),
        "old": answered and bool(asked.outdated) and contains_answer(answer, [asked.outdated]) and not right,
        "guess": bool(record.get("guessed")),
        "failed": not answer,
        "calls": replies_of(record),
    }


def _is_at(source: Mapping[str, Any], asked: Asked) -> bool:
    part, place = asked.part, source["page"] if isinstance(asked.part, int) else source["heading"]
    return source["file"] == asked.file and (part is None or place == part or str(part) in str(place or "").split(", "))


def indexed(work: Path) -> Path:
    documents, index = work / "documents", work / "index"
    if not index.exists():
        make(documents)
        keqa.build_index(keqa.read_corpus([documents]), index)
    return index


def run(lm: str | None, work: Path, given: Mapping[str, Any]) -> list[tuple[Asked, dict[str, Any]]]:
    """Ask the questions that are not asked yet: each with its record."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    found = []
    with OpenAIServer(reply=reply) as server:
        how: dict[str, Any] = {"max_tokens": _MAX_TOKENS} if lm else {"api_base": server.api_base}
        for number in range(_BY_RULES if lm is None else 1):
            lms = keqa.build_roles(lm or f"openai/rules-{number}", **how)
            program = keqa.KEQA(keqa.open_index(indexed(work)), lms=lms, **given)
            found += recorded(program, QUESTIONS, work / f"run-{number}.jsonl", 1 if lm else 8)
    return found


def summed(name: str, found: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    sums = {column: sum(figures[column] for figures in found) for column in (*COLUMNS, "read")}
    cells = {column: f"{sums[column]:.0f}" for column in COLUMNS}
    cells |= {column: f"{cells[column]}/{sums['read']:.0f}" for column in ("cited", "file")}
    return {"kind": name, **cells, "calls": f"{sums['calls'] / max(1, len(found)):.1f}"}


def reworded(way: Any, fields: dict[str, str], inputs: Mapping[str, str]) -> str:
    """The text of a reply: its answer in a wording, or its fields in a format."""
    if isinstance(way, str):
        answer = fields.get("answer")
        if answer and "passages" in inputs and not is_refusal(answer):
            fields = {**fields, "answer": way.format(answer=answer, question=inputs["question"])}
        return markers(**fields)
    before, field, behind = (way.get(name, "") for name in ("before", "field", "behind"))
    if not field:
        values = {name: json.loads(value) if value.startswith("[") else value for name, value in fields.items()}
        return str(before + json.dumps(values, ensure_ascii=False))
    own, others = (
        "\n\n".join(field.format(name=name, value=value) for name, value in said.items())
        for said in (fields, dict.fromkeys(fields, "Nobody"))
    )
    return str(before + own + (behind and behind + others))


def in_other_ways(work: Path) -> Iterator[dict[str, Any]]:
    """However it replies: what becomes of the questions that have an answer, and how many others are declined."""
    ways = {"as asked for": "{answer}", **_WAYS["wordings"], **_WAYS["formats"]}
    for at, (name, way) in enumerate(ways.items()):
        with OpenAIServer(reply=partial(rewritten, way)) as server:
            lms = keqa.build_roles("openai/rules-0", api_base=server.api_base, api_key="none")
            program = keqa.KEQA(keqa.open_index(indexed(work)), lms=lms, **_AS_IT_COMES)
            found = recorded(program, QUESTIONS, work / f"{at}.jsonl", 8)
        figures: dict[bool, list[dict[str, float]]] = {True: [], False: []}
        for asked, record in found:
            figures[asked.kind.startswith("none")].append(judged(asked, record))
        sums = {what: sum(int(one[what]) for one in figures[False]) for what in ("right", "cited", "declined", "wrong")}
        sums["rightly declined"] = sum(int(one["declined"]) for one in figures[True])
        yield {"way": name, **sums, "calls": fmean(one["calls"] for some in figures.values() for one in some)}


def rewritten(way: Any, messages: list[dict[str, Any]], n: int, body: Mapping[str, Any]) -> list[str]:
    inputs, found = inputs_of(str(messages[-1]["content"])), []
    for text in reply(messages, n, body):
        fields = {one.name: text[one.start : one.end].strip() for one in sections(text) if one.name != COMPLETED}
        found.append(reworded(way, fields, inputs))
    return found


def main() -> None:
    given = options(__doc__, lm=str, work=Path, set=[str], ways=False)
    with working_in(given.work) as work:
        if given.ways:
            return show(in_other_ways(work), digits=1)
        found = run(given.lm, work, settings(given.set))
    rows = [(asked.kind, judged(asked, record)) for asked, record in found]
    kinds = [kind for kind in dict.fromkeys(asked.kind for asked in QUESTIONS) if kind in dict(rows)]
    groups = {kind: {kind} for kind in kinds}
    groups["answerable"] = {kind for kind in kinds if not kind.startswith("none")}
    groups["unanswerable"] = {*kinds} - groups["answerable"]
    show(summed(name, [figures for kind, figures in rows if kind in held]) for name, held in groups.items())


if __name__ == "__main__":
    main()
