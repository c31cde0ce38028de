"""TriviaQA's evidence files and its verified subset, an example for each pair of a question and a document."""

from __future__ import annotations

import json

import pytest

from keqa.data import load
from keqa.errors import InputError

ANSWER = {"Value": "Boston Braves", "Aliases": ["The Boston Braves"]}


def page(name, **more):
    return {"Filename": name, "Title": name.removesuffix(".txt"), **more}


def record(identity, pages=(), found=(), **more):
    return {"QuestionId": identity, "Question": "For which team?", "Answer": ANSWER} | {
        "EntityPages": list(pages),
        "SearchResults": list(found),
        **more,
    }


@pytest.fixture
def archive(tmp_path):
    """The authors' archive, which `put` fills with a file of questions."""
    for name, text in [
        ("wikipedia/Babe_Ruth.txt", "He ended with the St. Louis Braves.\n\nNo: Boston."),
        ("wikipedia/Baseball.txt", "A game."),
        ("web/12/12_3.txt", "Found on the web."),
    ]:
        path = tmp_path / "evidence" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "qa").mkdir()

    def put(name, *records, verified=False):
        path = tmp_path / "qa" / name
        path.write_text(json.dumps({"Data": records, "VerifiedEval": verified, "Domain": "Wikipedia"}))
        return tmp_path

    return put


def test_each_pair_of_a_question_and_a_document(archive):
    pages = [page("Babe_Ruth.txt"), page("Baseball.txt")]
    folder = archive("wikipedia-dev.json", record("tc_1", pages, [page("12/12_3.txt")]))
    found = load(f"triviaqa-rc:{folder}").examples
    assert [one.id for one in found] == ["tc_1--Babe_Ruth.txt", "tc_1--Baseball.txt", "tc_1--12/12_3.txt"]
    assert {(one.question, one.answers) for one in found} == {
        ("For which team?", ("Boston Braves", "The Boston Braves"))
    }
    assert [(one.title, one.text, one.role) for example in found for one in example.context] == [
        ("Babe_Ruth", "He ended with the St. Louis Braves. No: Boston.", "unknown"),
        ("Baseball", "A game.", "unknown"),
        ("12/12_3", "Found on the web.", "unknown"),
    ]


def test_of_the_verified_subset_what_was_verified(archive):
    yes, no = {"DocPartOfVerifiedEval": True}, {"DocPartOfVerifiedEval": False}
    folder = archive(
        "verified-wikipedia-dev.json",
        record("a", [page("Babe_Ruth.txt", **yes), page("Baseball.txt", **no)], QuestionPartOfVerifiedEval=True),
        record("b", [page("Baseball.txt", **yes)], QuestionPartOfVerifiedEval=False),
        verified=True,
    )
    loaded = load(f"triviaqa-verified:{folder}")
    assert [(one.id, one.context[0].role) for one in loaded.examples] == [("a--Babe_Ruth.txt", "supporting")]
    assert loaded.left_out == {"not verified": 2}
    assert loaded.problems == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (record("a", [page("../../secret.txt")]), "leads out of the folder of evidence"),
        (record("a", [page("/etc/passwd")]), "leads out of the folder of evidence"),
        (record("a", [page("C:\\secret.txt")]), "leads out of the folder of evidence"),
        (record("a", [page("Absent.txt")]), "Absent.txt"),
        (record("a"), "there is no document"),
        (record("a", ["x"]), "EntityPages must be a list of objects"),
        (record("a", [{"Title": "x"}]), "there is no Filename"),
        ("x", "an object is expected, not str"),
    ],
)
def test_what_cannot_be_used_is_a_problem_of_its_question(archive, given, message):
    folder = archive("wikipedia-dev.json", given, record("b", [page("Baseball.txt")]))
    loaded = load(f"triviaqa-rc:{folder}")
    assert [one.id for one in loaded.examples] == ["b--Baseball.txt"]
    assert message in str(loaded.problems[0])
    assert "question 1: " in str(loaded.problems[0])


def test_another_layout_is_refused(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text("[]")
    with pytest.raises(InputError, match="an object with the list Data is expected"):
        load(f"triviaqa-verified:{path}")
