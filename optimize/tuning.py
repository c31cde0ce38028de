"""Tuning the settings of a program, for F1 - λ · retrievals - μ · calls on the validation split.

For each temperature, and then each top-p, all pairs of α and N_c are scored on the same draws; then top-k and whatever
else is tried, each with the best of the others. Where a boundary model was trained, it decides in the gate's place at
each of its thresholds, and what hangs on the gate is then tried once more. By what questions are settled comes last
(`keqa.optimize.settling`).
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import fmean
from typing import Any, Self

import dspy

from keqa.data.example import Example
from keqa.errors import ConfigurationError
from keqa.optimize.asking import Asking, Calls, silent, state_of
from keqa.programs.arguments import Share
from keqa.programs.boundary.light import BoundaryModel
from keqa.programs.calls.predictor import fine_tuned, trained_on_prompts
from keqa.programs.declared import DeclaredKeqa, about
from keqa.programs.gate import IF_ANY, as_fraction, asks
from keqa.programs.gates import BoundaryGate
from keqa.programs.keqa import KEQA
from keqa.programs.records import fraction_text
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.settings import CHOOSERS
from keqa.programs.stage import Stage

BOUNDARY = "boundary_threshold"
"""What is compared with the judgement of a boundary model, where one was trained."""

GRID: Mapping[str, Sequence[Any]] = {
    **{name: one.tried for name, (_, one) in about(DeclaredKeqa).items() if one.tried},
    BOUNDARY: ("0.5", "0.6", "0.7", "0.8", "0.85", "0.9"),
}
"""The values to try by setting, the program's own besides."""

SETTLE = "settle"
_DRAWING = ("threshold", "tries", "temperature", "top_p", BOUNDARY)
"""What is not tried by itself: all pairs of the first two are, with each of the others."""
_APART = (*_DRAWING, SETTLE)


@dataclass(frozen=True)
class Point:
    """What one choice scores, and how many searches, replies and tokens a question it takes.

    Of its settings α is as ``"4/5"``, None where the gate has none or only its own; `boundary` says whether the
    boundary model decides that was trained. The objective is score - λ · retrievals - μ · calls.
    """

    settings: Mapping[str, Any]
    score: float
    retrievals: float
    objective: float
    scores: tuple[float, ...] = ()
    calls: float = 0.0
    tokens: float = 0.0


def own_choice(program: KEQA) -> dict[str, Any]:
    """What a program has of what can be tried."""
    own = {name: getattr(program.settings, name) for name in GRID if name != BOUNDARY}
    gate: Any = program.gate
    threshold = fraction_text(Fraction(str(gate.threshold))) if has_tunable_threshold(gate) else None
    return {**own, "threshold": threshold, "boundary": False}


