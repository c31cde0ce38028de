"""How right an answer is by metrics of both forms, and which questions are learned from or chosen by."""

import json
import math
from pathlib import Path

import dspy
import pytest

from keqa.data.example import Example, as_example
from keqa.errors import ConfigurationError, InputError
from keqa.metrics.answers import exact_match, f1
from keqa.optimize.options import split
from keqa.optimize.scoring import (
    DspyMetric,
    as_metric,
    example_for_metrics,
    metric_fingerprint,
    optimizer_metric,
    score_of,
)
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


def test_a_module_that_scores_is_not_reported_as_called_wrongly(monkeypatch):
    warned = []
    monkeypatch.setattr("dspy.primitives.module.logger.warning", warned.append)
    as_metric(Judge(), [GIVEN])
    assert warned == []


def test_a_metric_of_dspys_gets_the_fields_of_a_mapping():
    mapping = {"question": "Who?", "answer": ["Ann Lee", "Ann"], "weight": 0.5, "base": "a name of DSPy's"}
    assert score_of(as_metric(without_trace, [mapping]), as_example(mapping), ANSWER) == 0.5
    numbered = mapping | {"id": 7}
    assert score_of(as_metric(lambda ex, pred: ex.id == 7, [numbered]), as_example(numbered), ANSWER) == 1


def test_a_verdict_of_a_question_without_a_type_counts_in_a_sentence_too():
    said = AnswerPrediction(explanation="", sources=[], answer="Yes, it is.")
    items = [{"question": "Is it?", "answer": True, "answer_type": kind} for kind in (None, "short")]
    assert [score_of(f1, as_example(item), said) for item in items] == [1.0, 0.0]


def test_a_gold_answer_that_reads_as_none_scores_for_optimizers():
    film = Example("f", "Which film?", ("Unknown",))
    assert optimizer_metric()(example_for_metrics(film), ANSWER) == 0.0


def test_a_question_from_elsewhere_has_the_usual_fields():
    seen = []
    found = as_metric(lambda example, prediction, trace=None: bool(seen.append(example)))
    score_of(found, as_example({"question": "Who?", "answers": ["Ann", "A."]}), ANSWER)
    assert (seen[0].question, seen[0].answer, seen[0].answers) == ("Who?", "Ann", ["Ann", "A."])
    assert sorted(seen[0].inputs().keys()) == ["answer_type", "choices", "id", "question"]


@pytest.mark.parametrize("metric", [lambda: 1.0, lambda one: 1.0, 5, "f1"])
def test_anything_else_is_refused(metric):
    with pytest.raises(ConfigurationError, match="the metric must be"):
        as_metric(metric)


def test_a_metric_that_fails_is_named_with_its_question():
    with pytest.raises(ConfigurationError, match=r"the metric failed on the question 'Who\?' \(AttributeError"):
        score_of(as_metric(lambda example, prediction: example.nothing), as_example(GIVEN), ANSWER)


@pytest.mark.parametrize(
    "metric", [lambda example, prediction: math.nan, lambda answer, golds, kind, choices: math.inf]
)
def test_what_is_no_score_is_refused(metric):
    with pytest.raises(ConfigurationError, match=r"the metric gave (nan|inf) to the question 'Who\?'"):
        score_of(as_metric(metric), as_example(GIVEN), ANSWER)


def test_two_metrics_are_two_and_a_correctness_stays_what_it_is():
    prints = {metric_fingerprint(as_metric(metric)) for metric in (with_trace, without_trace, f1, exact_match)}
    assert len(prints) == 4
    assert all(as_metric(metric, [GIVEN]) is metric for metric in (f1, exact_match, own))


QUESTIONS = [Example(f"q{n}", f"Who is number {n}?", ("Dan",)) for n in range(404)]
WRONG = [{"question": "", "answer": "x"}] * 7


def test_a_quarter_is_held_out_in_order_and_at_most_a_hundred():
    for count, held in ((8, 2), (11, 2), (12, 3), (404, 100)):
        parts = split(QUESTIONS[:count], None, 0)
        assert len(parts.val) == held
        assert sorted([*parts.train, *parts.val], key=QUESTIONS.index) == QUESTIONS[:count]
        for part in (parts.train, parts.val):
            assert part == sorted(part, key=QUESTIONS.index)
        assert parts.problems == []
    # The seed decides which.
    assert split(QUESTIONS[:40], None, 1) == split(QUESTIONS[:40], None, 1)
    assert split(QUESTIONS[:40], None, 1).val != split(QUESTIONS[:40], None, 2).val


def test_too_few_choose_as_well():
    parts = split([*QUESTIONS[:7], WRONG[0]], None, 0)
    assert parts.train == parts.val == QUESTIONS[:7]
    assert parts.problems == [
        "train: example 8: the question is empty",
        "7 training questions are too few to hold some out: they choose as well",
    ]
    assert split([*QUESTIONS[:8], WRONG[0]], None, 0).problems == ["train: example 9: the question is empty"]


def test_a_question_that_is_learned_from_does_not_choose():
    again = Example("other", "WHO is number 1?", ("Ann",))
    chosen = Example("v", "Who is number 1?", ("A",), "choice", ("Ann", "Dan"))
    parts = split([*QUESTIONS[:3], WRONG[0]], [again, chosen, WRONG[0]], 0)
    # With options it is another question.
    assert (parts.train, parts.val) == (QUESTIONS[:3], [chosen])
    assert parts.problems == [
        "train: example 4: the question is empty",
        "validation: example 3: the question is empty",
        "validation question 'WHO is number 1?' is a training question as well: left out of the validation questions",
    ]
    with pytest.raises(InputError, match=r"^every validation question is a training question as well$"):
        split(QUESTIONS[:3], [again], 0)


def test_what_holds_nothing_of_use_is_refused_with_the_first_problems():
    with pytest.raises(InputError) as refused:
        split(WRONG, None, 0)
    lines = str(refused.value).split("\n")
    assert lines == ["no train question can be used", *(f"  example {n}: the question is empty" for n in range(1, 6))]
    with pytest.raises(InputError, match=r"^no validation question can be used"):
        split(QUESTIONS, [], 0)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_is_named_without_its_folder(tmp_path, kind):
    path = tmp_path / "own.jsonl"
    rows = [{"id": "a", "question": "Who?", "answer": "Dan"}, {"question": "", "answer": "Dan"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    parts = split(kind(path), None, 0)
    assert [(one.id, one.question, one.answers) for one in parts.train] == [("a", "Who?", ("Dan",))]
    assert parts.problems[0] == "train: own.jsonl, line 2: the question is empty"
