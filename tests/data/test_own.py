import gzip
import json
from pathlib import Path

import pytest

from keqa.data import Example, read_examples, sort_examples
from keqa.errors import InputError


@pytest.fixture
def write(tmp_path):
    def make(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


def test_jsonl(write):
    row = {
        "id": "q1",
        "question": "Which?",
        "answer": "A",
        "answer_type": "choice",
        "choices": ["Ann", "Bo"],
        "quizzes": ["Who is Ann?"],
        "quiz_answers": ["a woman"],
    }
    path = write("own.jsonl", json.dumps(row) + "\n\n" + '{"question": "Wer?", "answers": ["Zoë", "Zoe"]}')
    reading = read_examples(path)
    assert reading.problems == []
    assert reading.examples[0] == Example(
        "q1", "Which?", ("A",), "choice", ("Ann", "Bo"), ("Who is Ann?",), ("a woman",)
    )
    assert reading.examples[1].answers == ("Zoë", "Zoe")


def test_what_is_wrong_is_named_by_line_and_the_rest_is_read(write):
    path = write(
        "own.jsonl",
        "\n".join(
            [
                '{"question": "Who?", "answer": "Ann", "id": 1}',
                '{"question": "What?", "answer": ""}',
                '{"question": "Who?", "answer": "Bo"}',
                '{"question": "Where?", "answer": "Rome"',
                '["Where?", "Rome"]',
                '{"question": "Where?", "answer": "Rome", "id": "1"}',
                '{"frage": "Where?"}',
                '{"question": "WHO?", "answer": "Ann"}',
                '{"question": "When?", "answer": "1968"}',
            ]
        ),
    )
    reading = read_examples(path)
    assert [example.question for example in reading.examples] == ["Who?", "When?"]
    assert [(problem.line, problem.message) for problem in reading.problems] == [
        (2, "the answer is empty"),
        (3, "the question of line 1 again"),
        (4, "malformed JSON (Expecting ',' delimiter at column 40)"),
        (5, "an object with question and answer is expected, not list"),
        (6, "its id '1' is that of line 1"),
        (7, "there is no question"),
        (8, "the question of line 1 again"),
    ]
    assert str(reading.problems[0]) == f"{path}, line 2: the answer is empty"


def test_the_same_question_with_other_choices_is_another(write):
    rows = [
        {"question": "Which is red?", "answer": "A", "answer_type": "choice", "choices": [one, "the sky"]}
        for one in ("a rose", "blood")
    ]
    reading = read_examples(write("own.jsonl", "\n".join(map(json.dumps, rows))))
    assert len(reading.examples) == 2


def test_csv(write):
    path = write(
        "own.csv",
        "\ufeffQuestion,answer,answers,answer_type,choices,quizzes,quiz_answers,note\n"
        '"Who, then?",Ann,Anne|A. B.,,,,,x\n'
        "\n"
        "Which?,B,,choice,Ann|Bo,,,\n"
        '"When was the director\nof Up born?",1968,,,,Who directed Up?|When was #1 born?,Pete Docter|1968,\n',
    )
    reading = read_examples(path)
    assert reading.problems == []
    assert [(e.question, e.answers, e.answer_type, e.choices) for e in reading.examples] == [
        ("Who, then?", ("Ann", "Anne", "A. B."), "short", ()),
        ("Which?", ("B",), "choice", ("Ann", "Bo")),
        ("When was the director of Up born?", ("1968",), "short", ()),
    ]
    assert reading.examples[2].quizzes == ("Who directed Up?", "When was #1 born?")
    assert reading.examples[2].quiz_answers == ("Pete Docter", "1968")


def test_csv_as_spreadsheets_of_many_countries_write_it(write):
    context = "A harbour. " * 20_000
    for text in ("", "sep=;\n"):
        path = write("own.csv", f"{text}Question;Answer;Context\nWho, then?;Ann;{context}\nWhen?\n")
        reading = read_examples(path)
        assert [(one.question, one.answers) for one in reading.examples] == [("Who, then?", ("Ann",))]
        assert [one.line for one in reading.problems] == [3 + bool(text)]


def test_rows_of_csv_that_are_wrong_are_named_by_the_line_they_begin_on(write):
    path = write(
        "own.csv",
        'question,answer\n"two\nlines?",Ann\nWho?,Ann,Bo\n,Ann\nWhat?,\nWhen?,1968\n"open,Ann\nWhere?,Rome\n',
    )
    reading = read_examples(path)
    assert [example.question for example in reading.examples] == ["two lines?", "When?"]
    assert {problem.line: problem.message for problem in reading.problems} == {
        4: "there are 3 cells, the header has 2",
        5: "there is no question",
        6: "there is no answer",
        8: "malformed CSV (unexpected end of data), up to line 9",
    }


def test_tabs_and_gzip(tmp_path):
    with gzip.open(tmp_path / "own.tsv.gz", "wt", encoding="utf-8") as stream:
        stream.write("question\tanswers\nWho?\tAnn|Anne\n")
    assert read_examples(tmp_path / "own.tsv.gz").examples[0].answers == ("Ann", "Anne")


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        (
            "own.jsonl",
            {
                "": "holds no question that can be used$",
                '{"question": "Who?"}': r"can be used\n  .*own.jsonl, line 1: there is no answer",
            },
        ),
        (
            "own.csv",
            {
                "": "holds no question that can be used$",
                "q,a\nWho?,Ann\n": "line 1: the columns question and answer are expected, found q, a",
                "question,answer,answer\nWho?,Ann,Bo\n": "line 1: the column answer is there twice",
                '"question': "line 1: malformed CSV",
            },
        ),
        ("own.xlsx", {"x": "read from .jsonl and .csv, not from .xlsx"}),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(write, name, messages):
    for text, message in messages.items():
        with pytest.raises(InputError, match=message):
            read_examples(write(name, text))


def test_a_missing_file_and_one_that_is_not_utf8(tmp_path):
    with pytest.raises(InputError, match="is not there"):
        read_examples(tmp_path / "own.jsonl")
    (tmp_path / "own.jsonl").write_bytes('{"question": "Wé?", "answer": "x"}'.encode("latin-1"))
    with pytest.raises(InputError, match="line 1: not UTF-8"):
        read_examples(tmp_path / "own.jsonl")


def test_what_a_program_holds_is_sorted_alike():
    reading = sort_examples([{"question": "Who?", "answer": "Ann"}, {"question": "Who?", "answer": "Bo"}, "Who?"])
    assert [example.answers for example in reading.examples] == [("Ann",)]
    assert [str(problem) for problem in reading.problems] == [
        "example 2: the question of example 1 again",
        "example 3: a question with its answers is expected, not str",
    ]
