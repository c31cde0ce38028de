"""Which rule scores an answer, and that no prompt is told what only the gold answer says."""

from __future__ import annotations

from keqa.data import BENCHMARKS
from keqa.data.example import Example, as_example
from keqa.evaluation.evaluate import ask, scores_of

RECORD = {
    "_id": "h1",
    "question": "Were Scott Derrickson and Ed Wood of the same nationality?",
    "answer": "yes",
    "supporting_facts": [],
}
SENTENCE = "Yes, both are American."


def test_hotpotqa_is_scored_by_its_official_script():
    example = BENCHMARKS["hotpotqa"].convert(RECORD)
    assert scores_of(SENTENCE, example) == {"em": 0.0, "f1": 0.0, "contains": 1.0}
    assert scores_of("Yes.", example) == {"em": 1.0, "f1": 1.0, "contains": 1.0}
    assert scores_of(None, example) == {"em": 0.0, "f1": 0.0, "contains": 0.0}
    assert as_example(example) == example


def test_a_verdict_of_freshqa_is_scored_as_one():
    example = Example("1", "Is it over?", ("No", "No, it is not."), scored_as="yes/no")
    assert scores_of("No, not yet.", example) == {"em": 1.0, "f1": 1.0, "contains": 1.0, "accuracy": 1.0}


def test_two_questions_that_differ_in_their_gold_answers_have_one_prompt(closed_book):
    program, engine = closed_book(lambda name, inputs, config: {"answer": "yes"})
    for answer in ("yes", "Ann Lee"):
        ask(program, BENCHMARKS["hotpotqa"].convert({**RECORD, "answer": answer}))
    first, second = engine.prompts
    assert first == second
