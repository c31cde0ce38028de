"""How to compile, checked before any call is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dspy.teleprompt import Teleprompter

from keqa.errors import ConfigurationError
from keqa.lms.local.training import TrainingOptions
from keqa.optimize.dspy_optimizers import OPTIMIZERS, Budget, check_optimizer, check_own_optimizer, optimizer_settings
from keqa.optimize.search_space import Grid
from keqa.programs.reference.embedding import Embedder

COST_PER_CALL = 0.002
"""μ where none is given: of two programs that answer alike the one with fewer calls is taken, and a hundredth of the
metric is worth five calls."""
COST_PER_RETRIEVAL = 0.02
"""λ where none is given: one search more for each question has to gain two hundredths of the metric. Without it a gate
that searches for nearly everything is as good as one that knows what is known."""

_FEWEST_TRIES, _MOST_TRIES = 5, 1_000

UNREFLECTING = ("bootstrap", "finetune", "none")
"""The optimizers that need no language model to reflect."""


@dataclass(frozen=True)
class Options:
    """How to compile.

    Attributes:
        optimizer: ``bootstrap``, ``gepa``, ``mipro``, ``simba``, ``finetune`` or ``none``; or an optimizer of DSPy's
            of your own making, such as ``dspy.BootstrapFewShotWithRandomSearch(metric=...)``, which gets the metric of
            the compilation where it has none.
        reflection_lm: The language model that reflects (GEPA) or writes prompts (MIPROv2, SIMBA), or its model string.
        budget: Of GEPA, MIPROv2 and SIMBA; see `keqa.optimize.dspy_optimizers.optimize`.
        demos: Demonstrations of a predictor.
        judge_demos: Demonstrations of the consistency judge.
        sets: Sets of demonstrations to score.
        threshold: The final score that a question's decomposition and summary take to be demonstrations.
        reference: Whether to build the utility reference.
        embedder: Finds its demonstrations; see `keqa.programs.reference.embedding.open_embedder`. That of the
            program's own reference where None, or ``hashing`` where it has none.
        tuning: Whether to tune the settings.
        grid: The values to try.
        cost_per_retrieval: λ, what a search costs in the metric's units; None is `COST_PER_RETRIEVAL`.
        seed: Another seed draws other demonstrations.
        in_flight: Questions in work at once.
        training: Of ``finetune``: `keqa.lms.local.training.TrainingOptions` by name.
        cost_per_call: μ, what a reply of a language model costs in the metric's units; None is `COST_PER_CALL`.
        boundary: Whether to train a boundary model and to try it as the gate, where settings are tuned and the program
            has KEQA's own gate.
        boundary_tries: Draws to each quiz that it is trained on.
    """

    optimizer: str | Teleprompter = "bootstrap"
    reflection_lm: Any = None
    budget: Budget | int = "light"
    demos: int = 4
    judge_demos: int = 8
    sets: int = 4
    threshold: float = 0.5
    reference: bool = True
    embedder: Embedder | str | None = None
    tuning: bool = True
    grid: Grid = field(default_factory=Grid)
    cost_per_retrieval: float | None = None
    seed: int = 0
    in_flight: int = 8
    training: Mapping[str, Any] = field(default_factory=dict)
    cost_per_call: float | None = None
    boundary: bool = True
    boundary_tries: int = 10

    def __post_init__(self) -> None:
        if isinstance(self.optimizer, Teleprompter):
            self._check_own_optimizer(self.optimizer)
        elif self.optimizer not in UNREFLECTING:
            reflecting = check_optimizer(self.optimizer, self.reflection_lm, self.budget)
            object.__setattr__(self, "reflection_lm", reflecting)
        elif self.reflection_lm is not None:
            raise ConfigurationError(
                f"reflection_lm is asked by {', '.join(OPTIMIZERS)}; {self.optimizer} asks none. Name one "
                "of them as the optimizer, or leave reflection_lm out"
            )
        elif self.budget != "light":
            raise ConfigurationError(
                f"budget is that of {', '.join(OPTIMIZERS)}; {self.optimizer} has none. Name one of them as the "
                "optimizer, or leave budget out"
            )
        if not isinstance(self.training, Mapping):
            raise ConfigurationError(f"training must be options of training by name, not {self.training!r:.80}")
        if self.training and self.optimizer != "finetune":
            raise ConfigurationError(f"training is that of finetune; {self.optimizer_name} trains no language model")
        TrainingOptions.of({name: value for name, value in self.training.items() if name != "folder"})
        if not isinstance(self.grid, Grid):
            raise ConfigurationError(f"grid must be a keqa.optimize.search_space.Grid, not {self.grid!r}")
        self._check_numbers()

    def _check_numbers(self) -> None:
        if min(self.demos, self.judge_demos, self.sets) < 0 or self.in_flight < 1 or not 0 <= self.threshold <= 1:
            raise ConfigurationError(
                "demos, judge_demos and sets must not be negative, in_flight at least 1, the threshold from 0 to 1"
            )
        for name in ("cost_per_retrieval", "cost_per_call"):
            cost = getattr(self, name)
            if cost is not None and not 0 <= cost < float("inf"):
                raise ConfigurationError(f"{name} must be a number from 0, not {cost}")
        if not _FEWEST_TRIES <= self.boundary_tries <= _MOST_TRIES:
            raise ConfigurationError(
                f"boundary_tries must be from {_FEWEST_TRIES} to {_MOST_TRIES:,}, not {self.boundary_tries}"
            )

    @property
    def retrieval_cost(self) -> float:
        """λ, as it was given or by default."""
        return COST_PER_RETRIEVAL if self.cost_per_retrieval is None else self.cost_per_retrieval

    @property
    def call_cost(self) -> float:
        """μ, as it was given or by default."""
        return COST_PER_CALL if self.cost_per_call is None else self.cost_per_call

    @property
    def own_optimizer(self) -> Teleprompter | None:
        """The optimizer that the user made, where it is one."""
        return self.optimizer if isinstance(self.optimizer, Teleprompter) else None

    @property
    def optimizer_name(self) -> str:
        """What the optimizer is called."""
        return self.optimizer if isinstance(self.optimizer, str) else type(self.optimizer).__name__

    @property
    def optimizer_spec(self) -> Any:
        """What distinguishes the optimizer from others, as JSON."""
        return self.optimizer if isinstance(self.optimizer, str) else optimizer_settings(self.optimizer)

    def _check_own_optimizer(self, optimizer: Teleprompter) -> None:
        check_own_optimizer(optimizer)
        if self.reflection_lm is not None or self.budget != "light":
            name = type(optimizer).__name__
            raise ConfigurationError(f"give reflection_lm and budget to {name}(...) itself, and leave them out here")
