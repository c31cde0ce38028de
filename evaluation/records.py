"""Run files: what one method answered on one data set, a line a question.

Everything that compares methods reads these files alone, with `keqa.evaluation.run_file`. A file is only appended to:
of two headers, and of two lines of one question, the later one stands. docs/run-files.md shows one.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SerializerFunctionWrapHandler, model_serializer

from keqa.data.question import AnswerType
from keqa.metrics.answers import is_abstention
from keqa.programs.arguments import exact
from keqa.programs.gates import GATES, VoteGate
from keqa.programs.records import Failure, QuestionRecord
from keqa.retrievers.engines import ENGINES
from keqa.storage.journal import changes

FORMAT = 3
"""Version of the layout of a run file."""

_Count = Annotated[int, Field(ge=0)]


class RunSettings(BaseModel):
    """Everything that the answers of a run depend on; docs/run-files.md says what each field of a run file is."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    keqa: str = ""
    program: str = ""
    settings: dict[str, JsonValue] = {}
    prompts: str = ""
    learned: str | None = None
    reference: dict[str, JsonValue] | str | None = None
    models: dict[str, dict[str, JsonValue]] = {}
    index: dict[str, JsonValue] | None = None
    arguments: dict[str, JsonValue] = {}
    golds: JsonValue = None

    @model_serializer(mode="wrap")
    def _as_described(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what nobody gave, so that a file holds what `keqa.evaluation.evaluate.describe` says."""
        return {name: value for name, value in serialize(self).items() if name in self.model_fields_set}

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
        """What the gate compares with, whichever it is: α of the vote, of the random gate its share of quizzes."""
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
        index = self.index or {}
        titles = {"HybridRetriever": "hybrid", **{engine.retriever: engine.title for engine in ENGINES.values()}}
        # Without a kind the name is all there is; with one, the data set distinguishes two corpora of one kind.
        kind = index.get("kind")
        named = titles.get(str(kind), kind) if kind else index.get("name")
        return str(named) if named else None

    @property
    def lm(self) -> str | None:
        """The language model of the task role (Table 4)."""
        named = self.models.get("task", {}).get("model")
        return str(named) if named else None

    @property
    def lacks_reference(self) -> bool:
        """Whether passages are found and judged one by one, and the judge is shown no examples."""
        variant = self.reference.get("variant") if isinstance(self.reference, dict) else self.reference
        shown = variant != "none" if self.reference else False
        return self.settings.get("pick") is True and self.index is not None and not shown


def _number(settings: Mapping[str, JsonValue]) -> float | None:
    try:
        return float(exact(settings["threshold"]))
    except (KeyError, ValueError):
        return None


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RunHeader(_Written):
    """What was run."""

    format: int = FORMAT
    method: str
    label: str
    dataset: str
    split: str = ""
    seed: int = 0
    ids: list[str]
    configuration: RunSettings
    fingerprint: str
    command: str = ""
    compiled: str = ""
    demonstrations: dict[str, _Count] = {}
    left_out: dict[str, _Count] = {}
    learned_from: list[str] = []
    learned_unknown: bool = False


Content: TypeAlias = tuple[str, tuple[str, ...], AnswerType, tuple[str, ...]]
"""A question, its gold answers, its type of answer and its choices: with another of them it is another one."""


class RunLine(_Written):
    """One question and what became of it."""

    id: str
    question: str
    answers: list[str]
    answer_type: AnswerType = "short"
    kind: str = ""
    answer: str | None = None
    scores: dict[str, Annotated[float, Field(ge=0, le=1)]]
    record: QuestionRecord | None = None
    error: Failure | None = None
    seconds: float = Field(0.0, ge=0)
    choices: list[str] = []
    golds: dict[str, list[str]] | None = None
    quiz_golds: dict[str, list[str]] | None = None

    @property
    def right(self) -> bool:
        """Whether the answer is right: by exact match, which of yes/no questions and choices is their accuracy."""
        return self.scores.get("em", self.scores.get("accuracy", 0.0)) >= 1

    @property
    def failed(self) -> bool:
        return self.error is not None

    @property
    def impairments(self) -> list[str]:
        """What failed on the way to its answer and decided something, by the errors' class names; none of a failure."""
        notes = [] if self.failed or self.record is None else self.record.degradations
        return [note.cause for note in notes if note.touches]

    @property
    def touched(self) -> bool:
        """Whether a failure decided something: the question has no answer, or one that is `impairments`' as well."""
        return self.failed or bool(self.impairments)

    @property
    def declined(self) -> bool:
        """Whether it was answered by saying that it is not known, or that the documents do not say it."""
        return self.answer is not None and (self.unanswered or is_abstention(self.answer, self.choices or self.answers))

    @property
    def answered(self) -> bool:
        """Whether it has an answer that does not say so."""
        return self.answer is not None and not self.declined

    @property
    def unanswered(self) -> bool:
        """Whether the finding was that the documents do not say it."""
        return self.record is not None and self.record.unanswered is not None

    @property
    def content(self) -> Content:
        return self.question, tuple(self.answers), self.answer_type, tuple(self.choices)


Line = TypeVar("Line", bound=Any)


@dataclass(frozen=True)
class Run(Generic[Line]):
    """A run file in memory: what was run, and the questions that were asked, in the order of the header's ids."""

    header: RunHeader
    lines: list[Line]

    @property
    def finished(self) -> bool:
        """Whether every question was asked, with or without an answer."""
        return {line.id for line in self.lines} == set(self.header.ids)

    @property
    def failed(self) -> list[Line]:
        return [line for line in self.lines if line.failed]


def header_line(header: RunHeader) -> bytes:
    """A line of a run file that says what is run: the first one, or one that replaces it."""
    seldom = ("compiled", "demonstrations", "left_out", "learned_from", "learned_unknown")
    return _line({"header": _dumped(header, seldom)})


def run_line(line: RunLine) -> bytes:
    """A further line of a run file; it begins with its id."""
    return _line(_dumped(line, ("choices", "golds", "quiz_golds")))


def _dumped(model: BaseModel, seldom: Collection[str]) -> dict[str, Any]:
    """As JSON, without those of some fields that hold their defaults."""
    fields = type(model).model_fields
    return model.model_dump(
        mode="json", exclude={name for name in seldom if getattr(model, name) == fields[name].default}
    )


def _line(value: Any) -> bytes:
    # A language model may reply with half a surrogate pair, which no reader of the file would take.
    return json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def differences(before: RunHeader, now: RunHeader) -> list[str]:
    names = ("method", "dataset", "split", "seed")
    there, here = (
        {name: getattr(run, name) for name in names} | run.configuration.model_dump(mode="json")
        for run in (before, now)
    )
    return changes(there, here)
