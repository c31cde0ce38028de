"""How a boundary model is checked: what it is shown, the figures, and the drawing of them."""

import sys
from pathlib import Path
from typing import Any

import pytest
from fixtures.boundary import judging

from keqa.errors import InputError, MissingExtraError
from keqa.optimize.boundary.check import DRAWS, check_model, draw_reliability, figures_of, judged, readings
from keqa.optimize.boundary.collect import Collected, CollectedQuiz
from keqa.programs.boundary import BoundaryError, Judgement
from keqa.programs.boundary.light import root_digest
from keqa.programs.gate import Draws


def quiz_of(number: int, right: str, texts: str = "") -> CollectedQuiz:
    """A quiz whose draws are right (``+``), wrong (``-``) or abstentions (``?``); texts tell apart what they say."""
    said = texts or [{"+": "bo", "-": "al", "?": "?"}[one] for one in right]
    draws = [
        {"text": None if mark == "?" else text, "right": mark == "+", "probability": 0.5, "first_token": 0.25}
        for mark, text in zip(right, said, strict=True)
    ]
    return CollectedQuiz(root=root_digest(f"{number}"), quiz=f"Who governs Town{number}?", golds=["bo"], draws=draws)


def scripted_model(*mastery: float | None, **learned: list[str]) -> Any:
    """A boundary model with a mastery for each town by its number, which fails where that is None."""
    seen: dict[int, Draws] = {}

    def judge(quiz: str, draws: Draws, reference: str | None) -> Judgement:
        number = int(quiz.removesuffix("?").partition("Town")[2])
        seen[number] = draws
        if mastery[number] is None:
            raise BoundaryError("down")
        return Judgement(mastery[number], 0.5)

    return judging(judge, seen=seen, **learned)


def test_what_a_draft_a_set_of_draws_and_a_quiz_alone_are_worth():
    quiz = quiz_of(0, "-++?+" + "?" * 5 + "---+")
    drafts, sets, (alone,) = (readings(quiz, reads) for reads in ("draft", "draws", "quiz"))
    # Each draft by itself, five at most; an abstention is not right.
    assert [one.mastery for one in drafts] == [0, 1, 1, 0, 1]
    assert [one.signals.answers for one in drafts] == [("al",), ("bo",), ("bo",), (None,), ("bo",)]
    # Whole sets of five only: the most frequent answer of the first is right, and the second has none.
    assert [one.mastery for one in sets] == [1, 0]
    assert sets[0].signals == Draws.of(("al", "bo", "bo", None, "bo"), (0.5,) * 5, (0.25,) * 5, quiz=quiz.quiz)
    assert (alone.mastery, alone.signals) == (4 / 14, Draws(answer_type="short"))
    assert len({one.certainty for one in (*drafts, *sets, alone)}) == 1
    assert len(readings(quiz_of(0, "+" * 40), "draws")) == 5


@pytest.mark.parametrize(
    ("right", "texts", "known"),
    [
        # Of equals the first one said counts, and what is written otherwise is the same answer, an option's letter too.
        ("-++--", ["B", "A", "Ann", "x", "y"], 1),
        ("+-+--", "vwxyz", 1),
        ("-+---", "wvxyz", 0),
        ("-++--", "wVvxy", 1),
        ("+-", "vw", 1),
    ],
)
def test_the_most_frequent_answer_is_what_would_be_given(right, texts, known):
    quiz = quiz_of(0, right, texts)
    if "Ann" in texts:
        quiz = quiz.model_copy(update={"answer_type": "choice", "choices": ["Ann", "Bo"]})
    [one] = readings(quiz, "draws")
    assert one.mastery == known


