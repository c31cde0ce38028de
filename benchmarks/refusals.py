r"""Train the classifier of refusals, and measure it: refusals found by language, real answers taken for one.

    python benchmarks/refusals.py [DATA] [--prose FOLDER]            # the tables, of the weights that ship
    python benchmarks/refusals.py [DATA] [--prose FOLDER] --train    # writes metrics/refusals.json first

``refusals.yaml`` has for each language what is learned from (refusals, sentences that may follow one, answers, advice
that is an answer unless it follows a refusal; slots are filled) and what is measured on: ``held_out`` refusals and
``held_out_answers``, in other wordings and filled with other names. Answers are besides that titles, stretches and
sentences of the shared passages that are no gold answer, and sentences of a folder of prose in the twelve languages, if
it is there; on Debian 12 it is filled without installing by

    apt-get download wesnoth-1.16-{data,did,dm,dw,ei,httt,l,low,nr,sof,sota,sotbe,thot,trow,tsg,ttb,utbs} \
        gnome-user-docs evolution-common gnome-control-center-data libgtk-3-common gimp-data epiphany-browser-data \
        nautilus-data libreoffice-l10n-ar
    for package in *.deb; do dpkg-deb -x $package prose; done
    pip install --no-deps --target prose django==5.2.*

Of it, two catalogues are measured on, not learned from. The other side of the measurement are all gold answers of the
benchmarks.
"""

import gettext
import itertools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree

import common
import numpy as np
import yaml
from common import DATA, ROOT, read_lines, show
from scipy.sparse import csr_matrix

from keqa.data.benchmarks import load
from keqa.metrics import refusals
from keqa.metrics.answers import is_abstention
from keqa.optimize.logistic import logistic

