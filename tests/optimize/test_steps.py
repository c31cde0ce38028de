"""The steps of a compilation, fine-tuning among them: what each goes on with, and what it leaves out."""

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import dspy
import pytest
from fixtures.one_quiz import Nesting
from fixtures.town import Town

import keqa
from keqa.errors import ConfigurationError, InputError
from keqa.evaluation.questions import of_testbed
from keqa.lms import build_roles
from keqa.lms.local.provider import LocalProvider
from keqa.lms.local.weights import is_adapter
from keqa.metrics.answers import f1
from keqa.optimize import compile as compiling
from keqa.optimize import finetuning
from keqa.optimize.asking import Asking, Trace
from keqa.optimize.compile import compile_program
from keqa.optimize.finetuning import check_finetunable, finetune, right_calls, save_lms
from keqa.optimize.options import Options
from keqa.optimize.tuning import GRID
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
from keqa.programs.keqa import KEQA
from keqa.programs.records import QuestionRecord
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.testbed.index import open_encyclopedia

HOW: dict[str, Any] = {"optimizer": "finetune", "tuning": False, "in_flight": 1}
ALL_ROLES = ("task", "consistency", "utility")
AS_IT_IS = "the program as it is"
MUTE = {"refuses": "Summarize"}


def compiled(world, **options):
    return compile_program(world.program, world.train, world.val, **HOW | options)


@pytest.fixture
def taught(setting, trainable):
    """Makes a world of so many training questions, and the language model that its program has."""

    def make(*, train=2, val=4, **how):
        world, lm = setting(train=train, val=val), trainable(**how)
        world.program.set_lm(lm)
        return world, lm

    return make


# What a compilation goes on with.


def test_a_program_goes_on_with_its_fine_tuned_language_model(taught, tmp_path):
    (tmp_path / "model").mkdir()
    world, lm = taught(val=2, provider=LocalProvider("keqa/tiny"), path=str(tmp_path / "model"))
    found = compiled(world, folder=tmp_path / "work")
    report = found.report
    assert [(trial.name, trial.scores) for trial in report.trials] == [
        (AS_IT_IS, (2 / 3, 2 / 3)),
        ("finetune", (1.0, 1.0)),
    ]
    assert (report.before, report.after, report.chosen) == ((2 / 3, 2 / 3), (1.0, 1.0), ["finetune"])
    assert (report.problems, report.finetuned_on["picking.judge"]) == ([], 4)
    assert {predictor.lm for predictor in found.program.predictors()} == {lm.becomes}
    assert found.lm_folders == dict.fromkeys(ALL_ROLES, tmp_path / "model")
    assert found.saved_lms(tmp_path / "small") == {"task": tmp_path / "small.lm"}
    [how] = lm.trained
    assert Path(how["train_kwargs"]["folder"]).parent == tmp_path / "work"


@pytest.mark.parametrize(
    ("does", "val", "kept"),
    # One question proves nothing.
    [(MUTE, 2, False), (MUTE, 1, True), ({}, 2, True)],
)
def test_a_fine_tuned_language_model_that_is_worse_beyond_chance_is_left_out(taught, trainable, does, val, kept):
    other = trainable(Town(**does))
    other.model = "scripted/other"
    world, lm = taught(val=val, becomes=other)
    found = compiled(world)
    report = found.report
    worse = "the fine-tuned language model is worse on the validation questions: left out"
    assert (report.chosen, report.problems) == ((["finetune"], []) if kept else ([AS_IT_IS], [worse]))
    assert [trial.score for trial in report.trials] == [pytest.approx(2 / 3), 0.0 if does else pytest.approx(2 / 3)]
    assert report.after == report.trials[1 if kept else 0].scores
    assert bool(report.finetuned_on) == kept
    assert {predictor.lm for predictor in found.program.predictors()} == {lm.becomes if kept else lm}


@pytest.mark.parametrize("nested", [False, True])
def test_fine_tuned_language_models_are_saved_beside_the_program(taught, tmp_path, nested):
    folder = model(tmp_path / "model", "{}")
    world, _ = taught(val=1, path=str(folder))
    world.program = Nesting(world.program) if nested else world.program
    compiled(world).save(tmp_path / "small")
    assert (tmp_path / "small.lm" / "training.json").read_text() == "{}"
    about = json.loads((tmp_path / "small" / "program.json").read_text())["about"]
    assert about["language_models"] == dict.fromkeys(ALL_ROLES, "small.lm")
    assert about["finetuned_on"]["picking.judge"] == 4


