"""What the stages of the program have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import dspy

from keqa.programs.calls import Session
from keqa.programs.concurrency import Bound, run_blocking

__all__ = ["RoleLMs", "Stage"]


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
    """A part of the program with a logic of its own, written once as the coroutine `run`.

    Attributes:
        roles: The role of each predictor, by attribute name.
        bound: How many calls may be in flight; shared with the program that the stage is a part of.
    """

    roles: ClassVar[Mapping[str, str]] = {}

    def __init__(self, bound: Bound | None = None) -> None:
        super().__init__()
        self.bound = bound or Bound(16)

    async def run(self, session: Session, *args: Any, **kwargs: Any) -> Any:
        """Do the stage's work through a session's calls."""
        raise NotImplementedError

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the stage by itself, blocking; see `run` for the arguments."""
        return run_blocking(lambda: self.run(Session(self.bound, blocking=True), *args, **kwargs))

    async def aforward(self, *args: Any, session: Session | None = None, **kwargs: Any) -> Any:
        """Run the stage; within a program, through the calls of its session."""
        return await self.run(session or Session(self.bound, blocking=False), *args, **kwargs)

    def bind_lms(self, lms: RoleLMs | None) -> None:
        """Give each predictor the language model of its role; None leaves them to ``dspy.settings.lm``."""
        for name, role in self.roles.items():
            getattr(self, name).set_lm(None if lms is None else getattr(lms, role))
