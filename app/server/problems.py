"""Why a request has no answer: one description for HTTP, for a stream that has begun, and for MCP."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from keqa.errors import ConfigurationError, InputError, KeqaError, MissingExtraError, StageError
from keqa.storage.redaction import without_secrets

log = logging.getLogger("keqa.server")
"""The server's log. It holds no question, answer, passage, key or message of another server."""

_CAUSE = re.compile(r"([A-Za-z]\w{0,60}): ")


class TooBusyError(KeqaError):
    """As many questions as allowed are in work and waiting."""


class TookTooLongError(KeqaError):
    """A question was given up at the server's limit."""


@dataclass(frozen=True)
class HTTPProblem:
    """Why a request has no answer, in the terms of OpenAI's errors."""

    status: int
    message: str
    kind: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        """The body of the answer."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error}


class ProblemError(Exception):
    """Ends a request with a problem."""

    def __init__(self, problem: HTTPProblem) -> None:
        super().__init__(problem.code or problem.kind)
        self.problem = problem


# OpenAI's client makes a request again where a server fails; this header keeps it from paying for a question twice.
_NOT_AGAIN = {"x-should-retry": "false"}


def problem_of(error: Exception, lms: Sequence[Any]) -> HTTPProblem:
    """What whoever asked learns about an error; what only the server's operator should know is logged."""
    if isinstance(error, ProblemError):
        return error.problem
    if isinstance(error, TooBusyError):
        return HTTPProblem(503, str(error), "server_error", "overloaded", headers={"Retry-After": "5"})
    if isinstance(error, TookTooLongError):
        return HTTPProblem(504, str(error), "server_error", "timeout", headers=_NOT_AGAIN)
    if isinstance(error, ConfigurationError | MissingExtraError) and not isinstance(error, InputError):
        found = _CAUSE.match(str(error))
        log.error("a setting cannot work: %s", found.group(1) if found else type(error).__name__)
        message = "the server cannot ask its language model or index; whoever runs it finds out with keqa ask"
        return HTTPProblem(502, message, "server_error", "misconfigured", headers=_NOT_AGAIN)
    if isinstance(error, InputError):
        return HTTPProblem(400, str(error))
    if isinstance(error, KeqaError):
        code = "no_answer" if isinstance(error, StageError) else "failed"
        return HTTPProblem(502, str(without_secrets(str(error), lms)), "server_error", code, headers=_NOT_AGAIN)
    log_fault(error)
    message = "the server has a fault; its log says where"
    return HTTPProblem(500, message, "server_error", "fault", headers=_NOT_AGAIN)


def log_fault(error: BaseException) -> None:
    """Log where a fault was raised; its message may quote a question."""
    place = "".join(traceback.format_tb(error.__traceback__))
    log.error("fault: %s at\n%s", type(error).__name__, place)