def values_to_try(program: KEQA, grid: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """The values that are tried, a program's own first; its own alone of settings that it does not use."""
    if not isinstance(grid, Mapping) or grid.keys() - GRID.keys():
        strange = sorted(grid.keys() - GRID.keys()) if isinstance(grid, Mapping) else grid
        raise ConfigurationError(f"grid must be values by setting, of {', '.join(GRID)}, not {strange!r:.80}")
    found: dict[str, tuple[Any, ...]] = {}
    own, used = own_choice(program), _used(program)
    for name, default in GRID.items():
        values = _several(grid.get(name, default))
        if name == BOUNDARY:
            found[name] = tuple(map(_share, values))
            continue
        for value in values:
            # A cascade has a chooser, which is learned first.
            if value != "cascade":
                program.settings.changed({name: value}, "grid")
        if name == SETTLE:
            # A draft is no answer that documents give, a reading without a retriever is one more; a cascade reads.
            reads = program.retriever is not None
            leaves_out = {"draft": program.declines, "reading": not reads}
            leaves_out["cascade"] = not reads or "reading" not in values
            values = [way for way in values if not leaves_out.get(way)]
        if name == "threshold":
            values = [fraction_text(as_fraction(value)) for value in values]
        found[name] = tuple(dict.fromkeys([own[name], *(values if used[name] else ())]))
    gate: Any = program.gate
    for threshold in found["threshold"][1:]:
        try:
            dataclasses.replace(gate, threshold=Fraction(threshold))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the gate {gate.name!r} cannot be given the threshold {threshold} ({error}): give grid={{'threshold': "
                "()}, which leaves its threshold alone"
            ) from error
    return found


def _several(values: Any) -> Iterable[Any]:
    """Values to try, of which there may be one alone."""
    return (values,) if isinstance(values, str) or not isinstance(values, Iterable) else values


def has_tunable_threshold(gate: Any) -> bool:
    """Whether a gate can be made again with another threshold: a dataclass that has it as a field."""
    fields = dataclasses.fields(gate) if dataclasses.is_dataclass(gate) else ()
    return gate.threshold is not None and any(one.name == "threshold" and one.init for one in fields)


def _used(program: KEQA) -> dict[str, bool]:
    examined = program.examine and program.gate.threshold is not None
    retrieves = program.retriever is not None
    judged = program.pick and retrieves
    reference = program.reference
    lm = program.decomposition.decompose.lm or dspy.settings.lm
    forms = not fine_tuned(lm)
    # Where a reference calls no source of passages unreliable, nothing is left out.
    plain = isinstance(reference, UtilityReference)
    doubts = bool(reference.unreliable_sources()) if plain else hasattr(reference, "source_of")  # type: ignore[union-attr]
    return {
        **dict.fromkeys(("tries", "temperature", "top_p"), examined),
        **dict.fromkeys(("summarize_single", "summarize_known"), program.decompose),
        "read_together": program.decompose and retrieves,
        "reason": retrieves and not program.declines and not program.select and program.extract_sentences is None,
        # Who set another way wants that.
        SETTLE: program.settle == "quizzes",
        "threshold": examined and has_tunable_threshold(program.gate),
        "draft": forms and program.decompose and program.examine,
        "cite": forms and judged and not program.select and program.extract_sentences is None,
        **dict.fromkeys(("top_k", "pick"), retrieves),
        # A model that was trained on the prompts knows no more passages than it learned with.
        "expand": retrieves and not trained_on_prompts(lm),
        "list_step": program.style == "list" and retrieves,
        "listwise": judged,
        "prefer_reliable": judged and doubts,
        "on_nothing_helpful": examined and judged,
    }


def _share(threshold: Any) -> str:
    try:
        return fraction_text(Share.read(threshold))
    except ValueError:
        raise ConfigurationError(f"{BOUNDARY} must be {Share.allowed}, not {threshold!r:.80}") from None


@dataclass
class Tuning:
    """The settings that were tried, each a point of the curve, and what is best of them."""

    start: KEQA
    valset: Sequence[Example]
    asking: Asking
    cost_per_retrieval: float = 0.0
    cost_per_call: float = 0.0
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    boundary: BoundaryModel | None = None
    forms: Mapping[str, Stage] = field(default_factory=dict)
    """Stages of one call and the summary, by their names in a program, with what they learned."""

    def __post_init__(self) -> None:
        program, boundary = self.start, self.boundary
        self.own, self.values = own_choice(program), values_to_try(program, self.grid)
        wanted = asks(program.gate)
        likely: Any = wanted == "probabilities"
        choosing = len(self.values[SETTLE]) > 1 or program.arbiter is not None
        if not likely and (boundary is not None or wanted == IF_ANY or choosing):
            likely = IF_ANY
        self.draws = Calls(probabilities=likely, largest=max(self.values["tries"]), store=self.asking.journal)
        self.drawing = self.asking.on(self.draws, progress=silent)
        self.twin, self.state = self.draws.sharing(program), state_of(program)
        self.together, self.summarizing = self.twin.picking.listwise_judge(), self.twin.summarizing
        self.curve: list[Point] = []
        count = {name: len(values) for name, values in self.values.items()}
        others = sum(count[name] - 1 for name in self.values if name not in _APART)
        self.total = count["threshold"] * count["tries"] * (count["temperature"] + count["top_p"] - 1) + others
        if boundary is not None:
            self.total += count[BOUNDARY] + others

    def run(self) -> Self:
        self._score(self.own)
        for temperature in self.values["temperature"]:
            self._pairs({**self.own, "temperature": temperature})
        for top_p in self.values["top_p"]:
            self._pairs({**self.best.settings, "top_p": top_p})
        self._others(boundary=False)
        for threshold in self.values["threshold"] if self.best.settings["draft"] else ():
            # What was a share of the draws is then a draft's probability.
            self._score({**self.best.settings, "threshold": threshold})
        if self.boundary is not None and self.values[BOUNDARY]:
            # The model was trained on draws like the program's own.
            drawn = {name: self.own[name] for name in ("temperature", "top_p")}
            chosen = {**self.best.settings, "boundary": True, **drawn}
            for threshold in self.values[BOUNDARY]:
                self._score({**chosen, "threshold": threshold})
            self._others(boundary=True)
        return self

    def _pairs(self, choice: Mapping[str, Any]) -> None:
        for tries in self.values["tries"]:
            for threshold in self.values["threshold"]:
                self._score({**choice, "tries": tries, "threshold": threshold})

    def _others(self, *, boundary: bool) -> None:
        """Try what has few values, each with the best of the others."""
        for name, values in self.values.items():
            chosen = self.best_of(boundary=boundary).settings
            for value in values if name not in _APART else ():
                self._score({**chosen, name: value})

    def best_of(self, *, boundary: bool) -> Point:
        """The best point with or without the boundary model."""
        return max((one for one in self.curve if one.settings["boundary"] == boundary), key=_rank)

    @property
    def best(self) -> Point:
        return max(self.curve, key=_rank)

    @property
    def program(self) -> KEQA:
        return self.program_of(self.best.settings)

    def program_of(self, choice: Mapping[str, Any], **choosers: Any) -> KEQA:
        chosen: KEQA = self.start.deepcopy()
        chosen.change(**self.changes(choice), **choosers)
        self._take_forms(chosen)
        return chosen

    def _take_forms(self, program: KEQA) -> None:
        """Give a program the stages of one call that it has as they were learned, and the summary of a single quiz."""
        had = {name: getattr(program, name) for name in self.forms if name != "summarizing" or program.summarize_single}
        taken = {name: self.forms[name] for name, stage in had.items() if stage is not None}
        for name, stage in taken.items():
            setattr(program, name, stage)
        if taken:
            program.learned = self.asking.origins.known_to(program)

    def changes(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that a choice means, with the gate that decides."""
        gate, threshold = self.start.gate, choice["threshold"]
        if choice["boundary"] and self.boundary is not None:
            gate = BoundaryGate(self.boundary, threshold=Fraction(threshold))
        elif threshold not in (None, self.own["threshold"]):
            gate = dataclasses.replace(gate, threshold=Fraction(threshold))
        return {**{name: choice[name] for name in GRID if name not in ("threshold", BOUNDARY)}, "gate": gate}

    def _score(self, choice: Mapping[str, Any]) -> None:
        if any(choice == point.settings for point in self.curve):
            return
        self.curve.append(self.measured(choice))
        self.asking.progress("tuning", len(self.curve), max(self.total, len(self.curve)))

    def measured(self, choice: Mapping[str, Any], **choosers: Any) -> Point:
        """Score a choice on calls that all have in common."""
        own = {name: getattr(self.start, name) for name in CHOOSERS}
        self.twin.change(**self.changes(choice), **own | choosers)
        if choice["listwise"]:
            self.twin.picking.together = self.together
        self.twin.summarizing = self.summarizing
        self._take_forms(self.twin)
        count = len(self.valset)
        traces = self.drawing.traces(self.twin, self.valset, "tuning", self.state)
        scores = tuple(trace.score for trace in traces)
        costs = [trace.record.cost for trace in traces if trace.record is not None]
        searches, replies = sum(one.retrievals for one in costs) / count, sum(one.samples for one in costs) / count
        tokens, score = sum(one.total.tokens for one in costs) / count, fmean(scores)
        objective = score - self.cost_per_retrieval * searches - self.cost_per_call * replies
        return Point(choice, score, searches, objective, scores, replies, tokens)


def _rank(point: Point) -> tuple[float, float]:
    return round(point.objective, 12), -point.retrievals