DECAY, SHARPNESS = 4e-7, 10
THRESHOLDS = {"threshold": -0.75, "short_threshold": -0.25, "later_threshold": -2.0}
SHIFTS = (-0.5, -0.25, 0.0, 0.25, 0.5, 1.0)
LISTS = Path(__file__).with_suffix(".yaml")
WEIGHTS = ROOT / "metrics" / "refusals.json"
FILES = ROOT / "tests" / "data" / "real_files.jsonl"
HELD_OUT = ("wesnoth-tb", "epiphany")
"""Catalogues of messages that are measured on: the story of a game, and what a browser says."""
FOLDERS = {"zh": ["zh_CN", "zh_Hans"], "pt": ["pt_BR", "pt"], "en": ["C"]}
_LIKE_A_REFUSAL = re.compile(
    r"unknown|none|found|available|does not exist|no \w+ (match|yet)|sorry|apolog|unable|uncertain"
    r"|unspecified|no (idea|clue)"
    r"|(no|n.t|not) (\w+ )?(know|sure|certain|clear|find|tell|say|determine|understand|answer|information|data)",
    re.I,
)
IN_A_LINE = ("no", "asked", "sources", "places", "short")
NAMES = (
    "Petra Lund|Meridian Rail|Paris|Vasco da Gama|IBM|Zürich|The Restless Song|Ōkubo Toshimichi|Лев Толстой|"
    "Anna Müller|John F. Kennedy|New York City|Łódź|李明|田中太郎|محمد علي|Gmina Jordanów|World War II|photosynthesis|"
    "the Treaty of Utrecht|C++|blue whale|Hauptstraße|O'Brien|Elland|São Paulo|twenty miles|Москва|上海|lithium"
).split("|")
NEW_NAMES = (
    "Ines Varga|Tom Okafor|Halvorsen & Sons|Lund|Trondheim|Kraków|İzmir|Светлана Орлова|王芳|佐藤健|سارة حداد|"
    "Project Heron|the harbour office|Dr. Amadou Ba|Nordlys AG|Quimper|Ghent|Beit Noor"
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
    for line in read_lines(FILES):
        name, path = line["file"].split(":")
        for example in load(f"{name}:{data / path}", split=line.get("split")).examples:
            yield from ((name, gold, example.choices) for gold in example.answers)


def filled(template: str, refusing: bool, parts: dict[str, list[str]], names: list[str], draw: random.Random) -> str:
    """A template with names, numbers and what is asked for, now and then without its stop or its capital."""
    fillers = {"{x}": parts["asked"], "{s}": parts["sources"], "{w}": parts["places"], "{n}": names, "{d}": NUMBERS}
    if draw.random() < (0.02 if refusing else 0.15):
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


def prose(folder: Path, language: str, held_out: bool = False) -> list[str]:
    """Sentences of the unpacked packages, none of a message that may refuse: of `HELD_OUT` ones, or of all others."""
    found: dict[str, None] = {}
    places = FOLDERS.get(language, [language])
    for place in ["de"] if language == "en" else places:
        for path in sorted(folder.glob(f"**/{place}/LC_MESSAGES/*.mo")):
            if (path.stem in HELD_OUT) is held_out and "timezones" not in path.stem:
                with path.open("rb") as stream:
                    catalogue = gettext.GNUTranslations(stream)._catalog
                for english, text in catalogue.items():
                    if isinstance(english, str) and english and not _LIKE_A_REFUSAL.search(english):
                        found |= dict.fromkeys(_plain(english.split("\x04")[-1] if language == "en" else text))
    for place in [] if held_out else places:
        for path in sorted(folder.glob(f"**/help/{place}/**/*.page")):
            for element in ElementTree.parse(path).iter("{http://projectmallard.org/1.0/}p"):
                found |= dict.fromkeys(_plain(" ".join("".join(element.itertext()).split())))
    return list(found)


def stretches(texts: list[str], draw: random.Random) -> list[str]:
    found = []
    for words in (re.findall(r"[\u3040-\u9fff]{1,2}|[^\W\u3040-\u9fff]+", text) for text in texts):
        start, length = draw.randrange(max(1, len(words) - 1)), draw.randint(2, 7)
        found.append(("" if re.match(r"[\u3040-\u9fff]", words[0]) else " ").join(words[start : start + length]))
    return found


def _plain(text: str) -> Iterator[str]:
    """The sentences of a message of 3 to 30 words, without mark-up and with slots for what a program puts in."""
    text = re.sub(r"%\(\w+\)\w|%\w|\$\w+\|?|\{[^{}]*\}", "{n}", re.sub(r"<[^>]*>", "", text.replace("&nbsp;", " ")))
    for sentence in refusals.sentences(re.sub(r"[_&](?=\w)", "", text)):
        words = len(re.findall(r"[\u3040-\u9fff]{2}|[^\W\u3040-\u9fff]+", sentence))
        if 3 <= words <= 30:
            yield sentence.strip()


def held_out_answers(folder: Path, parts: dict[str, list[str]], language: str, count: int = 150) -> list[list[str]]:
    """Answers that are not learned from: of the lists, with slots filled several times, and sentences of the prose."""
    draw = random.Random(0)

    def fill(texts: list[str], copies: int) -> list[str]:
        return list({filled(text, True, parts, NEW_NAMES, draw) for text in texts for _ in range(copies)})

    texts = prose(folder, language, held_out=True)
    return [fill(parts["held_out_answers"], 8), fill(draw.sample(texts, min(count, len(texts))), 1)]


def samples(data: Path, texts: Path, copies: int = 8, most: int = 4000) -> tuple[list[set[int]], list[bool]]:
    """The features of the sentences to learn from, and whether each refuses."""
    draw = random.Random(0)
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
        prose_texts = prose(texts, language)
        # Whatever is asked for says nothing of whether a sentence refuses, either.
        parts = {
            **parts,
            "asked": parts["asked"] * 100 + stretches(draw.sample(prose_texts, min(3000, len(prose_texts))), draw),
        }
        # An answer behind a refusal is one, too; a refusal said twice adds none.
        rows = [(text, True, later) for later in (False, True) for text in parts["refusals"]]
        rows += [(text, True, True) for text in parts["continued"] * 2]
        rows += [(text, False, later) for later in (False, True) for text in answers]
        rows += [(text, False, False) for text in parts["advice"]]
        for (text, refusing, later), _ in itertools.product(rows, range(copies)):
            add(filled(text, refusing, parts, names, draw), refusing, later)
        for text in draw.sample(prose_texts, min(most, len(prose_texts))):
            add(filled(text, False, parts, names, draw), False, draw.random() < 0.2)
    for text in ordinary:
        add(text, False, draw.random() < 0.2)
    return found, refuses


def train(data: Path, folder: Path) -> None:
    found, refuses = samples(data, folder)
    count, of_each = len(found), [len(one) for one in found]
    columns = np.fromiter(itertools.chain.from_iterable(found), int)
    values = np.repeat([1 / np.sqrt(many or 1) for many in of_each], of_each)
    where = (np.repeat(np.arange(count), of_each), columns)
    matrix = csr_matrix((values, where), shape=(count, refusals.PLACES))
    decays = np.full(refusals.PLACES, DECAY)
    weights = logistic(matrix, np.array(refuses, float), np.full(count, 1 / count), decays)
    model = {**THRESHOLDS, "divisor": SHARPNESS, "weights": np.rint(weights * SHARPNESS).astype(int).tolist()}
    WEIGHTS.write_text(json.dumps(model, separators=(",", ":")) + "\n", "utf-8")
    size = WEIGHTS.stat().st_size / 1000
    print(f"{len(found):,} sentences, {sum(refuses):,} of them refusals; {size:.0f} kB of weights")


def found_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """How many held-out refusals are found, and how many held-out answers taken for one, by language."""
    measured = {name: [parts["held_out"], *held_out_answers(folder, parts, name)] for name, parts in lists().items()}
    measured["all"] = [list(itertools.chain(*part)) for part in zip(*measured.values(), strict=True)]
    for language, (refused, *answers) in measured.items():
        shares = {f"{shift:+.2f}": fmean(refusals.is_refusal(text, shift) for text in refused) for shift in SHIFTS}
        taken = (f"{sum(map(is_abstention, texts))} of {len(texts)}" for texts in answers)
        counts = dict(zip(("answers taken", "sentences taken"), taken, strict=True))
        yield {"language": f"{language} ({len(refused)})", **shares, **counts}


def false_rows(data: Path) -> Iterator[dict[str, Any]]:
    answers: dict[str, set[tuple[str, tuple[str, ...]]]] = {}
    for name, gold, choices in golds(data):
        answers.setdefault(name, set()).add((gold, choices))
    answers["all"] = set().union(*answers.values())
    for name, found in answers.items():
        asked = [gold for gold, choices in found if not choices]
        shares = (sum(refusals.is_refusal(gold, shift) for gold in asked) / len(found) for shift in SHIFTS)
        taken = sorted({gold for gold, choices in found if is_abstention(gold, choices)})
        cells = {f"{shift:+.2f}": f"{share:.2%}" for shift, share in zip(SHIFTS, shares, strict=True)}
        yield {"gold answers": name, "number": len(found), **cells, "taken": "; ".join(taken) if name == "all" else ""}


def main() -> None:
    given = common.options(__doc__, "data", data=DATA, train=False, prose=Path("prose"))
    if given.train:
        train(given.data, given.prose)
    show(found_rows(given.prose))
    show(false_rows(given.data))


if __name__ == "__main__":
    main()
