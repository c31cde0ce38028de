"""Questions that the documents do not answer: how many are declined, and what that costs of those that they do.

    python benchmarks/unanswerable.py SET [--lm MODEL] [--count 40] [--work FOLDER] [--data DATA] [--set NAME=VALUE …]

company, xquad, testbed: questions that the documents answer, then the six kinds of UAEval4RAG (Peng et al., 2025), made
of the index's names and nouns by templates; of xquad half of the paragraphs are left out and asked about, too, of the
testbed's encyclopedia half of the entities. chinesesquad: its questions over all its paragraphs. rgb: questions with
their positive, their wrong (counterfactual) or their negative documents alone. The work folder keeps what is finished.

right: of answerable questions · unanswered: of the others, those that were declined · acceptable: those declined
as their kind asks for: an underspecified question is asked back, and one for a picture or a sound is told that these
cannot be had; by rules here, by a language model in the paper · joint: .7 right and .3 acceptable. The second table has
what would be if support were not looked at, or if answers that are not from memory were declined where fewer than a
share of their words stand in the passages that were kept, without a judge.
"""

import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import yaml
from common import DATA, options, read_lines, recorded, replies_of, settings, show, working_in, write_lines
from company import QUESTIONS
from company import make as make_company

import keqa
from keqa.metrics.accuracy import contains_answer
from keqa.metrics.answers import is_abstention, tokens
from keqa.retrievers.documents import DocumentsRetriever
from keqa.retrievers.stopwords import CHINESE, ENGLISH

TEMPLATES: Final = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
_ASKS_BACK: Final = re.compile(r"\b(?:which|clarif\w+|specify|do you mean|unclear)\b", re.IGNORECASE)
_NO_MEDIA: Final = re.compile(r"\b(?:cannot|can't|unable to) (?:show|play|draw|display)|\btext only\b", re.IGNORECASE)
_QUOTED: Final = re.compile(r"[“„«].*?[”“»]")
# Not at the beginning of a sentence, where any word is written large.
_NAME: Final = re.compile(r"(?<=[a-z,;] )[A-Z][\w'-]+ [A-Z][\w'-]+\b")
_NOUN: Final = re.compile(r"\b(?:the|a|an) ([a-z]{4,})\b")
_SYLLABLES: Final = ("bro", "vel", "kas", "ti", "mur", "don", "qua", "zer")
_SHARES: Final = {"as it ran": None, "not looked at": 0.0, "half of the words": 0.5, "all words": 1.0}
_RIGHT: Final = 0.7
_NOT_BY_DECLINING: Final = {"underspecified": _ASKS_BACK, "modality-limited": _NO_MEDIA}


class Row(NamedTuple):
    """A question of a set, with spellings of its answer if it has one, and its own documents where each has some."""

    kind: str
    question: str
    answers: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()


ANSWERABLE: Final = "in the documents"
_RGB: Final = (
    (ANSWERABLE, "positive"),
    ("the wrong one in the documents", "positive_wrong"),
    ("negative documents alone", "negative"),
)


def made(passages: Sequence[keqa.Passage], count: int, seed: int = 0) -> Iterator[Row]:
    """Unanswerable questions of the six kinds, alike in number, from the names and nouns of an index."""
    drawn = random.Random(seed)
    texts = [passage.text for passage in passages]
    found = Counter(name for text in texts for name in _NAME.findall(text))
    names = sorted(name for name, count in found.items() if count > 1)
    nouns = sorted({noun for text in texts for noun in _NOUN.findall(text)})
    kinds = cycle((kind, cycle(templates)) for kind, templates in TEMPLATES.items())
    for _ in range(count):
        kind, templates = next(kinds)
        name = drawn.choice(names)
        apart = [one for one in names if not any(one in text and name in text for text in texts)]
        mixed = drawn.choice(texts).split()[:9]
        drawn.shuffle(mixed)
        absent = "".join(drawn.sample(_SYLLABLES, 4))
        slots = {"name": name, "other": drawn.choice(apart or names), "noun": drawn.choice(nouns)}
        slots |= {"shuffled": " ".join(mixed).strip(".?"), "absent": absent.capitalize()}
        yield Row(kind, next(templates).format(**slots))


