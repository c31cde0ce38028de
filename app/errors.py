"""The errors that a user of KEQA may meet. The command line prints their message and exits with code 2.

This module imports nothing of KEQA, so that every room can raise them without a cost.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class KeqaError(Exception):
    """Base of all errors whose message is meant for the user."""


class InputError(KeqaError):
    """A question, corpus or argument that cannot be used; the message names file and line where there is one."""


class ConfigurationError(KeqaError):
    """A setting that cannot work: an unknown model string, a missing key, contradictory options."""


class StorageError(InputError, ConfigurationError):
    """What keeps finished work cannot be read or written.

    It is no fault of one question, so it ends a batch as a wrong setting does.
    """


class TooManyFailuresError(KeqaError):
    """Too many questions failed for a reason that may pass, so no more are asked; what was finished is kept."""


class RetrievalError(KeqaError):
    """An index is missing, half-built, incompatible or broken, or a search in it failed."""


class _RebuiltError(KeqaError):
    """Is rebuilt from its arguments, not from its message, when it crosses a process."""

    _arguments: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[type["_RebuiltError"], tuple[Any, ...]]:
        return (type(self), self._arguments)


class MissingExtraError(_RebuiltError):
    """A package is missing that an optional part of KEQA needs.

    Attributes:
        extra: The extra of the ``keqa`` package that brings it, such as ``"local"``.
        what: What was asked for, as the subject of a sentence, such as ``"A local language model"``.
        also: A further command that the user needs, for what an extra cannot name.
    """

    def __init__(self, extra: str, what: str, also: str = "") -> None:
        self.extra, self.what, self.also = self._arguments = (extra, what, also)
        steps = " && ".join(step for step in (f"pip install 'keqa[{extra}]'", also) if step)
        super().__init__(f"{what} needs a package that is not installed. Install it with: {steps}")


class NotInDocumentsError(_RebuiltError):
    """The documents do not say what was asked, and the program was to raise this instead of saying so or guessing.

    Attributes:
        unanswered: What was asked, searched and read, and why nothing carried (`keqa.programs.records.Unanswered`).
        record: The whole record of the question.
    """

    def __init__(self, unanswered: Any, record: Any = None) -> None:
        self.unanswered, self.record = self._arguments = (unanswered, record)
        super().__init__(unanswered.message)


class StageError(_RebuiltError):
    """One question failed in one stage: a value with a type, never an empty answer.

    Attributes:
        stage: The stage that failed, such as ``"summarize"``.
        cause: The class name of the exception that made it fail.
        message: What happened, without the stage.
    """

    def __init__(self, stage: str, cause: str, message: str) -> None:
        self.stage, self.cause, self.message = self._arguments = (stage, cause, message)
        super().__init__(f"{stage} failed ({cause}): {message}")


def meant(name: str, known: Iterable[str], *, least: float = 0.6) -> str:
    """What an error about an unknown name says next, where a known one is near it; empty elsewhere."""
    near = get_close_matches(name, known, 1, least)
    return f"; is {near[0]} meant?" if near else ""
