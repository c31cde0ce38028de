"""Metrics of both forms are told apart, and one of DSPy's sees the example that the user wrote."""

from __future__ import annotations

import dspy
import pytest

from keqa.data.example import as_example
from keqa.errors import ConfigurationError
from keqa.metrics.answers import exact_match, f1
from keqa.optimize.scoring import DspyMetric, as_metric, metric_fingerprint, score_of
from keqa.programs.prediction import AnswerPrediction

GIVEN = dspy.Example(question="Who?", answer="Ann Lee", weight=0.5).with_inputs("question")
ANSWER = AnswerPrediction(explanation="", sources=[], answer="Ann Lee")


def with_trace(example, prediction, trace=None):
    return example.answer == prediction.answer


def without_trace(example, pred):
    return example.weight * (example.answer == pred.answer)


def with_feedback(gold, pred, trace=None, pred_name=None, pred_trace=None):
    return dspy.Prediction(score=0.25, feedback="so")


class Judge(dspy.Module):
    def forward(self, example, pred, trace=None):
        return 0.75


def own(text, golds, answer_type, choices):
    return 1.0


@pytest.mark.parametrize("metric", [f1, exact_match, own])
def test_a_correctness_stays_what_it_is(metric):
    assert as_metric(metric, [GIVEN]) is metric


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        (with_trace, 1.0),
        (without_trace, 0.5),
        (with_feedback, 0.25),
        (Judge(), 0.75),
        (dspy.evaluate.answer_exact_match, 1.0),
        (lambda example, prediction: 0.5, 0.5),
    ],
)
def test_a_metric_of_dspys_gets_the_users_example(metric, score):
    found = as_metric(metric, [GIVEN], None, "train.jsonl")
    assert isinstance(found, DspyMetric)
    assert score_of(found, as_example(GIVEN), ANSWER) == score
    assert score_of(found, as_example(GIVEN), AnswerPrediction(explanation="", sources=[], answer=None)) == 0.0
    assert found("Ann Lee", ["Ann"], "short", ()) == f1("Ann Lee", ["Ann"], "short", ())


def test_a_question_from_elsewhere_has_the_usual_fields():
    seen = []
    found = as_metric(lambda example, prediction, trace=None: bool(seen.append(example)))
    score_of(found, as_example({"question": "Who?", "answers": ["Ann", "A."]}), ANSWER)
    assert (seen[0].question, seen[0].answer, seen[0].answers) == ("Who?", "Ann", ["Ann", "A."])
    assert sorted(seen[0].inputs().keys()) == ["answer_type", "choices", "question", "root"]


@pytest.mark.parametrize("metric", [lambda: 1.0, lambda one: 1.0, 5, "f1"])
def test_anything_else_is_refused(metric):
    with pytest.raises(ConfigurationError, match="the metric must be"):
        as_metric(metric)


def test_a_metric_that_fails_is_named_with_its_question():
    with pytest.raises(ConfigurationError, match=r"the metric failed on the question 'Who\?' \(AttributeError"):
        score_of(as_metric(lambda example, prediction: example.nothing), as_example(GIVEN), ANSWER)


def test_two_metrics_of_dspys_are_two_metrics():
    prints = {metric_fingerprint(as_metric(metric)) for metric in (with_trace, without_trace, f1, exact_match)}
    assert len(prints) == 4
