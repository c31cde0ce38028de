"""Replies as DSPy tells of them."""

from __future__ import annotations

from types import SimpleNamespace

import dspy
import pytest
from dspy.utils.usage_tracker import UsageTracker

from keqa.lms.adapter import adapter
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import CallMeter
from keqa.signatures import AnswerQuiz


def test_the_replies_of_one_request_that_cannot_be_used_are_counted():
    whole, bare = "[[ ## answer ## ]]\na\n\n[[ ## completed ## ]]", "[[ ## answer ## ]]\na"
    replies = [(whole, "stop"), (whole, "length"), (bare, "stop"), (bare, "length"), ("a", "stop"), (None, "stop")]
    meter = CallMeter(None)
    meter.history = [
        {
            "outputs": [text if text is None else {"text": text} for text, _ in replies],
            "response": SimpleNamespace(choices=[{"finish_reason": reason} for _, reason in replies]),
        }
    ]
    assert len(meter.replies) == 6
    with dspy.context(adapter=adapter()):
        assert meter.spoilt(AnswerQuiz) == 3


def test_a_request_without_a_reply_counts_wherever_its_usage_is_reported():
    outer = CallMeter(UsageTracker())
    inner = CallMeter(outer)
    inner.add_failed()
    inner.add_usage("lm", {"prompt_tokens": 5, "completion_tokens": 2})
    assert [(one.calls, one.prompt, one.completion) for one in (inner, outer)] == [(2, 5, 2), (2, 5, 2)]
    CallMeter(None).add_failed()


CUT, WHOLE = SimpleNamespace(finish_reason="length"), SimpleNamespace(finish_reason="stop")


@pytest.mark.parametrize(
    ("response", "cut"),
    [
        (SimpleNamespace(choices=[{"finish_reason": "stop"}, {"finish_reason": "length"}]), True),
        (SimpleNamespace(choices=[WHOLE, CUT]), True),
        ((WHOLE, CUT), True),
        (SimpleNamespace(choices=[WHOLE, WHOLE]), False),
        (SimpleNamespace(choices=[{}, SimpleNamespace()]), False),
        ((WHOLE, SimpleNamespace()), False),
    ],
)
def test_a_reply_that_was_cut_off_is_refused_however_the_response_tells(response, cut):
    meter = CallMeter(None)
    meter.history = [{"outputs": ["Oslo", "Oslo is a"], "response": response}]
    if not cut:
        meter.refuse_truncated()
        return
    with pytest.raises(CallError) as refused:
        meter.refuse_truncated()
    assert (refused.value.cause, refused.value.unusable) == ("TruncatedReplyError", True)


@pytest.mark.parametrize(("ending", "only"), [(CUT, "Oslo"), (WHOLE, "Oslo\n")])
def test_a_reply_alone_ends_its_line_unless_it_was_cut_off(ending, only):
    meter = CallMeter(None)
    meter.history = [{"outputs": ["Oslo"], "response": ending}]
    assert meter.only == only
