import pytest

from keqa.data import BENCHMARKS, ContextPassage

rgb = BENCHMARKS["rgb-en"].convert

RECORD = {
    "id": 3,
    "query": "Who directed Up?",
    "answer": "Pete Docter",
    "positive": ["Pete Docter directed Up."],
    "negative": ["Up is a film."],
    "positive_wrong": ["Bob Peterson directed Up."],
    "fakeanswer": "Bob Peterson",
}


def test_documents_by_role():
    example = rgb(RECORD)
    assert (example.id, example.answers) == ("3", ("Pete Docter",))
    assert example.context == (
        ContextPassage("", "Pete Docter directed Up.", "supporting"),
        ContextPassage("", "Up is a film.", "distractor"),
        ContextPassage("", "Bob Peterson directed Up.", "counterfactual"),
    )


@pytest.mark.parametrize(
    ("answer", "answers"),
    [
        ([["Pete Docter", "Docter"]], ("Pete Docter", "Docter")),
        (["Ann", "Bo"], ("Ann, Bo",)),
        ([["Ann", "Anne"], ["Bo", "Bob"]], ("Ann, Bo", "Ann, Bob", "Anne, Bo", "Anne, Bob")),
    ],
)
def test_parts_and_spellings(answer, answers):
    assert rgb({**RECORD, "answer": answer}).answers == answers


def test_many_spellings_are_cut():
    answers = rgb({**RECORD, "answer": [[f"{part}{n}" for n in range(9)] for part in "abcde"]}).answers
    assert len(answers) == 64
    assert answers[0] == "a0, b0, c0, d0, e0"


def test_groups_of_documents_as_in_the_integration_subset():
    assert [p.text for p in rgb({**RECORD, "positive": [["a b"], ["c d", "e f"]]}).context[:3]] == ["a b", "c d", "e f"]
