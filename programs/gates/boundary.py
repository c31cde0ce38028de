"""The gate that decides by a boundary model: it sees what consistency cannot, and needs one draw or none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from os import PathLike
from typing import Annotated, Any, Literal

from keqa.errors import ConfigurationError
from keqa.programs.arguments import Kind, Share, Word, checked
from keqa.programs.boundary import model_from, read_model
from keqa.programs.boundary.light import BoundaryError, BoundaryModel
from keqa.programs.gate import IF_ANY, Draws, NamedGate, Verdict, reaches
from keqa.programs.records import Degradation, fraction_text

_NEEDED = ("judge", "reads", "uses_probabilities", "written", "spec")


def _model(value: Any) -> BoundaryModel:
    """A boundary model, from its file or its JSON values where it is not made yet."""
    if isinstance(value, str | PathLike):
        return read_model(value)  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        return model_from(value)
    if isinstance(value, type) or not all(hasattr(value, name) for name in _NEEDED):
        raise ValueError(f"keqa boundary train makes the file of one, and one of your own has {', '.join(_NEEDED)}")
    return value  # type: ignore[no-any-return]


MODEL = Kind("a boundary model, or its file", _model)

_DECIDES = {"quiz": "the quiz alone decides", "draft": "one draft decides", "draws": "all draws decide"}


@checked
@dataclass(frozen=True)
class BoundaryGate(NamedGate):
    """Known where a boundary model says so (KBM, section 3.1).

    What the model reads decides what a verdict costs: of ``quiz`` nothing is drawn, of ``draft`` one answer, which is
    then the answer of a known quiz, of ``draws`` all. Its draws are its own, and not those that other gates of a
    comparison share. They are made with the probabilities of their tokens; where the LM gives none the model judges by
    the texts, and a note says so. Where the model cannot judge, the quiz is unknown.
    """

    method = "gate-boundary"
    title = "Boundary model"
    kind = "boundary model"
    asks = IF_ANY
    shares_draws = False

    model: Annotated[Any, MODEL] = field(hash=False)
    of: Literal["mastery", "certainty"] = "mastery"
    threshold: Annotated[Fraction, Share] = Fraction(4, 5)
    name: Word = "boundary model"

    @property
    def waits(self) -> bool:
        return bool(getattr(self.model, "waits", False))

    @classmethod
    def check_saved(cls, values: Mapping[str, Any]) -> None:
        if not isinstance(values.get("model"), Mapping):
            raise ConfigurationError("a saved BoundaryGate holds its model, and opens no file")

    def decide(self, draws: Draws) -> Verdict | int:
        """The model's verdict, once so much is drawn as it reads; without an answer from a draw a quiz is unknown."""
        reads = self.model.reads
        wanted = {"quiz": 0, "draft": 1, "draws": draws.tries}[reads] - draws.drawn
        if wanted > 0:
            return wanted
        try:
            # What else is drawn once the draft has decided, to choose an answer, changes no verdict.
            judged = self.model.judge(draws.quiz, draws.first(1) if reads == "draft" else draws)
        except BoundaryError as error:
            return Verdict(False, note=_note("BoundaryError", str(error), "taken for unknown"))
        measure, note = float(getattr(judged, self.of)), None
        if self.model.uses_probabilities and any(draws.answers) and not draws.has_probabilities:
            message = "the language model gave no token probabilities, which the boundary model was trained with"
            note = _note("NoProbabilities", message, "judged by the texts alone", harmless=True)
        if reads != "quiz" and not draws.sizes:
            return Verdict(False, measure, note=note)
        known = reaches(measure, self.threshold)
        than = "reaches" if known else "is below"
        why = f"{_DECIDES[reads]}: {self.of} {measure:.2f} {than} {fraction_text(self.threshold)}"
        return Verdict(known, measure, why, note)


def _note(cause: str, message: str, action: str, *, harmless: bool = False) -> Degradation:
    return Degradation(stage="boundary", cause=cause, message=message, action=action, harmless=harmless)