def test_without_an_entry_there_is_no_reference(setting, monkeypatch):
    monkeypatch.setattr(compiling, "build_reference", lambda *_: ([], ["a problem"]))
    found = compiled(setting(train=2, val=1), optimizer="none")
    none = "no passage made an answer better or worse, so there is no utility reference"
    assert found.report.problems == ["a problem", none]
    assert (found.report.reference, found.report.chosen) == ({}, [AS_IT_IS])
    assert found.program.picking.reference is None


@pytest.mark.parametrize(("misled", "val", "kept"), [(True, 1, True), (True, 2, False), (False, 2, True)])
def test_a_reference_that_is_worse_beyond_chance_is_left_out(setting, monkeypatch, misled, val, kept):
    class Misled(Town):
        def JudgeUtility(self, inputs, config, shown):
            return {"helpful": "married" in inputs["passage"] and not (shown and misled)}

    entries = [UtilityEntry("t0", "To whom is Mayor0 married?", text, text != "b") for text in "abc"]
    monkeypatch.setattr(compiling, "build_reference", lambda *_: (entries, []))
    world = setting(Misled(), train=2, val=val)
    found = compiled(world, optimizer="none")
    report, reference = found.report, found.program.picking.reference
    assert [(trial.name, trial.score) for trial in report.trials] == [
        (AS_IT_IS, pytest.approx(2 / 3)),
        ("the utility reference", 0.0 if misled else pytest.approx(2 / 3)),
    ]
    worse = "the utility reference made answers worse on the validation questions: left out"
    assert report.chosen == [AS_IT_IS, *(["the utility reference"] if kept else [])]
    assert (report.reference, report.problems) == (({"helpful": 2, "harmful": 1}, []) if kept else ({}, [worse]))
    assert ([one.passage for one in reference.entries] if kept else reference) == (["a", "b", "c"] if kept else None)
    assert world.program.picking.reference is None


@pytest.mark.parametrize(("score", "told"), [(0.0, 1), (0.5, 0)])
def test_where_nothing_comes_out_right_it_is_told_that_costs_chose(setting, score, told):
    only = {name: () for name in GRID}
    how = {"optimizer": "none", "tuning": True, "reference": False, "boundary": False, "grid": only}
    found = compiled(setting(train=2, val=1), metric=lambda *_: score, **how)
    assert sum("no validation question came out right" in one for one in found.report.problems) == told


# Fine-tuning.


@pytest.mark.model
def test_a_program_is_compiled_into_an_adapter(tmp_path):
    pytest.importorskip("peft")
    train, val = (list(of_testbed(split).examples)[:count] for split, count in (("train", 4), ("dev", 2)))
    program = KEQA(open_encyclopedia(), lms=build_roles("keqa/tiny", cache=False))
    shown = {"question": "Who?", "answered_quizzes": ["Who? Ann"], "answer_type": "short", "choices": []}
    program.summarizing.summarize.demos = [dspy.Example(**shown, explanation="x", answer="Ann")]
    how = {"optimizer": "finetune", "training": {"epochs": 1, "rank": 2}, "tuning": False, "folder": tmp_path / "work"}
    found = keqa.compile(program, train, val, **how)
    assert sum(found.report.finetuned_on.values()) > 10
    assert all(not predictor.demos for predictor in found.program.predictors())
    assert program.summarizing.summarize.demos
    assert found.program.get_lm().model.startswith("transformers/finetuned-")
    assert len({predictor.lm for predictor in found.program.predictors()}) == 1
    found.save(tmp_path / "small")
    assert is_adapter(tmp_path / "small.lm")
    about = json.loads((tmp_path / "small" / "program.json").read_text())["about"]
    assert about["language_models"] == dict.fromkeys(ALL_ROLES, "small.lm")
    lms = build_roles(f"transformers/{tmp_path / 'small.lm'}", cache=False)
    loaded = keqa.load(tmp_path / "small", open_encyclopedia(), lms)
    assert len({str(one(train[0].question).answer) for one in (found, loaded)}) == 1


