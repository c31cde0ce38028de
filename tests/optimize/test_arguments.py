"""What the names of DSPy's optimizers stand for, what they may change, and which budgets they take."""

from __future__ import annotations

import dspy
import pytest
from dspy.teleprompt import Teleprompter

from keqa.errors import ConfigurationError
from keqa.metrics.answers import f1
from keqa.optimize.asking import Asking
from keqa.optimize.dspy_optimizers import check_optimizer, optimize, ready_made, tunable
from keqa.optimize.scoring import feedback_metric
from keqa.optimize.student import Student
from keqa.programs.baselines import AlwaysRetrieve, Rowen
from keqa.programs.keqa import KEQA
from keqa.storage.journal import Journal

DEMO = {
    "passages": ["p"],
    "evidence": [],
    "triples": [],
    "question": "q",
    "answer_type": "short",
    "choices": [],
    "answer": "a",
}


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path / "journal", {}) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "budget", "settings", "more"),
    [
        ("gepa", "medium", {"auto": "medium", "max_metric_calls": None, "use_merge": False, "seed": 7}, {}),
        ("gepa", 40, {"auto": None, "max_metric_calls": 40}, {}),
        (
            "mipro",
            "medium",
            {"auto": "medium", "num_candidates": None, "seed": 7, "metric_threshold": 0.8},
            {"num_trials": None, "minibatch": True, "minibatch_size": 35},
        ),
        (
            "mipro",
            5,
            {"auto": None, "num_candidates": 3},
            {"num_trials": 5, "minibatch": True, "minibatch_size": 35},
        ),
        ("simba", "light", {"bsize": 32, "num_candidates": 3, "max_steps": 2}, {"seed": 7}),
        ("simba", "heavy", {"num_candidates": 6, "max_steps": 8}, {"seed": 7}),
        ("simba", 7, {"num_candidates": 3, "max_steps": 7}, {"seed": 7}),
    ],
)
def test_what_a_name_and_a_budget_stand_for(setting, journal, name, budget, settings, more):
    world = setting(train=1, val=1)
    student = Student(world.program, Asking(journal, f1), ["answering.answer"])
    found, given = ready_made(name, student, feedback_metric(f1), world.lm, budget, 7, 40, 51, 3)
    assert {one: getattr(found, one) for one in settings} == settings
    assert given == more


class Writing(Teleprompter):
    """Writes an instruction and demonstrations, and changes what is no business of its."""

    def compile(self, student, *, trainset):
        copied = student.reset_copy()
        for _ in copied.named_predictors():
            student(**trainset[0].inputs())
        answering = copied.program.answering.answer
        answering.signature = answering.signature.with_instructions("Be brief.")
        answering.demos = [dspy.Example(**DEMO, augmented=True, rationale="x")]
        judged = {"passage": "p", "quiz": "q", "helpful": True}
        copied.program.picking.judge.demos = [dspy.Example(**judged), dspy.Example(passage="No label.")]
        copied.program.top_k = 9
        return copied


def test_only_what_an_optimizer_may_change_is_taken_over(setting, journal):
    world, told = setting(train=3, val=2), []
    asking = Asking(journal, f1, progress=lambda *step: told.append(step))
    best = optimize(world.program, world.train, world.val, asking, Writing())
    assert best.answering.answer.signature.instructions == "Be brief."
    # Fields that the predictor has not are left behind, and judges stay as they are.
    assert [dict(demo) for demo in best.answering.answer.demos] == [DEMO]
    assert best.picking.judge.demos == []
    assert (best.top_k, best.answering.answer.lm) == (world.program.top_k, world.lm)
    assert world.program.answering.answer.demos == []
    assert told[:2] == [("Writing", 1, 1), ("Writing", 2, 2)]


PREDICTORS = {
    "decomposition.decompose",
    "examination.quiz",
    "examination.same",
    "picking.judge",
    "answering.answer",
    "summarizing.summarize",
}
JUDGES = {"examination.same", "picking.judge"}


@pytest.mark.parametrize(
    ("switched", "changed"),
    [
        ({}, PREDICTORS),
        ({"decompose": False}, PREDICTORS - {"decomposition.decompose", "summarizing.summarize"}),
        ({"examine": False}, PREDICTORS - {"examination.quiz", "examination.same"}),
        ({"pick": False}, PREDICTORS - {"picking.judge"}),
        ({"select": True}, PREDICTORS | {"selection.construct"}),
    ],
)
def test_what_may_be_changed_is_what_is_switched_on(switched, changed):
    program = KEQA(None, **switched)
    assert set(tunable(program, "gepa")) == changed
    assert set(tunable(program, "mipro")) == set(tunable(program, "simba")) == changed - JUDGES


def test_of_other_methods_the_judges_stay_unless_feedback_reaches_them():
    assert tunable(AlwaysRetrieve(None), "mipro") == ["answer"]
    names = [name for name, _ in Rowen(None).named_predictors()]
    assert tunable(Rowen(None), "gepa") == names
    assert tunable(Rowen(None), "simba") == [name for name in names if name != "same"]


@pytest.mark.parametrize("budget", ["light", "medium", "heavy", 1])
def test_budgets(scripted, budget):
    lm, _ = scripted(lambda *asked: {})
    assert check_optimizer("gepa", lm, budget) is lm


@pytest.mark.parametrize("budget", [0, -1, 1.5, "huge", None])
def test_budgets_that_are_none(scripted, budget):
    lm, _ = scripted(lambda *asked: {})
    with pytest.raises(ConfigurationError, match=f"^the budget must be one of light, .* above 0, not {budget!r}$"):
        check_optimizer("gepa", lm, budget)
