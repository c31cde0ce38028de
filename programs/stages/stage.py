"""What the stages of the program have in common."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import dspy

from keqa.programs.calls.session import CallLimiter, Session, context, run_blocking
from keqa.programs.predictor import Predictor, checked_states, detached


class RoleLMs(Protocol):
    """A language model for each role, such as `keqa.lms.Roles`."""

    @property
    def task(self) -> Any:
        """Decomposes, answers and summarizes (the paper's L)."""

    @property
    def consistency(self) -> Any:
        """Judges whether two answers mean the same (D_s)."""

    @property
    def utility(self) -> Any:
        """Judges whether a passage helps (D_u)."""


class Stage(dspy.Module):
    """A part of the program with a logic of its own, written once as the coroutine `run`."""

    # By attribute name the role of each predictor, and the signature of each that it has whatever its settings; and the
    # settings of a program that attributes of the same name have the values of.
    roles: ClassVar[Mapping[str, str]] = {}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {}
    follows: ClassVar[tuple[str, ...]] = ()

    def __init__(self, bound: CallLimiter | None = None) -> None:
        super().__init__()
        self.bound = bound or CallLimiter(16)
        for name, signature in self.signatures.items():
            setattr(self, name, Predictor(signature))

    @property
    def optional(self) -> Mapping[str, type[dspy.Signature]]:
        """The predictors that it has with some settings only, and their signatures."""
        return {}

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do the stage's work through the calls of the question that is answered."""
        raise NotImplementedError

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the stage by itself, blocking; see `run` for the arguments."""
        return run_blocking(lambda: Session(self.bound, blocking=True).run(self.run(*args, **kwargs)))

    async def aforward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the stage; within a question, through its calls."""
        work = self.run(*args, **kwargs)
        return await (work if context().session else Session(self.bound, blocking=False).run(work))

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a predictor is told its role."""
        if name in self.roles and isinstance(value, dspy.Predict):
            value.role = self.roles[name]
        super().__setattr__(name, value)

    def named_parameters(self) -> list[tuple[str, Any]]:
        """As DSPy's, which looks for parameters in the history of calls as well, for longer with each call."""
        without_history: list[tuple[str, Any]] = super(Stage, copy.copy(self)).named_parameters()
        return without_history

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The state that DSPy saves, without endpoints and keys."""
        return {name: detached(part).dump_state(json_mode=json_mode) for name, part in self.named_parameters()}

    def load_state(self, state: Mapping[str, Any], *, allow_unsafe_lm_state: bool = False) -> None:
        """Load a saved state, which may come from a stranger; the language models stay as they are bound."""
        checked = checked_states(state, dict(self.named_parameters()), self.optional, type(self).__name__)
        with keeping_lms(self):
            super().load_state(checked)

    def bind_lms(self, lms: RoleLMs | None) -> None:
        """Give each predictor the language model of its role; None leaves them to ``dspy.settings.lm``."""
        for name, role in self.roles.items():
            getattr(self, name).set_lm(None if lms is None else getattr(lms, role))


@contextmanager
def keeping_lms(module: dspy.Module) -> Iterator[None]:
    """Give each predictor back the language model that it had, even one that is no `Predictor` of KEQA's."""
    bound = [(predictor, predictor.lm) for predictor in module.predictors()]
    try:
        yield
    finally:
        for predictor, lm in bound:
            predictor.lm = lm
