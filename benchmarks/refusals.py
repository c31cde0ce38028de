"""Train the classifier of refusals, and measure it: refusals found by language, real answers taken for one.

    python benchmarks/refusals.py [DATA]                                        # the tables, of the weights that ship
    pip install --no-deps django && python benchmarks/refusals.py [DATA] --train    # writes metrics/refusals.json first

``refusals.yaml`` has for each language what is learned from (refusals, sentences that may follow one, answers; slots
are filled) and what is measured on: ``held_out`` refusals and ``held_out_answers``, written last and in other wordings;
the two draws before them were measured and then moved into what is learned from. Answers are besides that titles,
stretches and sentences of the shared passages that are no gold answer, and what Django says to its users in the
twelve languages. The other side of the measurement are all gold answers of the benchmarks.
"""

from __future__ import annotations

import argparse
import gettext
import importlib.util
import itertools
import json
import random
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import yaml
from common import DATA, ROOT
from rich import print as show
from rich.table import Table
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from keqa.data import load
from keqa.metrics import refusals
from keqa.metrics.answers import is_abstention

DECAY, SHARPNESS = 2e-6, 10
THRESHOLD, SHORT_THRESHOLD, LATER_THRESHOLD = -1.0, -0.1, -2.0
SHIFTS = (-0.5, -0.25, 0.0, 0.25, 0.5, 1.0)
LISTS = Path(__file__).with_suffix(".yaml")
WEIGHTS = ROOT / "metrics" / "refusals.json"
FILES = ROOT / "tests" / "data" / "real_files.jsonl"
_LIKE_A_REFUSAL = re.compile(
    r"unknown|none|found|available|does not exist|no \w+ (match|yet)|sorry|apolog|unable", re.I
)
IN_A_LINE = ("no", "asked", "sources", "places", "short")
NAMES = (
    "Petra Lund|Meridian Rail|Paris|Vasco da Gama|IBM|Zürich|The Restless Song|Ōkubo Toshimichi|Лев Толстой|"
    "Anna Müller|John F. Kennedy|New York City|Łódź|李明|田中太郎|محمد علي|Gmina Jordanów|World War II|photosynthesis|"
    "the Treaty of Utrecht|C++|blue whale|Hauptstraße|O'Brien|Elland|São Paulo|twenty miles|Москва|上海|lithium"
).split("|")
NUMBERS = "7|1871|3.5|12,000|42|1999|15 May 2019|-3|1/2|0.06".split("|")


def lists() -> dict[str, dict[str, list[str]]]:
    """By language and part, the lines of the lists; what fills a slot stands on one."""
    read = yaml.safe_load(LISTS.read_text("utf-8"))
    return {
        language: {part: text.strip().split("|" if part in IN_A_LINE else "\n") for part, text in parts.items()}
        for language, parts in read.items()
    }


