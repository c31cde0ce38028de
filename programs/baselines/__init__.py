"""The methods that KEQA is compared with, asked and recorded alike; docs/deviations.md says how they differ."""

from keqa.programs.baselines.deciding import KBM, Rowen, SelfRAG, SlimPLM
from keqa.programs.baselines.reading import KSLLM, AlwaysRetrieve, ClosedBook, DocumentReader, Standard
from keqa.programs.baselines.steps import FLARE, IRCoT, ReAct, SearChain

__all__ = [
    "FLARE",
    "KBM",
    "KSLLM",
    "AlwaysRetrieve",
    "ClosedBook",
    "DocumentReader",
    "IRCoT",
    "ReAct",
    "Rowen",
    "SearChain",
    "SelfRAG",
    "SlimPLM",
    "Standard",
]
