import pytest

from keqa.data import BENCHMARKS, ContextPassage, Example
from keqa.data.records import LeftOut
from keqa.errors import InputError

squad = BENCHMARKS["squad"].convert

QUESTION = {
    "id": "q1",
    "question": "Who directed Up?",
    "answers": [{"text": "Pete Docter", "answer_start": 19}, {"text": "Docter", "answer_start": 24}],
}
IMPOSSIBLE = {"id": "q2", "question": "Who directed Down?", "answers": [], "is_impossible": True}
CONTEXT = "Up was directed by\nPete Docter."
DOCUMENT = {"data": [{"title": "Up_(film)", "paragraphs": [{"context": CONTEXT, "qas": [QUESTION, IMPOSSIBLE]}]}]}
EXAMPLE = Example(
    "q1",
    "Who directed Up?",
    ("Pete Docter", "Docter"),
    context=(ContextPassage("Up (film)", "Up was directed by Pete Docter.", "supporting"),),
)


@pytest.mark.parametrize("name", ["squad", "squad2", "xquad-en", "xquad-zh", "chinesesquad", "cmrc2018"])
def test_unanswerable_questions_are_left_out_and_counted(name, write_json):
    loaded = BENCHMARKS[name].load(write_json("dev.json", DOCUMENT))
    assert (loaded.examples, loaded.problems, loaded.left_out) == ([EXAMPLE], [], {"unanswerable": 1})


def test_rows_of_the_hub():
    row = {"id": "q1", "title": "Up_(film)", "context": CONTEXT, "question": "Who directed Up?"}
    assert squad({**row, "answers": {"text": ["Pete Docter", "Docter"], "answer_start": [19, 24]}}) == EXAMPLE
    assert squad({**row, "answers": {"text": [], "answer_start": []}}) == LeftOut("unanswerable")


def test_numbers_as_answers():
    assert squad({**QUESTION, "context": CONTEXT, "answers": [{"text": 42}]}).answers == ("42",)


def test_only_unanswerable_questions(write_json):
    document = {"data": [{"title": "Up", "paragraphs": [{"context": CONTEXT, "qas": [IMPOSSIBLE]}]}]}
    with pytest.raises(InputError, match="holds no question to ask: 1 unanswerable"):
        BENCHMARKS["squad2"].load(write_json("dev.json", document))


def test_what_is_malformed_is_named(write_json):
    articles = [
        *DOCUMENT["data"],
        "Up",
        {"title": "Up"},
        {"title": "Up", "paragraphs": [{"qas": []}]},
        {"title": "Up", "paragraphs": [{"context": CONTEXT, "qas": [{**QUESTION, "id": "q3", "answers": None}]}]},
        {"title": "Up", "paragraphs": [{"context": CONTEXT, "qas": [QUESTION]}]},
    ]
    loaded = BENCHMARKS["squad"].load(write_json("dev.json", {"data": articles}))
    assert [str(problem).rpartition("dev.json, ")[2] for problem in loaded.problems] == [
        "article 2: an article with paragraphs is expected, not str",
        "article 3: there is no paragraphs",
        "article 4: there is no context",
        "question 3: there is no answers",
        "question 4: the question of question 1 again",
    ]


@pytest.mark.parametrize("document", [[], {"Data": []}, {"data": {}}])
def test_another_file_is_refused(write_json, document):
    with pytest.raises(InputError, match="an object with the list data is expected, as SQuAD has it"):
        BENCHMARKS["squad"].load(write_json("dev.json", document))
