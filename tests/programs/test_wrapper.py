"""What `keqa.compile` returns is used as the program that is inside it."""

import asyncio
import copy
from types import SimpleNamespace

import dspy
import pytest
from fixtures.one_quiz import REPLIES, Nesting
from fixtures.replies import Replies

import keqa
from keqa.errors import ConfigurationError, InputError
from keqa.optimize.compile import Compiled
from keqa.programs.wrapper import program_within


@pytest.fixture
def program(scripted, retriever):
    lm, _ = scripted(Replies(**REPLIES, AnswerQuiz={"answer": "Ann"}))
    return keqa.KEQA(retriever("text"), lms=SimpleNamespace(task=lm, consistency=lm, utility=lm))


@pytest.fixture
def compiled(program):
    return Compiled(program, report=None, reflection_lm="sk-secret")


def test_it_answers_in_every_way_that_the_program_does(compiled, tmp_path):
    assert compiled("Who is it?").answer == "Ann"
    assert compiled.forward(question="Who is it?").answer == "Ann"
    assert asyncio.run(compiled.acall(question="Who is it?")).answer == "Ann"
    assert [one.answer for one in compiled.answer_many(["Who is it?"])] == ["Ann"]
    assert str(list(compiled.stream("Who is it?"))[-1]) == "Answered: Ann"
    assert compiled.as_tool().func("Who is it?").startswith("Ann")
    with pytest.raises(ConfigurationError, match=r"is a folder: keqa\.load\(folder, retriever, lms\) loads"):
        compiled.load(tmp_path, False)
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = compiled.no_such_thing


def test_settings_are_those_of_the_program(compiled, program):
    compiled.max_question_chars = 5
    assert program.max_question_chars == compiled.max_question_chars == 5
    compiled.note = "mine"
    assert not hasattr(program, "note")
    lm = dspy.LM("openai/other", api_key="x")
    compiled.set_lm(lm)
    assert compiled.get_lm() is program.get_lm() is lm
    compiled.callbacks = ["heard"]
    assert (program.callbacks, compiled.history is program.history) == (["heard"], True)


def test_a_parent_sees_its_predictors_and_saves_them_by_the_names_of_the_program(compiled, program, tmp_path):
    parent, plain = Nesting(compiled), Nesting(program.deepcopy())
    assert [name for name, _ in parent.named_predictors()] == [name for name, _ in plain.named_predictors()]
    summarize = program.summarizing.summarize
    summarize.signature = summarize.signature.with_instructions("Be brief.")
    parent.save(tmp_path / "parent.json")
    plain.load(tmp_path / "parent.json")
    assert plain.qa.summarizing.summarize.signature.instructions == "Be brief."
    other = Nesting(Compiled(keqa.KEQA(None), report=None))
    other.load(tmp_path / "parent.json")
    assert other.qa.program.summarizing.summarize.signature.instructions == "Be brief."


def test_copies_are_apart(compiled, program):
    for copied in (copy.deepcopy(compiled), compiled.deepcopy(), Nesting(compiled).deepcopy().qa):
        assert isinstance(copied, Compiled)
        assert copied.program is not program
        assert copied("Who is it?").answer == "Ann"
    both = copy.deepcopy({"wrapper": compiled, "program": program})
    assert both["wrapper"].program is both["program"]
    assert copy.copy(compiled).program is program
    assert type(compiled.reset_copy()) is keqa.KEQA


def test_the_front_doors_take_it(compiled, tmp_path):
    tally = keqa.evaluate(compiled, [{"question": "Who is it?", "answer": "Ann"}], out=tmp_path / "run.jsonl")
    assert tally.mean("em") == 1
    (tmp_path / "own.csv").write_text("question,answer\nWho is it?,Ann\n")
    assert keqa.evaluate(compiled, tmp_path / "own.csv", out=tmp_path / "own.jsonl").mean("em") == 1
    (tmp_path / "bad.csv").write_text("question,answer\nWho is it?,Ann\nWho?\n")
    with pytest.raises(InputError, match=r"1 questions of .*bad.csv cannot be used\n  .*line 3: there are 1 cells"):
        keqa.evaluate(compiled, str(tmp_path / "bad.csv"), out=tmp_path / "bad.jsonl")
    with pytest.raises(ConfigurationError, match=r"^keqa.evaluate takes a KEQA .*, not a Nesting; of a module"):
        keqa.evaluate(Nesting(compiled), [], out=tmp_path / "run.jsonl")
    with pytest.raises(ConfigurationError, match=r"^keqa.save takes a KEQA .*, not a str"):
        keqa.save("my-program", tmp_path / "saved")
    assert program_within(compiled, "x") is compiled.program
