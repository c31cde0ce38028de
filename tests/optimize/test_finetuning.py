"""Fine-tuning a program's language models on its own right calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dspy
import pytest

import keqa
from keqa.errors import ConfigurationError, InputError
from keqa.evaluation.questions import of_testbed
from keqa.lms import build_roles
from keqa.lms.local.adapters import is_adapter
from keqa.optimize.asking import Asking, Trace
from keqa.optimize.finetuning import OtherLMsJournal, check_finetunable, places_beside, right_calls
from keqa.optimize.options import Options
from keqa.programs.keqa import KEQA
from keqa.programs.records import QuestionRecord
from keqa.storage.journal import Journal
from keqa.testbed.index import open_encyclopedia


@pytest.mark.model
def test_a_program_is_compiled_into_an_adapter(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    train, val = (list(of_testbed(split).examples)[:count] for split, count in (("train", 8), ("dev", 3)))
    program = KEQA(open_encyclopedia(), lms=build_roles("keqa/tiny", cache=False))
    program.summarizing.summarize.demos = [
        dspy.Example(
            question="Who?",
            answered_quizzes=["Who? Ann"],
            answer_type="short",
            choices=[],
            explanation="x",
            answer="Ann",
        )
    ]
    how = {"optimizer": "finetune", "training": {"epochs": 1, "rank": 2}, "tuning": False, "folder": tmp_path / "work"}
    compiled = keqa.compile(program, train, val, **how)
    assert sum(compiled.report.finetuned_on.values()) > 10
    assert all(not predictor.demos for predictor in compiled.program.predictors())
    assert program.summarizing.summarize.demos
    assert compiled.program.get_lm().model.startswith("transformers/finetuned-")
    assert len({predictor.lm for predictor in compiled.program.predictors()}) == 1
    compiled.save(tmp_path / "small")
    assert is_adapter(tmp_path / "small.lm")
    about = json.loads((tmp_path / "small" / "program.json").read_text())["about"]
    assert about["language_models"] == {"task": "small.lm", "consistency": "small.lm", "utility": "small.lm"}
    loaded = keqa.load(
        tmp_path / "small", open_encyclopedia(), build_roles(f"transformers/{tmp_path / 'small.lm'}", cache=False)
    )
    asked = (compiled, loaded)
    assert len({str(one(train[0].question).answer) for one in asked}) == 1
    again = keqa.compile(program, train, val, **how)
    assert again.report.spent.calls == 0
    assert again.report.after == compiled.report.after
    with pytest.raises(ConfigurationError, match="is fine-tuned already: give its base"):
        keqa.compile(compiled.program, train, val, optimizer="finetune", tuning=False)


def test_a_language_model_that_cannot_be_trained_is_refused_before_any_call() -> None:
    program = KEQA(
        lambda query: [], lms=build_roles(dspy.LM("openai/gpt-5", api_key="none", api_base="http://127.0.0.1:1"))
    )
    for predictor in program.predictors():
        predictor.lm.provider = dspy.Provider()
    with pytest.raises(ConfigurationError, match="cannot be fine-tuned from here: take one of this process"):
        check_finetunable(program)


def test_options_of_training_are_those_of_finetune() -> None:
    assert Options(optimizer="finetune", training={"epochs": 2}).training == {"epochs": 2}
    with pytest.raises(ConfigurationError, match="training is that of finetune; bootstrap trains no"):
        Options(training={"epochs": 2})
    with pytest.raises(ConfigurationError, match="no option 'epoch' of training"):
        Options(optimizer="finetune", training={"epoch": 2})
    with pytest.raises(ConfigurationError, match="asks none"):
        Options(optimizer="finetune", reflection_lm="keqa/tiny")


def test_wrong_calls_are_left_out_and_verdicts_balanced(setting: Any, tmp_path: Path) -> None:
    from keqa.metrics.answers import f1

    program, example = KEQA(lambda query: []), setting(train=2).train[1]
    quizzes = {"Who governs Town1?": ["Bo Mayor1", "Ed Wrong"]}
    steps: list[Any] = [
        ("examination.quiz", {"quiz": quiz, "answer_type": "short", "choices": []}, {"answer": answer})
        for quiz, answers in quizzes.items()
        for answer in answers
    ]
    judged = [("It is Bo Mayor1.", True), ("It is fine.", False), ("It rains.", False), ("Ed Wrong sleeps.", True)]
    steps += [
        ("picking.judge", {"quiz": "Who governs Town1?", "passage": passage}, {"helpful": helpful})
        for passage, helpful in judged
    ]
    record = QuestionRecord.model_construct(
        question=example.question, answer="Ann Spouse1", quizzes=[], answer_type="short", choices=[], degradations=[]
    )
    trace = Trace(example, record, None, 1.0, tuple(steps))
    with Journal.open(tmp_path / "journal.jsonl", {}) as journal:
        found = right_calls(program, [trace], Asking(journal, f1), Options(optimizer="finetune"))
    assert [one["answer"] for one in found["examination.quiz"]] == ["Bo Mayor1"]
    assert sorted(one["helpful"] for one in found["picking.judge"]) == [False, True]
    assert all(one["passage"] != "Ed Wrong sleeps." for one in found["picking.judge"])


def test_answers_of_other_language_models_are_kept_apart(tmp_path: Path) -> None:
    def lms(name: str) -> keqa.Roles:
        return keqa.Roles(*[dspy.LM(f"openai/{name}", api_key="none")] * 3)

    with Journal.open(tmp_path / "journal.jsonl", {}) as journal:
        one, other = OtherLMsJournal(journal, lms("one")), OtherLMsJournal(journal, lms("other"))
        journal.put("key", {"value": 0})
        one.put("key", {"value": 1})
        assert (one.get("key"), other.get("key"), journal.get("key")) == ({"value": 1}, None, {"value": 0})
        assert ("key" in one, "key" in other) == (True, False)
        assert OtherLMsJournal(journal, lms("one")).get_as("key", dict) == {"value": 1}


def test_language_models_lie_beside_their_program() -> None:
    one, two = Path("work/a"), Path("work/b")
    assert places_beside({"task": one, "utility": one}, "out/small") == {
        "task": Path("out/small.lm"),
        "utility": Path("out/small.lm"),
    }
    assert places_beside({"task": one, "utility": two}, "out/small")["utility"] == Path("out/small.lm-utility")


def test_the_command_line_gives_options_of_training() -> None:
    from keqa.cli.compile import read_training

    assert read_training("epochs=3, rate=0.001,method=full") == {"epochs": 3, "rate": 0.001, "method": "full"}
    assert read_training(None) == {}
    with pytest.raises(InputError, match="NAME=VALUE"):
        read_training("epochs")