def golds(data: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Benchmark, gold answer and options of everything in the shared data."""
    for line in FILES.read_text("utf-8").splitlines():
        name, path = json.loads(line)["file"].split(":")
        for example in load(f"{name}:{data / path}", split=json.loads(line).get("split")).examples:
            yield from ((name, gold, example.choices) for gold in example.answers)


def filled(template: str, refusing: bool, parts: dict[str, list[str]], names: list[str], draw: random.Random) -> str:
    """A template with names, numbers and what is asked for, now and then without its stop or its capital."""
    fillers = {"{x}": parts["asked"], "{s}": parts["sources"], "{w}": parts["places"], "{n}": names, "{d}": NUMBERS}
    if not refusing and draw.random() < 0.1:
        template = f"{parts['no'][0]} {template}"
    text = re.sub(r"\{\w\}", lambda slot: draw.choice(fillers[slot[0]]), template)
    chance = draw.random()
    if chance < 0.25:
        text = text.rstrip(".。")
    elif chance < 0.4:
        text = text.lower()
    elif chance < 0.45:
        text = text.upper()
    return text[:1].upper() + text[1:] if chance > 0.45 else text


def passages(data: Path, draw: random.Random, count: int = 3000) -> Iterator[str]:
    """Titles, stretches and sentences of passages, none of which is a gold answer."""
    right = {gold.casefold() for _, gold, _ in golds(data)}
    for name, stretch in (("musique/musique_corpus.json", r"(?:\S+\s+){1,12}\S+"), ("zh_corpus.json", r"\w{2,12}")):
        for passage in draw.sample(json.loads((data / name).read_text("utf-8")), count):
            text = passage["text"]
            stretches, whole = re.findall(stretch, text), refusals.sentences(text)
            found = [passage["title"], *(draw.choice(some) for some in (stretches, whole) if some)]
            yield from (one for one in found if one and one.casefold() not in right)


def messages(language: str) -> Iterator[str]:
    """What Django says to its users: sentences that say what is not so and cannot be done, and are no refusals."""
    spec = importlib.util.find_spec("django")
    root = Path(str(spec and spec.origin)).parent
    folder = {"zh": "zh_Hans"}.get(language, language)
    for path in sorted(root.glob(f"**/locale/{folder}/LC_MESSAGES/*.mo")):
        with path.open("rb") as stream:
            said = gettext.GNUTranslations(stream)._catalog
        for english, text in said.items():
            if isinstance(english, str) and english and not _LIKE_A_REFUSAL.search(english):
                yield re.sub(r"%\(\w+\)\w|%\w|\{\w*\}|<[^>]*>", "{n}", text.replace("&nbsp;", " "))


def samples(data: Path, seed: int = 0, copies: int = 5) -> tuple[list[set[int]], list[bool]]:
    """The features of the sentences to learn from, and whether each refuses."""
    draw = random.Random(seed)
    found, refuses = [], []

    def add(text: str, refusing: bool, later: bool) -> None:
        for sentence in refusals.sentences(text)[:1]:
            found.append(refusals.places(sentence, later=later))
            refuses.append(refusing)

    ordinary = list(passages(data, draw))
    # A name says nothing of whether a sentence refuses.
    names = [*NAMES * 20, *(text for text in ordinary if len(text) < 30)]
    for language, parts in lists().items():
        answers = parts["answers"] + parts["short"]
        # An answer behind a refusal is one, too; a refusal said twice adds none.
        rows = [(text, True, later) for later in (False, True) for text in parts["refusals"]]
        rows += [(text, True, True) for text in parts["continued"] * 2]
        rows += [(text, False, later) for later in (False, True) for text in answers]
        for (text, refusing, later), _ in itertools.product(rows, range(copies)):
            add(filled(text, refusing, parts, names, draw), refusing, later)
        for text in messages(language):
            add(filled(text, False, parts, names, draw), False, draw.random() < 0.3)
    for text in ordinary:
        add(text, False, draw.random() < 0.2)
    return found, refuses


def matrix(found: list[set[int]]) -> csr_matrix:
    rows = np.repeat(np.arange(len(found)), [len(one) for one in found])
    columns = np.fromiter(itertools.chain.from_iterable(found), int)
    values = np.repeat([1 / np.sqrt(len(one) or 1) for one in found], [len(one) for one in found])
    return csr_matrix((values, (rows, columns)), shape=(len(found), refusals.PLACES))


def fit(found: list[set[int]], refuses: list[bool], decay: float) -> np.ndarray:
    features, signs = matrix(found), np.where(refuses, 1.0, -1.0)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (features @ weights)
        slope = -signs / (1 + np.exp(margins))
        value = np.logaddexp(0, -margins).mean() + decay * weights @ weights / 2
        return value, features.T @ slope / len(signs) + decay * weights

    return minimize(loss, np.zeros(refusals.PLACES), jac=True, method="L-BFGS-B", options={"maxiter": 300}).x


def train(data: Path) -> None:
    """Write the weights, as whole numbers and the one that all are divided by."""
    found, refuses = samples(data)
    weights = fit(found, refuses, DECAY)
    whole = np.rint(weights * SHARPNESS).astype(int)
    model = {
        "threshold": THRESHOLD,
        "short_threshold": SHORT_THRESHOLD,
        "later_threshold": LATER_THRESHOLD,
        "divisor": SHARPNESS,
        "weights": whole.tolist(),
    }
    WEIGHTS.write_text(json.dumps(model, separators=(",", ":")) + "\n", "utf-8")
    size = WEIGHTS.stat().st_size / 1000
    show(f"{len(found):,} sentences, {sum(refuses):,} of them refusals; {size:.0f} kB of weights")


def found_table(shifts: Sequence[float]) -> Table:
    """How many held-out refusals are found, and how many ordinary answers taken for one, by language."""
    table = Table("language", *(f"{shift:+.2f}" for shift in shifts), "answers taken")
    everything: dict[str, list[str]] = {"held_out": [], "held_out_answers": []}
    rows = lists()
    for parts in rows.values():
        for part, texts in everything.items():
            texts += parts[part]
    for language, parts in {**rows, "all": everything}.items():
        refused, answers = parts["held_out"], parts["held_out_answers"]
        shares = [sum(refusals.is_refusal(text, shift) for text in refused) / len(refused) for shift in shifts]
        taken = sum(map(is_abstention, answers))
        table.add_row(
            f"{language} ({len(refused)})", *(f"{share:.3f}" for share in shares), f"{taken} of {len(answers)}"
        )
    return table


def false_table(data: Path, shifts: Sequence[float]) -> Table:
    """How many gold answers are taken for a refusal, by benchmark."""
    answers: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
    for name, gold, choices in golds(data):
        answers.setdefault(name, set()).add((gold, choices))
    answers["all"] = set().union(*answers.values())
    table = Table("gold answers", "number", *(f"{shift:+.2f}" for shift in shifts))
    for name, found in answers.items():
        shares = [
            sum(not choices and refusals.is_refusal(gold, shift) for gold, choices in found) / len(found)
            for shift in shifts
        ]
        table.add_row(name, f"{len(found):,}", *(f"{share:.2%}" for share in shares))
    taken = sorted({gold for gold, choices in answers["all"] if is_abstention(gold, choices)})
    table.caption = f"taken for a refusal: {'; '.join(taken)}"
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="folder of the shared data")
    parser.add_argument("--train", action="store_true", help="train the weights first")
    given = parser.parse_args()
    if given.train:
        train(given.data)
    show(found_table(SHIFTS), false_table(given.data, SHIFTS))
    texts = [text for parts in lists().values() for text in parts["held_out"]]
    start = time.perf_counter()
    for text in texts:
        refusals.is_refusal(text)
    show(f"{(time.perf_counter() - start) / len(texts) * 1000:.2f} ms a text")


if __name__ == "__main__":
    main()
