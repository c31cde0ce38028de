"""Dense retrieval: any sentence-transformers model, and FAISS. The extra ``dense`` brings what it needs."""

from __future__ import annotations

from keqa.retrievers.dense.index import DenseRetriever, build_dense
from keqa.retrievers.dense.models import LOCAL
from keqa.retrievers.manifest import DenseManifest, EncoderSettings

__all__ = ["LOCAL", "DenseManifest", "DenseRetriever", "EncoderSettings", "build_dense"]
