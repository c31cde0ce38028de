"""The gate that decides by a boundary model: it sees what consistency cannot, and needs one draw or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from os import PathLike
from typing import Annotated, Any, Literal

from keqa.errors import ConfigurationError
from keqa.programs.arguments import Kind, Share, Word, checked, fraction_text
from keqa.programs.boundary.files import model_from, read_model
from keqa.programs.boundary.model import BoundaryError, BoundaryModel, Judgement, Signals
from keqa.programs.gates.base import IF_ANY, GateNote, NamedGate
from keqa.programs.gates.votes import Votes, reaches


def _model(value: Any) -> BoundaryModel:
    """A boundary model, from its file or its JSON values where it is not made yet."""
    if isinstance(value, str | PathLike):
        return read_model(value)  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        return model_from(value)
    if isinstance(value, type) or not all(hasattr(value, name) for name in ("judge", "reads", "written", "spec")):
        raise ValueError("keqa boundary train makes the file of one")
    return value  # type: ignore[no-any-return]


THRESHOLD = Fraction(4, 5)
"""Of a gate that is given none."""

MODEL = Kind("a boundary model, or its file", _model)


@checked
@dataclass(frozen=True)
class BoundaryGate(NamedGate):
    """Known where a boundary model says so (KBM, section 2.4).

    What the model reads decides what a verdict costs: of ``quiz`` nothing is drawn, of ``draft`` one answer, which is
    then the answer of a known quiz, of ``draws`` all. Its draws are its own, and not those that other gates of a
    comparison share. They are made with the probabilities of their tokens; where the LM gives none the model judges by
    the texts, and a note says so. Where the model cannot judge, the quiz is unknown.

    Attributes:
        model: A boundary model, or its file.
        of: Which of its two judgements counts.
        threshold: What that is compared with.
    """

    method = "gate-boundary"
    title = "Boundary model"
    kind = "boundary model"
    asks = IF_ANY
    shares_draws = False

    model: Annotated[Any, MODEL] = field(hash=False)
    of: Literal["mastery", "certainty"] = "mastery"
    threshold: Annotated[Fraction, Share] = THRESHOLD
    name: Word = "boundary model"

    @classmethod
    def check_saved(cls, values: Mapping[str, Any]) -> None:
        """Refuse a saved program that names a file instead of holding its model.

        Raises:
            ConfigurationError: It does.
        """
        if not isinstance(values.get("model"), Mapping):
            raise ConfigurationError("a saved BoundaryGate holds its model, and opens no file")

    @property
    def needs_all_draws(self) -> bool:
        """Whether its model reads all draws."""
        return bool(self.model.reads == "draws")

    def decide(self, votes: Votes) -> bool | None:
        """Known or not, once so much is drawn as the model reads; without an answer from a draw it is not."""
        if self.wave(votes):
            return None
        if self.model.reads != "quiz" and not votes.sizes:
            return False
        measure = self.measure(votes)
        return measure is not None and reaches(measure, self.threshold)

    def wave(self, votes: Votes) -> int:
        """What is left of the draws that the model reads."""
        return max(0, {"quiz": 0, "draft": 1, "draws": votes.tries}[self.model.reads] - votes.drawn)

    def measure(self, votes: Votes) -> float | None:
        """What the model says; None where it cannot judge."""
        try:
            return float(getattr(self._judged(votes), self.of))
        except BoundaryError:
            return None

    def notes(self, votes: Votes) -> list[GateNote]:
        """Whether the model could not judge, or judged without the probabilities that it was trained with."""
        try:
            self._judged(votes)
        except BoundaryError as error:
            return [GateNote("boundary", "BoundaryError", str(error), "taken for unknown")]
        read = Signals.of(votes)
        if self.model.uses_probabilities and any(votes.answers) and not read.has_probabilities:
            message = "the language model gave no token probabilities, which the boundary model was trained with"
            return [GateNote("boundary", "NoProbabilities", message, "judged by the texts alone", harmless=True)]
        return []

    def why_stopped(self, votes: Votes) -> str | None:
        """What the model said of what it read."""
        measure = self.measure(votes)
        if measure is None or (votes.drawn and not votes.sizes):
            return None
        texts = {"quiz": "the quiz alone decides", "draft": "one draft decides", "draws": "all draws decide"}
        said = texts[self.model.reads]
        than = "reaches" if reaches(measure, self.threshold) else "is below"
        return f"{said}: {self.of} {measure:.2f} {than} {fraction_text(self.threshold)}"

    def _judged(self, votes: Votes) -> Judgement:
        signals = Signals.of(votes)
        # What else is drawn once the draft has decided, to choose an answer, changes no verdict.
        if self.model.reads == "draft":
            signals = signals.draft
        judged: Judgement = self.model.judge(votes.quiz, signals)
        return judged
