"""What all programs share: language models by role, copies, saving, optimizers, batches, checks of what is asked."""

import pickle
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from fixtures.one_quiz import REPLIES
from fixtures.replies import Replies

from keqa.errors import InputError
from keqa.programs import KEQA, UnansweredError
from keqa.programs.baselines import ClosedBook
from keqa.programs.gates import ConfidenceGate
from keqa.programs.records import CallCost, Cost

OTHERS = {"AnswerQuiz": lambda i, c: {"answer": f"a{c.seed}"}, "AnswerQuestion": {"answer": "Bo"}}
reply = Replies(**REPLIES | OTHERS)


def test_the_predictor_of_a_gate_starts_empty_where_it_was_not_saved():
    asking = KEQA(None, gate=ConfidenceGate())
    saved = asking.dump_state()
    asking.examination.confidence.state.demos = [dspy.Example(quiz="q")]
    asking.load_state({name: state for name, state in saved.items() if name != "examination.confidence.state"})
    assert asking.examination.confidence.state.demos == []
    with pytest.raises(KeyError, match=r"picking\.judge"):
        asking.load_state({name: state for name, state in saved.items() if name != "picking.judge"})


def test_an_unanswered_error_survives_a_process():
    error = pickle.loads(pickle.dumps(UnansweredError("summarize", "LMServerError", "down")))
    assert (error.stage, error.cause, error.message, error.record) == ("summarize", "LMServerError", "down", None)


def test_a_batch_takes_what_it_is_given_and_outlives_any_fault(programmed, retriever):
    sometimes = Replies(AnswerQuestion=lambda i, c: "garbage {" if "bad" in i["question"] else {"answer": "Bo"})
    program, _ = programmed(ClosedBook(), sometimes)
    asked = SimpleNamespace(question="Which?", answer_type="choice", choices=["a", "b"])
    items = ["Who?", {"question": "bad"}, asked, None, {"question": "Who?", "answer_type": "long"}]
    outcomes = sorted(program.answer_many(items, in_flight=2), key=lambda outcome: outcome.position)
    assert [outcome.answer for outcome in outcomes] == ["Bo", None, "Bo", None, None]
    assert [type(outcome.error) for outcome in outcomes] == [
        type(None),
        UnansweredError,
        type(None),
        InputError,
        InputError,
    ]
    assert outcomes[1].record.failure.stage == "answer"


@pytest.mark.parametrize(
    ("item", "named"), [("Who?", "1 of the batch"), (SimpleNamespace(question="Who?", id="q7"), "'q7'")]
)
def test_a_fault_of_the_program_itself_ends_the_batch_and_names_the_question(item, named):
    class Broken(ClosedBook):
        async def solve(self, asked: Any, story: Any) -> None:
            raise ZeroDivisionError("oops")

    with pytest.raises(ZeroDivisionError, match="oops") as caught:
        list(Broken().answer_many([item]))
    assert caught.value.__notes__ == [f"This was raised while question {named} was asked."]


async def test_within_an_event_loop_a_language_model_is_awaited_and_otherwise_called(scripted):
    awaited = []

    class Awaited:
        async def complete(self, request):
            awaited.append(request)
            return engine.complete(request)

        def __deepcopy__(self, memo):
            return self

    _, engine = scripted(reply)
    lm = dspy.LM("scripted/own", engine=engine, async_engine=Awaited(), cache=False, temperature=0.0, max_tokens=9)
    program = ClosedBook()
    program.set_lm(lm)
    assert (await program.acall(question="Who?")).answer == "Bo"
    assert len(awaited) == 1
    assert program(question="Who?").answer == "Bo"
    assert (len(awaited), len(engine.calls)) == (1, 2)


def test_the_cost_of_two_questions_adds_up_role_by_role():
    first, second = (
        Cost(by_role={role: CallCost(calls=number)}, by_step={"quiz": CallCost(samples=number)}, retrievals=number)
        for role, number in (("task", 1), ("utility", 2))
    )
    both = first + second + second
    assert {role: one.calls for role, one in both.by_role.items()} == {"task": 1, "utility": 4}
    assert (both.by_step["quiz"].samples, both.retrievals, both.calls) == (5, 5, 5)


def test_a_batch_that_is_left_early_ends(programmed):
    program, engine = programmed(ClosedBook(), reply)
    for outcome in program.answer_many((f"Who {i}?" for i in range(10_000)), in_flight=2):
        assert outcome.answer == "Bo"
        break
    assert len(engine.calls) < 100


@pytest.mark.parametrize("question", ["", " \n\t", "\ud800\x00", None, 7, "x" * 100_000])
def test_what_is_no_question_is_not_asked(question):
    with pytest.raises(InputError):
        ClosedBook()(question=question)


def test_what_is_none_is_not_given(scripted):
    lm, engine = scripted(reply)
    with dspy.context(lm=lm):
        assert ClosedBook()(question="Who?", answer_type=None, choices=None, history=None).answer == "Bo"
    assert engine.asked("AnswerQuestion") == [{"question": "Who?", "answer_type": "short", "choices": "[]"}]
