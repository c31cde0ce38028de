"""What a dense index says about itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from keqa.errors import RetrievalError
from keqa.retrievers.dense.encoding import EncoderSettings
from keqa.retrievers.dense.vectors import VectorSettings
from keqa.retrievers.layout import MANIFEST, read_text
from keqa.retrievers.left_out import LeftOut
from keqa.retrievers.manifest import DENSE, checked, parse, render

__all__ = ["DenseManifest"]


@dataclass(frozen=True, slots=True)
class DenseManifest:
    """What a dense index says about itself; the entries that it shares are those of `keqa.retrievers.Manifest`.

    Attributes:
        schema_version: Version of this layout.
        name: Name of the index, for messages and reports.
        encoder: The models, and how texts are given to them.
        vectors: How the vectors are searched.
        passages: How many passages the index holds.
        renamed: How many passages had an id that was taken and got a suffix.
        source_hash: The same as that of an embedded index of the same passages.
        sources: The files and folders that the passages came from.
        created: When the build was begun, in UTC.
        data: Folder of the passages and vectors, inside the index folder.
        left_out: What of the sources is not in the index.
    """

    schema_version: int
    name: str
    encoder: EncoderSettings
    vectors: VectorSettings
    passages: int
    renamed: int
    source_hash: str
    sources: tuple[str, ...]
    created: str
    data: str
    left_out: LeftOut = field(default_factory=LeftOut)

    def to_json(self) -> str:
        """Return the manifest as it is written to disk."""
        return render(DENSE, self)

    @classmethod
    def from_json(cls, text: str, where: str) -> DenseManifest:
        """Read a manifest.

        Args:
            text: What :meth:`to_json` wrote.
            where: The file, for the message.

        Raises:
            RetrievalError: The text is no manifest of a dense index, or one of a version that is not understood.
        """
        engine, values = parse(text, where)
        if engine != DENSE:
            raise RetrievalError(f"{where} is that of an index of the engine {engine}: keqa.open_index opens it")
        manifest = checked(cls, values, where)
        for problem in (*manifest.encoder.problems(), *manifest.vectors.problems(manifest.passages)):
            raise RetrievalError(f"{where}: {problem}")
        return manifest

    @classmethod
    def read(cls, folder: Path) -> DenseManifest | None:
        """Read the manifest in a folder; None where there is none.

        Raises:
            RetrievalError: It cannot be read, or is another engine's.
        """
        text = read_text(folder)
        return None if text is None else cls.from_json(text, str(folder / MANIFEST))
