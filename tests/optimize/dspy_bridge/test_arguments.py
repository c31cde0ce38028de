"""What DSPy's optimizers are given, and what is taken from what they make."""

from __future__ import annotations

from types import SimpleNamespace

import dspy
import pytest

from keqa.errors import ConfigurationError
from keqa.lms.outside import Guarded
from keqa.metrics.answers import f1
from keqa.optimize.asking import Asking
from keqa.optimize.dspy_bridge.optimizers import check_optimizer, optimize, tunable
from keqa.optimize.options import Options
from keqa.optimize.scoring import example_for_metrics
from keqa.programs.baselines import AlwaysRetrieve, Rowen
from keqa.programs.keqa import KEQA
from keqa.storage.journal import Journal

CLASSES = {"gepa": "GEPA", "mipro": "MIPROv2", "simba": "SIMBA"}
JUDGED = {"quiz": "Who?", "passage": "Dan.", "helpful": True}
DEMO = {"question": "Who?", "passages": [], "answer": "Dan", "augmented": True, "rationale": "so"}


@pytest.fixture
def run(setting, scripted, tmp_path, monkeypatch):
    """Runs an optimizer of which only the arguments are wanted: it asks the first question and advises."""

    def ran(name, budget, train=3, val=2, seed=7):
        world, seen = setting(train=train, val=val), SimpleNamespace(progress=[])
        reflection, _ = scripted(lambda *asked: {})

        class Recording:
            def __init__(self, *metric, **settings):
                seen.metric, seen.settings = metric[0] if metric else settings.pop("metric"), settings

            def compile(self, student, **given):
                seen.student, seen.given = student, given
                (example, *_) = given["trainset"]
                for _ in range(2):
                    student(**example.inputs())
                copied = student.reset_copy()
                answering = copied.program.answering.answer
                answering.signature = answering.signature.with_instructions("Be brief.")
                answering.demos = [dspy.Example(**DEMO)]
                copied.program.picking.judge.demos = [dspy.Example(**JUDGED), dspy.Example(passage="No label.")]
                copied.program.top_k = 9
                return copied

        monkeypatch.setattr(dspy, CLASSES[name], Recording)
        options = Options(optimizer=name, reflection_lm=reflection, budget=budget, seed=seed)
        with Journal.open(tmp_path / f"{name} {budget}", {}) as journal:
            asking = Asking(journal, f1, 3, lambda *step: seen.progress.append(step))
            seen.best = optimize(world.program, world.train, world.val, asking, options)
        seen.world, seen.reflection = world, reflection
        return seen

    return ran


def given(seen):
    """What it was compiled with, the questions by their ids."""
    parts = {name: [one.root for one in seen.given.pop(name)] for name in ("trainset", "valset") if name in seen.given}
    return parts | seen.given


def settings(seen, lm):
    """What it was set up with; of the language model a watched copy."""
    assert seen.settings.pop(lm).model == seen.reflection.model
    return seen.settings


@pytest.mark.parametrize(("budget", "limit"), [("medium", {"auto": "medium"}), (40, {"max_metric_calls": 40})])
def test_gepa(run, budget, limit):
    seen = run("gepa", budget)
    assert type(seen.settings.pop("instruction_proposer").adapter) is Guarded
    assert settings(seen, "reflection_lm") == {"num_threads": 3, "seed": 7, "use_merge": False} | limit
    assert given(seen) == {"trainset": ["t0", "t1", "t2"], "valset": ["t3", "t4"]}
    gold = example_for_metrics(seen.world.train[0])
    scored = seen.metric(gold, SimpleNamespace(answer="Spouse0", record=None), None, None, None)
    assert (scored.score, "the score is 0.67" in scored.feedback) == (pytest.approx(2 / 3), True)
    total = budget if isinstance(budget, int) else 0
    assert [step for step in seen.progress if step[0] == "gepa"] == [("gepa", n, max(n, total)) for n in (1, 2)]


@pytest.mark.parametrize(
    ("budget", "train", "val", "limit", "asked"),
    [
        ("medium", 3, 2, {"auto": "medium", "num_candidates": None}, (None, False, 2)),
        (5, 3, 2, {"auto": None, "num_candidates": 3}, (5, False, 2)),
        (5, 3, 50, {"auto": None, "num_candidates": 3}, (5, False, 35)),
        (5, 3, 51, {"auto": None, "num_candidates": 3}, (5, True, 35)),
    ],
)
def test_mipro(run, budget, train, val, limit, asked):
    seen = run("mipro", budget, train, val)
    assert seen.settings.pop("task_model") is seen.world.lm
    assert (
        settings(seen, "prompt_model")
        == {
            "max_bootstrapped_demos": 4,
            "max_labeled_demos": 0,
            "metric_threshold": 0.8,
            "num_threads": 3,
            "max_errors": 10**6,
            "seed": 7,
        }
        | limit
    )
    found = given(seen)
    assert (len(found.pop("trainset")), len(found.pop("valset"))) == (train, val)
    assert found == dict(zip(("num_trials", "minibatch", "minibatch_size"), asked, strict=True))
    gold = example_for_metrics(seen.world.train[0])
    assert seen.metric(gold, SimpleNamespace(answer="Spouse0", record=None)) == pytest.approx(2 / 3)
    # The number is one of trials, each of many questions.
    assert [step for step in seen.progress if step[0] == "mipro"] == [("mipro", 1, 1), ("mipro", 2, 2)]


@pytest.mark.parametrize(
    ("budget", "train", "limit"),
    [
        ("light", 3, {"bsize": 3, "num_candidates": 3, "max_steps": 2}),
        ("medium", 3, {"bsize": 3, "num_candidates": 4, "max_steps": 4}),
        ("heavy", 40, {"bsize": 32, "num_candidates": 6, "max_steps": 8}),
        (7, 3, {"bsize": 3, "num_candidates": 3, "max_steps": 7}),
    ],
)
def test_simba(run, budget, train, limit):
    seen = run("simba", budget, train)
    assert settings(seen, "prompt_model") == {"num_threads": 3} | limit
    assert given(seen) == {"trainset": [f"t{number}" for number in range(train)], "seed": 7}
    gold = example_for_metrics(seen.world.train[0])
    assert seen.metric(gold, SimpleNamespace(answer="Spouse0", record=None)) == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", CLASSES)
def test_only_what_an_optimizer_may_change_is_taken_over(run, name):
    seen = run(name, 5)
    best, before = seen.best, seen.world.program
    assert best.answering.answer.signature.instructions == "Be brief."
    # Fields that the predictor has not are left behind.
    kept = {key: value for key, value in DEMO.items() if key not in ("augmented", "rationale")}
    assert [dict(demo) for demo in best.answering.answer.demos] == [kept]
    # Of a judge GEPA alone may change something, and what holds no verdict shows none.
    assert len(best.picking.judge.demos) == (name == "gepa")
    assert (best.top_k, best.answering.answer.lm) == (before.top_k, seen.world.lm)
    assert before.answering.answer.demos == []
    assert {name for name, _ in seen.student.named_predictors()} == {f"program.{one}" for one in tunable(before, name)}


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
