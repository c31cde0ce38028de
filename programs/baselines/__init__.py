"""The methods that KEQA is compared with, asked and recorded alike; docs/deviations.md says how they differ."""

from keqa.programs.baselines.chains import FLARE, IRCoT
from keqa.programs.baselines.kbm import KBM
from keqa.programs.baselines.ks_llm import KSLLM, DocumentReader
from keqa.programs.baselines.one_call import AlwaysRetrieve, ClosedBook
from keqa.programs.baselines.react import ReAct
from keqa.programs.baselines.rowen import Rowen
from keqa.programs.baselines.searchain import SearChain
from keqa.programs.baselines.self_rag import SelfRAG
from keqa.programs.baselines.slimplm import SlimPLM

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
]
