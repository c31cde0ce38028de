"""The settings that tuning tries on a program, checked, and the points of its curve."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keqa.errors import ConfigurationError
from keqa.programs.gates import as_fraction
from keqa.programs.keqa import KEQA


@dataclass(frozen=True)
class Grid:
    """The values to try; the program's own are always among them.

    Attributes:
        thresholds: α.
        tries: N_c.
        top_ks: Passages to search for.
        temperatures: Of the tries.
        top_ps: Of the tries; None leaves it to the language model.
    """

    thresholds: tuple[str, ...] = ("0.4", "0.6", "0.8", "1")
    tries: tuple[int, ...] = (3, 5)
    top_ks: tuple[int, ...] = (3, 5, 10)
    temperatures: tuple[float, ...] = (0.7, 1.0)
    top_ps: tuple[float | None, ...] = (None, 0.9)


@dataclass(frozen=True)
class Settings:
    """One choice of the knobs.

    Attributes:
        threshold: α, exactly, such as ``"4/5"``; None where the gate has none, or only its own.
        tries: N_c.
        top_k: Passages to search for.
        temperature: Of the tries.
        top_p: Of the tries.
    """

    threshold: str | None
    tries: int
    top_k: int
    temperature: float
    top_p: float | None


@dataclass(frozen=True)
class Point:
    """A point of the curve: what one choice scores and retrieves.

    Attributes:
        settings: The choice.
        score: Mean correctness.
        retrievals: Mean searches a question.
        objective: Score - λ · retrievals.
        scores: One score a question.
    """

    settings: Settings
    score: float
    retrievals: float
    objective: float
    scores: tuple[float, ...] = ()


@dataclass(frozen=True)
class Knobs:
    """The values that are tried, a program's own first; its own alone of knobs that it does not use.

    Attributes:
        own: The program's own settings.
        thresholds: α.
        tries: N_c.
        top_ks: Passages to search for.
        temperatures: Of the tries.
        top_ps: Of the tries.
    """

    own: Settings
    thresholds: list[str | None]
    tries: list[int]
    top_ks: list[int]
    temperatures: list[float]
    top_ps: list[float | None]

    @classmethod
    def of(cls, program: KEQA, grid: Grid) -> Knobs:
        """Check the values of a grid for a program.

        Raises:
            ConfigurationError: A value cannot work.
        """
        examination = program.examination
        gate: Any = examination.gate
        own = Settings(
            _written(Fraction(str(gate.threshold))) if has_tunable_threshold(gate) else None,
            examination.tries,
            program.top_k,
            examination.temperature,
            examination.top_p,
        )
        examined = program.examine and gate.threshold is not None
        retrieves = program._retriever.value is not None
        found = cls(
            own,
            _values(own.threshold, map(_exact, grid.thresholds if examined and own.threshold else ())),
            _values(own.tries, grid.tries if examined else ()),
            _values(own.top_k, grid.top_ks if retrieves else ()),
            _values(own.temperature, grid.temperatures if examined else ()),
            _values(own.top_p, grid.top_ps if examined else ()),
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
    return gate.threshold is not None and any(field.name == "threshold" and field.init for field in fields)


def _values(own: Any, others: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys([own, *others]))


def _exact(threshold: str) -> str:
    return _written(as_fraction(threshold))


def _written(fraction: Fraction) -> str:
    return f"{fraction.numerator}/{fraction.denominator}"
