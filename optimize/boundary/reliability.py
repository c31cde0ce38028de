"""How often quizzes are known that a boundary model takes for so probably known, as a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from keqa.errors import InputError, MissingExtraError
from keqa.optimize.boundary.check import judgements, reading_of
from keqa.optimize.boundary.collect import Collected
from keqa.programs.boundary.model import BoundaryModel

BINS = 10


def reliability(scores: Sequence[float], quality: Sequence[float], bins: int = BINS) -> list[tuple[float, float, int]]:
    """By tenths of the scores: their mean, the share of right answers, and how many there are; empty ones left out.

    Args:
        scores: From 0 to 1.
        quality: How right each answer is.
        bins: How many parts.
    """
    parts: list[list[tuple[float, float]]] = [[] for _ in range(bins)]
    for score, right in zip(scores, quality, strict=True):
        parts[min(bins - 1, int(score * bins))].append((score, right))
    return [
        (sum(score for score, _ in part) / len(part), sum(right for _, right in part) / len(part), len(part))
        for part in parts
        if part
    ]


def draw_reliability(model: BoundaryModel, collected: Sequence[Collected], path: Path) -> None:
    """Draw the mastery that a model states against the answers from memory that are right.

    Args:
        model: Which.
        collected: What it is measured on; questions that it has learned from are left out.
        path: A .png, .pdf or .svg file.

    Raises:
        InputError: It cannot be written, or nothing is left.
        MissingExtraError: matplotlib is missing.
    """
    known = set(getattr(model, "roots", ()))
    quizzes = [quiz for one in collected for quiz in one.quizzes if quiz.root not in known]
    if not quizzes:
        raise InputError("the boundary model has learned from all of these questions: check it on others")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plots", "A drawing") from error
    seen = [reading_of(model, quiz) for quiz in quizzes]
    judged = judgements(model, quizzes, seen)
    scores = [0.0 if one is None else one.mastery for one in judged]
    points = reliability(scores, [one.mastery for one in seen])
    figure = Figure(figsize=(4.5, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axes.plot([said for said, _, _ in points], [right for _, right, _ in points], marker="o")
    for said, right, count in points:
        axes.annotate(str(count), (said, right), xytext=(4, -10), textcoords="offset points", fontsize=8)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="mastery, as stated", ylabel="answers from memory that are right")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be drawn: {error}") from error
