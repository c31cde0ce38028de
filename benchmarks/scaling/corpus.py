"""Made passages of any number, and questions about them.

Words follow Zipf's law, the most frequent ones are English function words, and a passage has about 100 words: what an
engine has to do for them is what it has to do for `psgs_w100.tsv`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from keqa.retrievers import Passage
from keqa.retrievers.stopwords import ENGLISH

VOCABULARY = 500_000
SHORTEST, LONGEST = 80, 120
_BATCH = 1000
_CONTENT, _FUNCTION = 5, 5


def vocabulary(size: int = VOCABULARY, seed: int = 0) -> list[str]:
    """Words from the most to the least frequent: the function words, then words made of syllables."""
    draw = random.Random(seed)
    words = dict.fromkeys(sorted(ENGLISH))
    while len(words) < size:
        syllables = (draw.choice("bcdfghjklmnprstvwz") + draw.choice("aeiou") for _ in range(draw.randint(2, 4)))
        words["".join(syllables) + draw.choice(("", "n", "r", "s", "t", "ing", "ed"))] = None
    return list(words)


def write_corpus(path: Path, passages: int, seed: int = 0, words: int = VOCABULARY) -> None:
    """Write passages one a line, with tabs between id, text and title; a file is there only when it is whole."""
    known = vocabulary(words, seed)
    # Mandelbrot's form of the law: without its constant, the first word alone would be a twelfth of all.
    bounds = np.cumsum(1 / (np.arange(len(known)) + 2.7))
    draw = np.random.default_rng(seed)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as stream:
        for start in range(0, passages, _BATCH):
            lengths = draw.integers(SHORTEST, LONGEST + 1, min(_BATCH, passages - start))
            titles = draw.integers(1, 4, len(lengths))
            drawn = iter(np.searchsorted(bounds, draw.random(int((lengths + titles).sum())) * bounds[-1]).tolist())
            for number, (length, title) in enumerate(zip(lengths, titles, strict=True), start=start):
                text = " ".join(known[place] for place in islice(drawn, int(length)))
                stream.write(f"{number}\t{text}\t{' '.join(known[place] for place in islice(drawn, int(title)))}\n")
    temporary.replace(path)


def read_made(path: Path) -> Iterator[Passage]:
    """The passages of such a file, as cheaply as they can be had: what is measured is not the reader."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            identifier, text, title = line.rstrip("\n").split("\t")
            yield Passage(identifier, title, text)


def questions(path: Path, count: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """Queries of five content words, each five from one passage; and as many in natural language.

    The latter are ten words: the same five among five function words.
    """
    draw = random.Random(seed)
    function = sorted(ENGLISH)
    size = path.stat().st_size
    content: list[str] = []
    with path.open("rb") as stream:
        while len(content) < count:
            stream.seek(draw.randrange(size))
            stream.readline()
            line = stream.readline().decode()
            words = sorted({word for word in line.split("\t")[1].split() if word not in ENGLISH}) if line else []
            if len(words) >= _CONTENT:
                content.append(" ".join(draw.sample(words, _CONTENT)))
    natural = []
    for query in content:
        words = query.split() + draw.sample(function, _FUNCTION)
        draw.shuffle(words)
        natural.append(" ".join(words).capitalize() + "?")
    return content, natural
