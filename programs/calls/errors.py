"""How one call fails: with an error that the user must see, with a fault in a program, or so that it can be mended."""

import builtins
import re
import traceback
from collections.abc import Sequence
from typing import Any, Self

from dspy.utils import exceptions

from keqa.errors import ConfigurationError, MissingExtraError, StageError
from keqa.programs.records import QuestionRecord
from keqa.storage.redaction import without_keys

# Errors that no other question of a batch would escape: they always reach the user.
_SURFACING = (
    exceptions.LMAuthError,
    exceptions.LMBillingError,
    exceptions.LMConfigurationError,
    exceptions.LMUnsupportedModelError,
    exceptions.LMUnsupportedFeatureError,
    ConfigurationError,
    MissingExtraError,
)
# Faults in the code of a stage, a retriever or a language model: no attempt mends them, and no figure may be made so.
_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    TypeError,
)
# What another attempt may not meet.
_PASSING = (
    exceptions.LMTransportError,
    exceptions.LMTimeoutError,
    exceptions.LMRateLimitError,
    exceptions.LMServerError,
    exceptions.LMLockTimeoutError,
    # What a retriever of one's own raises where its server or disk is away.
    OSError,
)
# The native engines of vLLM and Ollama report an overflow as an invalid request and only the message says so.
_OVERFLOW = re.compile(
    r"context[ _](?:length|window|size)|maximum (?:context|sequence|input|prompt)|max_model_len|too many tokens"
    r"|prompt is too long|input is too long|exceeds? the (?:model|context)",
    re.IGNORECASE,
)
_LONGEST = 20_000
"""Of a server's error so many characters are read."""
# What these trip over is mostly what a server sent.
_CLIENTS = (
    *("litellm", "openai", "httpx", "httpx2", "httpcore", "httpcore2", "dspy._vendor.lm15"),
    *("elasticsearch", "elastic_transport"),
)
# What reads a value out of a reply trips over nothing but the reply, such as one that is nested too deeply.
_READERS = ("dspy.adapters.utils", "json_repair")
# Half a key that a server repeats would be recognised by nothing that takes keys out, so the cut falls beside it.
_WHOLE_WORDS = re.compile(r"(?as).{0,497}(?![\w.~+/=-])")


class CallError(Exception):
    """One leaf call failed in a way that the program can degrade around, by an error of the class `cause`.

    There was `overflow` of the context window, or a reply that was `unusable`; `spoilt` counts these. The only one is
    `reply`, which ends with a line break unless it was cut off, and `served` where a server may give another. One that
    was cut off may have `more_tokens` another time.
    """

    def __init__(
        self,
        cause: str,
        message: str,
        *,
        overflow: bool = False,
        unusable: bool = False,
        spoilt: int | None = None,
        reply: str | None = None,
        served: bool = False,
        more_tokens: int | None = None,
    ) -> None:
        self.cause, self.message, self.more_tokens = cause, _shortened(message), more_tokens
        self.overflow, self.unusable, self.served = overflow, unusable, served
        self.spoilt, self.reply = int(unusable) if spoilt is None else spoilt, reply
        super().__init__(f"{cause}: {self.message}")


class UnansweredError(StageError):
    """A question that has no answer; `record` says what became of it, once that is written."""

    def __init__(self, stage: str, cause: str, message: str, record: QuestionRecord | None = None) -> None:
        super().__init__(stage, cause, message)
        self.record = record

    @classmethod
    def at(cls, stage: str, error: CallError) -> Self:
        return cls(stage, error.cause, error.message)

    def __reduce__(self) -> Any:
        return (type(self), (self.stage, self.cause, self.message, self.record))


def _shortened(message: str) -> str:
    if len(message) <= 500:
        return message
    whole = _WHOLE_WORDS.match(message)
    return (whole.group() if whole else "") + "..."


def typed_error(error: Exception, lms: Sequence[Any] = ()) -> Exception:
    """The error as the program treats it, without keys: one that surfaces, such as a fault, or a `CallError`."""
    if isinstance(error, CallError):
        return error
    if isinstance(error, _FAULTS) and _passed_through(error, _READERS):
        return CallError("AdapterParseError", f"the reply cannot be read: {type(error).__name__}", unusable=True)
    if _is_fault(error):
        return error
    # DSPy reports a fault in a language model's class or engine as an unexpected error.
    if (
        isinstance(error, exceptions.LMUnexpectedError)
        and isinstance(error.__cause__, Exception)
        and _is_fault(error.__cause__)
    ):
        return error.__cause__
    # DSPy's advice to who calls it names arguments that are not KEQA's.
    message = without_keys(str(error)[:_LONGEST].partition("\n\n  To fix:\n")[0], lms)
    if isinstance(error, _SURFACING):
        known = isinstance(error, (ConfigurationError, MissingExtraError))
        return error if known else ConfigurationError(f"{type(error).__name__}: {message}")
    overflow = isinstance(error, exceptions.ContextWindowExceededError) or (
        isinstance(error, exceptions.LMInvalidRequestError) and bool(_OVERFLOW.search(message))
    )
    return CallError(
        type(error).__name__, message, overflow=overflow, unusable=isinstance(error, exceptions.AdapterParseError)
    )


def _is_fault(error: Exception) -> bool:
    return isinstance(error, _FAULTS) and not _passed_through(error, _CLIENTS)


def _passed_through(error: Exception, packages: tuple[str, ...]) -> bool:
    """Whether an error was raised in one of these packages or modules, or in what they had called."""
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(f"{module}.".startswith(tuple(f"{one}." for one in packages)) for module in modules)


def is_transient(cause: str) -> bool:
    """Whether an error of this class name is one that another attempt may not meet: such a failure is not kept."""
    kind = getattr(exceptions, cause, None) or getattr(builtins, cause, None)
    return cause == "RetrievalError" or (isinstance(kind, type) and issubclass(kind, _PASSING))
