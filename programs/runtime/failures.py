"""Which failures are worth another attempt."""

from __future__ import annotations

import builtins

from dspy.utils import exceptions

_PASSING = (
    exceptions.LMTransportError,
    exceptions.LMTimeoutError,
    exceptions.LMRateLimitError,
    exceptions.LMServerError,
    exceptions.LMLockTimeoutError,
    # What a retriever of one's own raises where its server or disk is away.
    OSError,
)


def is_transient(cause: str) -> bool:
    """Whether an error of this class name is one that another attempt may not meet: such a failure is not kept."""
    kind = getattr(exceptions, cause, None) or getattr(builtins, cause, None)
    return cause == "RetrievalError" or (isinstance(kind, type) and issubclass(kind, _PASSING))
