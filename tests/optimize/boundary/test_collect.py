"""Collecting draws: which quizzes, what is right, what is kept, and what a file may hold."""

import importlib
import json
from fractions import Fraction

import dspy
import pytest
from conftest import SayingEngine
from dspy.lm15 import ServerError

from keqa.data.example import Example
from keqa.errors import InputError, TooManyFailuresError
from keqa.optimize.boundary.collect import collect, quizzes_of, read_collected, write_collected, write_private
from keqa.programs import KEQA
from keqa.programs.boundary.light import root_digest
from keqa.retrievers import Hit, Passage
from keqa.signatures.boundary import accuracy_prompt
from keqa.storage.journal import Journal

# The package exports the function under the name of its module.
collecting = importlib.import_module("keqa.optimize.boundary.collect")

TWO = Example(
    "t1",
    "To whom is the mayor of Marton married?",
    ("Ann Lee", "Ann"),
    quizzes=("Who governs Marton?", "To whom is #1 married?"),
    quiz_answers=("Bo Lee", "Ann Lee"),
)
ONE = Example("t2", "Is Marton a town?", ("yes",), "yes/no")
AGAIN = Example("t3", "Who governs  marton?", ("Bo Lee",))


def governed(name, inputs, config):
    assert name == "AnswerQuiz"
    if "married" in inputs["quiz"]:
        return {"answer": "unknown"}
    if "governs" in inputs["quiz"]:
        return {"answer": "Bo Lee" if config.seed % 2 else "bo lee."}
    return {"answer": "no"}


@pytest.fixture
def program(programmed):
    """Makes a program on a scripted LM, and its engine."""
    return lambda reply=governed: programmed(KEQA(None), reply)


def test_with_a_retriever_every_quiz_is_drawn_from_passages_as_well(program, tmp_path):
    shown = []

    def reply(name, inputs, config):
        if name == "AnswerQuiz":
            return {"answer": "Al"}
        shown.append(inputs["passages"])
        return {"answer": "Bo Lee" if config.temperature == 1 else "cold"}

    class Towns:
        def search(self, query, k):
            return [Hit(Passage(str(n), "Marton", f"{query} {n}"), 1.0) for n in range(k)]

    found = collect(program(reply)[0], [AGAIN], retriever=Towns(), top_k=2, tries=3)
    memory, read = found.quizzes
    passages = "Marton: Who governs marton? 0", "Marton: Who governs marton? 1"
    assert (memory.reference, memory.accuracy) == (None, 0)
    assert (read.reference, read.accuracy, read.quiz) == ("\n\n".join(passages), 1, memory.quiz)
    assert len(shown) == 3
    assert all(passage in shown[0] for passage in passages)
    write_collected(found, tmp_path / "quizzes.jsonl")
    assert read_collected(tmp_path / "quizzes.jsonl") == found
    # Where nothing is found, memory is asked once more.
    _, read = collect(program(reply)[0], [AGAIN], retriever=Towns(), top_k=0, tries=3).quizzes
    assert ([draw.text for draw in read.draws], read.reference, len(shown)) == (["Al"] * 3, "", 3)


def test_quizzes_are_gold_ones_and_each_is_there_once():
    asked = [(one.root, one.quiz.resolved, one.golds, one.answer_type) for one in quizzes_of([TWO, ONE, AGAIN])]
    assert asked == [
        ("t1", "Who governs Marton?", ("Bo Lee",), "short"),
        ("t1", "To whom is Bo Lee married?", ("Ann Lee",), "short"),
        ("t2", "Is Marton a town?", ("yes",), "yes/no"),
    ]


def test_what_is_collected(program, tmp_path):
    made, engine = program()
    engine.probability = 0.5
    found = collect(made, [TWO, ONE], tries=4, dataset="towns", split="train")
    assert [(quiz.quiz, quiz.accuracy) for quiz in found.quizzes] == [
        ("Who governs Marton?", Fraction(1)),
        ("To whom is Bo Lee married?", Fraction(0)),
        ("Is Marton a town?", Fraction(0)),
    ]
    first, abstained, _ = (quiz.draws[0] for quiz in found.quizzes)
    assert (first.right, first.probability, first.first_token) == (True, pytest.approx(0.5), pytest.approx(0.5))
    assert (abstained.text, abstained.right) == (None, False)
    # Exact answers are compared: no judge is asked.
    assert set(engine.count) == {"AnswerQuiz"}
    assert engine.count.total() == 12
    assert (made.examination.tries, found.left_out, found.quizzes[0].root) == (5, 0, root_digest("t1"))
    write_collected(found, tmp_path / "quizzes.jsonl")
    assert read_collected(tmp_path / "quizzes.jsonl") == found
    assert (tmp_path / "quizzes.jsonl").stat().st_mode & 0o077 == 0


