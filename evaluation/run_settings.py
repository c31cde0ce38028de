"""What a run was set up with, as the header of its file holds it, and what of that reports compare runs by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue, SerializerFunctionWrapHandler, model_serializer

from keqa.programs.arguments import exact
from keqa.programs.gates import VoteGate
from keqa.programs.gates.registry import GATES
from keqa.retrievers.engines import ENGINES

_HYBRID = {"HybridRetriever": "hybrid"}


class _Described(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _as_described(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what nobody gave, so that a file holds what `keqa.evaluation.configuration.describe` says."""
        return {name: value for name, value in serialize(self).items() if name in self.model_fields_set}


class ModelSettings(_Described):
    """A language model by its name, and whatever else its replies depend on; see `keqa.programs.fingerprint.lm_spec`.

    Attributes:
        model: As the factory takes it, such as ``openai/gpt-4o``.
    """

    model: str | None = None


class IndexSettings(_Described):
    """A retriever, and whatever else says what it finds; see `keqa.programs.fingerprint.retriever_spec`.

    Attributes:
        kind: Its class.
        name: Of the index.
    """

    kind: str | None = None
    name: JsonValue = None


class RunSettings(_Described):
    """Everything that the answers of a run depend on.

    Attributes:
        keqa: The version that asked.
        program: The class of the method.
        settings: The method's own, by name.
        prompts: A digest of all prompts with their demonstrations.
        learned: A digest of the questions that the program learned from; None where it has learned from none.
        reference: Of the judge of utility: its settings, or the name of a function; None where there is none.
        models: Language models by role, and by predictor where one has another than its role.
        index: What is searched; None where nothing is.
        arguments: What was given to the method, such as ``top_k=5``, by name.
        golds: Where an oracle's gold answers come from; None without an oracle.
    """

    keqa: str = ""
    program: str = ""
    settings: dict[str, JsonValue] = {}
    prompts: str = ""
    learned: str | None = None
    reference: dict[str, JsonValue] | str | None = None
    models: dict[str, ModelSettings] = {}
    index: IndexSettings | None = None
    arguments: dict[str, JsonValue] = {}
    golds: JsonValue = None

    @property
    def gate(self) -> str | None:
        """What decides whether a quiz is known, with its form where it has several; None where nothing is examined."""
        written = self.settings.get("gate")
        if self.settings.get("examine") is False or not written:
            return None
        if not isinstance(written, Mapping):
            return str(written)
        name = str(written.get("kind", ""))
        kind = GATES[name].kind if name in GATES else name.removesuffix("Gate")
        return " ".join([kind, *(str(written[part]) for part in ("form", "over", "of") if part in written)])

    @property
    def threshold(self) -> float | None:
        """α of the vote gate (Figure 4); None with another gate."""
        return _number(self.settings) if self.gate == VoteGate.kind else None

    @property
    def gate_threshold(self) -> float | None:
        """What the gate compares with, whichever it is: α of the vote, of the random gate its share of quizzes.

        None where nothing is examined, and of a gate that compares with nothing.
        """
        if self.settings.get("examine") is False:
            return None
        gate = self.settings.get("gate")
        # A gate of its own is written with its threshold; that of the vote is a setting by itself.
        return _number(gate if isinstance(gate, Mapping) else self.settings)

    @property
    def top_k(self) -> int | None:
        """Passages retrieved before picking (Figure 5)."""
        found = self.settings.get("top_k")
        return found if isinstance(found, int) else None

    @property
    def retriever(self) -> str | None:
        """BM25 or another kind of retriever (Table 3)."""
        if self.index is None:
            return None
        titles = _HYBRID | {engine.retriever: engine.title for engine in ENGINES.values()}
        # Without a kind the name is all there is; with one, the data set distinguishes two corpora of one kind.
        named = titles.get(self.index.kind, self.index.kind) if self.index.kind else self.index.name
        return str(named) if named else None

    @property
    def lm(self) -> str | None:
        """The language model of the task role (Table 4)."""
        task = self.models.get("task")
        return task.model or None if task is not None else None

    @property
    def has_reference(self) -> bool:
        """Whether the judge of utility is shown examples."""
        variant = self.reference.get("variant") if isinstance(self.reference, dict) else self.reference
        return variant != "none" if self.reference else False

    @property
    def lacks_reference(self) -> bool:
        """Whether passages are found and judged one by one, and the judge is shown no examples."""
        return self.settings.get("pick") is True and self.index is not None and not self.has_reference


def _number(settings: Mapping[str, JsonValue]) -> float | None:
    try:
        return float(exact(settings["threshold"]))
    except (KeyError, ValueError):
        return None
