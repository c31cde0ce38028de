"""The steps of a compilation: what each goes on with, and what it says where it leaves something out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest

from keqa.errors import ConfigurationError, InputError
from keqa.lms.local.provider import LocalProvider
from keqa.metrics.answers import exact_match, f1
from keqa.optimize import pipeline
from keqa.optimize.asking import Asking
from keqa.optimize.compile import Compiled, compile_program
from keqa.optimize.failures import TooManyFailuresError
from keqa.optimize.finetuning import OtherLMsJournal
from keqa.optimize.options import Options
from keqa.optimize.pipeline import Steps
from keqa.optimize.reference import Labelled, Labeller, UtilityEntries, UtilityEntry
from keqa.programs.fingerprint import digest
from keqa.storage.journal import Journal

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


@pytest.mark.parametrize("kept", [True, False])
def test_later_steps_ask_as_they_did_where_nothing_is_kept(
    setting: Any, trainable: Any, worse: Any, tmp_path: Path, kept: bool
) -> None:
    world, lm = setting(train=2, val=2), trainable() if kept else worse
    world.program.set_lm(lm)
    with Journal.open(tmp_path / "q.jsonl", {}) as journal, Journal.open(tmp_path / "c.jsonl", {}) as calls:
        asking, done = Asking(journal, f1, 1), []
        steps = Steps(
            before=world.program,
            train=world.train,
            val=world.val,
            folder=tmp_path,
            asking=asking,
            calls=calls,
            options=Options(**HOW),
            adapters=None,
        )
        program = steps.run(lambda: done.append(1))
        assert done == [1]
        if kept:
            assert steps.finetuned is not None
            assert program is steps.finetuned.program
            assert isinstance(steps.asking.journal, OtherLMsJournal)
            steps.calls.put("key", {})
            assert (len(calls), "key" in calls) == (1, False)
        else:
            assert program is world.program
            assert (steps.asking, steps.calls, steps.finetuned) == (asking, calls, None)


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
    few = [Labelled(root="t9", problems=("no passage was found", "nor any other"))]
    lost = [Labelled(root=f"t{number}", lost={"LMServerError": 2}) for number in range(count)]
    monkeypatch.setattr(pipeline, "build_reference", lambda *_: UtilityEntries([*lost, *few]))
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

    of = {"root": "t0", "quiz": "To whom is Mayor0 married?", "passage_id": "m0", "gain": 1.0, "basis": "quiz"}
    entries = [UtilityEntry(**of, passage=text, helpful=helpful) for text, helpful in (("a", True), ("b", False))]
    entries.append(UtilityEntry(**of, passage="c", helpful=True))
    monkeypatch.setattr(pipeline, "build_reference", lambda *_: UtilityEntries([Labelled(root="t0", entries=entries)]))
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
    of = {"root": "t0", "quiz": "To whom is Mayor0 married?", "passage_id": "m0", "gain": 1.0, "basis": "quiz"}
    entries = UtilityEntries([Labelled(root="t0", entries=(UtilityEntry(**of, passage="a", helpful=True),))])
    monkeypatch.setattr(pipeline, "build_reference", lambda *_: entries)
    world = setting(train=2, val=2)
    report = compile_program(world.program, world.train, world.val, optimizer="none", tuning=False).report
    assert report.after == report.before
    assert report.chosen == ["the program as it is", "the utility reference"]
    assert (report.reference, report.problems) == ({"helpful": 1, "harmful": 0}, [])


@pytest.fixture
def steps(tmp_path: Path) -> Any:
    """Makes the steps of a compilation, with a metric of its own."""
    with Journal.open(tmp_path / "q.jsonl", {}) as journal, Journal.open(tmp_path / "c.jsonl", {}) as calls:

        def make(world: Any, **options: Any) -> tuple[Steps, list[tuple[str, int, int]]]:
            told: list[tuple[str, int, int]] = []
            asking = Asking(journal, exact_match, 3, lambda *step: told.append(step))
            return (
                Steps(
                    before=world.program,
                    train=world.train,
                    val=world.val,
                    folder=tmp_path,
                    asking=asking,
                    calls=calls,
                    options=Options(**{"optimizer": "none", **options}),
                    adapters=None,
                ),
                told,
            )

        yield make


def test_a_reference_is_labelled_by_the_metric_and_in_a_journal_of_its_own(
    setting: Any, steps: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[tuple[Any, Any, Any, Path]] = []

    def build(labeller: Labeller, train: Any, asking: Asking) -> UtilityEntries:
        # It is open as long as labels are made.
        asking.journal.put("key", {})
        ran.append((labeller, train, asking, *tmp_path.glob("reference-*.jsonl")))
        return UtilityEntries([])

    monkeypatch.setattr(pipeline, "build_reference", build)
    world = setting(train=2, val=1)
    made, _ = steps(world)
    made.problems.append("An earlier step had one.")
    other = world.program.deepcopy()
    assert made._with_reference(other) is other
    [(labeller, train, asking, path)] = ran
    assert labeller.program is other
    assert labeller.correctness is exact_match
    assert train is world.train
    assert asking == replace(made.asking, journal=asking.journal)
    # Named by what labels depend on, so that those of another program lie beside it.
    assert path.name == f"reference-{digest(labeller.fingerprint())}.jsonl"
    with Journal.open(path, labeller.fingerprint()) as journal:
        assert "key" in journal
    assert made.problems == [
        "An earlier step had one.",
        "no passage made an answer better or worse, so there is no utility reference",
    ]
    assert made.trials == []
    other.top_k = 1
    made._with_reference(other)
    assert len([*tmp_path.glob("reference-*.jsonl")]) == 2


@pytest.mark.parametrize(
    ("options", "as_needed", "tries"),
    [({}, False, 10), ({"boundary_reads": "as-needed", "boundary_tries": 7, "in_flight": 2}, True, 7)],
)
def test_a_boundary_model_is_learned_as_the_options_say(
    setting: Any, steps: Any, monkeypatch: pytest.MonkeyPatch, options: Any, as_needed: bool, tries: int
) -> None:
    ran: list[Any] = []

    def learn(*given: Any, progress: Any, **how: Any) -> str:
        progress(1, 4)
        ran.append((given, how))
        return "trained"

    monkeypatch.setattr(pipeline, "learn", learn)
    world = setting(train=2, val=1)
    made, told = steps(world, **options)
    assert made._boundary(world.program) == "trained"
    how = {"tries": tries, "as_needed": as_needed, "store": made.calls, "in_flight": options.get("in_flight", 8)}
    assert ran == [((world.program, world.train, world.val), how)]
    assert told == [("collecting", 1, 4)]
    assert made.problems == []


def test_too_little_for_a_boundary_model_is_told_and_an_outage_ends_the_compilation(
    setting: Any, steps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    error: Exception = InputError("3 quizzes are too few")

    def learn(*given: Any, **how: Any) -> None:
        raise error

    monkeypatch.setattr(pipeline, "learn", learn)
    world = setting(train=2, val=1)
    made, _ = steps(world)
    assert made._boundary(world.program) is None
    assert made.problems == ["no boundary model: 3 quizzes are too few"]
    error = TooManyFailuresError("the server is down")
    with pytest.raises(TooManyFailuresError):
        made._boundary(world.program)
    made, _ = steps(world, boundary=False)
    assert made._boundary(world.program) is None
    world.program.examine = False
    made, _ = steps(world)
    assert made._boundary(world.program) is None
    assert made.problems == []
