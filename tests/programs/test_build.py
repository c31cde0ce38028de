"""Compiled programs and the methods that they serve."""

from __future__ import annotations

import json

import pytest

from keqa.errors import ConfigurationError, InputError
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook, IRCoT
from keqa.programs.build import Parts, check_programs, make, program_of
from keqa.programs.keqa import KEQA
from keqa.programs.registry import METHODS, parse_spec
from keqa.programs.saving.folder import save

DEMO = {"question": "Who?", "answer_type": "short", "choices": [], "reasoning": "So.", "answer": "Ann"}


@pytest.fixture
def folders(tmp_path):
    """Compiled programs by method; that of rag searches for four passages."""
    programs = {"rag": AlwaysRetrieve(None, top_k=4), "cot": ClosedBook(reason=True), "keqa": KEQA(None, tries=3)}
    programs["cot"].answer.demos = [DEMO]
    for name, program in programs.items():
        save(program, tmp_path / name)
    return {name: tmp_path / name for name in programs}


@pytest.fixture
def made(retriever):
    """Makes a method with a compiled program, or several."""
    searched = retriever("Ann lives in Rome.")
    return lambda text, program, **settings: make(parse_spec(text), Parts(searched, None, settings, program))


def test_a_method_is_made_from_the_program_that_was_compiled_for_it(folders, made):
    rag = made("rag", folders["rag"])
    assert (type(rag), rag.top_k, rag._retriever.value.passages[0].text) == (AlwaysRetrieve, 4, "Ann lives in Rome.")
    assert made("rag", folders["rag"], top_k=2).top_k == made("rag:top_k=2", folders["rag"], top_k=3).top_k == 2
    assert made("cot", folders["cot"]).answer.demos == [DEMO]


def test_keqa_serves_what_is_made_of_it_and_leaves_the_others_as_they_are(folders, made):
    assert made("keqa-full", folders["keqa"]).examination.tries == 3
    assert made("cot", folders["keqa"]).answer.demos == []
    assert made("rag", folders["keqa"]).top_k == 10


def test_of_several_programs_each_serves_its_own_method(folders, made):
    every = list(folders.values())
    assert made("rag", every).top_k == 4
    assert made("cot", every).answer.demos == [DEMO]
    assert made("keqa-no-qke", every).examination.tries == 3
    assert (made("rag-cot", every).top_k, type(made("ircot", every))) == (10, IRCoT)
    assert made("keqa", [folders["rag"]]).examination.tries == 5


@pytest.mark.parametrize(
    ("text", "folder", "message"),
    [
        ("rag", "cot", "holds a compiled cot, not rag: give a program that keqa compile --method rag wrote"),
        ("rag-cot", "rag", "holds a compiled rag, not rag-cot"),
        ("keqa", "rag", "holds a compiled rag, not keqa"),
        ("keqa-no-qke", "cot", "holds a compiled cot, not keqa"),
        ("cot-few-shot", "cot", "holds a compiled cot, not keqa"),
    ],
)
def test_the_only_program_must_not_be_another_methods(folders, made, text, folder, message):
    with pytest.raises(InputError, match=message):
        made(text, folders[folder])


def test_two_programs_of_one_method_are_refused(folders, tmp_path):
    save(AlwaysRetrieve(None), tmp_path / "other")
    with pytest.raises(InputError, match="both hold a compiled rag: give one of them"):
        program_of(METHODS["cot"], [folders["rag"], tmp_path / "other"])


def test_a_program_that_serves_no_method_of_a_comparison_is_refused(folders):
    specs = [parse_spec("rag:top_k=3"), parse_spec("keqa-full")]
    check_programs(specs, [folders["rag"], folders["keqa"]])
    check_programs(specs, folders["keqa"])
    check_programs(specs, None)
    with pytest.raises(InputError, match="cot holds a compiled cot, which means nothing to rag, keqa-full"):
        check_programs(specs, [*folders.values()])


def test_a_folder_without_a_program_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no compiled program"):
        program_of(METHODS["rag"], [tmp_path])
    (tmp_path / "program.json").write_text(json.dumps({"format": "keqa-program", "version": 9}))
    with pytest.raises(ConfigurationError, match="format version 9"):
        program_of(METHODS["rag"], tmp_path)


def test_few_shot_reasoning_still_comes_from_keqa(folders, made, tmp_path):
    program = KEQA(None)
    program.summarizing.summarize.demos = [
        {"question": "Who?", "answered_quizzes": [], "explanation": "So.", "answer": "Ann"}
    ]
    save(program, tmp_path / "learned")
    assert made("cot-few-shot", tmp_path / "learned").answer.demos == [DEMO]
    assert made("cot-few-shot", [folders["cot"], tmp_path / "learned"]).answer.demos == [DEMO]
    with pytest.raises(ConfigurationError, match="takes its demonstrations from a compiled KEQA"):
        made("cot-few-shot", [folders["cot"]])
