"""Which set of demonstrations is kept."""

from __future__ import annotations

import pytest

from keqa.metrics.answers import f1
from keqa.optimize.asking import Asking
from keqa.optimize.bootstrap import bootstrap
from keqa.optimize.options import Options
from keqa.storage.journal import Journal


@pytest.fixture
def found(tmp_path):
    """Bootstraps a program."""

    def run(world, **options):
        with Journal.open(tmp_path / "journal.jsonl", {}) as journal:
            return bootstrap(world.program, world.train, world.val, Asking(journal, f1), Options(**options))

    return run


def counts(program):
    return {name: len(p.demos) for name, p in program.named_predictors()}


def test_every_predictor_learns_from_what_came_out_right(setting, found):
    world = setting()
    best = found(world, sets=2)
    assert best[1][0].score == pytest.approx(2 / 3)
    assert max(trial.score for trial in best[1]) == 1.0
    assert counts(best[0]) == {
        "decomposition.decompose": 4,
        "examination.quiz": 4,
        "examination.same": 8,
        "picking.judge": 0,
        "selection.construct": 0,
        "answering.answer": 4,
        "summarizing.summarize": 4,
    }
    assert counts(world.program) == dict.fromkeys(counts(world.program), 0)


def test_every_second_set_is_half_as_large_and_among_equals_the_first_stays(setting, found):
    best = found(setting(), demos=2, judge_demos=4, sets=2)
    assert [trial.name for trial in best[1]] == ["the program as it is", "demonstrations 1", "demonstrations 2"]
    assert best[1][1].score == best[1][2].score == 1.0
    assert counts(best[0])["answering.answer"] == 2


@pytest.mark.slow
def test_the_same_seed_finds_the_same(setting, found):
    def demos(seed):
        program = found(setting(), sets=1, seed=seed)[0]
        return [dict(demo) for demo in program.answering.answer.demos]

    assert demos(1) == demos(1)
    assert demos(1) != demos(2)


@pytest.mark.slow
def test_what_is_not_better_is_not_kept(setting, town, found):
    best = found(setting(town(spoilt=True)), sets=2)
    assert counts(best[0])["answering.answer"] == 0
    assert [trial.name for trial in best[1]][3:] == [
        "with those of decomposition.decompose",
        "with those of summarizing.summarize",
        "with those of examination.quiz",
        "with those of examination.same",
        "with those of answering.answer",
    ]


def test_nothing_right_nothing_learned(setting, town, found):
    world = setting(town(fails="AnswerQuiz"))
    world.train = [type(one)(one.id, one.question, ("something else",)) for one in world.train]
    best = found(world, sets=3)
    assert (len(best[1]), best[2]) == (1, False)
