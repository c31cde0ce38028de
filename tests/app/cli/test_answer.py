from io import StringIO

import pytest
from rich.console import Console

from keqa.cli.story import follow, shown_answer
from keqa.programs.calls.progress import Answered, QuizAnswered, QuizFound, Searching
from keqa.programs.records import PassageVerdict, QuestionRecord, QuizRecord

LONG = "Carmouth has a mayor. " + "It rains there, as everybody knows. " * 20


def passage(file, text, page=None, **more):
    return PassageVerdict(
        passage_id=f"{file}#1", title="Report", text=text, score=1, verdict="helpful", kept=True, why="judged helpful",
        file=file, page=page, **more,
    )  # fmt: skip


FIRST = passage(
    "a.pdf", LONG, 3, heading="Town\x1b[2J", date="2024-05-31", sentences=["The mayor of Carmouth is Ann Lee."]
)
SECOND = passage("b.pdf", "The mayor of Carmouth is Bo Kim.", 1, sentences=["The mayor of Carmouth is Bo Kim."])
QUIZ = QuizRecord(index=1, text="Who is it?", answer="Ann Lee", source="passages", passages=[FIRST, SECOND])
RECORD = QuestionRecord(
    question="Who is it?", quizzes=[QUIZ], answer="Ann Lee", answer_source="summary", explanation="It is said."
)


def printed(renderable, width=100):
    console = Console(file=StringIO(), width=width, highlight=False)
    console.print(renderable)
    return console.file.getvalue()


def test_the_answer_stands_first_then_its_sources_then_the_story():
    head, _, story = printed(shown_answer(RECORD), 240).partition("\n\n")
    assert [line.rstrip() for line in head.splitlines()] == [
        "Answer: Ann Lee (summed up from the quizzes)",
        "Explanation: It is said.",
        "Sources:",
        "[1] Report (a.pdf, page 3, Town␛[2J), 2024-05-31 · quiz 1",
        "    “The mayor of Carmouth is Ann Lee.”",
        "[2] Report (b.pdf, page 1) · quiz 1",
        "    “The mayor of Carmouth is Bo Kim.”",
        "Sources may disagree: Report (a.pdf, page 3, Town␛[2J), 2024-05-31 says “The mayor of Carmouth is Ann Lee.” "
        "and Report (b.pdf, page 1) says “The mayor of Carmouth is Bo Kim.”",
    ]
    assert story.startswith("Who is it?\n├── Quiz 1: Who is it?")
    assert "✓ Report [b.pdf, page 1] (judged helpful)" in story
    assert "everybody knows" not in story


def test_passages_are_shown_whole_where_that_is_wanted():
    text = " ".join(printed(shown_answer(RECORD, full=True)).replace("│", " ").split())
    assert text.count("It rains there, as everybody knows.") == 40


def test_each_quiz_is_shown_as_it_settles():
    updates = []
    events = [
        QuizFound(1, "Who is it?"),
        Searching(1, "Who is it?"),
        QuizAnswered(1, "Who is it?", "Ann\x1b[2J", "passages"),
        QuizAnswered(0, "Why?", None, "failed", provisional=True),
        QuizAnswered(2, "Where?", "Oslo", "memory", provisional=True),
        Answered("the prediction"),
    ]
    assert follow(events, lambda text: updates.append(text.plain)) == "the prediction"
    assert updates == [
        "Quiz 1: Who is it?",
        "Searching: Who is it?",
        "asking…\nQuiz 1: Who is it? → Ann␛[2J (from the passages kept)",
        "asking…\nQuiz 1: Who is it? → Ann␛[2J (from the passages kept)\n"
        "The question itself: Why? → no answer (failed)",
        "asking…\nQuiz 1: Who is it? → Ann␛[2J (from the passages kept)\n"
        "The question itself: Why? → no answer (failed)\n"
        "Quiz 2: Where? → Oslo (from memory; provisional)",
    ]


def test_what_ends_a_question_ends_its_story():
    def events():
        yield QuizFound(1, "Who?")
        raise KeyError("x")

    with pytest.raises(KeyError):
        follow(events(), lambda text: None)
