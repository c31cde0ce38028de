"""The entries of a utility reference in the form in which they are searched (KEQA, section 3.4)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from heapq import nlargest
from typing import Any, Literal

import numpy as np

from keqa.errors import ConfigurationError
from keqa.programs.arguments import check
from keqa.programs.reference.embedding import Embedder, Vectors

_FEW = 10_000
_OPTIONAL = {"question", "date"}
_MOST_NUMBERS = 1 << 29
"""2 GiB of vectors, which so few demonstrations do not reach."""

Form = Literal["apart", "joint"]
"""How a quiz and a passage are embedded: each by itself, so that a short quiz weighs as much as a long passage, or as
one text, as the authors' code does."""

Scored = tuple[float, int]
"""A score, and the position of the demonstration that has it."""


@dataclass(frozen=True, slots=True)
class UtilityEntry:
    """A passage, as the judge reads it, whose utility to a quiz is known.

    Attributes:
        root: Id of the training question.
        helpful: Whether U(quiz, passage) is 1; it is -1 otherwise.
        question: The `keqa.data.question.question_digest` of the training question; may be empty.
        date: When the passage's document was last changed, as it says itself; empty where it does not.
    """

    root: str
    quiz: str
    passage: str
    helpful: bool
    question: str = ""
    date: str = ""


def entry_values(entry: UtilityEntry) -> dict[str, Any]:
    """An entry as JSON values, for `entry_from`."""
    return {name: value for name, value in asdict(entry).items() if value != "" or name not in _OPTIONAL}


def entry_from(value: Any, where: str) -> UtilityEntry:
    """An entry from its JSON value, which may come from a stranger; messages say where it is.

    Raises:
        ConfigurationError: It is none.
    """
    names = UtilityEntry.__match_args__
    if not isinstance(value, dict) or set(value) | _OPTIONAL != set(names):
        raise ConfigurationError(f"{where} is no entry of a utility reference, which has {', '.join(names)} only")
    return UtilityEntry(**check(UtilityEntry, value, where))


@dataclass(frozen=True, slots=True)
class Demonstration:
    """What an entry shows. Entries of several questions that show the same are one demonstration."""

    quiz: str
    passage: str
    helpful: bool


