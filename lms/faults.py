"""How a request to a server fails: which errors are tried again and after how long, and what a reply must hold."""

from json import JSONDecodeError
from typing import Any

from dspy.clients._http import retry_after_seconds
from dspy.utils.exceptions import (
    LMConfigurationError,
    LMError,
    LMInvalidRequestError,
    LMProviderError,
    LMRateLimitError,
    LMServerError,
    LMTransportError,
    LMUnexpectedError,
    is_retryable_lm_error,
)

from keqa.storage.redaction import SECRET, known_keys
from keqa.storage.replies import chain, is_of_httpx, too_large

LONGEST_WAIT = 60.0
"""Seconds that a server may ask to wait (Retry-After); beyond them the call fails at once."""

UNREADABLE = "unreadable_reply"
"""The code of an error for what was sent with status 200 and is no reply, and no error of a server either."""

VOID = "void_reply"
"""The code of an error for a reply without an answer; its usage has been reported."""

_LONG_KEY = 16
"""Shorter values of variables may be words that a reply means."""
# What reading a reply of the wrong shape ends with, in LiteLLM's own code; it raises a bare Exception of its own too.
_MISREAD = (JSONDecodeError, TypeError, AttributeError, KeyError, IndexError)
# What the libraries of OpenAI, AWS and Google raise before anything is sent; an answer of a server is of other classes.
_NO_CREDENTIALS = {("openai", "OpenAIError"), ("botocore", "NoCredentialsError"), ("google", "DefaultCredentialsError")}
_OF_REPLIES = {LMInvalidRequestError, LMProviderError, LMUnexpectedError, LMServerError, LMTransportError}


def known(error: LMError, model: str) -> LMError:
    """The error as it is raised, with what LiteLLM leaves out of it; what is no reply is an error of the server's."""
    # What this machine lacks is told by what was raised here, never by a server's words, which could advise to install
    # anything.
    for one in chain(error):
        if isinstance(one, ImportError):
            advice = f"the provider needs a Python package that is not installed: {one}"
            return LMConfigurationError(advice, model=model)
        if (type(one).__module__.split(".")[0], type(one).__name__) in _NO_CREDENTIALS:
            advice = "the provider's credentials are missing: set them in the environment as LiteLLM's page on it says"
            return LMConfigurationError(advice, model=model)
    if large := too_large(error):
        return LMServerError(str(large), model=model, status=200, provider_code=UNREADABLE)
    # LiteLLM's own words for such a reply repeat its code, with the folders of this machine.
    if (words := _misread(error)) is not None:
        code = None if words else UNREADABLE
        text = f"the server answered with what is no reply{words}"
        return LMServerError(text, model=model, status=200, provider_code=code)
    if not isinstance(error, LMRateLimitError | LMServerError):
        return error
    if error.retry_after is None:
        error.retry_after = _retry_after(error)
    asked = error.retry_after
    if asked is None or asked <= LONGEST_WAIT:
        return error
    advice = f"the server asks to wait {asked:,.0f} seconds before the next request (Retry-After), which is longer "
    advice += f"than the {LONGEST_WAIT:.0f} seconds that are waited"
    return type(error)(advice, model=model, status=error.status, retry_after=asked)


def is_tried_again(error: LMError) -> bool:
    """Whether a further attempt may fare better, within the time that is waited for it."""
    asked = getattr(error, "retry_after", None)
    return is_retryable_lm_error(error) and (asked is None or asked <= LONGEST_WAIT)


def check_reply(reply: Any, model: str) -> None:
    """Refuse a reply without choices, or without text in any and a reason why."""
    choices = getattr(reply, "choices", None)
    text = "text, and no reason why" if choices else "answer (an empty list of choices)"
    if not choices or all(map(_is_void, choices)):
        raise LMServerError(f"the server's reply holds no {text}", model=model, status=200, provider_code=VOID)


def hide_echoes(reply: Any, lm: Any) -> None:
    """Take keys out of what a server repeats them in, before a cache or a record keeps it."""
    keys = [key for key in known_keys([lm]) if len(key) >= _LONG_KEY]
    for choice in reply.choices:
        for part in (choice, getattr(choice, "message", None)):
            for name in ("text", "content", "reasoning_content"):
                value: Any = getattr(part, name, None)
                for key in keys if isinstance(value, str) else ():
                    if key in value:
                        value = value.replace(key, SECRET)
                        setattr(part, name, value)
                        # They spell it once more.
                        choice.logprobs = None


def _is_void(choice: Any) -> bool:
    message = getattr(choice, "message", None)
    if message is None:
        # Of a text completion.
        return getattr(choice, "text", None) is None
    contents = [getattr(message, name, None) for name in ("content", "tool_calls", "reasoning_content", "refusal")]
    # LiteLLM writes stop where a server gives no reason.
    return all(part is None for part in contents) and getattr(choice, "finish_reason", None) in (None, "stop")


def _misread(error: LMError) -> str | None:
    """The server's own words, or nothing, where a reply of status 200 could not be read; None of any other error."""
    found = list(chain(error))
    if any(is_of_httpx(one, "HTTPStatusError", "TransportError") for one in found):
        return None
    for one in reversed(found):
        if type(one) is Exception:
            # LiteLLM's own of an error within a reply; a status that the body gives there means what it says.
            refused = type(error) is LMInvalidRequestError and str(getattr(one, "status_code", "")) == "400"
            words = getattr(one, "message", None)
            return None if refused or type(error) not in _OF_REPLIES else f": {words}" if words else ""
        if isinstance(one, _MISREAD) and type(error) in _OF_REPLIES - {LMInvalidRequestError}:
            return ""
    return None


def _retry_after(error: LMError) -> float | None:
    """The wait that a server asked for, which LiteLLM's errors hold deeper down."""
    for one in chain(error):
        for holder in (one, getattr(one, "response", None)):
            headers: Any = getattr(holder, "headers", None)
            asked = headers.get("retry-after") or headers.get("Retry-After") if hasattr(headers, "get") else None
            if (seconds := retry_after_seconds(asked)) is not None:
                return float(seconds)
    return None
