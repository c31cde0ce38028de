"""The company's folder holds what its questions ask, and figures count what was said."""

import pytest
from company import QUESTIONS, make
from own_documents import judged

import keqa

COST = {"by_role": {"task": {"samples": 3}, "utility": {"samples": 2}}}
LIMIT = next(asked for asked in QUESTIONS if asked.question == "What is the hotel limit per night?")
NOWHERE = next(asked for asked in QUESTIONS if not asked.answers)


def record(answer, source="passages", page=None, heading="Hotels"):
    place = {"file": "policies/travel-policy.md", "page": page, "heading": heading, "kept": True}
    quiz = {"source": source, "passages": [place]}
    return {"answer": answer, "answer_source": source, "quizzes": [quiz], "fallback": None, "cost": COST}


def test_the_folder_has_twenty_six_files_with_the_answers_of_twenty_eight_questions(tmp_path):
    make(tmp_path)
    texts = {}
    for passage in keqa.read_corpus([tmp_path]):
        texts[passage.place.file] = f"{texts.get(passage.place.file, '')} {passage.text}"

    assert len(texts) == 26
    assert len(QUESTIONS) == 40
    assert sum(not asked.answers for asked in QUESTIONS) == 12
    for asked in QUESTIONS:
        assert not asked.file or any(answer in texts[asked.file] for answer in asked.answers), asked.question


@pytest.mark.parametrize(
    ("asked", "said", "counted"),
    [
        (LIMIT, record("150 euros"), {"right", "read", "cited", "file"}),
        (LIMIT, record("150 euros", heading="Trains and flights"), {"right", "read", "file"}),
        (LIMIT, record("150 euros", source="memory"), {"right"}),
        (LIMIT, record("120 euros"), {"wrong", "old"}),
        (LIMIT, record("Unbekannt"), {"declined"}),
        (LIMIT, record("Not in your documents: …", source="unanswered"), {"declined", "finding"}),
        (LIMIT, record(None, source="failed"), {"failed"}),
        (NOWHERE, record("Berlin"), {"wrong"}),
    ],
)
def test_what_was_said_is_right_declined_or_wrong_and_cited_at_its_place(asked, said, counted):
    figures = judged(asked, said)

    assert {name for name, value in figures.items() if value} == {"asked", "calls"} | counted
    assert figures["calls"] == 5
