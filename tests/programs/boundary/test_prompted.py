"""The prompted boundary model: which examples it shows, whom it asks, and what it says of itself."""

from __future__ import annotations

import math
from typing import Any

import dspy
import pytest
from dspy.lm15 import ServerError

from keqa.errors import ConfigurationError
from keqa.lms import Roles
from keqa.programs.boundary import BoundaryError, Judgement, model_from
from keqa.programs.boundary.asked import KnownQuiz, PromptedModel, _share, balanced
from keqa.programs.calls.session import CallLimiter, Session, within
from keqa.programs.gate import Draws


def known(quiz: str, mastery: bool = True, **more: Any) -> KnownQuiz:
    return KnownQuiz(quiz=quiz, mastery=mastery, certainty=not mastery, root="0" * 16, **more)


def texts(some: Any) -> list[str]:
    return [one.quiz for one in some]


@pytest.fixture
def judging(scripted: Any) -> Any:
    """Makes a language model that masters what is governed."""
    return lambda: scripted(lambda name, inputs, config: {"mastery": "governs" in inputs["quiz"], "certainty": True})


def test_the_same_few_or_the_most_alike_examples_are_shown() -> None:
    some = [known(f"Who {verb} the town?") for verb in ("left", "governs", "painted", "governs and leads")]
    asked = "Who governs and leads the town of all?"
    for k in (0, 1, 3, 9):
        assert texts(PromptedModel(k=k, examples=some).shown_to(asked)) == texts(some[:k])
    nearest = PromptedModel(show="nearest", examples=some, k=2)
    # The most alike stands last, next to the quiz.
    assert texts(nearest.shown_to(asked)) == ["Who governs the town?", "Who governs and leads the town?"]
    # No quiz is shown itself, and few enough are shown as they are.
    assert texts(nearest.shown_to("Who governs the town?"))[-1] == "Who governs and leads the town?"
    three = PromptedModel(show="nearest", examples=some, k=3)
    assert texts(three.shown_to("Who left the town?")) == texts(some[1:])
    assert texts(PromptedModel(examples=some, k=2).shown_to("Who left the town?")) == texts(some[1:3])


@pytest.mark.parametrize(
    ("kinds", "k", "chosen"),
    [("TTFF", 4, "02" + "13"), ("TTFF", 3, "02"), ("TTTF", 8, "03"), ("TT", 4, ""), ("FT", 2, "10"), ("TF", 1, "")],
)
def test_balanced_examples_take_turns(kinds: str, k: int, chosen: str) -> None:
    some = [known(f"{place}", kind == "T") for place, kind in enumerate(kinds)]
    assert "".join(texts(balanced(some, k))) == chosen


def test_a_quiz_is_judged_once_a_question_and_reference(judging: Any) -> None:
    lm, engine = judging()
    other, others = judging()
    session = Session(CallLimiter(1), blocking=True, lms=Roles(other, other, other, lm))
    model = PromptedModel(examples=[known("Who left?", choices=["x"], answer_type="choice")])
    with within(session=session):
        for quiz, choices, reference in (
            ("Who governs it?", (), None),
            ("Who governs it?", (), None),
            ("Who governs it?", ("Bo",), None),
            ("Who governs it?", (), "It rains."),
            ("Who left it?", (), None),
        ):
            found = model.judge(quiz, Draws(choices=choices, answer_type="choice" if choices else "short"), reference)
            assert found == Judgement(float("governs" in quiz), 1.0)
    asked = engine.asked("JudgeKnowledge")
    # What gives no probabilities is asked once more without.
    once = asked[::2]
    assert once == asked[1::2]
    assert [(one["quiz"], one["answer_type"], one["choices"], one["reference"]) for one in once] == [
        ("Who governs it?", "short", "[]", "[]"),
        ("Who governs it?", "choice", '["Bo"]', "[]"),
        ("Who governs it?", "short", "[]", '["It rains."]'),
        ("Who left it?", "short", "[]", "[]"),
    ]
    assert all("Who left?" in prompt for prompt in engine.prompts)
    assert others.calls == []


def test_a_server_that_is_down_is_no_judgement_and_no_lm_is_told(scripted: Any) -> None:
    def down(*asked: Any) -> None:
        raise ServerError("down")

    with (
        dspy.context(lm=scripted(down)[0]),
        pytest.raises(BoundaryError, match=r"model's language model failed: .*down"),
    ):
        PromptedModel().judge("Who?", Draws())
    with pytest.raises(ConfigurationError, match="No language model is set"):
        PromptedModel().judge("Who?", Draws())


def test_its_own_instruction_is_asked_with() -> None:
    assert PromptedModel(instruction="Be strict.").predictor().signature.instructions == "Be strict."
    assert "Be strict." not in PromptedModel().predictor().signature.instructions


def test_what_a_judgement_depends_on_is_in_its_spec() -> None:
    model = PromptedModel(k=2, examples=[known("Who?")])
    spec = model.spec()
    assert {name: spec[name] for name in ("kind", "reads", "show", "k")} == {
        "kind": "prompted",
        "reads": "quiz",
        "show": "balanced",
        "k": 2,
    }
    assert model_from(model.written()).spec() == spec
    for change in (
        {"instruction": "Be strict."},
        {"embedder": "hashing-64"},
        {"examples": [known("Who?", False)]},
        {"show": "nearest"},
        {"k": 3},
    ):
        assert model.model_copy(update=change).spec() != spec
    # How it came to be changes no judgement.
    assert model.model_copy(update={"about": {"lm": "x"}}).spec() == spec


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"embedder": "someone/model"}, "someone/model"),
        ({"k": 65}, "k:"),
        ({"k": -1}, "k:"),
        ({"show": "all"}, "show:"),
        ({"instruction": "x" * 4001}, "instruction:"),
        ({"code": 1}, "code:"),
    ],
)
def test_a_strangers_model_is_checked(change: dict[str, Any], told: str) -> None:
    written = PromptedModel(k=64, instruction="x" * 4000).written()
    assert model_from(written).k == 64
    with pytest.raises(ConfigurationError, match=told):
        model_from({**written, **change})


@pytest.mark.parametrize(("verdict", "share"), [(True, 0.75), (False, 0.25)])
def test_a_verdict_is_as_sure_as_its_first_token(verdict: bool, share: float) -> None:
    tokens = [("[[ ## mastery ## ]]\n", 0.0), (str(verdict), math.log(0.75)), ("\n\n[[ ## completed ## ]]", 0.0)]
    assert _share(verdict, tokens, "mastery") == pytest.approx(share)
    # Without a token of its own it is what it says; rounding never leaves the range.
    assert _share(verdict, [], "mastery") == float(verdict)
    over = [("[[ ## mastery ## ]]\n", 0.0), (str(verdict), 1e-9)]
    assert _share(verdict, over, "mastery") == float(verdict)
