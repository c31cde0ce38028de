"""ReAct: DSPy's prompts and loop, with every call counted and recorded."""

import pytest
from dspy.lm15 import ContextLengthError

from keqa.programs.baselines import ReAct
from keqa.programs.calls.errors import UnansweredError

QUESTION = "Where was the author of It born?"


def action(thought, query=None):
    tool, arguments = ("finish", "{}") if query is None else ("search", f'{{"query": "{query}"}}')
    return {"next_thought": thought, "next_tool_name": tool, "next_tool_args": arguments}


def agent(actions):
    """Gives the actions one after another, then the answer."""
    left = iter(actions)

    def reply(name, inputs, config):
        given = next(left, None)
        if isinstance(given, Exception):
            raise given
        return {"reasoning": "because", "answer": "Oslo"} if name == "AnswerFromTrajectory" else given

    return reply


TWO_SEARCHES = [
    action("Nothing is known yet.", "Who wrote It?"),
    action("Ann wrote It.", "Where was Ann born?"),
    action("Ann was born in Oslo."),
]


@pytest.fixture
def solved(asked):
    def solve(actions, **settings):
        texts, found = ("Ann wrote It.", "Ann was born in Oslo."), {"Who wrote It?": [0], "Where was Ann born?": [1]}
        return asked(ReAct, agent(actions), *texts, found=found, question=(QUESTION,), **settings)

    return solve


def test_a_wrong_or_failing_search_is_shown_to_the_language_model(programmed, retriever):
    wrong = {"next_thought": "t", "next_tool_name": "search", "next_tool_args": '{"text": "x"}'}
    actions = [wrong, action("again", "Who wrote It?"), action("then", "Who?"), action("done")]
    searched = retriever("text")
    search = searched.search

    def sometimes(query, k=10):
        if query == "Who wrote It?":
            raise OSError("no index")
        return search(query, k)

    searched.search = sometimes
    program, engine = programmed(ReAct(searched), agent(actions))
    record = program(QUESTION).record
    seen = engine.asked("AnswerFromTrajectory")[0]
    assert seen["observation_0"] == 'Execution error in search: it takes one argument, {"query": "..."}'
    assert seen["observation_1"] == "Execution error in search: no index"
    assert seen["observation_2"] == '["text"]'
    assert [(note.stage, note.cause) for note in record.degradations if note.touches] == [("retrieve", "OSError")]
    assert (record.answer_source, record.touched) == ("passages", True)


def test_stops_at_the_step_limit(solved):
    record, engine, _ = solved([action("t", "Who wrote It?")] * 9, max_steps=2)
    assert engine.count["ChooseAction"] == 2
    assert [note.cause for note in record.degradations] == ["StepLimit"]
    assert [quiz.source for quiz in record.quizzes] == ["passages", "failed"]


def test_oldest_turns_are_left_out_where_the_window_is_exceeded(solved):
    record, engine, _ = solved([*TWO_SEARCHES[:2], ContextLengthError("too long"), TWO_SEARCHES[2]])
    seen = engine.asked("AnswerFromTrajectory")[0]
    # Turns keep their numbers. (What stands between two markers includes the first of the trajectory's own.)
    assert (record.answer, seen["trajectory"]) == ("Oslo", "[[ ## thought_1 ## ]]\nAnn wrote It.")
    assert seen["tool_name_2"] == "finish"
    assert [note.action for note in record.degradations] == ["left out the oldest turn"]
    assert len(record.passages) == 2
    record, _, _ = solved([*TWO_SEARCHES, ContextLengthError("too long")])
    assert [(note.stage, note.action) for note in record.degradations] == [("answer", "left out the oldest turn")]
    # The last turn is never left out, and no more than two for a call.
    for before, left in ((0, 0), (1, 0), (2, 1), (5, 2)):
        given = [action("t", f"Who wrote {n}?") for n in range(before)]
        with pytest.raises(UnansweredError) as caught:
            solved([*given, *[ContextLengthError("too long")] * 9])
        found = [note.action for note in caught.value.record.degradations]
        assert found.count("left out the oldest turn") == left
