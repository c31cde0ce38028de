"""What a compilation found, for a table and for the folder of the program."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from keqa.metrics.significance import Interval, bootstrap_mean, paired_bootstrap
from keqa.optimize.asking import COUNTED, Trial
from keqa.optimize.failures import Failed
from keqa.optimize.tuning import BOUNDARY, GRID, Point
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.records import CallCost, fraction_text
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.saved_settings import settings_of


class PredictorChange(NamedTuple):
    """What a predictor learned."""

    name: str
    demos_before: int
    demos_after: int
    instruction_before: str
    instruction_after: str


class Change(NamedTuple):
    """A setting before and after."""

    before: Any
    after: Any


@dataclass
class Report:
    """What a compilation did; its steps write into it.

    The first of `trials` is the program as it was; with those in `chosen` a step went on, with the last of them the
    compilation ended. `spent_earlier` lacks the last few requests of a run that was killed. For `settling` see
    `keqa.optimize.settling.Ways.about`, for `sources` `keqa.optimize.compile.sources_of`.
    """

    optimizer: str
    trained_on: int
    validated_on: int
    cost_per_retrieval: float = 0.0
    cost_per_call: float = 0.0
    sources: dict[str, str] = field(default_factory=dict)
    predictors: list[PredictorChange] = field(default_factory=list)
    reference: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Change] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    chosen: list[str] = field(default_factory=list)
    curve: list[Point] = field(default_factory=list)
    boundary: dict[str, Any] | None = None
    settling: dict[str, Any] | None = None
    spent: CallCost = field(default_factory=CallCost)
    spent_earlier: CallCost = field(default_factory=CallCost)
    problems: list[str] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    finetuned_on: dict[str, int] = field(default_factory=dict)
    unreliable_sources: list[str] = field(default_factory=list)

    def compare(self, before: Program, after: Program) -> None:
        """Note what was changed in a program; only KEQA has settings that tuning may change, and a reference."""
        self.predictors, old = [], dict(before.named_predictors())
        for name, new in after.named_predictors():
            # The listwise judge comes with a setting that tuning may have chosen.
            was, shown = (old[name].signature, len(old[name].demos)) if name in old else (new.signature, 0)
            texts = was.instructions, new.signature.instructions
            self.predictors.append(PredictorChange(name, shown, len(new.demos), *texts))
        if not isinstance(before, KEQA) or not isinstance(after, KEQA):
            return
        first, last = before.examination.gate, after.examination.gate
        values, tuned = settings_of(before), settings_of(after)
        self.settings = {"gate": Change(first.name, last.name)}
        self.settings |= {name: Change(values[name], tuned[name]) for name in GRID if name != BOUNDARY}
        # A gate of the user's own may have it as another number.
        thresholds = [None if one.threshold is None else Fraction(str(one.threshold)) for one in (first, last)]
        self.settings["threshold"] = Change(*(None if one is None else fraction_text(one) for one in thresholds))
        reference = after.picking.reference
        if isinstance(reference, UtilityReference):
            self.reference = reference.counts()
            # In words, such as: Herald: 3 of 41 of its …
            self.unreliable_sources = list(map(str, reference.unreliable_sources()))

    @property
    def before(self) -> tuple[float, ...]:
        """The scores of the program as it was on the validation questions."""
        return self.trials[0].scores if self.trials else ()

    @property
    def after(self) -> tuple[float, ...]:
        return next((trial.scores for trial in self.trials if trial.name in self.chosen[-1:]), ())

    @property
    def before_score(self) -> Interval | None:
        """Mean score before with its bootstrap interval; None with fewer than two questions."""
        return _interval(self.before)

    @property
    def after_score(self) -> Interval | None:
        return _interval(self.after)

    @property
    def gain(self) -> Interval | None:
        """How much higher the score is after, with its paired interval over the validation questions.

        The program was chosen on the same questions, so a test split shows less.
        """
        return paired_bootstrap(self.after, self.before) if len(self.before) > 1 else None

    def about(self) -> dict[str, Any]:
        intervals = {"before": self.before_score, "after": self.after_score, "gain": self.gain}
        measured = ("score", "retrievals", "calls", "tokens", "objective")
        return {
            "optimizer": self.optimizer,
            "questions": {"train": self.trained_on, "validation": self.validated_on},
            "score": {name: asdict(one) for name, one in intervals.items() if one is not None},
            "trials": [{"name": one.name, "score": one.score, "kept": one.name in self.chosen} for one in self.trials],
            "predictors": [one._asdict() for one in self.predictors],
            "reference_entries": self.reference,
            "unreliable_sources": self.unreliable_sources,
            "settings_changed": {name: one._asdict() for name, one in self.settings.items()},
            "cost_per_retrieval": self.cost_per_retrieval,
            "cost_per_call": self.cost_per_call,
            "boundary": self.boundary,
            "settling": self.settling,
            "tuning_curve": [{**one.settings, **{name: getattr(one, name) for name in measured}} for one in self.curve],
            "spent": self.spent.model_dump(include=COUNTED),
            "spent_earlier": self.spent_earlier.model_dump(include=COUNTED),
            "failed": [one._asdict() for one in self.failed],
            "problems": self.problems,
            "sources": self.sources,
            **({"finetuned_on": self.finetuned_on} if self.finetuned_on else {}),
        }


def _interval(scores: Sequence[float]) -> Interval | None:
    return bootstrap_mean(scores) if len(scores) > 1 else None
