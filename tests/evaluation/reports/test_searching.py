"""Over- and under-search, and AUROC of gates that draw nothing, from run files made by hand."""

import pytest

from keqa.evaluation.gold_quizzes import known_on_testbed
from keqa.evaluation.records import RunSettings
from keqa.evaluation.reports.gates import gates
from keqa.evaluation.reports.overall import overall
from keqa.evaluation.reports.parts import search_rates, searching
from keqa.evaluation.reports.rows import entries_of


@pytest.fixture(scope="module")
def texts():
    """Quizzes whose facts the language model that ships knows, and such that it does not."""
    truth = known_on_testbed()
    return {known: [text for text, is_known in truth.items() if is_known is known] for known in (True, False)}


def with_lm(made, model, dataset="testbed"):
    settings = RunSettings.model_validate({"models": {"task": {"model": model}}})
    header = made.header.model_copy(update={"configuration": settings, "dataset": dataset})
    return made.__class__(header, made.lines)


@pytest.fixture
def searched(run, line, quiz, texts):
    """A row that searched for one of three known quizzes, and not for one of two unknown ones."""
    asked = [*((text, number == 0) for number, text in enumerate(texts[True][:3]))]
    asked += [(text, number == 0) for number, text in enumerate(texts[False][:2])]
    asked.append(("Who painted the door?", True))
    lines = [
        line(number, 1.0, quizzes=[quiz(text, ["a"], [[0]], retrieved=retrieved, source="memory")])
        for number, (text, retrieved) in enumerate(asked)
    ]
    return run("keqa", lines)


def test_the_rates_are_those_of_the_testbeds_own_facts(searched):
    (entry,) = entries_of([with_lm(searched, "keqa/tiny@344cc3aebc1a")])
    found = search_rates(entry)
    assert (found.known, found.over_searched, found.unknown, found.under_searched) == (3, 1, 2, 1)


@pytest.mark.parametrize(("model", "dataset"), [("openai/gpt-4o", "testbed"), ("keqa/tiny@1", "nq")])
def test_of_others_the_truth_is_not_known(searched, model, dataset):
    entries = entries_of([with_lm(searched, model, dataset)])
    assert search_rates(entries[0]) is None
    assert searching(entries) == ({entries[0]: []}, [])
    assert "over-search" not in [column.name for column in overall(entries).columns]


def test_a_gate_that_draws_nothing_is_measured_by_the_draws_of_another(run, line, quiz):
    def asked(name, drawn):
        lines = []
        for number, right in enumerate((True, True, False, False)):
            text = f"Quiz {number}?"
            answers = ["gold" if right else "other"] * 2 if drawn else []
            made = quiz(text, answers or ["x"], [[0, 1]] if drawn else [[0]], known=True)
            if not drawn:
                made = made.model_copy(
                    update={
                        "samples": [],
                        "clusters": [],
                        "consistency": None,
                        "certainty": (0.9, 0.4, 0.6, 0.1)[number],
                    }
                )
            lines.append(line(number, 1.0, quizzes=[made]).model_copy(update={"quiz_golds": {text: ["gold"]}}))
        return run(name, lines)

    grid = gates(entries_of([asked("gate-votes", True), asked("gate-boundary", False)]))
    place = [column.name for column in grid.columns].index("AUROC")
    assert [row.cells[place].text for row in grid.rows] == [".500", ".750"]
    assert any(note.startswith("Boundary model: a gate that draws less than all") for note in grid.notes)
