"""The utility reference and its retriever R_u: demonstrations for judging a passage (KEQA, section 3.4)."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from heapq import nlargest
from typing import Annotated, Any, Literal

import dspy
import numpy as np
from dspy.predict.parameter import Parameter

from keqa.data.question import question_digest
from keqa.errors import ConfigurationError
from keqa.programs.arguments import EMBEDDER, check, checked, whole
from keqa.programs.calls.session import context
from keqa.programs.reference.embedding import (
    HASHING,
    Embedder,
    Remembering,
    Vectors,
    open_built_in,
    open_embedder,
    portable,
)
from keqa.programs.reference.entries import UtilityEntry, entry_from, entry_values
from keqa.programs.reference.reliability import Reliability, SourceRecord

_FEW = 10_000
_MOST_NUMBERS = 1 << 29
"""2 GiB of vectors, which so few demonstrations do not reach."""

Form = Literal["apart", "joint"]
"""How a quiz and a passage are embedded: each by itself, so that a short quiz weighs as much as a long passage, or as
one text, as the authors' code does."""

Variant = Literal["similar", "random", "none"]

Scored = tuple[float, int]
"""A score, and the position of the demonstration that has it."""


class ReferenceIndex:
    """Entries and their embeddings; it never changes.

    Its `demonstrations` are what the entries show, a quiz, a passage and a label, each once, in their order.
    """

    def __init__(
        self, entries: Sequence[UtilityEntry], embedder: Embedder, vectors: Vectors | None = None, form: Form = "apart"
    ) -> None:
        """Embed and index; `vectors` are what the method of that name gave for the same entries, embedder and form."""
        self.entries = tuple(entries)
        roots: dict[tuple[str, str, bool], set[str]] = {}
        self._of_question: dict[str, set[str]] = {}
        for entry in entries:
            if entry.question:
                self._of_question.setdefault(entry.question, set()).add(entry.root)
            roots.setdefault((entry.quiz, entry.passage, entry.helpful), set()).add(entry.root)
        self.demonstrations = list(roots)
        self._of_root: dict[str, set[int]] = {}
        self._places: dict[bool, list[int]] = {True: [], False: []}
        for position, ((_, _, helpful), of) in enumerate(roots.items()):
            self._places[helpful].append(position)
            for root in of:
                self._of_root.setdefault(root, set()).add(position)
        self._rows: dict[bool, Vectors] = {}
        if self.demonstrations:
            rows = _rows([one[:2] for one in self.demonstrations], embedder, form, vectors)
            self._rows = {label: rows[places].astype(np.float32) for label, places in self._places.items() if places}

    @cached_property
    def signature(self) -> str:
        """What distinguishes the entries from others: a hash over all of them, in their order."""
        digest = hashlib.sha256()
        for entry in self.entries:
            values = [entry.root, entry.quiz, entry.passage, entry.helpful]
            digest.update(json.dumps([*values, entry.date] if entry.date else values).encode() + b"\n")
        return digest.hexdigest()

    @cached_property
    def reliability(self) -> Reliability:
        return Reliability(self.entries)

    def vectors(self) -> Vectors:
        width = max((rows.shape[1] for rows in self._rows.values()), default=0)
        found = np.zeros((len(self.demonstrations), width), np.float32)
        for label, rows in self._rows.items():
            found[self._places[label]] = rows
        return found

    def own(self) -> AbstractSet[str]:
        """The training questions whose labels are not shown: those left out, and the one that is asked again."""
        return context().left_out | self._of_question.get(question_digest(*context().asked), set())

    def out(self) -> set[int]:
        """Where the demonstrations of these questions are, those included that others share."""
        return set().union(*(self._of_root.get(root, ()) for root in self.own()))

    def nearest(self, vector: Vectors, k: int) -> list[Scored]:
        """The k nearest demonstrations of each label with their cosine."""
        import faiss

        found: list[Scored] = []
        out = self.out()
        for label, rows in self._rows.items():
            places = self._places[label]
            # So many more that k remain, whichever are left out. Of rows of length 1 the inner product is the cosine.
            most = min(len(places), k + len(out))
            scores, ranks = faiss.knn(vector[None], rows, most, faiss.METRIC_INNER_PRODUCT)
            ranked = [(float(score), places[rank]) for score, rank in zip(scores[0], ranks[0], strict=True)]
            found += [one for one in ranked if one[1] not in out][:k]
        return found

    def random(self, seed: str, k: int) -> list[Scored]:
        """Any k demonstrations of each label, with chance scores that do not depend on what is left out."""
        chance, out = random.Random(seed), self.out()
        drawn = [chance.random() for _ in self.demonstrations]
        places = ([(drawn[p], p) for p in places if p not in out] for places in self._places.values())
        return [one for scored in places for one in nlargest(k, scored)]

    def best(self, scored: Sequence[Scored], k: int, least: int) -> list[tuple[str, str, bool]]:
        """The best k, the best last, with at least so many of each label as far as there are that many."""
        ranked = sorted(scored, key=lambda one: (-one[0], one[1]))
        chosen: list[Scored] = []
        for label in (True, False):
            of_label = [one for one in ranked if self.demonstrations[one[1]][2] is label]
            chosen += of_label[: min(least, k // 2)]
        chosen += [one for one in ranked if one not in chosen][: k - len(chosen)]
        return [self.demonstrations[p] for _, p in sorted(chosen, key=lambda one: (one[0], -one[1]))]


def texts_of(pairs: Sequence[tuple[str, str]], form: Form) -> list[str]:
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


def _rows(pairs: Sequence[tuple[str, str]], embedder: Embedder, form: Form, vectors: Vectors | None) -> Vectors:
    """The embeddings; of vectors that were made earlier one is made again to see that they belong here."""
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


@checked
class UtilityReference(Parameter):
    """Finds demonstrations for judging a passage: R_u of Algorithm 2, line 11.

    It is a parameter in DSPy's sense: saved and loaded with the program, kept by optimizers, its index shared by
    copies. Lookups may run in many threads at once; `fit` replaces all entries in one step.

    It shows `k` demonstrations, 8 in the paper, and `least` of each label, where it has them. The variant ``similar``
    finds the most similar ones (R_u), ``random`` any (KEQA w random R', the same whenever the same is asked), ``none``
    none (KEQA w/o R).
    """

    def __init__(
        self,
        embedder: Annotated[Embedder | str, EMBEDDER] = HASHING,
        *,
        k: Annotated[int, whole(1, 1_000)] = 8,
        least: Annotated[int, whole(0, 1_000)] = 2,
        variant: Variant = "similar",
        form: Form = "apart",
    ) -> None:
        """Set up an empty reference, with an embedder or the name of one for `open_embedder`."""
        self.k, self.least, self.variant, self.form = k, least, variant, form
        self._embedder = Remembering(open_embedder(embedder) if isinstance(embedder, str) else embedder)
        self.index = ReferenceIndex((), self._embedder)
        # DSPy loads a state twice, at first into a copy; what the copy has built is found here the second time.
        self._built: dict[tuple[str, str], ReferenceIndex] = {}

    @property
    def embedder(self) -> Embedder:
        return self._embedder.embedder

    @property
    def entries(self) -> tuple[UtilityEntry, ...]:
        return self.index.entries

    def fit(self, entries: Iterable[UtilityEntry], vectors: Vectors | None = None) -> UtilityReference:
        """Take entries, of training questions only, in the place of all that were there.

        `vectors` are what the method of that name gave for the same entries and embedder.
        """
        taken, key = tuple(entries), (self._embedder.name, self.form)
        index = self._built.get(key)
        if index is None or index.entries != taken:
            index = ReferenceIndex(taken, self.embedder, vectors, self.form)
        self._built.clear()
        self._built[key] = self.index = index
        return self

    def prepare(self, quiz: str, passages: Sequence[str]) -> None:
        """Embed the passages of a quiz in one batch; the lookups that follow find the embeddings made."""
        if self.variant == "similar" and self.entries and passages:
            self._embedder.embed(texts_of([(quiz, passage) for passage in passages], self.form))

    def __call__(self, quiz: str, passage: str) -> list[dspy.Example]:
        """Find the demonstrations for judging a passage, as the judge reads it, for a resolved quiz, the best last."""
        index = self.index
        if self.variant == "none" or not index.entries:
            return []
        if self.variant == "similar":
            (vector,) = embedded_pairs([(quiz, passage)], self._embedder, self.form)
            scored = index.nearest(vector, self.k)
        else:
            scored = index.random(f"{quiz}\n{passage}", self.k)
        shown = index.best(scored, self.k, self.least)
        return [dspy.Example(passage=passage, quiz=quiz, helpful=helpful) for quiz, passage, helpful in shown]

    def source_of(self, passage: str) -> SourceRecord | None:
        """What the labels say of a passage's source, if anything; those of the question in work do not count."""
        return None if self.variant == "none" else self.index.reliability.of(passage, self.index.own())

    def age_of(self, date: str) -> SourceRecord | None:
        """What the labels say of passages as old as one, likewise."""
        return None if self.variant == "none" else self.index.reliability.of_date(date, self.index.own())

    def counts(self) -> dict[str, int]:
        """How many entries are of passages that helped and that harmed."""
        helpful = sum(entry.helpful for entry in self.entries)
        return {"helpful": helpful, "harmful": len(self.entries) - helpful}

    def unreliable_sources(self) -> list[SourceRecord]:
        """The sources, and the side of a date, that are unreliable by all labels; none where no label is shown."""
        return [] if self.variant == "none" else self.index.reliability.unreliable()

    def reset(self) -> None:
        """Stay as it is: an optimizer that starts afresh has not found the reference, so it does not lose it."""

    def settings(self) -> dict[str, Any]:
        """What was set rather than fitted, the form where it is not the usual one; no place on this machine."""
        found = {"embedder": portable(self._embedder.name), "k": self.k, "least": self.least, "variant": self.variant}
        return found if self.form == "apart" else {**found, "form": self.form}

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """Settings and entries. The vectors are left out, as they can be made again."""
        entries = [entry_values(entry) for entry in self.entries]
        return {**self.settings(), "embedder": self._embedder.name, "entries": entries}

    def load_state(self, state: Mapping[str, Any]) -> UtilityReference:
        """Become what `dump_state` saved; the embedder that it names is a built-in one, or this reference's."""
        parts = ("embedder", "k", "least", "variant", "entries")
        known = isinstance(state, Mapping) and set(state) - {"form"} == set(parts)
        if not known or not isinstance(state["entries"], list):
            raise ConfigurationError(f"the state of a utility reference has {', '.join(parts)} and nothing else")
        chosen = {"form": "apart", **{part: state[part] for part in state if part not in ("embedder", "entries")}}
        settings = check(type(self), chosen, "a utility reference")
        entries = [entry_from(entry, f"entry {number}") for number, entry in enumerate(state["entries"], start=1)]
        self.__dict__.update(settings)
        if state["embedder"] != self._embedder.name:
            advice = ": make the reference that loads this with it, UtilityReference(open_embedder(NAME))"
            self._embedder = Remembering(open_built_in(state["embedder"], advice))
        return self.fit(entries)

    def __deepcopy__(self, memo: dict[int, Any]) -> UtilityReference:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        new.__dict__.update(self.__dict__)
        return new