def test_open_chinese_answers_are_judged_by_a_language_model(program):
    said = {"在北京市。": "1", "上海": "0", "广州": "?"}
    asked = []

    def judge(request):
        text = str(request.messages[-1].text)
        asked.append(text)
        return next(reply for answer, reply in said.items() if f"预测: {answer}\n" in text)

    lm = dspy.LM("scripted/judge", engine=SayingEngine(judge), cache=False)
    wanted = [Example("t4", "中国的首都是哪里?", ("北京",)), Example("t5", "Who governs Marton?", ("北京",))]
    for answer, right in (("在北京市。", 1), ("上海", 0), ("北京", 1)):
        made, _ = program(lambda name, inputs, config, answer=answer: {"answer": answer})
        found = collect(made, wanted, tries=3, judge_lm=lm)
        # An English question is exactly right or wrong.
        assert [quiz.accuracy for quiz in found.quizzes] == [right, answer == "北京"]
    # Each answer is judged once, and one that is exactly right not at all.
    assert asked == [accuracy_prompt(answer, "北京") for answer in list(said)[:2]]
    # What cannot be judged has no label.
    made, _ = program(lambda name, inputs, config: {"answer": "广州"})
    assert collect(made, [*wanted, TWO], tries=3, judge_lm=lm).left_out == 1


def test_a_quiz_whose_draws_failed_is_left_out_and_asked_again(program, tmp_path):
    failing = [True]

    def reply(name, inputs, config):
        return "garbage {" if failing[0] and "town" in inputs["quiz"] else governed(name, inputs, config)

    made, _ = program(reply)
    for wanted in ((2, 1), (3, 0)):
        with Journal.open(tmp_path / "draws.jsonl", {}) as journal:
            found = collect(made, [TWO, ONE], tries=2, store=journal)
        assert (len(found.quizzes), found.left_out) == wanted
        failing[0] = False


def test_an_outage_ends_it(program):
    def reply(name, inputs, config):
        raise ServerError("away")

    with pytest.raises(TooManyFailuresError, match="collecting"):
        collect(program(reply)[0], [TWO, ONE], tries=2)


def test_nothing_to_collect(program):
    with pytest.raises(InputError, match="no question"):
        collect(program()[0], [])


QUIZ = {"root": "0" * 16, "quiz": "Who?", "golds": ["Bo"], "draws": [{"text": "Bo", "right": True}]}
HEADER = {"format": "keqa-boundary-quizzes", "version": 1}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no file of collected quizzes"),
        ([{"format": "keqa-run"}], "no file of collected quizzes"),
        ([HEADER | {"version": 2}], "no file of collected quizzes"),
        ([HEADER | {"code": 1}], "line 1: code"),
        ([HEADER, QUIZ | {"draws": []}], "line 2: draws"),
        ([HEADER, QUIZ, QUIZ | {"root": "t1"}], "line 3: root"),
        ([HEADER, QUIZ | {"draws": [{"text": "Bo", "right": True, "probability": 2}]}], "line 2: draws.0.probability"),
        ([HEADER, 3], "line 2"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, lines, message):
    path = tmp_path / "quizzes.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(InputError, match=message):
        read_collected(path)


def test_a_file_has_so_many_quizzes_and_bytes_at_most(tmp_path, monkeypatch):
    path = tmp_path / "quizzes.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in [HEADER, QUIZ, QUIZ]))
    size = path.stat().st_size
    monkeypatch.setattr(collecting, "_MOST_QUIZZES", 2)
    monkeypatch.setattr(collecting, "_LARGEST_FILE", size)
    assert len(read_collected(path).quizzes) == 2
    monkeypatch.setattr(collecting, "_MOST_QUIZZES", 1)
    with pytest.raises(InputError, match="has more than 1 quizzes, the most that are read"):
        read_collected(path)
    monkeypatch.setattr(collecting, "_LARGEST_FILE", size - 1)
    with pytest.raises(InputError, match=f"has more than {size - 1} bytes, the most that is read"):
        read_collected(path)


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    place = tmp_path / "quizzes.jsonl"
    place.mkdir()
    with pytest.raises(InputError, match=r"quizzes\.jsonl cannot be written: Is a directory$"):
        write_private(place, b"")
    assert list(tmp_path.iterdir()) == [place]