def test_language_models_that_cannot_be_trained_are_refused_before_any_call(setting, trainable, tmp_path):
    world, lm = setting(train=2, val=1), trainable()
    with pytest.raises(ConfigurationError, match="scripted/town cannot be fine-tuned from here: take one of this proc"):
        compiled(world)
    lm.engine.path = str(tmp_path)
    world.program.set_lm(lm)
    check_finetunable(world.program)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="scripted/town is fine-tuned already: give its base"):
        compiled(world)
    assert world.engine.calls == lm.engine.calls == []
    world.program.set_lm(None)
    with dspy.context(lm=None), pytest.raises(ConfigurationError, match="the language model none cannot be fine-tuned"):
        check_finetunable(world.program)


def test_wrong_calls_are_left_out_and_verdicts_balanced(setting, journal):
    program, example = KEQA(lambda query: []), setting(train=2).train[1]
    asked = {"quiz": "Who governs Town1?"}
    said = [(asked | {"answer_type": "short", "choices": []}, {"answer": one}) for one in ("Bo Mayor1", "Ed Wrong")]
    made = [("examination.quiz", *call) for call in said]
    judged = [("It is Bo Mayor1.", True), ("It is fine.", False), ("It rains.", False), ("Ed Wrong sleeps.", True)]
    made += [("picking.judge", asked | {"passage": passage}, {"helpful": helpful}) for passage, helpful in judged]
    record = QuestionRecord(question=example.question, answer="Ann Spouse1")
    trace = Trace(example, record, 1.0, tuple(made))
    found = right_calls(program, [trace], Asking(journal, f1), Options(optimizer="finetune"))
    assert [one["answer"] for one in found["examination.quiz"]] == ["Bo Mayor1"]
    assert sorted(one["helpful"] for one in found["picking.judge"]) == [False, True]
    assert all(one["passage"] != "Ed Wrong sleeps." for one in found["picking.judge"])


@pytest.fixture
def tune(journal, monkeypatch):
    """Fine-tunes the language models of a world's program."""
    monkeypatch.setattr(finetuning, "_POLLED", 0.0)

    def run(world, *, folder=None, progress=lambda *_: None, **options):
        chosen = Options(optimizer="finetune", **options)
        return finetune(world.program, world.train, Asking(journal, f1, 1, progress), chosen, folder)

    return run


def sections(text):
    """The fields of a message by name."""
    found = re.findall(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n|\Z)", text, re.DOTALL)
    return {name: value.strip() for name, value in found if name != "completed"}


def shown(data):
    """What each conversation asks about and what is to be said, its fields side by side."""
    found = []
    for one in data:
        asked, said = (sections(message["content"]) for message in one["messages"][1:])
        found.append((asked.get("quiz") or asked["question"], " | ".join(said.values())))
    return found


# Of questions 0 and 1: answers in the gold form, and as many verdicts of each kind.
WHOLE = [(number, f"To whom is the mayor of Town{number} married?") for number in (0, 1)]
OF_TASK = [(text, f'["Who governs Town{number}?", "To whom is #1 married?"]') for number, text in WHOLE]
OF_TASK += [(f"Who governs Town{number}?", f"Bo Mayor{number}") for number, _ in WHOLE]
OF_TASK += [(f"To whom is Mayor{number} married?", f"Ann Spouse{number}") for number, _ in WHOLE]
OF_TASK += [(text, f"It follows. | Ann Spouse{number}") for number, text in WHOLE]
OF_CONSISTENCY = [(f"To whom is Mayor{number} married?", "False") for number, _ in WHOLE]
OF_CONSISTENCY += [(f"Who governs Town{number}?", "True") for number, _ in WHOLE]
OF_UTILITY = [(f"To whom is Mayor{number} married?", helpful) for number in (0, 1) for helpful in ("True", "False")]
COUNTS = {
    "decomposition.decompose": 2,
    "examination.quiz": 2,
    "examination.same": 4,
    "picking.judge": 4,
    "selection.construct": 0,
    "answering.answer": 2,
    "summarizing.summarize": 2,
}


