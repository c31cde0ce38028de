"""By what a compiled program settles questions: the parts beside the whole, and which of them is kept."""

from __future__ import annotations

import json

import pytest

import keqa
from keqa.optimize.compile import compile_program
from keqa.optimize.settling import as_good, cheapest_of_the_best
from keqa.optimize.tuning import BOUNDARY, GRID, Point

ONLY_WAYS = {name: () for name in GRID if name not in (BOUNDARY, "settle")}


def point(way, scores, calls, retrievals=0.0):
    return Point({"settle": way}, sum(scores) / len(scores), retrievals, 0.0, tuple(scores), calls)


@pytest.mark.parametrize(
    ("draft", "reading", "quizzes", "kept"),
    [
        ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), "draft"),
        ((0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 1, 1), "reading"),
        ((0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 1, 1), "quizzes"),
        # One question alone, and nothing against it, is more than a standard error.
        ((0, 1, 1, 1), (0, 0, 0, 0), (1, 1, 1, 1), "quizzes"),
        # Two for and one against are not.
        ((0, 0, 1, 1), (0, 0, 0, 0), (1, 1, 0, 1), "draft"),
    ],
)
def test_of_the_ways_as_good_as_the_best_the_cheapest_is_kept(draft, reading, quizzes, kept):
    points = [point("quizzes", quizzes, 8.0, 1.4), point("reading", reading, 1.0, 1.0), point("draft", draft, 1.0)]
    assert cheapest_of_the_best(points).settings["settle"] == kept


def test_one_question_alone_has_no_noise():
    assert (as_good([1.0], [1.0]), as_good([0.5], [1.0])) == (True, False)


def knows(town):
    """It knows the answer to every question, however it is asked."""

    class Knows(town):
        def AnswerQuiz(self, inputs, config, shown):
            number = inputs["quiz"].split("Town")[-1].split("Mayor")[-1].split()[0].rstrip("?")
            return {"answer": f"Bo Mayor{number}" if "governs" in inputs["quiz"] else f"Ann Spouse{number}"}

        def AnswerWithKnowledge(self, inputs, config, shown):
            return super().AnswerWithKnowledge(inputs, config, True)

    return Knows()


def reads(town):
    """It reads well, knows mayors, and takes questions apart into what does not answer them."""

    class Reads(town):
        def DecomposeQuestion(self, inputs, config, shown):
            return {"quizzes": '["Who governs Town0?", "Who governs Town1?"]'}

        def AnswerWithKnowledge(self, inputs, config, shown):
            return super().AnswerWithKnowledge(inputs, config, True)

    return Reads()


def takes_apart(town):
    """It reads the answer to a quiz, and none to a question of two."""

    class TakesApart(town):
        def JudgeUtility(self, inputs, config, shown):
            return {"helpful": "mayor of" not in inputs["quiz"] and "married" in inputs["passage"]}

        def AnswerWithKnowledge(self, inputs, config, shown):
            return super().AnswerWithKnowledge(inputs, config, True)

    return TakesApart()


@pytest.fixture
def compiled(tmp_path):
    """Compiles nothing but the way of a program."""

    def run(world, folder="work", **options):
        quick = {"optimizer": "none", "reference": False, "boundary": False, "grid": ONLY_WAYS, "in_flight": 1}
        return compile_program(world.program, world.train, world.val, folder=tmp_path / folder, **quick | options)

    return run


@pytest.mark.parametrize(
    ("language_model", "kept", "scores", "why"),
    [
        (knows, "draft", (1.0, 1.0, 1.0), "memory alone (draft) is kept: nothing scores better, and of those as good"),
        (reads, "reading", (0.0, 1.0, 0.0), "one search and one reading (reading) is kept: nothing scores better, and"),
        (takes_apart, "quizzes", (0.0, 0.0, 1.0), "taking apart (quizzes) is kept: nothing scores better, and no ot"),
    ],
)
def test_the_way_that_a_language_model_is_good_at_is_kept(
    setting, town, compiled, tmp_path, language_model, kept, scores, why
):
    world = setting(language_model(town))
    found = compiled(world)
    ways = found.report.settling["ways"]
    assert [way["settle"] for way in ways] == ["draft", "reading", "quizzes"]
    assert tuple(way["score"] for way in ways) == scores
    assert ways[0]["calls"] == 1.0
    assert (found.program.settle, found.report.settings["settle"]) == (kept, ("quizzes", kept))
    assert found.report.settling["kept"] == kept
    assert found.report.settling["why"].startswith(why)
    assert found.report.after_score.mean == max(scores)
    found.save(tmp_path / "program")
    about = json.loads((tmp_path / "program" / "program.json").read_text())["about"]
    assert about["settling"] == found.report.settling
    assert keqa.load(tmp_path / "program", world.program.retriever).settle == kept
