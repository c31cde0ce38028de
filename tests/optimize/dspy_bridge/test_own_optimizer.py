"""Optimizers and metrics of DSPy's in keqa.compile, and a result that is asked as a program."""

from __future__ import annotations

import asyncio

import dspy
import pytest

import keqa
from keqa.errors import ConfigurationError
from keqa.metrics.answers import f1


def metric(example, prediction, trace=None):
    right = prediction.answer.split()[-1] == example.answer.split()[-1]
    # The stricter form is for demonstrations.
    return right if trace is not None else float(right and example.region == "north")


@pytest.fixture
def compiled_by(as_dspy):
    """Compiles a world by an optimizer, with examples that only the metric knows all about."""

    def run(optimizer, world, **options):
        settings = {"metric": metric, "reference": False, "tuning": False, "in_flight": 2} | options
        train, val = (as_dspy(examples, region="north") for examples in (world.train, world.val))
        return keqa.compile(world.program, train, val, optimizer=optimizer, **settings)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("own_metric", [None, metric])
def test_bootstrapping_by_dspy(setting, compiled_by, own_metric):
    world = setting()
    optimizer = dspy.BootstrapFewShot(metric=own_metric, max_bootstrapped_demos=2)
    found = compiled_by(optimizer, world, metric=f1)
    assert found.report.optimizer == "BootstrapFewShot"
    demos = {name: p.demos for name, p in found.program.named_predictors()}
    # Whole questions, with which DSPy would fill up, show nothing that a predictor does.
    assert [len(demos[name]) for name in ("decomposition.decompose", "answering.answer")] == [2, 2]
    assert all(demo.keys() >= {"passages", "question", "answer"} for demo in map(dict, demos["answering.answer"]))
    assert demos["picking.judge"] == demos["examination.same"] == []
    assert (optimizer.metric, optimizer.max_labeled_demos) == (own_metric, 16)
    assert found.program.answering.answer.lm is world.lm


@pytest.mark.slow
def test_random_search_by_dspy_and_a_result_that_answers(setting, compiled_by):
    world = setting()
    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        metric=metric, max_bootstrapped_demos=1, num_candidate_programs=1, num_threads=1
    )
    found = compiled_by(optimizer, world)
    question = world.val[0].question
    assert found(question).answer == found.program(question=question).answer
    assert asyncio.run(found.acall(question=question)).answer == found(question=question).answer


def test_the_metric_of_an_optimizer_gets_examples_as_they_were_given(setting, compiled_by):
    seen = set()

    def noting(example, prediction, trace=None):
        seen.add((example.root, example.get("region")))
        return True

    world = setting(train=2, val=1)
    compiled_by(dspy.BootstrapFewShot(metric=noting, max_bootstrapped_demos=2), world)
    assert seen == {("t0", "north"), ("t1", "north")}


@pytest.mark.parametrize(
    ("optimizer", "reason"),
    [
        (dspy.LabeledFewShot(k=2), "it shows whole questions"),
        (dspy.Ensemble(), "it joins programs"),
        (dspy.BootstrapFinetune(), "it changes language models"),
    ],
)
def test_what_cannot_learn_prompts_is_refused_before_any_call(setting, compiled_by, optimizer, reason):
    world = setting()
    with pytest.raises(ConfigurationError, match=f"keqa.compile cannot use {type(optimizer).__name__}: {reason}"):
        compiled_by(optimizer, world)
    assert world.engine.calls == []


def test_budget_and_reflection_belong_to_the_optimizer_itself(setting, compiled_by):
    with pytest.raises(ConfigurationError, match=r"give reflection_lm and budget to BootstrapFewShot\(\.\.\.\) itself"):
        compiled_by(dspy.BootstrapFewShot(), setting(), budget="heavy")


@pytest.mark.slow
def test_two_optimizers_are_two_compilations(setting, compiled_by):
    first, second = (
        compiled_by(dspy.BootstrapFewShot(metric=metric, max_bootstrapped_demos=count), setting()).report.sources
        for count in (1, 2)
    )
    assert first["how it is compiled"] != second["how it is compiled"]


class Parent(dspy.Module):
    def __init__(self, *programs):
        super().__init__()
        self.parts = {"ask": list(programs)}
        self.polish = dspy.Predict("answer -> polished")

    def forward(self, question):
        return dspy.Prediction(said=self.parts["ask"][0](question=question).answer)


@pytest.mark.slow
def test_a_program_is_compiled_within_its_module(setting, as_dspy, tmp_path):
    world = setting()
    parent = Parent(world.program)
    found = keqa.compile(parent, as_dspy(world.train), as_dspy(world.val), reference=False, tuning=False)
    assert type(found.program) is Parent
    inside = found.program.parts["ask"][0]
    assert len(inside.answering.answer.demos) == len(found.nested.answering.answer.demos) > 0
    assert world.program.answering.answer.demos == []
    assert inside.answering.answer.lm is world.lm
    assert found(question=world.val[0].question).said == "Ann Spouse6"
    found.save(tmp_path / "program")
    loaded = keqa.load(tmp_path / "program", None)
    assert len(loaded.answering.answer.demos) == len(inside.answering.answer.demos)


@pytest.mark.parametrize(("count", "contains"), [(0, "none"), (2, "2")])
def test_a_module_has_to_contain_one_program(setting, as_dspy, count, contains):
    world = setting()
    parent = Parent(*(world.program.deepcopy() for _ in range(count)))
    with pytest.raises(ConfigurationError, match=f"Parent contains {contains}"):
        keqa.compile(parent, as_dspy(world.train))
