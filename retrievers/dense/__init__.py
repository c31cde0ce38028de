"""Dense retrieval: any sentence-transformers model, and FAISS. The extra ``dense`` brings what it needs."""

from __future__ import annotations

from keqa.retrievers.dense.build import build_dense
from keqa.retrievers.dense.encoding import EncoderSettings
from keqa.retrievers.dense.index import DenseManifest, DenseRetriever
from keqa.retrievers.dense.models import LOCAL

__all__ = ["LOCAL", "DenseManifest", "DenseRetriever", "EncoderSettings", "build_dense"]
