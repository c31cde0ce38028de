"""Options: OpenBookQA, MMLU, CMMLU, C-Eval and MLEC-QA.

OpenBookQA is of Mihaylov et al. (2018), MMLU of Hendrycks et al. (2021), CMMLU of Li et al. (2023), C-Eval of Huang et
al. (2023), MLEC-QA of Li et al. (2021), whose layout is as the authors document it: no file of theirs was at hand.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keqa.data.benchmark import Benchmark, HubSource, field, items, make, one_split, one_text
from keqa.data.example import Example, SupportingFact
from keqa.data.loading import Converted, NotAsked
from keqa.data.rows import SourceRow, json_list, table
from keqa.errors import InputError

_LETTERS = "ABCDEFGHIJ"
_FEWEST = 2
_MMLU_TRAIN = "auxiliary_train"
_SPLIT = re.compile(r"_(test|dev|val)$")


def _openbookqa(record: Mapping[str, Any]) -> Example:
    """A record of the authors or the hub; `fact1` becomes the supporting fact."""
    asked = record if "question_stem" in record else field(record, "question", dict)
    if isinstance(asked.get("choices"), Mapping):
        labels, texts = (list(field(asked["choices"], name, (list, tuple))) for name in ("label", "text"))
    else:
        labels, texts = ([choice.get(name) for choice in items(asked, "choices")] for name in ("label", "text"))
    key = field(record, "answerKey", str)
    if key not in labels[: len(texts)]:
        raise InputError(f"answerKey is {key!r}, and there are the choices {', '.join(map(str, labels))}")
    fact = record.get("fact1")
    return make(
        id=field(record, "id", str),
        question=asked.get("question_stem", asked.get("stem")),
        choices=texts,
        answers=(texts[labels.index(key)],),
        answer_type="choice",
        supporting_facts=[SupportingFact(text=one_text(fact, "fact1"))] if fact else [],
    )


def _mmlu(record: Mapping[str, Any]) -> Example:
    """A row of the authors or the hub. MMLU has no ids; they are made from subject and question."""
    choices = field(record, "choices", (list, tuple)) if record.get("choices") else _lettered(record)
    example = _choice(record.get("question"), list(choices), record.get("answer"))
    # The hub's copy of the train part has no subjects.
    return replace(example, id=f"{field(record, 'subject', str) or _MMLU_TRAIN}/{example.id}")


def _cmmlu(record: Mapping[str, Any]) -> Example:
    example = _choice(record.get("Question"), _lettered(record), record.get("Answer"))
    index = field({"index": record.get("") or None}, "index", str)
    return replace(example, id=f"{field(record, 'subject', str)}/{index}")


def _ceval(record: Mapping[str, Any]) -> Example:
    example = _choice(record.get("question"), _lettered(record), record.get("answer"))
    return replace(example, id=f"{field(record, 'subject', str)}/{field(record, 'id', str)}")


def _mlec(record: Mapping[str, Any]) -> Converted:
    """A question of MLEC-QA, with up to five options; one that needs its image or table is left out."""
    if record.get("qimage"):
        return NotAsked("with an image or table")
    options = field(record, "options", dict)
    example = _choice(record.get("qtext"), _lettered(options), record.get("answer"))
    name = str(record["qid"]) if record.get("qid") is not None else field(record, "qid", str)
    return replace(example, id="/".join(filter(None, (record.get("subject", ""), name))))


def _mlec_rows(path: Path, split: str | None) -> Iterator[SourceRow]:
    """The questions of a file, or of those of the five subsets in a folder, with the subset as their subject."""
    if path.is_file() and split is not None:
        raise one_split(path, split)
    part = split or "test"
    parts = {part, {"val": "dev", "validation": "dev"}.get(part, part)}
    files = [path] if path.is_file() else sorted(file for one in parts for file in path.glob(f"*_{one}.json"))
    if not files:
        raise InputError(f"{path} holds no file such as Clinic_{part}.json")
    return _of_subjects(files, json_list)


def _subjects(read: Callable[[Path], Iterator[SourceRow]]) -> Callable[[Path, str | None], Iterator[SourceRow]]:
    """Reads a subject's table, or all tables in a folder, or in its folder for the split."""

    def rows(path: Path, split: str | None) -> Iterator[SourceRow]:
        folder = path if split is None else path / split
        if split is None and (path / "test").is_dir():
            folder = path / "test"
        if split == "train" and not folder.is_dir() and (path / _MMLU_TRAIN).is_dir():
            folder = path / _MMLU_TRAIN
        files = sorted(folder.glob("*.csv")) if folder.is_dir() else [path] if split is None else []
        if not files:
            raise InputError(f"{folder} is no folder of .csv files; one for each subject is expected")
        return _of_subjects(files, read)

    return rows


