"""Which failures are worth another attempt."""

from __future__ import annotations

from dspy.utils import exceptions

__all__ = ["may_pass"]

_PASSING = (
    exceptions.LMTransportError,
    exceptions.LMTimeoutError,
    exceptions.LMRateLimitError,
    exceptions.LMServerError,
    exceptions.LMLockTimeoutError,
)


def may_pass(cause: str) -> bool:
    """Whether an error of this class name is one that another attempt may not meet: such a failure is not kept."""
    kind = getattr(exceptions, cause, None)
    return cause == "RetrievalError" or (isinstance(kind, type) and issubclass(kind, _PASSING))