def test_a_language_model_is_trained_on_the_right_calls_of_its_program_without_demonstrations(taught, tune):
    world, lm = taught()
    world.program.picking.reference = UtilityReference()
    demo = {"question": "Q", "answered_quizzes": ["Q A"], "answer_type": "short", "choices": [], "explanation": "E"}
    world.program.summarizing.summarize.demos = [demo | {"answer": "A"}]
    told: list[str] = []
    found = tune(world, progress=lambda step, done, total: told.append(step), training={"epochs": 2})
    assert set(told) == {"answering training questions"}
    [how] = lm.trained
    assert (how["train_data_format"], how["train_kwargs"]) == ("chat", {"epochs": 2})
    data = how["train_data"]
    assert {tuple(message["role"] for message in one["messages"]) for one in data} == {("system", "user", "assistant")}
    assert sorted(shown(data)) == sorted(OF_TASK + OF_CONSISTENCY + OF_UTILITY)
    objectives = [one["messages"][0]["content"].rpartition("objective is:")[2].strip() for one in data]
    assert Counter(Counter(objectives).values()) == {2: 4, 4: 2}
    # Those of a predictor are not one after the other.
    assert sum(one != other for one, other in pairwise(objectives)) > 5
    assert found.conversations == COUNTS
    assert {found.program.lms.task, found.program.lms.consistency, found.program.lms.utility} == {lm.becomes}
    assert (found.program.lms.boundary, found.folders, found.program.picking.reference) == (None, {}, None)
    assert {predictor.lm for predictor in found.program.predictors()} == {lm.becomes}
    assert [predictor.demos for predictor in found.program.predictors()] == [[]] * 7
    # The program itself stays as it is.
    assert isinstance(world.program.picking.reference, UtilityReference)
    assert {predictor.lm for predictor in world.program.predictors()} == {lm}
    assert len(world.program.summarizing.summarize.demos) == 1


def test_each_language_model_is_trained_on_the_calls_of_its_own_role(setting, trainable, tune):
    task, consistency, utility = trainable(path="t"), trainable(), trainable(path=Path("no", "text"))
    world, boundary = setting(train=2), dspy.LM("openai/boundary", api_key="none")
    world.program.bind_lms(keqa.Roles(task, consistency, utility, boundary))
    found = tune(world)
    for lm, learned in ((task, OF_TASK), (consistency, OF_CONSISTENCY), (utility, OF_UTILITY)):
        [how] = lm.trained
        assert sorted(shown(how["train_data"])) == sorted(learned)
    assert found.program.lms == keqa.Roles(task.becomes, consistency.becomes, utility.becomes, boundary)
    assert found.folders == {"task": Path("t")}
    assert found.program.examination.same.lm is consistency.becomes
    assert found.program.picking.judge.lm is utility.becomes


def test_other_methods_learn_from_their_right_answers(setting, trainable, tune):
    world, lm, other = setting(train=2), trainable(path="t"), trainable()
    other.engine.path = "o"
    world.program = AlwaysRetrieve(world.program.retriever, top_k=2)
    world.program.bind_lms(keqa.Roles(lm, other, other))
    found = tune(world)
    assert sorted(shown(lm.trained[0]["train_data"])) == [(text, f"Ann Spouse{number}") for number, text in WHOLE]
    assert list(found.conversations.values()) == [2]
    assert {predictor.lm for predictor in found.program.predictors()} == {lm.becomes}
    # One that no part of the program asks is not trained.
    assert other.trained == []
    assert (found.program.lms, found.folders) == (keqa.Roles(lm.becomes, other, other), {"task": Path("t")})


def test_only_questions_that_came_out_right_are_learned_from(taught, tune):
    # The final answer is the surname alone: an F1 of 2/3.
    for threshold, counts in ((2 / 3, (2, 2, 4)), (0.67, (0, 0, 0))):
        world, _ = taught()
        found = tune(world, threshold=threshold).conversations
        names = ("summarizing.summarize", "examination.quiz", "picking.judge")
        assert tuple(found[name] for name in names) == counts
        # What gold answers say alone does not depend on it.
        assert (found["decomposition.decompose"], found["answering.answer"], found["examination.same"]) == (2, 2, 4)


def test_a_language_model_with_nothing_to_learn_stays_with_its_demonstrations(setting, trainable, tune):
    class Sceptical(Town):
        def JudgeUtility(self, inputs, config, shown):
            return {"helpful": False}

    # A judge that is shown one verdict alone would give no other.
    world, task, utility = setting(train=2), trainable(), trainable(Sceptical())
    program = world.program
    program.bind_lms(keqa.Roles(task, task, utility))
    demo = dspy.Example(quiz="Who?", passage="Ann.", helpful=True)
    program.picking.judge.demos, program.picking.reference = [demo], f1
    program.answering.answer.demos = [dspy.Example(quiz="Who?", passages=["Ann."], answer="Ann")]
    found = tune(world)
    assert (utility.trained, len(task.trained)) == ([], 1)
    assert found.program.lms.task is found.program.lms.consistency is task.becomes
    assert found.program.lms.utility is utility
    assert (found.program.picking.judge.lm, found.program.answering.answer.lm) == (utility, task.becomes)
    assert (found.program.picking.judge.demos, found.program.answering.answer.demos) == ([demo], [])
    assert found.program.picking.reference is f1
    assert set(found.folders) <= {"task", "consistency"}


