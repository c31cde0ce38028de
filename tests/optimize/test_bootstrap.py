"""Demonstrations from what a program gets right, and which set of them is kept."""

from __future__ import annotations

import pytest

from keqa.metrics.answers import f1
from keqa.optimize.bootstrap import bootstrap
from keqa.optimize.journal import Journal


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path / "journal.jsonl", {}) as opened:
        yield opened


def test_every_predictor_learns_from_what_came_out_right(setting, journal):
    world = setting()
    found = bootstrap(world.program, world.train, world.val, journal=journal, metric=f1, sets=2)
    assert found.trials[0].score == pytest.approx(2 / 3)
    assert max(trial.score for trial in found.trials) == 1.0
    demos = {name: [dict(demo) for demo in p.demos] for name, p in found.program.named_predictors()}
    assert demos["picking.judge"] == []
    assert all(len(demos[name]) == 4 for name in ("decomposition.decompose", "examination.quiz", "answering.answer"))
