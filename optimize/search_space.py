"""The settings that tuning tries on a program, checked, and the points of its curve."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from keqa.errors import ConfigurationError
from keqa.programs.arguments import Share
from keqa.programs.gates import as_fraction
from keqa.programs.keqa import KEQA
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.stages.quiz_flow import OnNothingHelpful

Switch = Literal["listwise", "summarize_single", "summarize_known", "prefer_reliable"]
"""A setting of a program that is on or off, by the name of its argument."""


@dataclass(frozen=True)
class Grid:
    """The values to try; the program's own are always among them.

    Attributes:
        thresholds: α; among `Knobs`, None of a gate that has none or none but its own.
        tries: N_c.
        top_ks: Passages to search for.
        temperatures: Of the tries.
        top_ps: Of the tries; None leaves it to the language model.
        switches: Settings that are tried both ways.
        nothing_helpful: What answers where no passage is kept.
        boundary_thresholds: What the judgement of a boundary model is compared with, where one was trained.
    """

    thresholds: tuple[str | None, ...] = ("0.4", "0.6", "0.8", "1")
    tries: tuple[int, ...] = (3, 5)
    top_ks: tuple[int, ...] = (2, 3, 5, 10)
    temperatures: tuple[float, ...] = (0.7, 1.0)
    top_ps: tuple[float | None, ...] = (None, 0.9)
    switches: tuple[Switch, ...] = ("listwise", "summarize_single", "summarize_known", "prefer_reliable")
    nothing_helpful: tuple[OnNothingHelpful, ...] = ("largest_cluster", "closed_book")
    boundary_thresholds: tuple[str, ...] = ("0.5", "0.6", "0.7", "0.8", "0.85", "0.9")


@dataclass(frozen=True)
class Settings:
    """One choice of the knobs.

    Attributes:
        threshold: α, exactly, such as ``"4/5"``; None where the gate has none, or only its own.
        tries: N_c.
        top_k: Passages to search for.
        temperature: Of the tries.
        top_p: Of the tries.
        summarize_single: Whether a question that is its own quiz is summarized.
        summarize_known: Whether a blocked question is summarized from what is answered.
        on_nothing_helpful: What answers where no passage is kept.
        boundary: Whether the boundary model decides that was trained, and not the program's own gate.
        listwise: Whether passages are judged in one call.
        prefer_reliable: Whether passages of unreliable sources are left out where others were judged helpful.
    """

    threshold: str | None
    tries: int
    top_k: int
    temperature: float
    top_p: float | None
    summarize_single: bool = False
    summarize_known: bool = False
    on_nothing_helpful: OnNothingHelpful = "largest_cluster"
    boundary: bool = False
    listwise: bool = False
    prefer_reliable: bool = False


@dataclass(frozen=True)
class Point:
    """A point of the curve: what one choice scores and retrieves.

    Attributes:
        settings: The choice.
        score: Mean correctness.
        retrievals: Mean searches a question.
        objective: Score - λ · retrievals - μ · calls.
        scores: One score a question.
        calls: Mean replies of language models a question.
    """

    settings: Settings
    score: float
    retrievals: float
    objective: float
    scores: tuple[float, ...] = ()
    calls: float = 0.0


@dataclass(frozen=True)
class Knobs(Grid):
    """The values that are tried, a program's own first; its own alone of knobs that it does not use.

    Attributes:
        own: The program's own settings.
    """

    own: Settings = field(kw_only=True)

    @classmethod
    def of(cls, program: KEQA, grid: Grid) -> Knobs:
        """Check the values of a grid for a program.

        Raises:
            ConfigurationError: A value cannot work.
        """
        examination = program.examination
        gate: Any = examination.gate
        own = Settings(
            own_threshold(gate),
            examination.tries,
            program.top_k,
            examination.temperature,
            examination.top_p,
            program.summarize_single,
            program.summarize_known,
            program.on_nothing_helpful,
            listwise=program.picking.listwise,
            prefer_reliable=program.picking.prefer_reliable,
        )
        examined = program.examine and gate.threshold is not None
        retrieves = program._retriever.value is not None
        found = cls(
            _values(own.threshold, map(_exact, grid.thresholds if examined and own.threshold else ())),
            _values(own.tries, grid.tries if examined else ()),
            _values(own.top_k, grid.top_ks if retrieves else ()),
            _values(own.temperature, grid.temperatures if examined else ()),
            _values(own.top_p, grid.top_ps if examined else ()),
            _switches(program, grid.switches),
            _values(own.on_nothing_helpful, grid.nothing_helpful if examined and retrieves and program.pick else ()),
            tuple(map(_share, grid.boundary_thresholds)),
            own=own,
        )
        if min(*found.tries, *found.top_ks) < 1 or min(found.temperatures) <= 0:
            raise ConfigurationError("tries and top_ks must be at least 1, the temperatures of tries above 0")
        if not all(top_p is None or 0 < top_p <= 1 for top_p in found.top_ps):
            raise ConfigurationError("the top_ps of tries must be above 0 and at most 1, or None")
        for threshold in found.thresholds[1:]:
            try:
                dataclasses.replace(gate, threshold=Fraction(str(threshold)))
            except (TypeError, ValueError) as error:
                raise ConfigurationError(
                    f"the gate {gate.name!r} cannot be given the threshold {threshold} ({error}): give Grid(thresholds="
                    "()), which leaves its threshold alone"
                ) from error
        return found


def has_tunable_threshold(gate: Any) -> bool:
    """Whether a gate can be made again with another threshold: a dataclass that has it as a field."""
    fields = dataclasses.fields(gate) if dataclasses.is_dataclass(gate) else ()
    return gate.threshold is not None and any(one.name == "threshold" and one.init for one in fields)


def own_threshold(gate: Any) -> str | None:
    """The threshold of a gate as settings have it; None where it cannot be tuned."""
    return _written(Fraction(str(gate.threshold))) if has_tunable_threshold(gate) else None


def _switches(program: KEQA, wanted: Iterable[Any]) -> tuple[Switch, ...]:
    """The switches that a program uses.

    Raises:
        ConfigurationError: There is no such switch.
    """
    judged = program.pick and program._retriever.value is not None
    used: dict[Switch, bool] = {
        "listwise": judged,
        "summarize_single": program.decompose,
        "summarize_known": program.decompose,
        "prefer_reliable": judged and _doubts_sources(program.picking.reference),
    }
    for name in wanted:
        if name not in used:
            raise ConfigurationError(f"switches are {', '.join(used)}, not {name!r:.80}")
    return tuple(name for name in dict.fromkeys(wanted) if used[name])


def _doubts_sources(reference: Any) -> bool:
    """Whether a reference may call a source of passages unreliable; where it calls none so, nothing is left out."""
    if isinstance(reference, UtilityReference):
        return bool(reference.unreliable_sources())
    return hasattr(reference, "source_of")


def _values(own: Any, others: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys([own, *others]))


def _share(threshold: str) -> str:
    try:
        return _written(Share.read(threshold))
    except ValueError:
        raise ConfigurationError(f"boundary_thresholds must be {Share.allowed}, not {threshold!r:.80}") from None


def _exact(threshold: Any) -> str:
    return _written(as_fraction(threshold))


def _written(fraction: Fraction) -> str:
    return f"{fraction.numerator}/{fraction.denominator}"