def company(_: Path, count: int) -> tuple[list[keqa.Passage], list[Row]]:
    with tempfile.TemporaryDirectory() as folder:
        make_company(Path(folder))
        passages = list(keqa.read_corpus([folder]))
    rows = [Row(ANSWERABLE, asked.question, asked.answers) for asked in QUESTIONS if asked.answers]
    return passages, _sampled(rows, count // 2) + list(made(passages, count // 2))


def xquad(data: Path, count: int) -> tuple[list[keqa.Passage], list[Row]]:
    kept, rows = _squad(data / "squad" / "xquad.en.json", lambda number, question: number % 2 == 0)
    third = max(1, count // 3)
    return kept, _sampled(rows, third) + list(made(kept, third))


def chinesesquad(data: Path, count: int) -> tuple[list[keqa.Passage], list[Row]]:
    path = data / "chinesesquad" / "dev-v2.0-zh.json"
    _, rows = _squad(path, lambda number, question: not question.get("is_impossible"))
    paragraphs, _ = _squad(path, lambda number, question: True)
    return paragraphs, _sampled(rows, count // 2)


def rgb(data: Path, count: int) -> tuple[list[keqa.Passage], list[Row]]:
    lines = read_lines(data / "rgb" / "en_fact.json")
    records = random.Random(0).sample(lines, min(count, len(lines)))
    rows = []
    for number, record in enumerate(records):
        kind, field = _RGB[number % len(_RGB)]
        given = record["fakeanswer"] if field == "positive_wrong" else record["answer"]
        parts = given if isinstance(given, list) else [given]
        spelled = [one for part in parts for one in (part if isinstance(part, list) else [part])]
        answers = () if field == "negative" else tuple(spelled)
        rows.append(Row(kind, record["query"], answers, tuple(record[field][:3])))
    return [], rows


def testbed(_: Path, count: int) -> tuple[list[keqa.Passage], list[Row]]:
    whole = keqa.Testbed()
    gone = set(sorted({passage.title for passage in whole.passages})[::2])
    kept = [passage for passage in whole.passages if passage.title not in gone]
    rows = []
    for asked in [*whole.test, *whole.dev]:
        titled = [fact.entity[0].upper() + fact.entity[1:] for fact in asked.facts]
        missing = {tier for title, tier in zip(titled, asked.tiers, strict=True) if title in gone}
        unknown = bool(missing - {"often"})
        kind = f"left out, {'un' * unknown}known to the LM" if missing else ANSWERABLE
        rows.append(Row(kind, asked.question, () if unknown else asked.answers))
    return kept, _sampled(rows, count // 4) + list(made(kept, count // 4))


SETS = {one.__name__: one for one in (company, xquad, chinesesquad, rgb, testbed)}


def _squad(path: Path, answered: Any) -> tuple[list[keqa.Passage], list[Row]]:
    """The paragraphs that a test of their number and a question holds for, and all questions."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    paragraphs = [(article.get("title", ""), one) for article in articles for one in article["paragraphs"]]
    kept, rows = [], []
    for number, (title, paragraph) in enumerate(paragraphs):
        held = False
        for question in paragraph["qas"]:
            held = bool(answered(number, question))
            spelled = tuple(one["text"] for one in question["answers"]) if held else ()
            rows.append(Row(ANSWERABLE if held else "not in the documents", question["question"], spelled))
        if held:
            kept.append(keqa.Passage(str(number), title.replace("_", " "), paragraph["context"]))
    return kept, rows


def _sampled(rows: list[Row], count: int) -> list[Row]:
    kinds = [[row for row in rows if row.kind == kind] for kind in dict.fromkeys(row.kind for row in rows)]
    return [row for held in kinds for row in random.Random(0).sample(held, min(count, len(held)))]


class Verdict(NamedTuple):
    """What became of a question: whether it was declined at all, and as its kind asks for, with how many replies."""

    kind: str
    answerable: bool
    right: bool
    declined: bool
    acceptable: bool
    calls: int


def judged(row: Row, record: Mapping[str, Any], share: float | None = None) -> Verdict:
    """Read a record of a run file, as it is or as it would be by a share of words."""
    answer = _answer_of(record, share)
    own = _QUOTED.sub("", answer)
    declined = not own or is_abstention(answer)
    asked_for = _NOT_BY_DECLINING.get(row.kind)
    acceptable = bool(asked_for.search(own)) if asked_for else declined
    declined = declined or acceptable
    right = not declined and bool(row.answers) and contains_answer(answer, row.answers)
    return Verdict(row.kind, bool(row.answers), right, declined, acceptable, replies_of(record))


def _answer_of(record: Mapping[str, Any], share: float | None) -> str:
    """The answer, empty where it was declined: by a share of words, if any, in the place of what support was judged."""
    parts = [record["fallback"]] if record["fallback"] else record["quizzes"]
    declined = record["answer_source"] == "unanswered"
    if share is None or (declined and not any(part.get("supported") is False for part in parts)):
        return "" if declined else record["answer"] or ""
    if min((_share(part) for part in parts if part["source"] != "memory"), default=1.0) < share:
        return ""
    return (record["unanswered"]["guess"] if declined else record["answer"]) or ""


def _share(part: Mapping[str, Any]) -> float:
    read = {word for one in part["passages"] if one["kept"] for word in tokens(one["text"])}
    answer = part["answer"] or part.get("guess") or ""
    words = {word for word in tokens(answer) if word not in ENGLISH | CHINESE}
    return len(words & read) / len(words) if words else 0.0


def run(
    name: str, lm: str, work: Path, data: Path, count: int, given: Mapping[str, Any]
) -> list[tuple[Row, dict[str, Any]]]:
    passages, rows = SETS[name](data, count)
    if passages:
        if not (work / "index").exists():
            keqa.build_index(passages, work / "index")
        retriever = keqa.open_index(work / "index")
    else:
        own = ({"question": row.question, "passages": [{"text": text} for text in row.passages]} for row in rows)
        lines = ({"id": f"{number:03}", "origin": name, **line} for number, line in enumerate(own))
        retriever = DocumentsRetriever(str(write_lines(work / "documents.jsonl", lines)))
    program = keqa.KEQA(retriever, lms=keqa.build_roles(lm, max_tokens=None if lm == "keqa/tiny" else 64), **given)
    return recorded(program, rows, work / "run.jsonl", 8 if lm == "keqa/tiny" else 1)


def figures(verdicts: Sequence[Verdict]) -> dict[str, float]:
    others = [one for one in verdicts if not one.answerable]
    counted = {"right": [one.right for one in verdicts if one.answerable]}
    counted |= {"unanswered": [one.declined for one in others], "acceptable": [one.acceptable for one in others]}
    ratios = {name: fmean(values) if values else 0.0 for name, values in counted.items()}
    return ratios | {"joint": _RIGHT * ratios["right"] + (1 - _RIGHT) * ratios["acceptable"]}


def main() -> None:
    given = options(__doc__, "name", name=str, lm="keqa/tiny", count=40, work=Path, data=DATA, set=[str])
    if given.name not in SETS:
        given.refuse(f"there are {', '.join(SETS)}")
    with working_in(given.work) as work:
        asked = run(given.name, given.lm, work, given.data, given.count, settings(given.set))
    verdicts = [judged(row, record) for row, record in asked]
    rows = []
    for _, kind in sorted({(not one.answerable, one.kind) for one in verdicts}):
        held = [one for one in verdicts if one.kind == kind]
        sums = {name: sum(getattr(one, name) for one in held) for name in ("right", "declined", "acceptable")}
        rows.append({"kind": kind, "asked": len(held), **sums, "calls": fmean(one.calls for one in held)})
    show(rows, f"{given.name}, {given.lm}, {settings(given.set)}", digits=1)
    judgements = {name: [judged(row, record, share) for row, record in asked] for name, share in _SHARES.items()}
    show(({"support": name, **figures(of)} for name, of in judgements.items()), digits=2)


if __name__ == "__main__":
    main()
