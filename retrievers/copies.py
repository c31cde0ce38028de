"""The same document in several files of a folder, such as ``report.docx``, ``report.pdf`` and ``report (1).pdf``."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from keqa.retrievers.base import Hit
from keqa.retrievers.splitting import sentences
from keqa.retrievers.text import plain

# What a copy is called beside its original, and the ending.
_COPY: Final = re.compile(r"(?: ?\(\d+\)|(?: -)? copy(?: \d+)?|_all)*\.\w{1,9}(?:\.gz)?$", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+")


def without_copies(hits: Sequence[Hit]) -> list[Hit]:
    """Hits but those of which a better one, in another file of the same name, says each sentence word for word."""
    kept: list[Hit] = []
    said: dict[str, list[tuple[str, str]]] = {}
    for hit in hits:
        file, text = hit.passage.place.file, hit.passage.text
        before = said.setdefault(_COPY.sub("", file), []) if file else []
        others = "\n".join(words for of, words in before if of != file)
        if not (others and all(_words(sentence) in others for sentence in sentences(text))):
            kept.append(hit)
            before.append((file, _words(text)))
    return kept


def found_once(search: Callable[[int], list[Hit]], k: int) -> list[Hit]:
    """At most so many hits, none of them a copy: the search looks further down where some are."""
    most = k
    while len(kept := without_copies(hits := search(most))) < min(k, len(hits)) and len(hits) == most:
        most *= 2
    return hits if len(kept) == len(hits) else kept[:k]


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(plain(text)))} "
