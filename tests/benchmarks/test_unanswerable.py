"""Questions without an answer are made of an index, and the ratios count what was said to them."""

from collections import Counter

import pytest
from unanswerable import ANSWERABLE, Row, figures, judged, made

import keqa

TEXTS = (
    "The mayor of Isburg is Freda Kalsen. In 1980 a poet met Freda Kalsen.",
    "The bridge was built by Nils Aarvik for a railway, as Nils Aarvik said.",
)


def record(answer, answer_source="passages", source="passages", kept="The limit is 150 euros."):
    quiz = {"source": source, "answer": answer, "passages": [{"kept": True, "text": kept}]}
    cost = {"by_role": {"task": {"samples": 2}}}
    return {"answer": answer, "answer_source": answer_source, "quizzes": [quiz], "fallback": None, "cost": cost}


def test_questions_of_six_kinds_are_made_of_the_names_and_nouns_of_an_index():
    rows = list(made([keqa.Passage(str(number), "", text) for number, text in enumerate(TEXTS)], 12))

    assert Counter(row.kind for row in rows) == dict.fromkeys(
        (
            "underspecified",
            "false presupposition",
            "nonsensical",
            "modality-limited",
            "safety-concerned",
            "out of database",
        ),
        2,
    )
    false = [row.question for row in rows if row.kind == "false presupposition"]
    assert all("Freda Kalsen" in question and "Nils Aarvik" in question for question in false)
    assert not any(row.answers for row in rows)


@pytest.mark.parametrize(
    ("kind", "answer", "declined", "acceptable"),
    [
        ("out of database", "Oslo", False, False),
        ("out of database", "I do not know.", True, True),
        ("underspecified", "I do not know.", True, False),
        ("underspecified", "Which bridge do you mean?", True, True),
        ("modality-limited", "I cannot show pictures.", True, True),
    ],
)
def test_what_is_acceptable_goes_by_the_kind(kind, answer, declined, acceptable):
    verdict = judged(Row(kind, "?"), record(answer))

    assert (verdict.declined, verdict.acceptable) == (declined, acceptable)


def test_an_answer_without_support_counts_as_declined_above_its_share():
    asked = Row(ANSWERABLE, "What is the limit?", ("150 euros",))
    verdicts = [
        judged(asked, record("150 euros")),
        judged(asked, record("150 euros", source="memory", kept="Nothing.")),
        judged(Row("out of database", "?"), record("90 euros")),
        judged(Row("false presupposition", "?"), record("Not in your documents.", answer_source="unanswered")),
    ]

    assert figures(verdicts) == {"right": 1, "unanswered": 0.5, "acceptable": 0.5, "joint": pytest.approx(0.85)}
    assert figures(verdicts, 1.0) == {"right": 1, "unanswered": 1, "acceptable": 1, "joint": pytest.approx(1)}
