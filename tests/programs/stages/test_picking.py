"""A reference that looks at all passages first, and what becomes of its failures."""

from __future__ import annotations

import pytest
from dspy.utils.exceptions import LMAuthError

from keqa.errors import ConfigurationError
from keqa.programs import KEQA


class Prepared:
    """A reference that is told of all passages of a quiz, or fails at it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.seen = error, []

    def prepare(self, quiz, passages):
        self.seen.append((quiz, passages))
        if self.error is not None:
            raise self.error

    def __call__(self, quiz, passage):
        return []


def asked(scripted, retriever, reference, *passages):
    replies = {
        "JudgeUtility": {"helpful": True},
        "AnswerWithKnowledge": {"answer": "Ann"},
        "AnswerQuiz": {"answer": "A"},
    }
    lm, _ = scripted(lambda name, inputs, config: replies[name])
    program = KEQA(retriever(*passages), decompose=False, examine=False, reference=reference)
    program.set_lm(lm)
    return program("Who?").record


def test_a_reference_sees_all_passages_together_and_nothing_where_there_are_none(scripted, retriever):
    reference = Prepared()
    assert asked(scripted, retriever, reference, "one", "two").degradations == []
    assert reference.seen == [("Who?", ["one", "two"])]
    asked(scripted, retriever, reference)
    assert len(reference.seen) == 1


def test_what_fails_for_all_passages_is_tried_for_each(scripted, retriever):
    record = asked(scripted, retriever, Prepared(OSError("no index")), "one")
    (note,) = record.degradations
    assert (note.stage, note.cause, note.message, note.quiz) == ("judge_utility", "OSError", "no index", 1)
    assert (note.action, note.harmless) == ("looked for the demonstrations of each passage by itself", True)
    assert [verdict.verdict for verdict in record.quizzes[0].passages] == ["helpful"]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ZeroDivisionError("oops"), ZeroDivisionError, "oops"),
        (ConfigurationError("no such model"), ConfigurationError, "no such model"),
        (LMAuthError("bad key"), ConfigurationError, "bad key"),
    ],
)
def test_a_fault_or_a_wrong_key_surfaces(scripted, retriever, error, kind, message):
    with pytest.raises(kind, match=message) as raised:
        asked(scripted, retriever, Prepared(error), "one")
    assert raised.value is error or raised.value.__cause__ is error
