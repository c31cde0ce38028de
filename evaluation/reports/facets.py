"""What a run was set up with, as far as tables and figures compare runs by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keqa.evaluation.records import RunHeader
from keqa.programs.arguments import exact
from keqa.programs.gates import VoteGate
from keqa.programs.gates.registry import GATES
from keqa.retrievers.engines import ENGINES

__all__ = ["Facets", "facets_of", "gate_threshold"]

_HYBRID = {"HybridRetriever": "hybrid"}


@dataclass(frozen=True, slots=True)
class Facets:
    """The settings that one figure or table each is about; None where the method has no such setting.

    Attributes:
        threshold: α of the vote gate (Figure 4).
        top_k: Passages retrieved before picking (Figure 5).
        gate: What decides whether a quiz is known, thresholds left out.
        retriever: BM25 or another one (Table 3).
        lm: The language model of the task role (Table 4).
    """

    threshold: float | None
    top_k: int | None
    gate: str | None
    retriever: str | None
    lm: str | None


def facets_of(header: RunHeader) -> Facets:
    """Read them from a run's configuration; see `keqa.evaluation.configuration.describe`."""
    settings = _mapping(header.configuration, "settings")
    examines = settings.get("examine") is not False
    gate = _gate(settings.get("gate")) if examines else None
    index = _mapping(header.configuration, "index")
    kind, name = index.get("kind"), index.get("name")
    titles = _HYBRID | {engine.retriever: engine.title for engine in ENGINES.values()}
    retriever = titles.get(str(kind), str(kind)) if kind else None
    lm = _mapping(_mapping(header.configuration, "models"), "task").get("model")
    return Facets(
        threshold=_threshold(settings) if gate == VoteGate.kind else None,
        top_k=settings.get("top_k") if isinstance(settings.get("top_k"), int) else None,
        gate=gate,
        # Without a kind the name is all there is; with one, two corpora of one kind are told apart by the data set.
        retriever=retriever or (str(name) if name else None),
        lm=str(lm) if lm else None,
    )


def gate_threshold(header: RunHeader) -> float | None:
    """What a run's gate compares with, whatever gate it is: α of the vote, of the random gate its share of quizzes.

    None where nothing is examined, and of a gate that compares with nothing.
    """
    settings = _mapping(header.configuration, "settings")
    if settings.get("examine") is False:
        return None
    gate = settings.get("gate")
    # A gate of its own is written with its threshold; that of the vote is a setting by itself.
    return _threshold(gate if isinstance(gate, Mapping) else settings)


def _mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _gate(written: Any) -> str | None:
    """The kind of a gate, with its form where it has several."""
    if isinstance(written, Mapping):
        # VoteGate, CertaintyGate and so on, as `keqa.programs.settings` writes them.
        name = str(written.get("kind", ""))
        kind = GATES[name].kind if name in GATES else name.removesuffix("Gate")
        told = [kind, *(str(written[name]) for name in ("form", "over") if name in written)]
        return " ".join(told)
    return str(written) if written else None


def _threshold(settings: Mapping[str, Any]) -> float | None:
    try:
        return float(exact(settings["threshold"]))
    except (KeyError, ValueError):
        return None
