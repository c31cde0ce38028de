"""The language model that ships with the package, by what its card says of it."""

import importlib.resources
import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.model

pytest.importorskip("torch")

MODEL = Path(str(importlib.resources.files("keqa.testbed"))) / "model"
RECORDED = json.loads((MODEL / "skills.json").read_text())["scores"]
CHANCE = 0.2
"""What 20 of the 100 cases of a score may differ by chance."""


@pytest.fixture(scope="module")
def lm():
    from keqa.lms import build_lm

    return build_lm("keqa/tiny", cache=False)


def test_the_weights_are_small_and_hold_no_pickle():
    assert (MODEL / "model.safetensors").stat().st_size < 25_000_000
    assert {path.suffix for path in MODEL.iterdir()} == {".json", ".jinja", ".md", ".safetensors"}


@pytest.mark.parametrize("name", sorted({row["task"] for row in RECORDED}))
def test_no_skill_fell_behind_what_was_recorded(lm, name):
    from keqa.testbed.check import TASKS, check_skills

    tasks = [task for task in TASKS if task.name == name]
    # A convention is to be seen in eight; all else is done without any.
    demonstrations = [8 if task.hidden else 0 for task in tasks]
    scores = check_skills(lm, asked=20, tasks=tasks, demonstrations=demonstrations)
    recorded = {row["demonstrations"]: row["right"] / row["asked"] for row in RECORDED if row["task"] == name}
    for score in scores:
        # A signature that was reworded without retraining falls far below.
        assert score.share >= recorded[score.demonstrations] - CHANCE, (score, recorded)
        assert score.parsed >= 18


def test_it_knows_what_it_was_trained_on_often_and_guesses_at_the_rest(lm):
    from keqa.lms import Roles
    from keqa.testbed.boundary import draw_boundary

    # 0.96 over 400 facts (keqa testbed boundary); the rest is the chance of so few.
    assert draw_boundary(Roles(lm, lm, lm), facts=100).auroc > 0.9