class ReferenceIndex:
    """Entries and their embeddings. It never changes, so copies of a reference and threads share it.

    Attributes:
        demonstrations: What the entries show, in the order of first appearance.
    """

    def __init__(
        self, entries: Sequence[UtilityEntry], embedder: Embedder, vectors: Vectors | None = None, form: Form = "apart"
    ) -> None:
        """Embed and index; `vectors` are what the method of that name gave for the same entries, embedder and form.

        Raises:
            ConfigurationError: The vectors belong to other entries or another embedder.
        """
        self.entries = tuple(entries)
        roots: dict[Demonstration, set[str]] = {}
        self._of_question: dict[str, set[str]] = {}
        for entry in entries:
            if entry.question:
                self._of_question.setdefault(entry.question, set()).add(entry.root)
            roots.setdefault(Demonstration(entry.quiz, entry.passage, entry.helpful), set()).add(entry.root)
        self.demonstrations = list(roots)
        self._of_root: dict[str, set[int]] = {}
        for position, of in enumerate(roots.values()):
            for root in of:
                self._of_root.setdefault(root, set()).add(position)
        self._places: dict[bool, list[int]] = {True: [], False: []}
        for position, shown in enumerate(self.demonstrations):
            self._places[shown.helpful].append(position)
        self._flat: dict[bool, Any] = {}
        if self.demonstrations:
            rows = _rows(self.demonstrations, embedder, form, vectors)
            self._flat = {label: _flat(rows[places]) for label, places in self._places.items() if places}

    def vectors(self) -> Vectors:
        """The embeddings, a row for each demonstration."""
        width = max((index.d for index in self._flat.values()), default=0)
        rows = np.zeros((len(self.demonstrations), width), np.float32)
        for label, index in self._flat.items():
            rows[self._places[label]] = index.reconstruct_n(0, index.ntotal)
        return rows

    def of_roots(self, roots: Iterable[str]) -> set[int]:
        """Where the demonstrations of some training questions are, those included that others share."""
        return set().union(*(self._of_root.get(root, ()) for root in roots))

    def roots_of(self, question: str) -> AbstractSet[str]:
        """The ids of the training questions that are the same as a question, by its `question_digest`."""
        return self._of_question.get(question, frozenset())

    def nearest(self, vector: Vectors, k: int, out: AbstractSet[int]) -> list[Scored]:
        """The k nearest demonstrations of each label with their cosine, some positions left out."""
        found: list[Scored] = []
        for label, index in self._flat.items():
            places = self._places[label]
            # So many more that k remain, whichever are left out.
            scores, ranks = index.search(vector[None], min(len(places), k + len(out)))
            ranked = [(float(score), places[rank]) for score, rank in zip(scores[0], ranks[0], strict=True)]
            found += [one for one in ranked if one[1] not in out][:k]
        return found

    def random(self, seed: str, k: int, out: AbstractSet[int]) -> list[Scored]:
        """Any k demonstrations of each label, with chance scores that do not depend on what is left out."""
        chance = random.Random(seed)
        drawn = [chance.random() for _ in self.demonstrations]
        places = ([(drawn[p], p) for p in places if p not in out] for places in self._places.values())
        return [one for scored in places for one in nlargest(k, scored)]

    def best(self, scored: Sequence[Scored], k: int, least: int) -> list[Demonstration]:
        """The best k, the best last, with at least so many of each label as far as there are that many."""
        ranked = sorted(scored, key=lambda one: (-one[0], one[1]))
        chosen: list[Scored] = []
        for label in (True, False):
            of_label = [one for one in ranked if self.demonstrations[one[1]].helpful is label]
            chosen += of_label[: min(least, k // 2)]
        chosen += [one for one in ranked if one not in chosen][: k - len(chosen)]
        return [self.demonstrations[p] for _, p in sorted(chosen, key=lambda one: (one[0], -one[1]))]


def texts_of(pairs: Sequence[tuple[str, str]], form: Form) -> list[str]:
    """What is embedded of pairs of a quiz and a passage, each text once."""
    if form == "joint":
        return list(dict.fromkeys(f"{quiz}\n{passage}" for quiz, passage in pairs))
    return list(dict.fromkeys([*(quiz for quiz, _ in pairs), *(passage for _, passage in pairs)]))


def embedded_pairs(pairs: Sequence[tuple[str, str]], embedder: Embedder, form: Form) -> Vectors:
    """One row for each pair of a quiz and a passage; a text that many share is embedded once."""
    texts = texts_of(pairs, form)
    place = {text: position for position, text in enumerate(texts)}
    rows = embedder.embed(texts)
    if form == "joint":
        return rows[[place[f"{quiz}\n{passage}"] for quiz, passage in pairs]]
    sides = [rows[[place[quiz] for quiz, _ in pairs]], rows[[place[passage] for _, passage in pairs]]]
    side_by_side: Vectors = np.concatenate(sides, axis=-1) * np.float32(0.5**0.5)
    return side_by_side


def _rows(shown: Sequence[Demonstration], embedder: Embedder, form: Form, vectors: Vectors | None) -> Vectors:
    """The embeddings; of vectors that were made earlier one is made again to see that they belong here."""
    pairs = [(one.quiz, one.passage) for one in shown]
    first = embedded_pairs(pairs[:1], embedder, form) if vectors is not None or len(pairs) > _FEW else None
    if first is not None and len(pairs) * first.shape[1] > _MOST_NUMBERS:
        # Refused before it fills the memory.
        raise ConfigurationError(
            f"a utility reference of {len(pairs):,} demonstrations with vectors of {first.shape[1]:,} numbers is too "
            f"large: at most {_MOST_NUMBERS // first.shape[1]:,} fit"
        )
    if vectors is None or first is None:
        return embedded_pairs(pairs, embedder, form)
    if vectors.shape != (len(pairs), first.shape[1]) or not np.allclose(vectors[:1], first, atol=1e-3):
        raise ConfigurationError(
            f"the vectors are not those of these entries and of the embedder {embedder.name!r}; without them they "
            "are made again"
        )
    return vectors


def _flat(rows: Vectors) -> Any:
    """An exhaustive index, whose inner product is the cosine of rows of length 1."""
    import faiss

    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(np.ascontiguousarray(rows, np.float32))
    return index
