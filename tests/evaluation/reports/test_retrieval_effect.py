"""What retrieval does to quizzes: two runs laid beside each other; the tables of stored runs have the counts."""

from fractions import Fraction

import pytest

from keqa.evaluation.reports.effect import Effect, compared, correlation, effect_figure, retrieval_effect
from keqa.evaluation.reports.rows import entries_of
from keqa.programs.records import Degradation, QuizRecord

SETTINGS = {"top_k": 5, "index": "TantivyRetriever", "model": "lm-a"}


def searched(text, answer, source="passages", **others):
    """A quiz as the gate that always retrieves leaves it: without samples."""
    settings = {"index": 1, "text": text, "resolved": text, "tries": 5, "complete": False, "known": False}
    return QuizRecord(**settings | {"retrieved": True, "answer": answer, "source": source} | others)


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
    assert [(one.accuracy, one.change, one.memory, one.retrieved, one.kept) for one in found.effects] == [
        (1, "Harmful", True, False, True),
        (0, "Beneficial", False, True, True),
        (Fraction(2, 5), "Neutral", True, True, False),
        (Fraction(1, 5), "Neutral", False, False, True),
    ]
    # Shares of 2, 2 and 1 of 5 (an abstention is alone), and of 2, 1, 1 and 1 of 5.
    assert [one.certainty for one in found.effects] == pytest.approx([1, 1, 0.03977, 0.03904], abs=1e-5)
    figure = effect_figure(entries_of(runs))
    assert (figure.title[:30], figure.x) == ("What retrieval does to quizzes", "of the samples without retrieval")
    assert [panel[:2] for panel in figure.panels] == [(one, "share of quizzes") for one in ("accuracy", "certainty")]


def test_quizzes_of_a_question_count_where_their_gold_answers_are_known(run, line, drawn):
    asked = [drawn("Who?", ["Ann"] * 5), drawn("Where is Ann?", ["Rome"] * 5), drawn("When?", ["1900"] * 5)]
    golds = {"Who?": ["Bob"], "Where is Ann?": ["Rome"]}
    without = line(0, 0.0, quizzes=asked).model_copy(update={"quiz_golds": golds})
    # With retrieval the second quiz asks after another person, and so is another quiz.
    again = [searched("who? ", "Bob"), searched("Where is Bob?", "Rome"), searched("When?", "1900")]
    found = compared(entries_of([run("gate-never", [without]), run("gate-always", [line(0, 0.0, quizzes=again)])]))
    assert [(one.accuracy, one.change, one.whole) for one in found.effects] == [(0, "Beneficial", False)]
    assert found.known == 2


def test_what_says_nothing_of_retrieval_is_left_out(run, line, drawn):
    never = [drawn(f"Question {n}?", ["gold"] * (5 if n else 4), complete=n > 0) for n in range(5)]
    always = [
        searched("Question 0?", "lead"),
        searched("Question 1?", None, "failed"),
        searched("Question 2?", "lead", retrieved=False),
        searched("Question 3?", "gold", "largest_cluster"),
        searched("Question 4?", "lead"),
    ]
    away = Degradation(stage="retrieve", cause="TimeoutError", message="", action="went on without passages")
    lines = [line(n, 0.0, quizzes=[one], degradations=[away] * (n == 3)) for n, one in enumerate(always)]
    without = run("gate-never", [line(n, 0.0, quizzes=[one]) for n, one in enumerate(never)])
    found = compared(entries_of([without, run("gate-always", lines)]))
    assert ([one.change for one in found.effects], found.known) == (["Harmful"], 4)
    assert compared(entries_of([without, run("gate-always", lines[:4], ids=["q0"])])) is None


def test_choices_are_compared_as_choices(run, line, drawn):
    answers = ["Yes.", "no", "Yes, it is.", "yes", "true"]
    asked = {"gate-never": drawn("Question 0?", answers), "gate-always": searched("Question 0?", "No, never.")}
    runs = [run(name, [line(0, 0.0, kind="yes/no", answers=("yes",), quizzes=[one])]) for name, one in asked.items()]
    (effect,) = compared(entries_of(runs)).effects
    assert (effect.accuracy, effect.change) == (Fraction(4, 5), "Harmful")


OTHERS = [{"model": "lm-b"}, {"index": "DenseRetriever"}, {"prompts": "others"}, {"method": "rag"}]


@pytest.mark.parametrize("other", [None, *OTHERS])
def test_runs_that_do_not_go_together_make_no_table(runs, run, other):
    always, never = runs
    settings = {"method": "gate-always", **SETTINGS, **(other or {})}
    entries = entries_of([never, run(lines=always.lines, **settings)] if other else [always])
    assert retrieval_effect(entries) is effect_figure(entries) is None


# Deviations of the third (-1/2, 0, 1/2) and (-1/2, 1/2, 0): .25 over .5.
@pytest.mark.parametrize(
    ("certainties", "measured"),
    [((0.0, 0.5, 1.0), 1.0), ((1.0, 0.5, 0.0), -1.0), ((0.0, 1.0, 0.5), 0.5), ((1.0, 1.0, 1.0), None), ((0, 1), None)],
)
def test_accuracy_and_certainty_go_together_or_not(certainties, measured):
    pairs = zip((0, "1/2", 1), certainties, strict=False)
    found = correlation([Effect(Fraction(one), float(other), True, True, True, True) for one, other in pairs])
    assert found is measured if measured is None else found[0] == pytest.approx(measured)
