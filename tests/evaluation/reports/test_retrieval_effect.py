from fractions import Fraction

import pytest

from keqa.evaluation.reports.effect import (
    Effect,
    compared,
    correlation,
    effect_figure,
    retrieval_effect,
)
from keqa.evaluation.reports.rows import entries_of
from keqa.programs.records import Degradation, QuizRecord

SETTINGS = {"top_k": 5, "index": "TantivyRetriever", "model": "lm-a"}


def shown(grid):
    return {row.cells[0].text: [cell.text for cell in row.cells[1:]] for row in grid.rows}


def searched(text, answer, source="passages", **others):
    """A quiz as the gate that always retrieves leaves it: without samples."""
    settings = {"index": 1, "text": text, "resolved": text, "tries": 5, "complete": False, "known": False} | others
    return QuizRecord(retrieved=True, answer=answer, source=source, **settings)


@pytest.fixture
def drawn(quiz):
    """A quiz as the gate that never retrieves leaves it, its answers clustered by their words."""

    def make(text, answers, **others):
        heads = dict.fromkeys(answer for answer in answers if answer is not None)
        clusters = [[place for place, one in enumerate(answers) if one == head] for head in heads]
        return quiz(text, answers, clusters, threshold=None, **others)

    return make


@pytest.fixture
def runs(run, line, drawn):
    """Four questions, by accuracy and certainty of five samples: 1 and 1, 0 and 1, .4 and 0, .2 and .03."""
    never = [
        ["gold", "gold", "Gold", "the gold", "gold"],
        ["lead"] * 5,
        ["gold", "tin", "gold", "tin", None],
        ["lead", "tin", "gold", "lead", "zinc"],
    ]
    always = [("lead", "passages"), ("gold", "passages"), ("gold", "largest_cluster"), ("lead", "passages")]
    without = [line(n, 0.0, quizzes=[drawn(f"Question {n}?", answers)]) for n, answers in enumerate(never)]
    having = [line(n, 0.0, quizzes=[searched(f"Question {n}?", *answered)]) for n, answered in enumerate(always)]
    return [run("gate-always", having, gate="always retrieve", **SETTINGS), run("gate-never", without, **SETTINGS)]


def test_quizzes_are_laid_beside_each_other(runs):
    found = compared(entries_of(runs))
    assert (found.known, found.tries) == (4, (5,))
    assert [(one.accuracy, one.change) for one in found.effects] == [
        (1, "Harmful"),
        (0, "Beneficial"),
        (Fraction(2, 5), "Neutral"),
        (Fraction(1, 5), "Neutral"),
    ]
    # Shares of 2, 2 and 1 of 5 (an abstention is alone), and of 2, 1, 1 and 1 of 5.
    assert [one.certainty for one in found.effects] == pytest.approx([1, 1, 0.03977, 0.03904], abs=1e-5)
    assert [(one.memory, one.retrieved) for one in found.effects] == [
        (True, False),
        (False, True),
        (True, True),
        (False, False),
    ]
    assert [one.kept for one in found.effects] == [True, True, False, True]


def test_quizzes_of_a_question_count_where_their_gold_answers_are_known(run, line, drawn):
    asked = [drawn("Who?", ["Ann"] * 5), drawn("Where is Ann?", ["Rome"] * 5), drawn("When?", ["1900"] * 5)]
    golds = {"Who?": ["Bob"], "Where is Ann?": ["Rome"]}
    without = line(0, 0.0, quizzes=asked).model_copy(update={"quiz_golds": golds})
    # With retrieval the second quiz asks after another person, and so is another quiz.
    having = line(
        0,
        0.0,
        quizzes=[searched("who? ", "Bob"), searched("Where is Bob?", "Rome"), searched("When?", "1900")],
    )
    found = compared(entries_of([run("gate-never", [without]), run("gate-always", [having])]))
    assert [(one.accuracy, one.change, one.whole) for one in found.effects] == [(0, "Beneficial", False)]
    assert found.known == 2


def test_what_says_nothing_of_retrieval_is_left_out(run, line, drawn):
    never = [
        drawn("Question 0?", ["gold"] * 4, complete=False),
        *(drawn(f"Question {n}?", ["gold"] * 5) for n in range(1, 5)),
    ]
    always = [
        searched("Question 0?", "lead"),
        searched("Question 1?", None, "failed"),
        searched("Question 2?", "lead").model_copy(update={"retrieved": False}),
        searched("Question 3?", "gold", "largest_cluster"),
        searched("Question 4?", "lead"),
    ]
    lines = [line(n, 0.0, quizzes=[one]) for n, one in enumerate(always)]
    away = Degradation(stage="retrieve", cause="TimeoutError", message="", action="went on without passages")
    record = lines[3].record.model_copy(update={"degradations": [away]})
    lines[3] = lines[3].model_copy(update={"record": record})
    without = run("gate-never", [line(n, 0.0, quizzes=[one]) for n, one in enumerate(never)])
    found = compared(entries_of([without, run("gate-always", lines)]))
    assert [one.change for one in found.effects] == ["Harmful"]
    assert found.known == 4
    assert compared(entries_of([without, run("gate-always", lines[:4], ids=["q0"])])) is None


def test_choices_are_compared_as_choices(run, line, drawn):
    def polar(number, text, quizzes):
        return line(number, 0.0, kind="yes/no", answers=("yes",), quizzes=quizzes)

    never = polar(0, "", [drawn("Question 0?", ["Yes.", "no", "Yes, it is.", "yes", "true"])])
    always = polar(0, "", [searched("Question 0?", "No, never.")])
    (effect,) = compared(entries_of([run("gate-never", [never]), run("gate-always", [always])])).effects
    assert (effect.accuracy, effect.change) == (Fraction(4, 5), "Harmful")


@pytest.mark.parametrize(
    "missing",
    [
        lambda always, never, run: [always],
        lambda always, never, run: [never],
        lambda always, never, run: [never, run("gate-always", always.lines, **SETTINGS | {"model": "lm-b"})],
        lambda always, never, run: [never, run("gate-always", always.lines, **SETTINGS | {"index": "DenseRetriever"})],
        lambda always, never, run: [never, run("gate-always", always.lines, prompts="others", **SETTINGS)],
        lambda always, never, run: [never, run("rag", always.lines, **SETTINGS)],
    ],
)
def test_runs_that_do_not_go_together_make_no_table(runs, run, missing):
    entries = entries_of(missing(*runs, run))
    assert retrieval_effect(entries) is None
    assert effect_figure(entries) is None


def effect(accuracy, certainty, memory=True, retrieved=True):
    return Effect(Fraction(accuracy), certainty, memory, retrieved, True, True)


def test_accuracy_and_certainty_go_together_or_not():
    rising = [effect(0, 0.0), effect("1/2", 0.5), effect(1, 1.0)]
    assert correlation(rising) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-6))
    assert correlation([effect(0, 1.0), effect("1/2", 0.5), effect(1, 0.0)])[0] == pytest.approx(-1.0)
    # Deviations (-1/2, 0, 1/2) and (-1/2, 1/2, 0): .25 over .5.
    assert correlation([effect(0, 0.0), effect("1/2", 1.0), effect(1, 0.5)])[0] == pytest.approx(0.5)
    assert correlation([effect(0, 1.0), effect("1/2", 1.0), effect(1, 1.0)]) is None
    assert correlation(rising[:2]) is None
