"""Boundary models that ask a language model: fine-tuned ones and prompted ones."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dspy
import pytest
from conftest import SayingEngine
from dspy import lm15
from fixtures.assessing import assessing, said
from servers.openai_server import markers

from keqa.errors import InputError
from keqa.lms.local.training import FineTuned, TrainingConversation, TrainingOptions
from keqa.lms.local.weights import fingerprint
from keqa.optimize.boundary import train as training
from keqa.optimize.boundary.check import check_model
from keqa.optimize.boundary.collect import Collected, CollectedQuiz
from keqa.optimize.boundary.train import JudgeModule, compile_prompted, labels, shares, train_light, train_prompted
from keqa.programs.boundary import BoundaryError, FinetunedModel
from keqa.programs.boundary import asked as judging_by_weights
from keqa.programs.boundary.asked import MASTERY, KnownQuiz, PromptedModel
from keqa.programs.boundary.light import root_digest
from keqa.programs.gate import Draws
from keqa.signatures.boundary import assessment_prompt


def town(number: int, known: bool) -> CollectedQuiz:
    texts = [f"Bo Mayor{number}" if known or place == 0 else f"Al {place}" for place in range(10)]
    draws = [{"text": text, "right": text.startswith("Bo")} for text in texts]
    quiz = f"Who governs Town{number}?" if known else f"When was Town{number} founded?"
    return CollectedQuiz(root=root_digest(f"{number // 2}"), quiz=quiz, golds=[f"Bo Mayor{number}"], draws=draws)


def towns(count: int = 40, split: str = "train") -> Collected:
    return Collected([town(number, number % 2 == 0) for number in range(count)], "towns", split, "lm", 10)


def judging(reply: str = "") -> tuple[SayingEngine, dspy.LM]:
    """A language model that says that it knows who governs towns."""

    def says(request: lm15.Request) -> str:
        if request.config.logprobs is not None:
            raise lm15.UnsupportedFeatureError("no logprobs")
        text = str(request.messages[-1].text)
        if "instruction" in text and "```" in text:
            return "```\nWho governs is known, the rest is not.\n```"
        return reply or markers(mastery="governs" in text, certainty=True)

    engine = SayingEngine(says)
    return engine, dspy.LM("scripted/judge", engine=engine, cache=False)


def test_a_prompted_model_shows_examples_of_both_kinds():
    engine, lm = judging()
    trained = train_prompted([towns()], lm, k=4)
    model = trained.model
    assert isinstance(model, PromptedModel)
    assert [one.mastery for one in model.examples] == [True, False, True, False]
    assert trained.held_out.mastery.auroc == 1.0
    assert trained.held_out.failed == 0
    held = {root_digest(f"{number}") for number in range(20)} - set(model.roots)
    assert len(held) == 4
    assert all("When was Town" in prompt and "Who governs Town" in prompt for prompt in engine.prompts)
    again = PromptedModel.model_validate(json.loads(json.dumps(model.written())))
    assert again == model
    with pytest.raises(InputError, match="of a test split"):
        train_prompted([towns(split="test")], lm)


def test_a_reply_that_is_no_judgement_is_unknown():
    _, lm = judging(reply="who knows")
    model = PromptedModel()
    with dspy.context(lm=lm), pytest.raises(BoundaryError, match="language model failed"):
        model.judge("Who?", Draws())
    with dspy.context(lm=lm):
        assert check_model(model, [towns(10)]).failed == 10


def test_gepa_writes_the_instruction():
    engine, lm = judging()
    examples = [
        KnownQuiz(quiz=f"{start} Town{place}?", mastery=place % 2 == 0, certainty=True, root="0" * 16)
        for place, start in enumerate(("When was", "Who governs") * 4)
    ]
    with dspy.context(lm=lm):
        model = compile_prompted(PromptedModel(k=0), examples, lm, budget=12)
        assert model.instruction is not None
        assert JudgeModule(model)(quiz="Who governs Town1?").mastery is True
    assert engine.prompts


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, dict[str, Any]]]:
    """Trains on nothing: gives the model, whose language model knows who governs, and what would be trained on."""
    folder = tmp_path / "boundary.json.lm"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    replies = {("governs", MASTERY): said(0.9, 0.8), ("founded", MASTERY): said(0.1, 0.2)}
    _, lm = assessing(replies, str(folder))
    monkeypatch.setattr(judging_by_weights, "_opened", {str(folder): lm}.__getitem__)
    seen: dict[str, Any] = {}

    def fine_tune(model: str, shown: Any, place: Any, options: Any, *, progress: Any) -> FineTuned:
        progress(1, 3, 0.5)
        seen.update(model=model, shown=shown, place=place, options=options)
        return FineTuned(folder, steps=3, minutes=1.5, conversations=len(shown), left_out=2, loss=0.5)

    monkeypatch.setattr(training, "fine_tune", fine_tune)

    def train(collected: list[Collected], model: str = "keqa/tiny", **how: Any) -> tuple[Any, dict[str, Any]]:
        return training.train_finetuned(collected, model, "anywhere", **how), seen

    return train


def prompt_of(conversation: TrainingConversation) -> str:
    return conversation.messages[0]["content"]


def test_a_fine_tuned_model_learns_kbms_labels_in_kbms_way(tune, tmp_path):
    steps: list[Any] = []
    trained, seen = tune([towns()], progress=lambda *step: steps.append(step))
    assert (seen["model"], seen["place"]) == ("keqa/tiny", "anywhere")
    assert seen["options"] == TrainingOptions(
        method="full", epochs=3, batch=4, rate=1e-5, warmup=0.02, longest=1580, seed=0
    )
    assert steps == [(1, 3, 0.5)]
    # Of a fifth of the questions, two quizzes each, nothing is learned.
    shown = seen["shown"]
    assert len(shown) == 32
    [known] = [one for one in shown if "Town2?" in one.messages[0]["content"]]
    [unknown] = [one for one in shown if "Town3 " in one.messages[0]["content"]]
    assert known.messages == [{"role": "user", "content": assessment_prompt("Who governs Town2?")}]
    assert known.reply == '{"mastery": "True", "certainty": "True"}'
    assert unknown.reply == '{"mastery": "False", "certainty": "False"}'
    assert {one.soft for one in shown} == {()}

    model, held_out = trained.model, trained.held_out
    assert isinstance(model, FinetunedModel)
    assert model.lm == str(tmp_path / "boundary.json.lm")
    assert model.weights == fingerprint(model.lm)
    assert model.language == "auto"
    assert len(model.roots) == 16
    assert {*model.roots} < {root_digest(f"{number}") for number in range(20)}
    # All of them are judged, as their language model says.
    assert (held_out.quizzes, held_out.failed, held_out.mastery.auroc) == (8, 0, 1.0)
    assert model.about == {
        "keqa": version("keqa"),
        "lm": "lm",
        "datasets": ["towns train"],
        "quizzes": 32,
        "base": "keqa/tiny",
        "threshold": 0.9,
        "soft_labels": False,
        "training": seen["options"].spec(),
        "minutes": 1.5,
        "left_out": 2,
        "held_out": held_out.as_json(),
    }
    assert set(model.roots).isdisjoint(
        quiz.root for quiz in towns().quizzes if assessment_prompt(quiz.quiz) not in {prompt_of(one) for one in shown}
    )


def test_the_prompt_is_of_the_language_and_has_the_options(tune):
    some = towns()
    choices = [one.model_copy(update={"answer_type": "choice", "choices": ["Bo", "Al"]}) for one in some.quizzes]
    trained, seen = tune([replace(some, quizzes=choices)], language="zh")
    assert trained.model.language == "zh"
    assert {prompt_of(one) for one in seen["shown"]} < {
        assessment_prompt(one.quiz, ["Bo", "Al"], None, "zh") for one in choices
    }
    # By default each question is asked in its own language.
    chinese = [one.model_copy(update={"quiz": f"城市{number}的市长是谁?"}) for number, one in enumerate(choices[:20])]
    _, seen = tune([replace(some, quizzes=[*chinese, *choices[20:]])])
    begun = {prompt_of(one)[:2] for one in seen["shown"] if "市长" in prompt_of(one)}
    assert (begun, {prompt_of(one)[:2] for one in seen["shown"]}) == ({"给定"}, {"给定", "Pl"})


def with_nine_right() -> Collected:
    """Towns, and nine of ten answers about the second one are right."""
    some = towns()
    draws = [{"text": "Bo Mayor2" if place else "Al", "right": place > 0} for place in range(10)]
    nine = CollectedQuiz.model_validate(some.quizzes[2].model_dump() | {"draws": draws})
    return replace(some, quizzes=[*some.quizzes[:2], nine, *some.quizzes[3:]])


def test_soft_labels_are_the_shares_where_the_values_stand(tune):
    trained, seen = tune([with_nine_right()], soft_labels=True)
    assert trained.model.about["soft_labels"] is True
    [one] = [one for one in seen["shown"] if "Town2?" in prompt_of(one)]
    mastery, certainty = one.soft
    assert one.reply[mastery.at :] == 'True", "certainty": "False"}'
    assert one.reply[certainty.at :] == 'False"}'
    assert mastery.shares == pytest.approx({"True": 0.9, "False": 0.1})
    # 1 - H / log k over two types of answers, of nine and of one.
    assert certainty.shares == pytest.approx({"True": 0.531, "False": 0.469}, abs=1e-4)


# Draws by answer, None for abstentions; accuracy and certainty, worked out by hand with natural logarithms.
BY_HAND = [
    ({"Bo": 30}, 1, 1),
    # H = .1461 over log 2: .789, which is below .9; over log 30 it would be .957.
    ({"Bo": 29, "Al": 1}, 29 / 30, 0.7892),
    ({"Bo": 20, "Al": 10}, 2 / 3, 0.0817),
    ({"Al": 30}, 0, 1),
    ({"Bo": 10, "Al": 10, "Cy": 10}, 1 / 3, 0),
    # What says that it does not know agrees with nothing: each is a type of its own.
    ({"Bo": 29, None: 1}, 29 / 30, 0.7892),
    ({None: 30}, 0, 0),
]


@pytest.mark.parametrize(("drawn", "mastery", "certainty"), BY_HAND)
def test_labels_are_kbms_by_hand(drawn, mastery, certainty):
    draws = [{"text": text, "right": text == "Bo"} for text, times in drawn.items() for _ in range(times)]
    quiz = CollectedQuiz(root="0" * 16, quiz="Who?", golds=["Bo"], draws=draws)
    assert shares(quiz) == pytest.approx((mastery, certainty), abs=1e-4)
    assert labels(quiz) == (mastery >= 0.9, certainty >= 0.9)


def test_a_fine_tuned_model_sees_passages_and_the_others_do_not(tune, monkeypatch):
    some = towns()
    read = [one.model_copy(update={"reference": f"Of {one.quiz}"}) for one in some.quizzes]
    both = replace(some, quizzes=[*some.quizzes, *read])
    _, seen = tune([both])
    assert len(seen["shown"]) == 64
    [one] = [one for one in seen["shown"] if "Reference: Of Who governs Town2?" in prompt_of(one)]
    assert prompt_of(one) == assessment_prompt("Who governs Town2?", (), "Of Who governs Town2?")
    light = train_light([both], reads="quiz").model
    assert light == train_light([some], reads="quiz").model
    fresh = light.model_copy(update={"roots": [], "quizzes": []})
    assert check_model(fresh, [both]).quizzes == 40
    engine, lm = judging()
    assert len(train_prompted([both], lm, k=4, show="nearest").model.examples) == 32
    # Of more than a file may hold, some are shown.
    monkeypatch.setattr("keqa.optimize.boundary.train.MOST_EXAMPLES", 20)
    assert len(train_prompted([both], lm, k=4, show="nearest").model.examples) == 20
    assert not any("Of Who" in prompt for prompt in engine.prompts)
