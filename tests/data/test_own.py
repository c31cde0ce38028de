"""The user's own questions: what a file says, what is wrong with its lines, and lists in the cells of CSV."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.data.cells import listed
from keqa.data.example import Example
from keqa.data.own import read_examples, sort_examples
from keqa.errors import InputError

TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
CHOICE = {"question": "Which is red?", "answer": "A", "answer_type": "choice"}


def test_all_fields_of_jsonl_and_csv(write_json):
    quizzes, quiz_answers = ("Who is Ann?", "Is #1 old?"), ("a woman", "yes")
    example = Example("q1", "Which?", ("A",), "choice", ("Ann", "Bo"), quizzes, quiz_answers)
    row = {"id": "q1", "question": "Which?", "answer": "A", "answer_type": "choice", "choices": ["Ann", "Bo"]}
    row |= {"quizzes": quizzes, "quiz_answers": quiz_answers}
    assert read_examples(write_json("own.jsonl", json.dumps(row) + "\n\n")).examples == [example]
    header = "\ufeffid,Question,answer,answer_type,choices,quizzes,quiz_answers,note\n"
    cells = "q1,Which?,A,choice,Ann|Bo,Who is Ann?|Is #1 old?,a woman|yes,x\n"
    read = read_examples(write_json("own.csv", header + cells + "q2,Who?,,,,,,\n"))
    assert read.examples == [example]
    assert read.remarks == ["own.csv, line 3: there is no answer", "fields from which nothing is read: note"]


@pytest.mark.parametrize(
    ("name", "text", "answers", "problems"),
    [
        (
            "own.jsonl",
            '{"question": "Who?", "answer": "Ann", "id": 1}\n{"question": "What?", "answer": ""}\n'
            '{"question": "Who?", "answer": "Bo"}\n{"question": "Where?", "answer": "Rome"\n["Where?", "Rome"]\n'
            '{"question": "Where?", "answer": "Rome", "id": "1"}\n{"frage": "Where?"}\n'
            '{"question": "WHO?", "answer": "Ann"}\n{"question": "When?", "answers": ["1968", "68"]}',
            [("Ann",), ("1968", "68")],
            {
                2: "the answer is empty",
                3: "the question of line 1 again, with another answer",
                4: "malformed JSON (Expecting ',' delimiter at column 40)",
                5: "an object with question and answer is expected, not list",
                6: "its id '1' is that of line 1",
                7: "there is no question, found frage",
                8: "the question of line 1 again",
            },
        ),
        (
            "own.jsonl",
            "\n".join(json.dumps({**CHOICE, "choices": [one, "the sky"]}) for one in ("a rose", "blood")),
            [("A",), ("A",)],
            {},
        ),
        (
            "own.csv",
            'question,answer,answers\n"Who, then?",Ann,Anne|A. B.\n\n"When\nwas it?",1968,\n',
            [("Ann", "Anne", "A. B."), ("1968",)],
            {},
        ),
        (
            "own.csv",
            "question,answer\nWho?,Ann\nWhere?,\"['Rome', None]\"\nWhen?,[]\nWhy?,\"['so', nan]\"\n",
            [("Ann",)],
            {3: "there is no answer[1]", 4: "there is no answer", 5: "there is no answer[1]"},
        ),
        # Whole numbers beside a missing one are whole; pandas writes them as they are where none is missing.
        (
            "own.csv",
            "question,answer,answers\nWhen?,1871.0,\nSince when?,,in 1902\nHow cold?,-3.0,\n",
            [("1871",), ("in 1902",), ("-3",)],
            {},
        ),
        ("own.csv", "question,answer\nWhich version?,3.0\nAnd then?,4.0\n", [("3.0",), ("4.0",)], {}),
        ("own.csv", "question,answer,answers\nA?,3.0,\nB?,,4.5\nC?,2.5,\n", [("3.0",), ("4.5",), ("2.5",)], {}),
        ("own.csv", "question,answer,answers\nA?,3.0,\nB?,,Ann\nC?,Bo's,\n", [("3.0",), ("Ann",), ("Bo's",)], {}),
        # A list of objects, and lists in a text, as programs export them.
        (
            "own.json",
            '[{"question": "Who?", "answer": "[\\"Ann\\", \\"Anne\\"]"},\n'
            ' {"question": "Where?", "answers": "Rome|Roma"},'
            ' {"question": "Which?", "answer": "[1]", "choices": "[1]|[2]"}, {"question": "What?", "answer": "a|b"},\n'
            ' {"question": "How long?", "answer": "[0, 1]"},'
            ' {"question": "Who?!", "answer": "Not the Nine O\'Clock News"}]',
            [("Ann", "Anne"), ("Rome", "Roma"), ("[1]",), ("a|b",), ("[0, 1]",), ("Not the Nine O'Clock News",)],
            {},
        ),
        # What says that there is no answer is none, and in what RAGAS exports `answer` is not the right one.
        (
            "own.csv",
            "question,answer,unanswerable\nWho?,N/A,\nWhen?,Not found,false\n",
            [("Not found",)],
            {
                2: "the answer 'N/A' says that there is none: give unanswerable as true in its place, or as false "
                "beside it where it is the answer"
            },
        ),
        (
            "own.jsonl",
            '{"question": "Who?", "answer": "Bo", "ground_truth": "Ann"}\n{"question": "When?", "answer": "1968"}',
            [("1968",)],
            {1: "there are answer and ground_truth: call the one that is right answer, and leave the other out"},
        ),
        # Among choices a fraction is what stands there.
        (
            "own.csv",
            "question,answer,answer_type,choices\nWhich?,3.0,choice,2.0|3.0\nWhat?,,,\n",
            [("3.0",)],
            {3: "there is no answer"},
        ),
        (
            "own.jsonl",
            '{"ID": "q1", "Question": "A?", "Answer": "Ann", "Answer_Type": "short"}\n'
            '{"question": "B?", "answer": "1968", "Answer": "never"}\n'
            '{"question": "C?", "Answer": "Rome", "ANSWER": "Oslo"}\n{"Frage": "Warum?", "Antwort": "darum"}\n'
            '{"Question": "D?", "Gold": "so"}',
            [("Ann",), ("1968",)],
            {
                3: "the field answer is there twice",
                4: "there is no question, found Frage, Antwort",
                5: "there is no answer, found question, Gold",
            },
        ),
        # As spreadsheets of many countries write it, and with cells as long as articles.
        *(
            (
                "own.csv",
                f"{first}Question;Answer;Context\nWho, then?;Ann;{'A harbour. ' * 20_000}\nWhen?\n",
                [("Ann",)],
                {3 + bool(first): "there are 1 cells, the header has 3"},
            )
            for first in ("", "sep=;\n")
        ),
        (
            "own.csv",
            'question,answer\n"two\nlines?",Ann\nWho?,Ann,Bo\n,Ann\nWhat?,\nWhen?,1968\n"open,Ann\nWhere?,Rome\n',
            [("Ann",), ("1968",)],
            {
                4: "there are 3 cells, the header has 2",
                5: "there is no question",
                6: "there is no answer",
                8: "malformed CSV (unexpected end of data), up to line 9",
            },
        ),
        (
            "own.csv",
            "question,answer,answers\n" + TUTORIAL.split("```\nquestion,answer,answers\n")[1].split("```")[0],
            [("Elland", "the Elland", "Ealand"), ("Calder", "the Calder")],
            {},
        ),
    ],
    ids=lambda one: one[:20].strip() if isinstance(one, str) else "",
)
def test_what_a_file_says_and_what_is_wrong_with_its_lines(write_json, name, text, answers, problems):
    path = write_json(name, text)
    reading = read_examples(path)
    assert [one.answers for one in reading.examples] == answers
    assert [str(one) for one in reading.problems] == [f"{path}, line {n}: {said}" for n, said in problems.items()]


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
def test_questions_that_the_documents_do_not_answer_are_taken_where_they_may_be(write_json, name, text):
    path = write_json(name, text)
    reading = read_examples(path, unanswerable=True)
    assert [(one.question, one.answers) for one in reading.examples] == [("Who?", ()), ("When?", ())]
    assert [problem.message.partition(",")[0] for problem in reading.problems] == ["there is no answer"]
    with pytest.raises(InputError, match="there is no answer"):
        read_examples(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "own.jsonl",
            "",
            "can be used; expected: lines of JSON objects, a list of them or CSV, with question and answer$",
        ),
        ("own.jsonl", '{"question": "Who?"}', r"answer\n  .*own.jsonl, line 1: there is no answer, found question"),
        ("own.csv", "q,a\nWho?,Ann\n", "line 1: the columns question and answer are expected, found q, a"),
        ("own.csv", "question,answer,answer\nWho?,Ann,Bo\n", "line 1: the column answer is there twice"),
        ("own.csv", '"question', "line 1: malformed CSV"),
        ("own.xlsx", "x", "read from .jsonl, .ndjson, .json, .csv and .tsv, not from .xlsx: save it as one"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(write_json, name, text, message):
    with pytest.raises(InputError, match=message):
        read_examples(write_json(name, text))


def test_a_missing_file_one_that_is_not_utf8_and_half_a_character(tmp_path, write_json):
    with pytest.raises(InputError, match="is not there"):
        read_examples(tmp_path / "own.jsonl")
    (tmp_path / "own.jsonl").write_bytes('{"question": "Wé?", "answer": "x"}'.encode("latin-1"))
    with pytest.raises(InputError, match="line 1: not UTF-8"):
        read_examples(tmp_path / "own.jsonl")
    (example,) = read_examples(
        write_json("x.jsonl", '{"question": "Who\\ud800 was it?", "answer": "I\\udfff"}\n')
    ).examples
    assert (example.question, *example.answers) == ("Who was it?", "I")


def test_what_a_program_holds_is_sorted_alike():
    reading = sort_examples([{"question": "Who?", "answer": "Ann"}, {"question": "Who?", "answer": "Bo"}, "Who?"])
    assert [example.answers for example in reading.examples] == [("Ann",)]
    assert [str(problem) for problem in reading.problems] == [
        "example 2: the question of example 1 again, with another answer",
        "example 3: a question with its answers is expected, not str",
    ]


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("['Elland', 'the Elland']", ["Elland", "the Elland"]),
        (' ["Isburg", "Isb\\u00e9rg"] ', ["Isburg", "Isbérg"]),
        ("['it\\'s', \"a 'b'\", 'x\\n']", ["it's", "a 'b'", "x\n"]),
        ("['the Elland'\n 'Elland']", ["the Elland", "Elland"]),
        ("['a, b']", ["a, b"]),
        ("[1871, 2.5, -3]", [1871, 2.5, -3]),
        ("['a', None, True]", ["a", None, True]),
        ("[]", []),
        *((cell, None) for cell in ("Elland", "[sic] it is", "[a, b]", "['a'", "['a'] or ['b']", "[['a'], ['b']]")),
        *((cell, None) for cell in ('[["a"]]', '[{"a": 1}]', "['a' + 'b']", "[__import__('os')]", "[007]", "['\\d']")),
        *((cell, None) for cell in ("('a', 'b')", "{'a'}", "[" * 100_000 + "]" * 100_000, "['\\Uffffffff']")),
        # A long cell that is almost a list is looked at once.
        *((cell, None) for cell in ("[" + "9" * 5000 + "]", "[" + " " * 300_000 + "x]", "['a'" + " " * 300_000 + "x]")),
        ("[" + "'a' " * 100_000 + "x]", None),
    ],
    ids=lambda one: str(one)[:20],
)
def test_a_cell_is_a_list_as_json_python_and_numpy_write_it_only_where_all_of_it_is_one(cell, found):
    assert listed(cell) == found


@given(st.lists(st.text() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)))
def test_every_list_that_python_writes_is_read(values):
    assert listed(repr(values)) == values