def test_where_no_call_is_right_nothing_is_trained(setting, trainable, tune):
    world, task = setting(train=2), trainable()
    world.program = ClosedBook(reason=True)
    world.program.set_lm(task)
    with pytest.raises(InputError, match="no call of the program on the training questions is known to be right"):
        tune(world)
    assert task.trained == []


@pytest.mark.parametrize(
    ("outcome", "raised", "told"),
    [
        (InputError("the folder is taken"), InputError, "^the folder is taken$"),
        (OSError("no space"), ConfigurationError, "^scripted/town could not be fine-tuned: no space$"),
    ],
)
def test_what_ends_a_training_is_told(taught, tune, outcome, raised, told):
    world, _ = taught(becomes=outcome)
    with pytest.raises(raised, match=told) as error:
        tune(world)
    assert outcome in (error.value, error.value.__cause__)


def test_a_training_ends_with_the_compilation_that_waits_for_it(taught, tune):
    world, lm = taught(states=[{"step": 1, "steps": 2}])

    def progress(step, done, total):
        if step == "fine-tuning":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(world, progress=progress)
    assert lm.jobs[0].stopped
    world, lm = taught(states=[NotImplementedError(), {"step": 1, "steps": 2}])
    told = []
    tune(world, progress=lambda *now: told.append(now))
    assert (("fine-tuning", 1, 2) in told, lm.jobs[0].stopped) == (True, False)


def test_a_training_of_this_process_has_a_folder_named_for_all_that_it_depends_on(taught, tune, tmp_path):
    def folder_of(train=2, model="", own=None, **options):
        world, lm = taught(train=train, provider=own or LocalProvider("keqa/tiny"))
        lm.model += model
        tune(world, folder=tmp_path, **options)
        kwargs = lm.trained[0]["train_kwargs"]
        assert {name: value for name, value in kwargs.items() if name != "folder"} == options.get("training", {})
        return str(kwargs.get("folder"))

    first = folder_of()
    assert re.fullmatch(f"{re.escape(str(tmp_path))}/finetuned-[0-9a-f]+", first)
    assert folder_of() == first
    assert len({first, folder_of(train=3), folder_of(model="-2"), folder_of(training={"epochs": 2})}) == 4
    # Others keep what they train where they will.
    remote = dspy.Provider()
    remote.finetunable = True
    assert folder_of(own=remote) == "None"


def model(folder, text):
    """A folder as a training leaves it."""
    folder.mkdir()
    (folder / "training.json").write_text(text)
    (folder / "weights").write_text(f"weights of {text}")
    return folder


def test_language_models_are_copied_beside_their_program_and_replace_nothing_else(tmp_path):
    one, two = model(tmp_path / "a", "one"), model(tmp_path / "b", "two")
    (one / "logs").mkdir()
    beside = {role: tmp_path / f"small.lm-{role}" for role in ("task", "consistency")}
    places = save_lms({"task": one, "consistency": two, "utility": one}, tmp_path / "small")
    assert places == beside | {"utility": beside["task"]}
    assert (beside["consistency"] / "weights").read_text() == "weights of two"
    # Another training in its place leaves nothing of the one before.
    (beside["task"] / "older").write_text("")
    save_lms({"task": two, "consistency": one}, tmp_path / "small")
    assert sorted(file.name for file in beside["task"].iterdir()) == ["training.json", "weights"]
    assert (beside["task"] / "weights").read_text() == "weights of two"
    assert (beside["consistency"] / "weights").read_text() == "weights of one"
    (tmp_path / "small.lm").mkdir()
    with pytest.raises(InputError, match=r"small\.lm holds something else, and a fine-tuned language model would go"):
        save_lms({"task": one}, tmp_path / "small")
    with pytest.raises(InputError, match=r"other\.lm cannot be written: .*No such file"):
        save_lms({"task": tmp_path / "gone"}, tmp_path / "other")
