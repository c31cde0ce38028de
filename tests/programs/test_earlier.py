"""What an earlier question settled is not asked again, and the record says so."""

import pytest
from fixtures.replies import Replies

from keqa.data.question import Question
from keqa.programs import KEQA
from keqa.programs.calls.session import within
from keqa.programs.earlier import findings_of, key_of
from keqa.programs.prediction import QuizAnswered

FIRST, SECOND = "Who wrote it, and where was the author born?", "How tall is the author of it?"


TAKEN_APART = {FIRST: '["Who wrote it?", "Where was #1 born?"]', SECOND: '["who wrote it", "How tall is #1?"]'}
REPLIES = {
    "DecomposeQuestion": lambda i, c: {"quizzes": TAKEN_APART[i["question"]]},
    "JudgeUtility": lambda i, c: {"helpful": "good" in i["passage"]},
    "AnswerWithKnowledge": lambda i, c: {"answer": "Ann" if "wrote" in i["question"] else "40"},
    "Summarize": {"explanation": "so", "answer": "Ann and 40"},
}


def test_a_quiz_that_comes_again_is_not_asked_again(programmed, retriever):
    program, engine = programmed(KEQA(retriever("good", "bad"), examine=False), Replies(**REPLIES))
    first = program(FIRST).record
    before = len(engine.asked("AnswerWithKnowledge"))
    with within(findings=findings_of([first])):
        *events, last = program.stream(SECOND)
    quiz, other = last.prediction.record.quizzes
    assert (quiz.index, quiz.text, quiz.answer, quiz.source) == (1, "who wrote it", "Ann", "passages")
    assert (quiz.earlier, other.earlier) == (FIRST, "")
    assert [one.passage_id for one in quiz.passages if one.kept] == ["p0"]
    assert len(engine.asked("AnswerWithKnowledge")) == before + 1
    assert last.prediction.record.cost.retrievals == 1
    assert [one["passage_id"] for one in last.prediction.sources] == ["p0"]
    assert QuizAnswered(1, "who wrote it", "Ann", "passages", earlier=FIRST) in events
    # Asked a third time, it still names the question that found it.
    assert {one.earlier for one in findings_of([last.prediction.record]).values()} == {FIRST, SECOND}


def test_a_reading_in_which_something_failed_or_that_holds_for_a_day_settles_nothing(programmed, retriever):
    failing = {"JudgeUtility": lambda i, c: "garbage {" if "bad" in i["passage"] else {"helpful": True}}
    today = "Who wrote it today?"
    for asked, said, settled in ((FIRST, REPLIES, {FIRST}), (FIRST, REPLIES | failing, set()), (today, REPLIES, set())):
        program, _ = programmed(KEQA(retriever("good", "bad"), settle="reading"), Replies(**said))
        record = program(asked).record
        assert (record.answer, record.touched) == ("Ann", said is not REPLIES)
        assert {one.earlier for one in findings_of([record]).values()} == settled


def test_a_follow_up_that_could_not_be_made_to_stand_alone_settles_nothing(programmed, retriever):
    for said, settled in (({"standalone": FIRST}, {FIRST}), ("no {form", set())):
        program, _ = programmed(KEQA(retriever("good"), settle="reading"), Replies(**REPLIES, RewriteFollowUp=said))
        record = program("Who wrote it?", history=[("What is Emma?", "a novel")]).record
        assert {one.earlier for one in findings_of([record]).values()} == settled


@pytest.mark.parametrize(("asked", "bare"), [("三体是谁写的？", "三体是谁写的"), ("¿Quién es Ana?", "Quién es Ana")])
def test_a_question_is_the_same_without_its_marks(asked, bare):
    assert key_of(Question(asked)) == key_of(Question(bare))


@pytest.mark.parametrize("text", ["Who invented C++?", "Who invented C#?"])
def test_signs_tell_questions_apart(text):
    assert key_of(Question(text)) != key_of(Question("Who invented C?"))
    assert key_of(Question(text)) == key_of(Question(f"  {text.upper()} "))
