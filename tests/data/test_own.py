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
        (7, "there is no question, found frage"),
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


def test_a_cell_that_is_a_list_as_a_whole_is_one_as_pandas_writes_it(write):
    path = write(
        "own.csv",
        "question,answer,answers,answer_type,choices\n"
        "Which town?,\"['Elland', 'the Elland']\",,,\n"
        'Which river?,"[""Isburg"", ""Isberg""]",,,\n'
        'Which bird?,a rook,"[\'rook\', ""the crow\'s kin""]",,\n'
        "Which fish?,['the cod' 'cod'],,,\n"
        "How many?,[4],four|4.0,,\n"
        "What does he say?,[sic] it is | was,,,\n"
        "Which is red?,B,,choice,\"['the sky', 'blood']\"\n",
    )
    reading = read_examples(path)
    assert reading.problems == []
    assert [one.answers for one in reading.examples] == [
        ("Elland", "the Elland"),
        ("Isburg", "Isberg"),
        ("a rook", "rook", "the crow's kin"),
        ("the cod", "cod"),
        ("4", "four", "4.0"),
        ("[sic] it is | was",),
        ("B",),
    ]
    assert reading.examples[-1].choices == ("the sky", "blood")


def test_what_is_missing_in_the_list_of_a_cell_is_named_by_its_line(write):
    path = write(
        "own.csv",
        "question,answer\nWho?,Ann\nWhere?,\"['Rome', None]\"\nWhen?,[]\nWhy?,\"['so', nan]\"\n",
    )
    assert [(one.line, one.message) for one in read_examples(path).problems] == [
        (3, "there is no answer[1]"),
        (4, "there is no answer"),
        (5, "there is no answer[1]"),
    ]


def test_whole_numbers_beside_a_missing_one_are_whole_in_csv(write):
    missing = "question,answer,answers\nWhen?,1871.0,\nSince when?,,in 1902\nHow cold?,-3.0,\n"
    found = read_examples(write("own.csv", missing))
    assert [one.answers for one in found.examples] == [("1871",), ("in 1902",), ("-3",)]


@pytest.mark.parametrize(
    "text",
    [
        # pandas writes whole numbers as they are where none is missing.
        "question,answer\nWhich version?,3.0\nAnd then?,4.0\n",
        "question,answer,answers\nWhich version?,3.0,\nAnd then?,4.0,\nWhich more?,,4.5\nAnd again?,2.5,\n",
        "question,answer,answers\nWhich version?,3.0,\nWho?,,Ann\nWhose?,Bo's,\n",
    ],
)
def test_a_fraction_that_somebody_wrote_stays_in_csv(write, text):
    assert read_examples(write("own.csv", text)).examples[0].answers == ("3.0",)


def test_a_fraction_among_the_choices_of_csv_stays(write):
    text = "question,answer,answer_type,choices\nWhich?,3.0,choice,2.0|3.0\nWhat?,,,\n"
    assert read_examples(write("own.csv", text)).examples[0].answers == ("3.0",)


def test_numbers_of_jsonl_are_whole_where_they_are(write):
    lines = [
        '{"question": "When?", "answer": 1871.0}',
        '{"question": "How long?", "answers": [3.0, 3.5]}',
        '{"question": "Which?", "answer": 2.0, "answer_type": "choice", "choices": [1.0, 2.0]}',
        '{"question": "Which version?", "answer": "3.0"}',
        '{"question": "How far?", "answer": 1e+300}',
    ]
    found = read_examples(write("own.jsonl", "\n".join(lines))).examples
    assert [one.answers for one in found] == [("1871",), ("3", "3.5"), ("2",), ("3.0",), ("1e+300",)]
    assert found[2].choices == ("1", "2")


def test_not_a_number_is_nothing_in_jsonl(write):
    lines = [
        '{"question": "Who?", "answer": "Ann", "answer_type": NaN, "choices": NaN, "id": NaN, "quizzes": NaN}',
        '{"question": "When?", "answer": NaN}',
        '{"question": NaN, "answer": "Ann"}',
        '{"question": "Where?", "answer": ["Rome", NaN]}',
    ]
    reading = read_examples(write("own.jsonl", "\n".join(lines)))
    assert [(one.question, one.answers, one.choices) for one in reading.examples] == [("Who?", ("Ann",), ())]
    assert reading.examples[0].id.startswith("q-")
    assert [(one.line, one.message) for one in reading.problems] == [
        (2, "there is no answer"),
        (3, "there is no question"),
        (4, "there is no answer[1]"),
    ]


def test_names_with_capitals_are_taken_in_jsonl_as_in_csv(write):
    lines = [
        '{"ID": "q1", "Question": "Who?", "Answer": "Ann", "Answer_Type": "short"}',
        '{"question": "When?", "answer": "1968", "Answer": "never"}',
        '{"question": "Where?", "Answer": "Rome", "ANSWER": "Oslo"}',
        '{"Frage": "Warum?", "Antwort": "darum"}',
        '{"Question": "How?", "Gold": "so"}',
    ]
    reading = read_examples(write("own.jsonl", "\n".join(lines)))
    assert [(one.question, one.answers) for one in reading.examples] == [("Who?", ("Ann",)), ("When?", ("1968",))]
    assert reading.examples[0].id == "q1"
    assert [(one.line, one.message) for one in reading.problems] == [
        (3, "the field answer is there twice"),
        (4, "there is no question, found Frage, Antwort"),
        (5, "there is no answer, found question, Gold"),
    ]


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
    ("name", "text"),
    [
        (
            "own.jsonl",
            '{"question": "Who?", "answer": null}\n{"question": "When?", "unanswerable": true}\n{"question": "Why?"}\n',
        ),
        ("own.csv", "question,answer,Unanswerable\nWho?,,true\nWhen?,,1\nWhy?,,\n"),
    ],
)
def test_questions_that_the_documents_do_not_answer_are_taken_where_they_may_be(write, name, text):
    path = write(name, text)
    reading = read_examples(path, unanswerable=True)
    assert [(one.question, one.answers) for one in reading.examples] == [("Who?", ()), ("When?", ())]
    assert [problem.message.partition(",")[0] for problem in reading.problems] == ["there is no answer"]
    with pytest.raises(InputError, match="there is no answer"):
        read_examples(path)


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        (
            "own.jsonl",
            {
                "": "holds no question that can be used$",
                '{"question": "Who?"}': r"can be used\n  .*own.jsonl, line 1: there is no answer, found question",
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


def test_the_csv_of_the_tutorial_is_read_as_it_says(write):
    tutorial = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
    text = tutorial.split("```\nquestion,answer,answers\n")[1].split("```")[0]
    reading = read_examples(write("own.csv", f"question,answer,answers\n{text}"))
    assert [one.answers for one in reading.examples] == [
        ("Elland", "the Elland", "Ealand"),
        ("Calder", "the Calder"),
    ]
    assert reading.problems == []
