"""Training the boundary model that reads one draft, and all draws where these are worth what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from keqa.optimize.boundary.check import Figures, figures_of, reading_of
from keqa.optimize.boundary.collect import Collected
from keqa.optimize.boundary.labels import readings
from keqa.optimize.boundary.train import EMBEDDER, train_light
from keqa.programs.boundary.model import Judgement
from keqa.programs.boundary.stepwise import Change, StepwiseModel, log_odds

if TYPE_CHECKING:
    from keqa.programs.boundary.light import Aspect


@dataclass(frozen=True)
class TrainedStepwise:
    """A model, and how it fares.

    Attributes:
        model: Trained on all questions.
        held_out: Of models like it that were trained without the questions that they are measured on, with the gate's
            default settings.
    """

    model: StepwiseModel
    held_out: Figures


def train_stepwise(collected: Sequence[Collected], *, embedder: str = EMBEDDER) -> TrainedStepwise:
    """Train a light model for one draft, one for all draws, and how far apart their judgements lie.

    Args:
        collected: What was collected, of one language model; no test split.
        embedder: Of quizzes; see `keqa.optimize.boundary.train_light`.

    Raises:
        InputError: It is of a test split, of several language models, too little, or all of one kind.
        ConfigurationError: The embedder is none of the built-in ones.
        MissingExtraError: A package is missing that it needs.
    """
    draft, draws = (train_light(collected, reads=reads, embedder=embedder) for reads in ("draft", "draws"))
    model = StepwiseModel(
        draft=draft.model,
        draws=draws.model,
        changes={aspect: change(draft.said[aspect], draws.said[aspect]) for aspect in draft.said},
        about=dict(draft.model.about),
    )
    seen = []
    said: dict[Aspect, list[float]] = {"mastery": [], "certainty": []}
    for place, quiz in enumerate(draft.quizzes):
        first = _judgement(draft.said, place)
        more = reading_of(model, quiz, first)
        of = draft.said if more.signals == readings(quiz, "draft")[0].signals else draws.said
        seen.append(more)
        for aspect in said:
            said[aspect].append(of[aspect][place])
    held_out = figures_of(draft.quizzes, seen, said["mastery"], said["certainty"])
    about = {**model.about, "held_out": held_out.as_json()}
    return TrainedStepwise(model.model_copy(update={"about": about}), held_out)


def change(first: Sequence[float], later: Sequence[float]) -> Change:
    """The line and spread by which one judgement follows from another, by least squares over log odds.

    Args:
        first: Judgements of drafts, from 0 to 1.
        later: Those of all draws of the same quizzes.
    """
    import numpy as np

    before, after = (np.array([log_odds(value) for value in values]) for values in (first, later))
    spread = float(np.var(before))
    slope = float(np.mean((before - before.mean()) * (after - after.mean()))) / spread if spread > 0 else 0.0
    offset = float(after.mean() - slope * before.mean())
    return Change(slope=slope, offset=offset, deviation=float(np.std(after - offset - slope * before)))


def _judgement(said: Mapping[Aspect, Sequence[float]], place: int) -> Judgement:
    return Judgement(said["mastery"][place], said["certainty"][place])
