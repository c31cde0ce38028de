"""Optimizers and metrics of DSPy's in keqa.compile, and a result that is asked as a program."""

from __future__ import annotations

import asyncio

import dspy
import pytest
from dspy.teleprompt import Teleprompter
from dspy.teleprompt.gepa import InstructionProposer

import keqa
from keqa.errors import ConfigurationError
from keqa.metrics.answers import f1
from keqa.optimize.asking import Asking
from keqa.optimize.dspy_optimizers import Student, run_optimizer
from keqa.programs.calls.texts import Guarded
from keqa.storage.journal import Journal


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
    question = world.val[0].question
    assert asyncio.run(found.acall(question=question)).answer == found(question=question).answer == "Ann Spouse6"


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
    with pytest.raises(ConfigurationError, match=r"give (reflection_lm|budget) to BootstrapFewShot\(\.\.\.\) itself"):
        compiled_by(dspy.BootstrapFewShot(), setting(), budget="heavy")


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


class Noting(Teleprompter):
    """Makes no call; notes how it was run and by which language model prompts would be written."""

    def __init__(self, **settings):
        vars(self).update(metric=None, max_labeled_demos=16, seen={})
        vars(self).update(settings)

    def compile(self, student, *, trainset, valset=None, eval_kwargs=None):
        self.seen.update(
            lm=dspy.settings.lm, own=self, student=student, trainset=trainset, valset=valset, eval_kwargs=eval_kwargs
        )
        return student


@pytest.fixture
def student(setting, as_dspy, tmp_path):
    """A student that is asked nothing, and questions to train it on and to choose by."""
    world = setting(train=2, val=1)
    with Journal.open(tmp_path / "journal.jsonl", {}) as journal:
        made = Student(world.program, Asking(journal, f1, in_flight=1), ["answering.answer"])
        yield made, as_dspy(world.train), as_dspy(world.val)


@pytest.mark.parametrize("kind", ["built in", "of DSPy's kind", "of another kind"])
def test_instructions_of_gepa_are_written_on_guard(student, kind):
    class Shouting(InstructionProposer):
        """Is of DSPy's kind, and has something to keep."""

        loud = True

    class Other:
        def __call__(self, candidate, reflective_dataset, components_to_update):
            return candidate

    proposer = {"built in": None, "of DSPy's kind": Shouting(), "of another kind": Other()}[kind]
    before = proposer and dict(vars(proposer))
    lm = student[0].get_lm()
    gepa = dspy.GEPA(keqa.optimizer_metric(), reflection_lm=lm, max_metric_calls=1, instruction_proposer=proposer)
    whole = Noting(optimizers={"g": gepa})
    run_optimizer(whole, *student, metric, 1, {})
    ran = whole.seen["own"].optimizers["g"].custom_instruction_proposer
    # What the user made stays as it is.
    assert gepa.custom_instruction_proposer is proposer
    assert (proposer and vars(proposer)) == before
    if kind == "of another kind":
        assert ran is proposer
    else:
        assert isinstance(ran.adapter, Guarded)
        assert type(ran) is (InstructionProposer if proposer is None else Shouting)


def test_what_is_no_program_is_refused(student):
    class Odd(Noting):
        def compile(self, student, *, trainset):
            return dspy.Predict("question -> answer")

    made, train, val = student
    with pytest.raises(ConfigurationError, match="Odd returned a Predict, not the program with other prompts"):
        run_optimizer(Odd(), made, train, val, metric, 1, {})
