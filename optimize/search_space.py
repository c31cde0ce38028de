"""The knobs that tuning turns, and the points of its curve."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Grid", "Point", "Settings"]


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
