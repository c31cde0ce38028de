"""The same document in several files of a folder, such as ``report.docx``, ``report.pdf`` and ``report (1).pdf``."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from keqa.retrievers.base import Hit, Passage
from keqa.retrievers.splitting import sentences
from keqa.retrievers.text import plain

# What a copy is called beside its original, and the ending; a year in brackets is none.
_COPY: Final = re.compile(r"(?: ?\(\d{1,2}\)|(?: -)? copy(?: \d+)?)*\.\w{1,9}(?:\.gz)?$", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+|[%€$£¥<≤≥]|[->](?=\d)")
# What a shorter sentence is about, such as "24 days", those beside it say; so does the title of a shorter passage.
_SENTENCE, _PASSAGE = 8, 20


def without_copies(hits: Sequence[Hit]) -> list[Hit]:
    """Hits but those of which better ones, in another file of the same name and no older, say all word for word."""
    kept: list[Hit] = []
    named: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for hit in hits:
        file, date = hit.passage.place.file, hit.passage.place.date
        better = named[_COPY.sub("", file)]
        others = "\n".join(words for other, of, words in better if other != file and of >= date)
        if not (others and all(part in others for part in _parts(hit.passage))):
            kept.append(hit)
            better += [(file, date, _words(f"{hit.passage.title}\n{hit.passage.text}"))] if file else []
    return kept


def _parts(passage: Passage) -> Iterator[str]:
    """What a copy of a passage has in it, wherever it is cut: long sentences, and what stands between them as one."""
    whole = _words(f"{passage.title}\n{passage.text}")
    if whole.count(" ") <= _PASSAGE:
        yield whole
        return
    yield _words(passage.title)
    for long, some in groupby(sentences(passage.text), key=lambda one: len(_WORD.findall(one)) >= _SENTENCE):
        found = [*some]
        yield from map(_words, found if long else ["".join(found)])


def _words(text: str) -> str:
    return " ".join(["", *_WORD.findall(plain(text)), ""])
