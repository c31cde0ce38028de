"""The dense retriever over an index in Elasticsearch: its vectors, searched by kNN."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keqa.retrievers.dense.encoding import Encoder, EncoderSettings
from keqa.retrievers.elasticsearch.address import Address, address_and_model, dense_address
from keqa.retrievers.elasticsearch.client import connect
from keqa.retrievers.elasticsearch.lifecycle import Indexes
from keqa.retrievers.elasticsearch.retriever import ElasticsearchRetriever
from keqa.retrievers.elasticsearch.vectors import VectorManifest, knn_body, score_of, with_vectors
from keqa.retrievers.manifest import Manifest
from keqa.retrievers.text import clean_text

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch


class ElasticsearchDenseRetriever(ElasticsearchRetriever):
    """Passages by the likeness of their vectors to a question's, found by approximate kNN (HNSW).

    A hit's score is the cosine or inner product, as that of `keqa.retrievers.dense.DenseRetriever`. Safe to use from
    many threads; see `ElasticsearchRetriever` for what happens when the index is replaced.
    """

    def __init__(self, address: Address, client: Elasticsearch, manifest: Manifest, model: str | None = None) -> None:
        """Take over a connection; use :meth:`open`."""
        super().__init__(address, client, manifest)
        self._model = model
        self._opening = threading.Lock()
        self._opened: tuple[EncoderSettings, tuple[float, ...], Encoder] | None = None

    @classmethod
    def open(cls, address: str, model: str | None = None) -> ElasticsearchDenseRetriever:
        """Open a finished index and the model that encodes questions.

        Args:
            address: ``elasticsearch+dense://host:9200/name``, or with the model ``…/name@model``.
            model: The model that encodes questions, by name or folder, where the address has none; needed where it is
                not the one that comes as a package, as an index may come from anyone.

        Raises:
            InputError: The address is none, or holds credentials.
            ConfigurationError: Credentials, certificate or version do not fit, the index has no vectors, or the model
                cannot be opened or was not named.
            MissingExtraError: The client, or a package that the model needs, is not installed.
            RetrievalError: The cluster cannot be reached, there is no finished index, its manifest is not true, or the
                model is not the one that it was loaded with.
        """
        target, named = address_and_model(address)
        client = connect(target)
        try:
            retriever = cls(target, client, Indexes(client, target).manifest(), named or model)
            retriever._encoder(retriever.manifest)
        except BaseException:
            client.close()
            raise
        return retriever

    @property
    def address(self) -> str:
        """Where the index is."""
        return dense_address(self._address)

    @property
    def manifest(self) -> VectorManifest:
        """What the index that was searched last says about itself."""
        return with_vectors(self._manifest, f"the index {self.address}")

    def reload(self) -> VectorManifest:
        """See the index that the name stands for now."""
        super().reload()
        manifest = self.manifest
        self._encoder(manifest)
        return manifest

    def _encoder(self, manifest: VectorManifest) -> Encoder:
        """The model of questions to an index, opened again where that was loaded with another one."""
        with self._opening:
            if self._opened is None or self._opened[:2] != (manifest.encoder, manifest.probe):
                probe = np.asarray(manifest.probe, np.float32)
                encoder = Encoder.recognised(manifest.encoder, probe, self.address, self._model)
                self._opened = manifest.encoder, manifest.probe, encoder
            return self._opened[2]

    def _bodies(self, manifest: Manifest, queries: Sequence[str], k: int) -> Iterable[dict[str, Any] | None]:
        """The request of each query; None where it has neither letter nor digit."""
        encoder = self._encoder(with_vectors(manifest, f"the index {self.address}"))
        texts = [clean_text(query) for query in queries]
        asked = [text for text in texts if any(map(str.isalnum, text))]
        rows = iter(encoder.queries(asked) if asked else ())
        return (knn_body(next(rows), k) if any(map(str.isalnum, text)) else None for text in texts)

    def _score(self, manifest: Manifest, score: float) -> float:
        """The cosine or inner product behind the score of a hit."""
        return score_of(with_vectors(manifest, f"the index {self.address}").encoder.similarity, score)
