"""Replies as DSPy tells of them."""

from __future__ import annotations

from types import SimpleNamespace

import dspy

from keqa.lms.adapter import adapter
from keqa.programs.runtime.listening import Listener
from keqa.signatures import AnswerQuiz


def test_the_replies_of_one_request_that_cannot_be_used_are_counted():
    whole, bare = "[[ ## answer ## ]]\na\n\n[[ ## completed ## ]]", "[[ ## answer ## ]]\na"
    replies = [(whole, "stop"), (whole, "length"), (bare, "stop"), (bare, "length"), ("a", "stop"), (None, "stop")]
    listener = Listener()
    listener.history = [
        {
            "outputs": [text if text is None else {"text": text} for text, _ in replies],
            "response": SimpleNamespace(choices=[{"finish_reason": reason} for _, reason in replies]),
        }
    ]
    assert len(listener.replies) == 6
    with dspy.context(adapter=adapter()):
        assert listener.spoilt(AnswerQuiz) == 3
