"""Training and checking on made-up draws, where it is known what there is to learn."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from keqa.errors import ConfigurationError, InputError
from keqa.optimize.boundary.check import check_model, readings
from keqa.optimize.boundary.collect import Collected, CollectedDraw, CollectedQuiz
from keqa.optimize.boundary.train import checked_quizzes, train_light
from keqa.optimize.logistic import Fit
from keqa.programs.boundary import model_from
from keqa.programs.boundary.light import root_digest


def town(number: int, seed: int = 0, *, probabilities: bool = True) -> CollectedQuiz:
    """Every other quiz asks for a mayor, whom memory has firmly and wrong; of the others, likely answers are right."""
    chance = random.Random(f"{seed} {number}")
    stale, sure = number % 2 == 0, chance.random() < 0.5
    likely = 0.9 if stale or sure else 0.2
    draws = [
        {
            "text": f"Old {number}" if stale else f"Year {number}" if sure else f"Year {chance.randrange(1000, 2000)}",
            "right": sure and not stale,
            "probability": min(1.0, likely + chance.random() / 10) if probabilities else None,
            "first_token": likely if probabilities else None,
        }
        for _ in range(10)
    ]
    quiz = f"Who governs Town{seed}{number}?" if stale else f"When was Town{seed}{number} founded?"
    return CollectedQuiz(root=root_digest(f"{seed} {number // 2}"), quiz=quiz, golds=[f"Year {number}"], draws=draws)


def towns(count: int, seed: int = 0, **more) -> Collected:
    return Collected([town(number, seed, **more) for number in range(count)], "towns", "train", "lm", 10)


@pytest.fixture(scope="module")
def trained():
    return train_light([towns(120)])


@pytest.mark.slow
def test_a_draft_and_the_words_tell_what_the_vote_cannot(trained):
    found = trained.held_out
    assert (found.quizzes, found.draws, found.voting) == (120, 1, 5)
    # The vote takes every firm answer for known; stale ones are firm, and half of all.
    assert found.vote.auroc < 0.85
    assert found.mastery.auroc > 0.97
    assert found.mastery.ece < 0.1
    assert found.mastery.brier < 0.08
    assert found.mastery.prr > 0.9


@pytest.mark.slow
def test_it_holds_on_other_questions_and_in_its_file(trained):
    model = model_from(json.loads(json.dumps(trained.model.written())))
    assert model == trained.model
    found = check_model(model, [towns(60, seed=1), towns(120)])
    assert found.quizzes == 60
    assert found.mastery.auroc > 0.97
    assert (model.reads, model.uses_probabilities, len(model.roots)) == ("draft", True, 60)


@pytest.mark.slow
@pytest.mark.parametrize(("reads", "least"), [("draws", 0.95), ("quiz", 0.6)])
def test_models_that_read_something_else(reads, least):
    found = train_light([towns(80)], reads=reads)
    assert found.model.reads == reads
    assert found.held_out.mastery.auroc > least


def test_draws_without_probabilities():
    found = train_light([towns(80, probabilities=False)])
    assert not found.model.uses_probabilities
    assert set(found.model.heads["mastery"]) == {"texts"}


@pytest.mark.parametrize(
    ("collected", "message"),
    [
        ([towns(10)], "10 quizzes of 5 questions are too few"),
        ([towns(40), Collected(towns(40, 1).quizzes, lm="other")], "are of lm, other"),
        ([Collected([one for one in towns(60).quizzes if "governs" in one.quiz])], "every one wrong"),
    ],
)
def test_what_nothing_can_be_learned_from(collected, message):
    with pytest.raises(InputError, match=message):
        train_light(collected)


def some(count, questions, *, right=(True, False), choices=(), start=0):
    """Quizzes of so many questions, each with a draw that is right and one that is not."""
    return [
        CollectedQuiz(
            root=root_digest(f"{number % questions}"),
            quiz=f"Who is {number}?",
            choices=list(choices),
            golds=["Bo"],
            draws=[{"text": "Bo", "right": one} for one in right],
        )
        for number in range(start, start + count)
    ]


def test_a_quiz_that_was_collected_twice_counts_once():
    first, again = some(15, 5), some(10, 5, start=10)
    assert checked_quizzes([Collected(first, lm="lm"), Collected(again, "more", "val", "lm")]) == some(20, 5)
    with pytest.raises(InputError, match="15 quizzes of 5 questions"):
        checked_quizzes([Collected(first), Collected(first)])
    # With other options it is another quiz.
    assert len(checked_quizzes([Collected(some(15, 5)), Collected(some(15, 5, choices=("Bo", "Al")))])) == 30


def test_an_embedder_from_elsewhere_is_refused():
    with pytest.raises(ConfigurationError, match="someone/model"):
        train_light([towns(40)], embedder="someone/model")


def test_a_light_model_learns_the_certainty_that_is_named():
    collected = towns(40)
    draws = [{"text": "Bo" if place else "Al", "right": place > 0} for place in range(10)]
    mixed = collected.quizzes[0].model_copy(update={"draws": [CollectedDraw(**draw) for draw in draws]})
    # Nine draws that agree and one that does not: H = .325, over log 10 and over log 2.
    targets = [readings(mixed, "quiz", target)[0].certainty for target in ("by_samples", "by_types")]
    assert targets == pytest.approx([0.859, 0.531], abs=1e-3)
    collected = replace(collected, quizzes=[mixed, *collected.quizzes[1:]])
    usual, named = (train_light([collected], reads="quiz", **how).model for how in ({}, {"target": "by_types"}))
    assert (usual.certainty, named.certainty) == ("by_samples", "by_types")
    assert usual.heads["mastery"] == named.heads["mastery"]
    assert usual.heads["certainty"] != named.heads["certainty"]
    assert model_from(json.loads(json.dumps(named.written()))) == named


@pytest.mark.parametrize("least_slope", [0.0, 0.05])
def test_what_ranks_worse_than_chance_is_as_probable_as_all_are(least_slope):
    # Where a fold is wrong, the others are right: what these say of it is the wrong way round.
    right, fold = np.repeat([1.0, 1.0, 1.0, 1.0, 0.0], 2), np.repeat(range(5), 2)
    how = {"tried": [1.0], "signals_penalty": 1.0, "least_scale": 0.01}
    fit = Fit([{"length": 1.0}] * 10, np.zeros((10, 1)), right, np.ones(10), fold, **how)
    _, said = fit.calibrated(least_slope)
    assert said.mean() == pytest.approx(0.8, abs=0.001)
