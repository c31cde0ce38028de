"""The utility reference and its retriever R_u: demonstrations for judging a passage (KEQA, section 3.4)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Literal

import dspy
from dspy.predict.parameter import Parameter

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
from keqa.programs.reference.index import (
    Form,
    ReferenceIndex,
    UtilityEntry,
    embedded_pairs,
    entry_from,
    entry_values,
    texts_of,
)
from keqa.programs.reference.reliability import Reliability, SourceRecord

__all__ = ["UtilityEntry", "UtilityReference", "Variant"]

_OPTIONAL = ("question", "date")

Variant = Literal["similar", "random", "none"]


@checked
class UtilityReference(Parameter):
    """Finds demonstrations for judging a passage: R_u of Algorithm 2, line 11.

    It is a parameter in DSPy's sense: saved and loaded with the program, kept by optimizers, its index shared by
    copies. Lookups may run in many threads at once; `fit` replaces all entries in one step.

    Attributes:
        k: How many demonstrations; 8 in the paper.
        least: How many of each label there are at least, where the reference has them.
        variant: ``similar`` finds the most similar ones (R_u), ``random`` any (KEQA w random R', the same ones whenever
            the same is asked), ``none`` none (KEQA w/o R).
        form: ``apart`` embeds quiz and passage each by itself, ``joint`` both as one text, as the authors' code does.
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
        """Set up an empty reference, with an embedder or the name of one for `open_embedder`.

        Raises:
            ConfigurationError: Settings that cannot work.
            MissingExtraError: A package is missing that the embedder needs.
        """
        self.k, self.least, self.variant, self.form = k, least, variant, form
        self._embedder = Remembering(open_embedder(embedder) if isinstance(embedder, str) else embedder)
        self._index = ReferenceIndex((), self._embedder)
        # DSPy loads a state twice, at first into a copy; what the copy has built is found here the second time.
        self._built: dict[tuple[str, str], ReferenceIndex] = {}
        self._reliability: tuple[ReferenceIndex, Reliability] | None = None

    @property
    def embedder(self) -> Embedder:
        """Makes the vectors."""
        return self._embedder.embedder

    @property
    def entries(self) -> tuple[UtilityEntry, ...]:
        """What it was fitted to."""
        return self._index.entries

    def fit(self, entries: Iterable[Any], vectors: Vectors | None = None) -> UtilityReference:
        """Take entries in the place of all that were there.

        Args:
            entries: From training questions only; each has what an `UtilityEntry` has.
            vectors: What `vectors` gave for the same entries and embedder, so that they need not be embedded again.

        Raises:
            ConfigurationError: The vectors belong to other entries or another embedder.
        """
        taken = tuple(
            UtilityEntry(
                one.root, one.quiz, one.passage, bool(one.helpful), *(getattr(one, name, "") for name in _OPTIONAL)
            )
            for one in entries
        )
        key = (self._embedder.name, self.form)
        index = self._built.get(key)
        if index is None or index.entries != taken:
            index = ReferenceIndex(taken, self.embedder, vectors, self.form)
        self._built.clear()
        self._built[key] = self._index = index
        return self

    def vectors(self) -> Vectors:
        """The embeddings of what the entries show, for `fit`."""
        return self._index.vectors()

    def counts(self) -> dict[bool, int]:
        """How many entries say helpful, and how many not."""
        helpful = sum(entry.helpful for entry in self.entries)
        return {True: helpful, False: len(self.entries) - helpful}

    def signature_of_entries(self) -> str:
        """What distinguishes the entries from others: a hash over all of them, in their order."""
        digest = hashlib.sha256()
        for entry in self.entries:
            values = [entry.root, entry.quiz, entry.passage, entry.helpful]
            digest.update(json.dumps([*values, entry.date] if entry.date else values).encode() + b"\n")
        return digest.hexdigest()

    def prepare(self, quiz: str, passages: Sequence[str]) -> None:
        """Embed the passages of a quiz in one batch; the lookups that follow find the embeddings made."""
        if self.variant == "similar" and self.entries and passages:
            self._embedder.embed(texts_of([(quiz, passage) for passage in passages], self.form))

    def __call__(self, quiz: str, passage: str) -> list[dspy.Example]:
        """Find the demonstrations for judging a passage, as the judge reads it, for a resolved quiz.

        Returns:
            Examples with `passage`, `quiz` and `helpful`, the nearest last; none where there is nothing to show.
        """
        index = self._index
        if self.variant == "none" or not index.entries:
            return []
        out = index.of_roots(_own(index))
        if self.variant == "similar":
            (vector,) = embedded_pairs([(quiz, passage)], self._embedder, self.form)
            scored = index.nearest(vector, self.k, out)
        else:
            scored = index.random(f"{quiz}\n{passage}", self.k, out)
        shown = index.best(scored, self.k, self.least)
        return [dspy.Example(passage=one.passage, quiz=one.quiz, helpful=one.helpful) for one in shown]

    def source_of(self, passage: str) -> SourceRecord | None:
        """What the labels say of a passage's source; those of the question in work do not count.

        None where it names no source, or one of which nothing is known, and where nothing is shown of the labels.
        """
        return None if self.variant == "none" else self._sources().of(passage, _own(self._index))

    def age_of(self, date: str) -> SourceRecord | None:
        """What the labels say of passages as old as one, likewise; None too where too few labels have a date."""
        return None if self.variant == "none" or not date else self._sources().of_date(date, _own(self._index))

    def unreliable_sources(self) -> list[SourceRecord]:
        """The sources, and the side of a date, that are unreliable by all labels; none where no label is shown."""
        return [] if self.variant == "none" else self._sources().unreliable()

    def _sources(self) -> Reliability:
        """What the labels say of sources, counted once for the entries that there are."""
        if self._reliability is None or self._reliability[0] is not self._index:
            self._reliability = self._index, Reliability(self.entries)
        return self._reliability[1]

    def reset(self) -> None:
        """Stay as it is: an optimizer that starts afresh has not found the reference, so it does not lose it."""

    def settings(self) -> dict[str, Any]:
        """What was set rather than fitted; no place on this machine is in it."""
        found = {"embedder": portable(self._embedder.name), "k": self.k, "least": self.least, "variant": self.variant}
        # Programs of before have no form; theirs is the usual one.
        return found if self.form == "apart" else {**found, "form": self.form}

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """Settings and entries. The vectors are left out, as they can be made again."""
        return {
            **self.settings(),
            "embedder": self._embedder.name,
            "entries": [entry_values(entry) for entry in self.entries],
        }

    def load_state(self, state: Mapping[str, Any]) -> UtilityReference:
        """Become what `dump_state` saved; the embedder that it names is a built-in one, or this reference's.

        Raises:
            ConfigurationError: It is not the state of a reference, or it names another embedder.
            MissingExtraError: A package is missing that the embedder needs.
        """
        parts = ("embedder", "k", "least", "variant", "entries")
        known = isinstance(state, Mapping) and set(state) - {"form"} == set(parts)
        if not known or not isinstance(state["entries"], list):
            raise ConfigurationError(
                f"this is not the state of a utility reference, which has {', '.join(parts)} and nothing else"
            )
        name, found = state["embedder"], state["entries"]
        chosen = {part: state[part] for part in ("k", "least", "variant")} | {"form": state.get("form", "apart")}
        settings = check(type(self), chosen, "a utility reference")
        entries = [entry_from(entry, f"entry {number}") for number, entry in enumerate(found, start=1)]
        self.k, self.least = settings["k"], settings["least"]
        self.variant, self.form = settings["variant"], settings["form"]
        if name != self._embedder.name:
            self._embedder = Remembering(_named(name))
        return self.fit(entries)

    def __deepcopy__(self, memo: dict[int, Any]) -> UtilityReference:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        new.__dict__.update(self.__dict__)
        return new


def _own(index: ReferenceIndex) -> AbstractSet[str]:
    """The training questions whose labels are not shown: those left out, and the one that is asked again."""
    return context().left_out | index.roots_of(context().asked)


def _named(name: Any) -> Embedder:
    try:
        return open_built_in(name)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error}: make the reference that loads this with it, UtilityReference(open_embedder(NAME))"
        ) from error
