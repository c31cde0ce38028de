"""Compiled programs of other methods than KEQA: what the folder names, and what is refused."""

import json

import pytest

import keqa
from keqa.errors import ConfigurationError, InputError, KeqaError
from keqa.programs import KEQA
from keqa.programs.baselines import ClosedBook, IRCoT
from keqa.programs.registry import METHODS, compilable, load_class, made, name_of
from keqa.programs.saving.folder import about


@pytest.fixture
def saved(tmp_path):
    """A chain of thought."""
    keqa.save(ClosedBook(reason=True), tmp_path / "program")
    return tmp_path / "program"


def rewritten(folder, **parts):
    path = folder / "program.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | parts))


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if compilable(method)])
def test_every_method_comes_back_as_it_was(name, tmp_path):
    cls = load_class(METHODS[name].target)
    program = made(cls, None, None, {**METHODS[name].fixed, "workers": 3, "max_question_chars": 90})
    for predictor in program.predictors():
        predictor.signature = predictor.signature.with_instructions("Other words.")
        predictor.demos = [dict.fromkeys(predictor.signature.fields)]
    keqa.save(program, tmp_path / "program")
    assert about(tmp_path / "program")["method"] == name == name_of(program)
    loaded = keqa.load(tmp_path / "program", None, method=name)
    assert type(loaded) is cls
    assert loaded.dump_state() == program.dump_state()
    assert loaded.bound.workers == 3


@pytest.mark.parametrize("name", ["telepathy", "cot-few-shot", "keqa-full"])
def test_a_method_that_is_another_or_not_known_is_refused(saved, name):
    with pytest.raises(InputError, match="holds a compiled cot, not rag: give a program that was compiled for that"):
        keqa.load(saved, None, method="rag")
    rewritten(saved, method=name)
    with pytest.raises(ConfigurationError, match=f"unknown method '{name}': .* of your own, which is registered"):
        keqa.load(saved, None)


def test_settings_that_a_method_has_not_are_refused(saved):
    with pytest.raises(ConfigurationError, match="cot has no top_k; it has demonstrations, max_question_chars"):
        keqa.load(saved, None, top_k=3)
    with pytest.raises(ConfigurationError, match="compiled for other prompts: the fields of answer"):
        keqa.load(saved, None, reason=False)
    rewritten(saved, settings={"reason": True, "depth": 3})
    with pytest.raises(ConfigurationError, match=r"unknown settings \['depth'\]"):
        keqa.load(saved, None)


class Own(IRCoT):
    """A method of one's own."""


def test_a_class_of_ones_own_cannot_be_saved(tmp_path):
    with pytest.raises(ConfigurationError, match=r"only a KEQA can be saved.*: register a class of your own"):
        keqa.save(Own(None), tmp_path / "program")
    assert not (tmp_path / "program").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"embedder": 5}, "keqa.load: embedder must be an embedder, or the name of one, not 5"),
        ({"reference": None}, "keqa has no reference; it has arbiter, chooser, cite, decompose,"),
        ({"colour": "red"}, "keqa has no colour; it has arbiter, chooser, cite, decompose,"),
    ],
)
def test_arguments_of_loading_that_are_none_are_refused_in_one_line(tmp_path, wrong, message):
    keqa.save(KEQA(None), tmp_path / "program")
    with pytest.raises(KeqaError, match=message) as refused:
        keqa.load(**{"folder": tmp_path / "program", "retriever": None, **wrong})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("lm", [5, None, ["openai/gpt-4o-mini"]])
def test_roles_are_built_from_language_models_only(lm):
    with pytest.raises(ConfigurationError, match=r"is no language model\. Give a dspy\.LM, or one of: openai/"):
        keqa.build_roles(lm)
