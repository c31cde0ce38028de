"""Fixed demonstrations: for every prompt, to every language model but the one that ships, unless switched off."""

import json
from typing import Any

import dspy
import pytest
from fixtures.prompts import PROMPTS
from pydantic import TypeAdapter

from keqa.evaluation.evaluate import demonstrations_of, describe
from keqa.lms.local.provider import InProcessLM
from keqa.programs.baselines import ClosedBook
from keqa.programs.calls.predictor import fixed_for
from keqa.programs.fingerprint import program_fingerprint
from keqa.programs.keqa import KEQA
from keqa.signatures.chat_format import sections

ROMEO = "Who wrote Romeo and Juliet?"


def shipped() -> Any:
    """Stands for the language model that ships."""
    return dspy.LM("keqa/tiny@0123", engine="litellm")


SAID = {"answer": "Ann", "same": "True", "standalone": "Who?"}


def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    return {"quizzes": json.dumps(["Who is it?"])} if name == "DecomposeQuestion" else SAID


@pytest.mark.parametrize("name", PROMPTS)
def test_every_prompt_has_four_with_a_value_of_its_type_for_every_field(name: str, scripted: Any) -> None:
    signature = PROMPTS[name]
    demos = fixed_for(name, signature, scripted(reply)[0])
    assert len(demos) == 4
    for demo in demos:
        assert list(demo.keys()) == list(signature.fields)
        for field, info in signature.fields.items():
            TypeAdapter(info.annotation).validate_python(demo[field])
            assert field == "trajectory" or not list(sections(str(demo[field])))


def test_any_language_model_is_shown_them_but_the_one_that_ships(programmed: Any) -> None:
    program, engine = programmed(ClosedBook(), reply)
    assert program(question="Who?").answer == "Ann"
    assert ROMEO in engine.prompts[0]
    assert demonstrations_of(program) == {"answer": 4}
    program.set_lm(shipped())
    assert demonstrations_of(program) == {"answer": 0}


def test_a_language_model_fine_tuned_here_is_shown_none(scripted: Any, tmp_path: Any) -> None:
    _, engine = scripted(reply)
    engine.path = str(tmp_path)
    tuned = InProcessLM("transformers/small@0123", engine=engine)
    assert len(fixed_for("AnswerQuiz", PROMPTS["AnswerQuiz"], tuned)) == 4
    (tmp_path / "training.json").write_text("{}")
    assert fixed_for("AnswerQuiz", PROMPTS["AnswerQuiz"], tuned) == []
    assert fixed_for("AnswerQuiz", PROMPTS["AnswerQuiz"], tuned.copy(temperature=0.7)) == []


@pytest.mark.parametrize("make", [ClosedBook, lambda **settings: KEQA(None, **settings)])
def test_they_can_be_switched_off(programmed: Any, make: Any) -> None:
    program, engine = programmed(make(demonstrations=False), reply)
    program(question="Who?", history=[("Where?", "there")])
    assert engine.count["RewriteFollowUp"] == 1
    assert not any("Hamlet" in prompt or ROMEO in prompt for prompt in engine.prompts)
    assert not any(demonstrations_of(program).values())


def test_a_predictor_with_its_own_shows_these_alone(programmed: Any) -> None:
    program, engine = programmed(KEQA(None), reply)
    program.examination.quiz.demos = [{"quiz": "Who is it?", "answer": "Bob"}]
    program(question="Who?")
    asked = dict(zip([name for name, *_ in engine.calls], engine.prompts, strict=True))
    assert "Hamlet" in asked["DecomposeQuestion"]
    assert "Bob" in asked["AnswerQuiz"]
    assert ROMEO not in asked["AnswerQuiz"]


def test_with_a_utility_reference_the_judge_is_shown_nothing_else(scripted: Any, retriever: Any) -> None:
    lm, engine = scripted(lambda *asked: {"helpful": "True", **reply(*asked)})
    for reference, shown in ((None, True), (lambda quiz, passage: [], False)):
        engine.prompts.clear()
        engine.calls.clear()
        program = KEQA(retriever("Ann is it."), examine=False, decompose=False, reference=reference)
        program.set_lm(lm)
        program(question="Who?")
        asked = dict(zip([name for name, *_ in engine.calls], engine.prompts, strict=True))
        assert ("Hamlet" in asked["JudgeUtility"]) is shown


def test_what_answers_depend_on_tells_them_apart(scripted: Any) -> None:
    lm, _ = scripted(reply)
    programs = [ClosedBook(demonstrations=shown) for shown in (True, False)]
    for program in programs:
        program.set_lm(lm)
    on, off = map(program_fingerprint, programs)
    assert on != off
    assert describe(programs[0])["prompts"] != describe(programs[1])["prompts"]
    for program in programs:
        program.set_lm(shipped())
    assert program_fingerprint(programs[0]) == program_fingerprint(programs[1]) == off
