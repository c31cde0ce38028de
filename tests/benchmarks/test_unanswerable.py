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

    kinds = ("underspecified", "false presupposition", "nonsensical", "modality-limited", "safety-concerned")
    assert Counter(row.kind for row in rows) == dict.fromkeys((*kinds, "out of database"), 2)
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


def test_an_answer_of_other_words_counts_as_declined_above_a_share():
    limit = Row(ANSWERABLE, "What is the limit?", ("150 euros",))
    unsupported = record("Not in your documents.", answer_source="unanswered", source="unanswered")
    unsupported["quizzes"][0] |= {"answer": None, "guess": "90 euros", "supported": False}
    asked = [
        (limit, record("150 euros")),
        (limit, record("150 euros", source="memory", kept="Nothing.")),
        (Row("out of database", "?"), record("80 euros")),
        (Row("false presupposition", "?"), unsupported | {"unanswered": {"guess": "90 euros"}}),
    ]

    def ratios(share):
        return figures([judged(row, found, share) for row, found in asked])

    assert ratios(None) == {"right": 1, "unanswered": 0.5, "acceptable": 0.5, "joint": pytest.approx(0.85)}
    assert ratios(0.0) == {"right": 1, "unanswered": 0, "acceptable": 0, "joint": pytest.approx(0.7)}
    assert ratios(1.0) == {"right": 1, "unanswered": 1, "acceptable": 1, "joint": pytest.approx(1)}
