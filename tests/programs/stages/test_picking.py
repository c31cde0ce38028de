"""Passages judged in one call, and a reference that looks at all of them first."""

import json

import dspy
import pytest
from dspy.utils.exceptions import LMAuthError

from keqa.errors import ConfigurationError
from keqa.programs import KEQA
from keqa.programs.stages.picking import as_lists

PASSAGES = ("Ann leads.", "Bob likes to sail.", "Ann was elected.")


@pytest.fixture
def asked(programmed, retriever):
    """Asks a program that judges listwise, and gives its record and the engine."""

    def ask(listed, *passages, found=None, **settings):
        replies = {
            "JudgeUtilities": listed,
            "JudgeUtility": {"helpful": True},
            "AnswerWithKnowledge": {"answer": "Ann"},
            "AnswerQuiz": {"answer": "A"},
        }
        settings = {"decompose": False, "examine": False, "listwise": True, **settings}
        program = KEQA(retriever(*(passages or PASSAGES), found=found), **settings)
        program, engine = programmed(program, lambda name, inputs, config: replies[name])
        return program("Who leads?").record, engine

    return ask


def verdicts(record):
    return [(one.verdict, one.kept) for one in record.quizzes[0].passages]


def test_all_passages_are_judged_in_one_call(asked):
    record, engine = asked({"helpful": '{"1": true, "2": false, "3": true}'})
    assert verdicts(record) == [("helpful", True), ("not helpful", False), ("helpful", True)]
    assert (engine.count["JudgeUtilities"], engine.count["JudgeUtility"]) == (1, 0)
    (inputs,) = engine.asked("JudgeUtilities")
    assert json.loads(inputs["passages"]) == {"1": PASSAGES[0], "2": PASSAGES[1], "3": PASSAGES[2]}
    assert record.degradations == []
    assert record.cost.by_role["utility"].samples == 1


def test_what_the_reply_says_nothing_of_is_judged_by_itself(asked):
    record, engine = asked({"helpful": '{"1": false, "3": false, "7": true}'})
    assert verdicts(record) == [("not helpful", False), ("helpful", True), ("not helpful", False)]
    assert [inputs["passage"] for inputs in engine.asked("JudgeUtility")] == [PASSAGES[1]]
    (note,) = record.degradations
    assert (note.cause, note.action, note.touches) == ("NoVerdict", "judged these by themselves", False)
    assert note.message == "the reply says nothing of 1 of 3 passages"


@pytest.mark.parametrize("reply", ["garbage {", {"helpful": "all of them"}, {"helpful": "{}"}])
def test_a_reply_that_cannot_be_read_has_each_judged_by_itself(asked, reply):
    record, engine = asked(reply)
    assert verdicts(record) == [("helpful", True)] * 3
    assert engine.count["JudgeUtility"] == 3
    assert record.answer == "Ann"
    assert not any(note.touches and note.action == "judged each passage by itself" for note in record.degradations)


def test_one_passage_is_judged_by_itself(asked):
    _, engine = asked({"helpful": "{}"}, "Ann leads.")
    assert (engine.count["JudgeUtilities"], engine.count["JudgeUtility"]) == (0, 1)


def demo(quiz, passage, helpful):
    return dspy.Example(quiz=quiz, passage=passage, helpful=helpful)


def test_what_the_reference_shows_is_shown_as_lists(asked):
    shown = {
        PASSAGES[0]: [demo("Who led?", "Cy led.", True), demo("Who sails?", "Bo sails.", True)],
        PASSAGES[1]: [demo("Who led?", "Cy is old.", False), demo("Who led?", "Cy led.", True)],
    }
    _, engine = asked({"helpful": '{"1": true, "2": true, "3": true}'}, reference=lambda q, p: shown.get(p, []))
    prompt = next(p for (name, *_), p in zip(engine.calls, engine.prompts, strict=True) if name == "JudgeUtilities")
    assert '{"1": "Cy led.", "2": "Cy is old."}' in prompt
    assert prompt.index("Who sails?") < prompt.index("Who led?") < prompt.index("Who leads?")


def test_lists_of_demonstrations():
    found = as_lists([demo("a", "1", True), demo("b", "2", False), demo("a", "3", False), demo("a", "1", False)])
    assert [dict(one) for one in found] == [
        {"quiz": "b", "passages": {1: "2"}, "helpful": {1: False}},
        {"quiz": "a", "passages": {1: "1", 2: "3"}, "helpful": {1: True, 2: False}},
    ]
    many = as_lists(demo(f"q{n // 9}", f"p{n}", True) for n in range(40))
    assert [len(one.passages) for one in many] == [9, 9]
    assert as_lists([]) == []


def test_a_judge_of_lists_that_tuning_tries_shows_what_the_single_one_shows():
    for demonstrations in (True, False):
        program = KEQA(None, demonstrations=demonstrations)
        assert program.picking.listwise_judge().judge.fixed is demonstrations


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


def test_a_reference_sees_all_passages_together_and_nothing_where_there_are_none(asked):
    reference = Prepared()
    assert asked(None, "one", "two", reference=reference, listwise=False)[0].degradations == []
    assert reference.seen == [("Who leads?", ["one", "two"])]
    asked(None, found={}, reference=reference)
    assert len(reference.seen) == 1


def test_what_fails_for_all_passages_is_tried_for_each(asked):
    record, _ = asked(None, "one", reference=Prepared(OSError("no index")))
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
def test_a_fault_or_a_wrong_key_surfaces(asked, error, kind, message):
    with pytest.raises(kind, match=message) as raised:
        asked(None, "one", reference=Prepared(error))
    assert raised.value is error or raised.value.__cause__ is error
