import pytest

from keqa.data.example import as_example
from keqa.evaluation.gold_quizzes import golds_of, golds_within, oracle_log
from keqa.evaluation.questions import of_testbed
from keqa.programs.records import QuestionRecord, QuizRecord, SampleRecord

CHAIN = {
    "id": "c",
    "question": "To whom is the mayor of Oslo married?",
    "answer": ["Ann Lee", "A. Lee"],
    "quizzes": ["Who governs Oslo?", "To whom is #1 married?"],
    "quiz_answers": ["Bob", "Ann Lee"],
}


@pytest.mark.parametrize(
    ("quiz", "golds"),
    [
        ("Who governs Oslo?", ("Bob",)),
        ("  to whom is BOB married? ", ("Ann Lee",)),
        (CHAIN["question"], ("Ann Lee", "A. Lee")),
        # A quiz that no gold decomposition has is answered by nothing.
        ("To whom is #1 married?", ("",)),
        ("To whom is Carl married?", ("",)),
    ],
)
def test_the_gold_answers_of_quizzes_are_those_of_their_resolved_text(quiz, golds):
    assert golds_of([CHAIN])(quiz) == golds


def test_a_quiz_in_other_words_has_the_answer_of_the_gold_one_of_its_question():
    golds = golds_of([CHAIN, {"id": "d", "question": "Who governs Rome?", "answer": "Cai"}])
    with oracle_log(as_example(CHAIN)) as log:
        assert log.answers is None
        # Another question's quiz in other words may ask something else; and it was asked.
        assert golds("Who is it that governs Rome?") == ("",)
        assert log.answers == {}
        assert golds("Who is it that governs Oslo?") == ("Bob",)
        assert golds("To whom is the man called Bob married?") == ("Ann Lee",)
        assert golds("who governs rome?") == ("Cai",)
    assert log.answers == {
        "Who is it that governs Oslo?": ["Bob"],
        "To whom is the man called Bob married?": ["Ann Lee"],
        "who governs rome?": ["Cai"],
    }
    # Out of the question its quizzes are known by their own words alone.
    assert golds("Who is it that governs Oslo?") == ("",)


def asked(*texts, drawn=True):
    """A record with these quizzes."""
    samples = [SampleRecord(text="Bob", abstained=False)] if drawn else []
    how = {"tries": 1, "threshold": 0.8, "samples": samples}
    quizzes = [QuizRecord(index=n, text=str(text), resolved=text, **how) for n, text in enumerate(texts, start=1)]
    return QuestionRecord(question=CHAIN["question"], quizzes=quizzes)


def test_a_record_has_the_gold_answers_of_the_quizzes_that_were_examined():
    texts = ("Who is it that governs Oslo?", "To whom is Bob married?", "How big is Oslo?", None, CHAIN["question"])
    assert golds_within(as_example(CHAIN), asked(*texts)) == {
        "Who is it that governs Oslo?": ["Bob"],
        "To whom is Bob married?": ["Ann Lee"],
        CHAIN["question"]: ["Ann Lee", "A. Lee"],
    }
    assert golds_within(as_example(CHAIN), asked("Who governs Oslo?", drawn=False)) is None
    assert golds_within(as_example(CHAIN), None) is None
    # Data without a gold decomposition say nothing of quizzes.
    bare = as_example({key: CHAIN[key] for key in ("id", "question", "answer")})
    assert golds_within(bare, asked(CHAIN["question"])) is None


def test_a_line_has_what_its_own_question_the_oracle_and_the_testbed_know():
    oracle = {"Who is it that governs Rome?": ["Cai"], "R?": []}
    assert golds_within(as_example(CHAIN), asked("Who governs Oslo?"), oracle, "mine") == {
        "Who governs Oslo?": ["Bob"],
        "Who is it that governs Rome?": ["Cai"],
    }
    assert golds_within(as_example(CHAIN), None, {}, "mine") is None
    assert golds_within(as_example(CHAIN), None, dataset="testbed") is None
    # The testbed knows its quizzes in whichever question they came up.
    bridge = next(question for question in of_testbed("train", 8).examples if question.shape == "bridge")
    known = bridge.quizzes[0].upper()
    found = golds_within(as_example(CHAIN), asked(known, "Who governs Oslo?"), oracle, "testbed")
    assert found == {known: [bridge.quiz_answers[0]]}