def test_the_figures_of_judgements():
    quizzes = [quiz_of(0, "+++++"), quiz_of(1, "-----"), quiz_of(2, "--+++"), quiz_of(3, "-?-?-", "x?y?z")]
    seen = [readings(quiz, "draft")[0] for quiz in quizzes]
    found = figures_of(quizzes, seen, [0.9, 0.2, 0.3, 0.1], [one.certainty - 0.25 for one in seen])
    assert (found.quizzes, found.draws, found.failed) == (4, 1.0, 0)
    assert found.certainty_error == pytest.approx(0.25)
    # Of the first drafts one is right, which it holds for the most likely.
    assert (found.mastery.right, found.mastery.auroc) == (0.25, 1.0)
    assert found.mastery.brier == pytest.approx((0.1**2 + 0.2**2 + 0.3**2 + 0.1**2) / 4)
    assert found.mastery.prr == 1.0
    # The vote has two right and two wrong answers, and is as sure of a wrong one as of the first.
    assert (found.vote.right, found.vote.auroc) == (0.5, 0.625)
    assert found.as_json()["vote"] == {
        name: getattr(found.vote, name) for name in ("right", "auroc", "prr", "ece", "brier")
    }


def test_a_model_is_checked_on_other_questions_and_what_it_cannot_judge_is_unknown():
    quizzes = [quiz_of(number, mark * DRAWS) for number, mark in enumerate("+-+-")]
    choice = quizzes[2].model_copy(update={"answer_type": "choice", "choices": ["a", "b"]})
    # It has learned from one under its id, and from one that came with another id and was written otherwise.
    again = quiz_of(4, "+" * DRAWS).model_copy(update={"quiz": "who governs  TOWN9?"})
    roots, learned = [root_digest("1"), root_digest("8")], [quiz_of(9, "+").digest]
    model = scripted_model(0.9, 0.2, None, 0.6, roots=roots, quizzes=learned)
    found = check_model(model, [Collected(quizzes[:2]), Collected([choice, quizzes[3], again])])
    assert (found.quizzes, found.failed, found.left_out) == (3, 1, 2)
    assert found.mastery.brier == pytest.approx((0.1**2 + 1 + 0.6**2) / 3)
    assert model.seen == {
        0: Draws(answer_type="short"),
        2: Draws(answer_type="choice", choices=("a", "b")),
        3: Draws(answer_type="short"),
    }


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Figures that were saved, and where."""
    figure = pytest.importorskip("matplotlib.figure")
    saved: list[tuple[Any, Any]] = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, path: saved.append((self, path)))
    return saved


def test_a_drawing_has_the_diagonal_and_a_point_a_tenth(drawn):
    marks, says = ["++++", "+++-", "----", "+---", "++++", "++--"], [0.95, 0.93, 0.12, 0.18, 0.99, None]
    quizzes = [quiz_of(number, mark) for number, mark in enumerate(marks)]
    model = scripted_model(*says, roots=[root_digest("4")])
    draw_reliability(judged(model, [Collected(quizzes)]), Path("plot.svg"))
    [(figure, path)] = drawn
    assert path == Path("plot.svg")
    [axes] = figure.axes
    diagonal, points = axes.lines
    assert [[tuple(pair) for pair in line.get_xydata()] for line in (diagonal, points)] == [
        [(0, 0), (1, 1)],
        # Stated and right; what it could not judge counts as unknown, what it learned from is left out.
        [(0, 0.5), (pytest.approx(0.15), 0.125), (pytest.approx(0.94), 0.875)],
    ]
    # How many quizzes a point is of stands beside it.
    assert [one.get_text() for one in axes.texts] == ["1", "2", "2"]
    assert [tuple(one.xy) for one in axes.texts] == [tuple(pair) for pair in points.get_xydata()]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("mastery, as stated", "answers from memory that are right")


def test_a_drawing_of_what_was_learned_from_or_into_a_wrong_place_is_refused(tmp_path):
    pytest.importorskip("matplotlib")
    collected = [Collected([quiz_of(0, "+-")])]
    with pytest.raises(InputError, match="has learned from all of these questions"):
        judged(scripted_model(0.5, roots=[root_digest("0")]), collected)
    with pytest.raises(InputError, match="hold no quiz from memory: check it on others"):
        judged(scripted_model(), [Collected([])])
    with pytest.raises(InputError, match=r"plot\.xyz cannot be drawn: Format 'xyz' is not supported"):
        draw_reliability(judged(scripted_model(0.5), collected), tmp_path / "plot.xyz")


def test_a_drawing_needs_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    checked = judged(scripted_model(0.5), [Collected([quiz_of(0, "+-")])])
    with pytest.raises(MissingExtraError, match=r"A drawing needs.*keqa\[plots\]"):
        draw_reliability(checked, tmp_path / "plot.png")
