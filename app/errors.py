"""The errors that a user of KEQA may meet. The command line prints their message and exits with code 2.

This module imports nothing of KEQA, so that every room can raise them without a cost.
"""

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


class MissingExtraError(KeqaError):
    """A package is missing that an optional part of KEQA needs.

    Attributes:
        extra: The extra of the ``keqa`` package that brings it.
        what: What was asked for, in the words of the message.
    """

    def __init__(self, extra: str, what: str, also: str = "") -> None:
        """Make the message from the extra.

        Args:
            extra: The extra of the ``keqa`` package, such as ``"local"``.
            what: What was asked for, as the subject of a sentence, such as ``"A local language model"``.
            also: A further command that the user needs, for what an extra cannot name.
        """
        self.extra = extra
        self.what = what
        self.also = also
        steps = " && ".join(step for step in (f"pip install 'keqa[{extra}]'", also) if step)
        super().__init__(f"{what} needs a package that is not installed. Install it with: {steps}")

    def __reduce__(self) -> tuple[type["MissingExtraError"], tuple[str, str, str]]:
        """Rebuild from the arguments, not from the message, when an error crosses a process."""
        return (type(self), (self.extra, self.what, self.also))


class NotInDocumentsError(KeqaError):
    """The documents do not say what was asked, and the program was to raise this instead of saying so or guessing.

    Attributes:
        unanswered: What was asked, searched and read, and why nothing carried (`keqa.programs.records.Unanswered`).
        record: The whole record of the question.
    """

    def __init__(self, unanswered: Any, record: Any = None) -> None:
        """Take the message of the finding.

        Args:
            unanswered: The finding.
            record: The record of the question.
        """
        self.unanswered, self.record = unanswered, record
        super().__init__(unanswered.message)

    def __reduce__(self) -> tuple[type["NotInDocumentsError"], tuple[Any, Any]]:
        """Rebuild from the arguments, not from the message, when an error crosses a process."""
        return (type(self), (self.unanswered, self.record))


class TooManyFailuresError(KeqaError):
    """Too many questions failed for a reason that may pass, so no more are asked; what was finished is kept."""


class RetrievalError(KeqaError):
    """An index is missing, half-built, incompatible or broken, or a search in it failed."""


class StageError(KeqaError):
    """One question failed in one stage: a value with a type, never an empty answer.

    Attributes:
        stage: The stage that failed, such as ``"summarize"``.
        cause: The class name of the exception that made it fail.
        message: What happened, without the stage.
    """

    def __init__(self, stage: str, cause: str, message: str) -> None:
        """Make the message that names stage and cause.

        Args:
            stage: The stage that failed.
            cause: The class name of the exception that made it fail.
            message: What happened.
        """
        self.stage = stage
        self.cause = cause
        self.message = message
        super().__init__(f"{stage} failed ({cause}): {message}")

    def __reduce__(self) -> tuple[type["StageError"], tuple[str, str, str]]:
        """Rebuild from the arguments, not from the message, when an error crosses a process."""
        return (type(self), (self.stage, self.cause, self.message))
