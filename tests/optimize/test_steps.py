"""The steps of a compilation: what each goes on with, and what it says where it leaves something out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import dspy
import pytest

from keqa.errors import ConfigurationError
from keqa.lms.local.provider import LocalProvider
from keqa.optimize import steps
from keqa.optimize.compile import Compiled, compile_program
from keqa.optimize.reference import Labels, UtilityEntries
from keqa.programs.reference.index import Entry

HOW: dict[str, Any] = {"optimizer": "finetune", "tuning": False, "in_flight": 1}
WORSE = "the fine-tuned language model is worse on the validation questions: left out"


@pytest.fixture
def worse(trainable: Any, town: Any) -> Any:
    """A language model that can summarize nothing once it is fine-tuned."""
    return trainable(becomes=trainable(town(refuses="Summarize")))


def test_a_program_goes_on_with_its_fine_tuned_language_model(setting: Any, trainable: Any, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    world, lm = setting(train=2, val=2), trainable(provider=LocalProvider("keqa/tiny"), path=str(tmp_path / "model"))
    world.program.set_lm(lm)
    found = compile_program(world.program, world.train, world.val, folder=tmp_path / "work", **HOW)
    report = found.report
    # Its answers are its own, though the program differs from the one before in its language model alone.
    assert [(trial.name, trial.scores) for trial in report.trials] == [
        ("the program as it is", (2 / 3, 2 / 3)),
        ("finetune", (1.0, 1.0)),
    ]
    assert (report.before, report.after, report.chosen) == ((2 / 3, 2 / 3), (1.0, 1.0), ["finetune"])
    assert report.problems == []
    assert report.finetuned_on["picking.judge"] == 4
    assert {predictor.lm for predictor in found.program.predictors()} == {lm.becomes}
    assert found.lm_folders == dict.fromkeys(("task", "consistency", "utility"), tmp_path / "model")
    assert found.saved_lms(tmp_path / "small") == {"task": tmp_path / "small.lm"}
    [how] = lm.trained
    assert Path(how["train_kwargs"]["folder"]).parent == tmp_path / "work"


def test_a_language_model_that_cannot_be_trained_is_refused_before_any_question(setting: Any) -> None:
    world = setting(train=2, val=1)
    with pytest.raises(ConfigurationError, match="scripted/town cannot be fine-tuned from here"):
        compile_program(world.program, world.train, world.val, **HOW)
    assert world.engine.calls == []


def test_without_a_folder_what_is_trained_lies_where_dspy_keeps_it(setting: Any, trainable: Any) -> None:
    world, lm = setting(train=2, val=1), trainable(provider=LocalProvider("keqa/tiny"))
    world.program.set_lm(lm)
    found = compile_program(world.program, world.train, world.val, training={"epochs": 2}, **HOW)
    assert lm.trained[0]["train_kwargs"] == {"epochs": 2}
    assert (found.lm_folders, found.folder) == ({}, None)


def test_a_fine_tuned_language_model_that_is_worse_beyond_chance_is_left_out(setting: Any, worse: Any) -> None:
    world = setting(train=2, val=4)
    world.program.set_lm(worse)
    found = compile_program(world.program, world.train, world.val, **HOW)
    report = found.report
    assert [(trial.name, trial.score) for trial in report.trials] == [
        ("the program as it is", pytest.approx(2 / 3)),
        ("finetune", 0.0),
    ]
    assert (report.chosen, report.problems) == (["the program as it is"], [WORSE])
    assert report.after == report.before == report.trials[0].scores
    assert (report.finetuned_on, found.lm_folders) == ({}, {})
    assert {predictor.lm for predictor in found.program.predictors()} == {worse}


@pytest.mark.parametrize("val", [1, 2])
def test_one_question_proves_no_language_model_worse(setting: Any, worse: Any, val: int) -> None:
    world = setting(train=2, val=val)
    world.program.set_lm(worse)
    report = compile_program(world.program, world.train, world.val, **HOW).report
    assert report.chosen == (["finetune"] if val == 1 else ["the program as it is"])


def test_one_that_is_as_good_is_kept(setting: Any, trainable: Any) -> None:
    world = setting(train=2, val=2)
    world.program.set_lm(trainable(becomes=trainable()))
    report = compile_program(world.program, world.train, world.val, **HOW).report
    assert (report.chosen, report.problems) == (["finetune"], [])


class Around(dspy.Module):
    """A module with a program in it."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner


@pytest.mark.parametrize("nested", [False, True])
def test_fine_tuned_language_models_are_saved_beside_the_program(
    setting: Any, trainable: Any, tmp_path: Path, nested: bool
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "training.json").write_text("{}")
    world, lm = setting(train=2, val=1), trainable(path=str(model))
    world.program.set_lm(lm)
    whole = Around(world.program) if nested else world.program
    found: Compiled[Any] = compile_program(whole, world.train, world.val, **HOW)
    found.save(tmp_path / "small")
    assert (tmp_path / "small.lm" / "training.json").read_text() == "{}"
    about = json.loads((tmp_path / "small" / "program.json").read_text())["about"]
    assert about["language_models"] == {"task": "small.lm", "consistency": "small.lm", "utility": "small.lm"}
    assert about["finetuned_on"]["picking.judge"] == 4


@pytest.mark.parametrize(
    ("count", "named"),
    [(1, "t0"), (5, "t0, t1, t2, t3, t4"), (6, "t0, t1, t2, t3, t4 and 1 more")],
)
def test_what_keeps_a_reference_small_is_told(
    setting: Any, monkeypatch: pytest.MonkeyPatch, count: int, named: str
) -> None:
    lost = {f"t{number}": Labels(lost=Counter({"LMServerError": 2})) for number in range(count)}
    few = {"t9": Labels(problems=["no passage was found", "nor any other"])}
    monkeypatch.setattr(steps, "build_reference", lambda *_: UtilityEntries(lost | few))
    world = setting(train=2, val=1)
    found = compile_program(world.program, world.train, world.val, optimizer="none", tuning=False)
    assert found.report.problems == [
        "training question t9: no passage was found; nor any other",
        f"{2 * count} passages have no label, since a call failed with LMServerError: of training questions {named}",
        "no passage made an answer better or worse, so there is no utility reference",
    ]
    assert (found.report.reference, found.report.chosen) == ({}, ["the program as it is"])
    assert found.program.picking.reference is None


@pytest.mark.parametrize("val", [1, 2])
def test_a_reference_that_is_worse_beyond_chance_is_left_out(
    setting: Any, town: Any, monkeypatch: pytest.MonkeyPatch, val: int
) -> None:
    class Misled(town):
        def JudgeUtility(self, inputs: Any, config: Any, shown: Any) -> Any:
            return {"helpful": "married" in inputs["passage"] and not shown}

    quiz = "To whom is Mayor0 married?"
    entries = [Entry("t0", quiz, text, helpful) for text, helpful in (("a", True), ("b", False), ("c", True))]
    monkeypatch.setattr(steps, "build_reference", lambda *_: UtilityEntries({"t0": Labels(entries)}))
    world = setting(Misled(), train=2, val=val)
    found = compile_program(world.program, world.train, world.val, optimizer="none", tuning=False)
    report = found.report
    assert [(trial.name, trial.score) for trial in report.trials] == [
        ("the program as it is", pytest.approx(2 / 3)),
        ("the utility reference", 0.0),
    ]
    if val == 1:
        assert report.chosen == ["the program as it is", "the utility reference"]
        assert (report.reference, report.problems) == ({"helpful": 2, "harmful": 1}, [])
        assert [one.passage for one in found.program.picking.reference.entries] == ["a", "b", "c"]
    else:
        assert report.chosen == ["the program as it is"]
        assert report.problems == ["the utility reference made answers worse on the validation questions: left out"]
        assert found.program.picking.reference is None
        assert report.reference == {}
    assert world.program.picking.reference is None


def test_a_reference_that_is_as_good_is_kept(setting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = UtilityEntries({"t0": Labels([Entry("t0", "To whom is Mayor0 married?", "a", True)])})
    monkeypatch.setattr(steps, "build_reference", lambda *_: entries)
    world = setting(train=2, val=2)
    report = compile_program(world.program, world.train, world.val, optimizer="none", tuning=False).report
    assert report.after == report.before
    assert report.chosen == ["the program as it is", "the utility reference"]
    assert (report.reference, report.problems) == ({"helpful": 1, "harmful": 0}, [])