def _of_subjects(files: Sequence[Path], read: Callable[[Path], Iterator[SourceRow]]) -> Iterator[SourceRow]:
    for file in files:
        subject = {"subject": _SPLIT.sub("", file.stem)}
        for row in read(file):
            yield replace(row, value=row.value | subject) if isinstance(row.value, dict) else row


def _lettered(record: Mapping[str, Any]) -> list[Any]:
    """The options under their letters: four, of which the last ones may be blank, and more where there are more."""
    options = [record.get(letter) for letter in _LETTERS]
    while len(options) > _FEWEST and (options[-1] is None or not str(options[-1]).strip()):
        options.pop()
    return options


def _choice(question: Any, choices: list[Any], answer: Any) -> Example:
    """A question with its options, where the answer is a letter or a position."""
    letters = _LETTERS[: max(len(choices), 1)]
    place = letters.find(answer.strip().upper()) if isinstance(answer, str) and len(answer.strip()) == 1 else answer
    if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(choices):
        raise InputError(f"the answer must be a letter from A to {letters[-1]}, not {answer!r}")
    return make(question=question, choices=choices, answers=(choices[place],), answer_type="choice")


BENCHMARKS = (
    Benchmark(
        "openbookqa",
        "OpenBookQA",
        files={"test": "Main/test.jsonl", "dev": "Main/dev.jsonl", "train": "Main/train.jsonl"},
        hub=HubSource("allenai/openbookqa", "additional", ("test", "validation", "train")),
        licence="Apache-2.0 for the authors' code; the data is released with it",
        expected="lines of JSON objects with id, question (stem and choices) and answerKey",
        convert=_openbookqa,
    ),
    Benchmark(
        "mmlu",
        "MMLU",
        hub=HubSource("cais/mmlu", "all", ("test", "validation", "dev", "auxiliary_train")),
        licence="MIT",
        expected="a CSV table without a header: question, four choices, letter; or a folder of one for each subject",
        rows=_subjects(lambda file: table(file, ("question", *_LETTERS[:4], "answer"))),
        splits_itself=True,
        convert=_mmlu,
    ),
    Benchmark(
        "cmmlu",
        "CMMLU",
        language="zh",
        licence="CC BY-NC-SA 4.0 (no commercial use)",
        expected="a CSV table with Question, A, B, C, D and Answer; or a folder of one for each subject",
        rows=_subjects(lambda file: table(file, look_for=("", "Question", *_LETTERS[:4], "Answer"))),
        splits_itself=True,
        convert=_cmmlu,
    ),
    Benchmark(
        "ceval",
        "C-Eval",
        language="zh",
        licence="CC BY-NC-SA 4.0 (no commercial use)",
        expected="a CSV table with id, question, A, B, C, D and answer, as in its folder val, or a folder of such",
        rows=_subjects(lambda file: table(file, look_for=("id", "question", *_LETTERS[:4], "answer"))),
        splits_itself=True,
        convert=_ceval,
    ),
    Benchmark(
        "mlec",
        "MLEC-QA",
        language="zh",
        licence="see the LICENSE of the authors' repository; the questions are those of a state examination",
        expected="a JSON list of objects with qid, qtext, options (A to E) and answer; or a folder of such as "
        "Clinic_test.json",
        rows=_mlec_rows,
        splits_itself=True,
        convert=_mlec,
    ),
)
