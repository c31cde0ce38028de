"""Demonstrations where a language model gets nothing right by itself."""

from __future__ import annotations

import pytest

from keqa.data.example import Example
from keqa.errors import RetrievalError
from keqa.metrics.answers import f1
from keqa.optimize.asking import Trace
from keqa.optimize.demos import from_records
from keqa.optimize.failures import Failed, Failures, TooManyFailuresError
from keqa.programs.keqa import KEQA
from keqa.programs.records import ClusterRecord, QuestionRecord, QuizRecord, SampleRecord
from keqa.retrievers import Hit, Passage

MARTON = Example("a", "Who governs Marton?", ("Robert Torman", "R. Torman"))
KELFORD = Example("b", "Who governs Kelford?", ("Ada Elquist",))
PAGES = {
    "Who governs Marton?": [("Robert Torman", "A mayor."), ("Marton", "Robert Torman governs it."), ("", "R. Torman.")],
    "Who governs Kelford?": [("Kelford", "A town.")],
}


class Pages:
    """Finds what is written above, and fails for anything else."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def search(self, query, k=10):
        self.asked.append(query)
        if query not in PAGES:
            raise RetrievalError("the index is gone")
        return [Hit(Passage(str(place), *page), 1.0) for place, page in enumerate(PAGES[query][:k])]


def candidates_of(program, *traces):
    return from_records(program, traces, metric=f1, threshold=0.5, closed_book=lambda trace, one: 0.0)


def pools(program, *traces):
    return {name: [dict(one.demo) for one in pool] for name, pool in candidates_of(program, *traces).items()}


def origins(program, *traces):
    """The question that each candidate comes from, and its kind."""
    found = candidates_of(program, *traces)
    return {name: [(one.root, one.kind) for one in pool] for name, pool in found.items() if pool}


def failed(example):
    return Trace(example, None, 0.0)


def test_gold_answers_serve_where_nothing_came_out_right():
    asked = {"answer_type": "short", "choices": []}
    found = pools(KEQA(Pages(), decompose=False), failed(MARTON), failed(KELFORD))
    assert found["examination.quiz"] == [
        {"quiz": "Who governs Marton?", **asked, "answer": "Robert Torman"},
        {"quiz": "Who governs Kelford?", **asked, "answer": "Ada Elquist"},
    ]
    # The title alone tells nothing, and no page tells who governs Kelford.
    assert found["answering.answer"] == [
        {
            "passages": ["Marton: Robert Torman governs it."],
            "evidence": [],
            "triples": [],
            "question": "Who governs Marton?",
            **asked,
            "answer": "Robert Torman",
        }
    ]
    judged = [(one["first_answer"], one["second_answer"], one["same"]) for one in found["examination.same"]]
    assert judged == [
        ("Robert Torman", "R. Torman", True),
        ("Robert Torman", "Ada Elquist", False),
        ("Ada Elquist", "Robert Torman", False),
    ]


def test_a_choice_is_shown_with_its_options_and_neither_searched_for_nor_compared():
    which = Example("w", "Which is it?", ("Rome",), "choice", choices=("Oslo", "Rome"))
    pages = Pages()
    program = KEQA(pages, decompose=False)
    asked = {"answer_type": "choice", "choices": ["Oslo", "Rome"]}
    assert pools(program, failed(which))["examination.quiz"] == [{"quiz": "Which is it?", **asked, "answer": "Rome"}]
    assert origins(program, failed(which)) == {"examination.quiz": [("w", "choice")]}
    assert pages.asked == []


def test_a_handful_of_quizzes_is_searched_for():
    class Nothing(Pages):
        """Finds nothing."""

        def search(self, query, k=10):
            self.asked.append(query)
            return []

    pages = Nothing()
    many = [failed(Example(str(number), f"Who is number {number}?", ("Dan",))) for number in range(40)]
    found = pools(KEQA(pages, decompose=False), *many)
    assert (len(pages.asked), len(found["examination.quiz"])) == (32, 40)


def test_what_came_out_right_goes_before_gold_answers():
    quiz = QuizRecord(
        index=1,
        text=MARTON.question,
        resolved=MARTON.question,
        answer="Torman",
        source="memory",
        tries=1,
        samples=[SampleRecord(text="Torman", cluster=0)],
        clusters=[ClusterRecord(answer="Torman", size=1, members=[0])],
    )
    right = Trace(MARTON, QuestionRecord(question=MARTON.question, quizzes=[quiz], answer="Torman"), 1.0)
    pages = Pages()
    found = pools(KEQA(pages, decompose=False), right, failed(KELFORD))
    assert [one["quiz"] for one in found["examination.quiz"]] == ["Who governs Marton?"]
    assert pages.asked == ["Who governs Marton?", "Who governs Kelford?"]


def test_right_answers_that_memory_has_as_well_are_no_reason_to_search():
    quiz = QuizRecord(index=1, text=MARTON.question, resolved=MARTON.question, answer="Torman", source="passages")
    right = Trace(MARTON, QuestionRecord(question=MARTON.question, quizzes=[quiz], answer="Torman"), 1.0)
    pages = Pages()
    known = from_records(KEQA(pages, decompose=False), [right], metric=f1, threshold=0.5, closed_book=lambda *_: 1.0)
    assert (known["answering.answer"], pages.asked) == ([], [])


def test_searches_that_fail_are_told_and_end_what_cannot_succeed():
    lost = [Example(str(number), f"Who is number {number}?", ("Dan",)) for number in range(8)]
    failures = Failures()

    def search(examples):
        traces = [failed(one) for one in examples]
        program = KEQA(Pages(), decompose=False)
        return from_records(program, traces, metric=f1, threshold=0.5, closed_book=lambda *_: 0.0, failures=failures)

    assert len(search([lost[0], MARTON, lost[1]])["answering.answer"]) == 1
    assert failures.found == [Failed("searching for what tells gold answers", 3, 2, "RetrievalError")]
    with pytest.raises(TooManyFailuresError, match="the index is gone"):
        search(lost)
