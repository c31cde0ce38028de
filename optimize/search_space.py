"""The settings that tuning tries on a program, checked, and the points of its curve."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keqa.errors import ConfigurationError
from keqa.programs.arguments import Share, fraction_text
from keqa.programs.declared import DeclaredKeqa, about
from keqa.programs.gates import as_fraction
from keqa.programs.keqa import KEQA
from keqa.programs.reference.utility_reference import UtilityReference

BOUNDARY = "boundary_threshold"
"""What is compared with the judgement of a boundary model, where one was trained."""

GRID: Mapping[str, Sequence[Any]] = {
    **{name: one.tried for name, (_, one) in about(DeclaredKeqa).items() if one.tried},
    BOUNDARY: ("0.5", "0.6", "0.7", "0.8", "0.85", "0.9"),
}
"""The values to try by setting, the program's own besides."""


@dataclass(frozen=True)
class Point:
    """A point of the curve: what one choice scores and retrieves.

    Attributes:
        settings: The choice, by setting; α as ``"4/5"``, None where the gate has none or only its own. `boundary` says
            whether the boundary model decides that was trained.
        score: Mean correctness.
        retrievals: Mean searches a question.
        objective: Score - λ · retrievals - μ · calls.
        scores: One score a question.
        calls: Mean replies of language models a question.
    """

    settings: Mapping[str, Any]
    score: float
    retrievals: float
    objective: float
    scores: tuple[float, ...] = ()
    calls: float = 0.0


def own_choice(program: KEQA) -> dict[str, Any]:
    """What a program has of what can be tried."""
    own = {name: getattr(program.settings, name) for name in GRID if name != BOUNDARY}
    return {**own, "threshold": own_threshold(program.gate), "boundary": False}


def values_to_try(program: KEQA, grid: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """The values that are tried, a program's own first; its own alone of settings that it does not use."""
    if not isinstance(grid, Mapping) or grid.keys() - GRID.keys():
        strange = sorted(grid.keys() - GRID.keys()) if isinstance(grid, Mapping) else grid
        raise ConfigurationError(f"grid must be values by setting, of {', '.join(GRID)}, not {strange!r:.80}")
    found: dict[str, tuple[Any, ...]] = {}
    own, used = own_choice(program), _used(program)
    for name, default in GRID.items():
        values = grid.get(name, default)
        if name == BOUNDARY:
            found[name] = tuple(map(_share, values))
            continue
        for value in values:
            program.settings.changed({name: value}, "grid")
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


def has_tunable_threshold(gate: Any) -> bool:
    """Whether a gate can be made again with another threshold: a dataclass that has it as a field."""
    fields = dataclasses.fields(gate) if dataclasses.is_dataclass(gate) else ()
    return gate.threshold is not None and any(one.name == "threshold" and one.init for one in fields)


def own_threshold(gate: Any) -> str | None:
    """The threshold of a gate as a choice has it; None where it cannot be tuned."""
    return fraction_text(Fraction(str(gate.threshold))) if has_tunable_threshold(gate) else None


def _used(program: KEQA) -> dict[str, bool]:
    """Which settings make a difference to a program."""
    examined = program.examine and program.gate.threshold is not None
    retrieves = program.given_retriever is not None
    judged = program.pick and retrieves
    reference = program.reference
    # Where a reference calls no source of passages unreliable, nothing is left out.
    plain = isinstance(reference, UtilityReference)
    doubts = bool(reference.unreliable_sources()) if plain else hasattr(reference, "source_of")  # type: ignore[union-attr]
    return {
        **dict.fromkeys(("tries", "temperature", "top_p"), examined),
        **dict.fromkeys(("summarize_single", "summarize_known"), program.decompose),
        "threshold": examined and has_tunable_threshold(program.gate),
        "top_k": retrieves,
        "listwise": judged,
        "prefer_reliable": judged and doubts,
        "on_nothing_helpful": examined and judged,
    }


def _share(threshold: Any) -> str:
    try:
        return fraction_text(Share.read(threshold))
    except ValueError:
        raise ConfigurationError(f"{BOUNDARY} must be {Share.allowed}, not {threshold!r:.80}") from None
