import pytest

from keqa.programs.calls.errors import is_transient


@pytest.mark.parametrize("cause", ["LMServerError", "LMRateLimitError", "LMTimeoutError", "RetrievalError"])
def test_what_another_attempt_may_not_meet(cause):
    assert is_transient(cause)


@pytest.mark.parametrize("cause", ["AdapterParseError", "EmptyAnswerError", "LMInvalidRequestError", "Any", ""])
def test_what_every_attempt_would_meet(cause):
    assert not is_transient(cause)
