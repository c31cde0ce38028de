"""Changing a dense index: only passages that are new are encoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from keqa.errors import RetrievalError
from keqa.retrievers import checksums
from keqa.retrievers.base import Passage
from keqa.retrievers.changes import Change, FolderChanger, manifest_after
from keqa.retrievers.dense.changed import Changed
from keqa.retrievers.dense.encoding import Encoder
from keqa.retrievers.dense.index import DenseManifest, Files, open_files
from keqa.retrievers.dense.models import Vectors
from keqa.retrievers.files import FileTable
from keqa.retrievers.layout import exclusive, write_atomically
from keqa.retrievers.manifest import MANIFEST

# The passages of a document are looked for so many at a time, since single ones of them may be gone.
_PIECES = 64
_ENCODED_AT_ONCE = 256


class _DenseChanger(FolderChanger):
    """A dense index that is open to be changed; see `keqa.retrievers.changes.Changer`."""

    def __init__(self, folder: Path, files: Files, table: FileTable | None, model: str | None) -> None:
        """Use `changing`."""
        super().__init__(table)
        self._folder, self._model = folder, model
        self._files = files

    @property
    def _data(self) -> Path:
        return self._folder / self.manifest.data

    @property
    def manifest(self) -> DenseManifest:
        return self._files.manifest

    def held(self, ids: Sequence[str]) -> set[str]:
        return set(self._rows_of(ids))

    def stored(self, ids: Sequence[str]) -> dict[str, Passage]:
        return {one: self._files.passage(row) for one, row in self._rows_of(ids).items()}

    def _rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        wanted, files = list(ids), self._files
        rows = files.passages.rows_of(wanted)
        if files.changed is None:
            return rows
        gone = set(files.changed.gone.tolist())
        added = files.changed.passages.rows_of(wanted)
        before = {one: row for one, row in rows.items() if row not in gone}
        return before | {one: row + len(files.passages) for one, row in added.items()}

    def pieces(self, document: str) -> list[str]:
        found: list[str] = []
        start = 1
        while document:
            some = [f"{document}#{number}" for number in range(start, start + _PIECES)]
            held = self.held(some)
            found += [one for one in some if one in held]
            if not held:
                break
            start += _PIECES
        return found

    def apply(self, change: Change) -> DenseManifest:
        """Write what is new beside what is there, and publish it by the manifest."""
        before = self.manifest
        replaced = self._rows_of([passage.id for passage in change.new])
        leaving = {*self._rows_of(change.gone).values(), *replaced.values()}
        written = self._write(change.new, leaving) if change.new or change.gone else before.change
        gone = self.stored([*change.gone, *replaced]).values()
        after = manifest_after(before, change, replaced, gone, change=written)
        self.announce(change, after.source_hash, self._data)
        checksums.note(self._folder, after)
        write_atomically(self._folder / MANIFEST, after.to_json())
        self._files = open_files(self._folder)
        self.settle()
        Changed.remove_others(self._data, after.change)
        return after

    def _write(self, new: Sequence[Passage], leaving: set[int]) -> str:
        """Write what is changed since the build, with what was changed before."""
        files, first = self._files, len(self._files.passages)
        vectors = self._encoded(new)
        gone = {row for row in leaving if row < first}
        kept: list[int] = []
        if files.changed is not None:
            gone.update(files.changed.gone.tolist())
            kept = [row for row in range(len(files.changed.passages)) if row + first not in leaving]
            vectors = np.concatenate([files.changed.vectors[kept], vectors])
        passages = [*(files.passage(row + first) for row in kept), *new]
        return Changed.write(self._data, passages, vectors, sorted(gone))

    def _encoded(self, passages: Sequence[Passage]) -> Vectors:
        if not passages:
            return np.empty((0, self.manifest.encoder.dimension), np.float32)
        encoder = Encoder.open_for_passages(self.manifest.encoder, self._folder, self._model)
        self._check_same(encoder)
        some = range(0, len(passages), _ENCODED_AT_ONCE)
        return np.concatenate([encoder.passages(passages[start : start + _ENCODED_AT_ONCE]) for start in some])

    def _check_same(self, encoder: Encoder) -> None:
        """Make sure that a passage that is there is found by the vector that the model gives it now."""
        files = self._files
        row = next(row for row in range(len(files)) if files.changed is None or row not in files.changed.gone)
        vector = encoder.passages([files.passage(row)])
        scores, rows = files.search(vector, min(100, self.manifest.passages))
        own = float(vector[0] @ vector[0])
        at = np.flatnonzero(rows[0] == row)
        # Where it is not among the first, others are the same as it.
        score = float(scores[0][at[0] if len(at) else 0])
        if not 0.98 * own <= score <= (1.02 * own if len(at) else np.inf):
            raise RetrievalError(
                f"the model {encoder.settings.model!r} does not give the vectors that the index in {self._folder} has: "
                "name the model that it was built with, or build it again"
            )


@contextmanager
def changing(folder: str, model: str | None) -> Iterator[_DenseChanger]:
    """Open an index to change it, and finish first what a killed process left.

    Args:
        folder: Of the index.
        model: The model that encodes passages; needed where it is not the one that comes as a package.

    Raises:
        RetrievalError: There is no finished index, another process changes it, or it is damaged.
    """
    path = Path(folder)
    with exclusive(path):
        files = open_files(path)
        data = path / files.manifest.data
        with closing(_DenseChanger(path, files, FileTable.open(data), model)) as changer:
            changer.settle()
            Changed.remove_others(data, files.manifest.change)
            yield changer
