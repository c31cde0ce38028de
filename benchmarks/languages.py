"""Recall of a folder in eight languages, beside that of each language in an index of its own.

    python benchmarks/languages.py [DATA]

English and Chinese are XQuAD's where the shared data are there. The others are towns that do not exist: of each a
passage on eight topics, asked for by its name and by a word of the topic in another form. Exit code 1 where the mixed
index is more than a point below a separate one, at five.
"""

import json
import random
import tempfile
from pathlib import Path
from statistics import fmean

import common
import yaml
from common import DATA, show

from keqa.retrievers import Passage, build_index, open_index

_POINT = 0.01
_TOWNS = 60
SAID = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
"""For each language what towns are called, what any passage begins with, and what is said and asked of each topic."""

Questions = list[tuple[str, str]]
"""Each with the id of its passage."""


def invented(language: str) -> tuple[list[Passage], Questions]:
    said, drawn = SAID[language], random.Random(language)
    parts = said["towns"].split()
    names = sorted({"".join(drawn.sample(parts, 2)).capitalize() for _ in range(3 * _TOWNS)})
    passages, questions = [], []
    for town in drawn.sample(names, _TOWNS):
        for number, topic in enumerate(said["topics"]):
            told, asked = topic.split("|")
            passages.append(Passage(f"{language}/{town}/{number}", "", f"{said['begins'].format(town=town)} {told}"))
            questions.append((asked.format(town=town), passages[-1].id))
    return passages, questions


def xquad(path: Path, language: str) -> tuple[list[Passage], Questions]:
    passages, questions = [], []
    for document in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in document["paragraphs"]:
            passages.append(Passage(f"{language}/{len(passages)}", "", paragraph["context"]))
            questions += [(asked["question"], passages[-1].id) for asked in paragraph["qas"]]
    return passages, questions


def recall(folder: Path, questions: Questions) -> tuple[float, float]:
    found = open_index(folder).search_many([question for question, _ in questions], 5)
    places = [[hit.passage.id for hit in hits] for hits in found]
    first, five = (fmean(gold in ids[:k] for ids, (_, gold) in zip(places, questions, strict=True)) for k in (1, 5))
    return first, five


def main(arguments: list[str] | None = None) -> int:
    data = common.options(__doc__, "data", given=arguments, data=DATA).data
    sets = {language: invented(language) for language in SAID}
    for language in ("en", "zh"):
        if (path := data / "squad" / f"xquad.{language}.json").is_file():
            sets[language] = xquad(path, language)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        every = [passage for passages, _ in sets.values() for passage in passages]
        random.Random(1).shuffle(every)
        manifest = build_index(every, Path(temporary, "mixed"))
        for language, (passages, questions) in sets.items():
            build_index(passages, Path(temporary, language), notice=lambda text: None)
            separate = recall(Path(temporary, language), questions)
            mixed = recall(Path(temporary, "mixed"), questions)
            row = {"language": language, "passages": len(passages), "questions": len(questions)}
            row |= {"separate @1": separate[0], "separate @5": separate[1], "mixed @1": mixed[0], "mixed @5": mixed[1]}
            rows.append(row | {"worse by": max(0.0, separate[1] - mixed[1])})
    show(rows, f"analyzer of the mixed index: {manifest.language}")
    return int(any(row["worse by"] > _POINT for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
