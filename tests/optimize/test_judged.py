"""What gold answers say of quizzes and calls: which teach, in which form, and what is told of them."""

from dataclasses import replace
from types import SimpleNamespace

import dspy
import pytest
from fixtures.marton import MARTON

import keqa
from keqa.data.example import Example
from keqa.errors import ConfigurationError
from keqa.metrics.answers import exact_match, f1
from keqa.optimize.alignment import gold_answers, gold_quizzes, settled_quizzes
from keqa.optimize.judged import judged, teaching
from keqa.programs.keqa import KEQA
from keqa.programs.records import Failure, QuestionRecord, QuizRecord

PREDICTORS = dict(KEQA(None).named_predictors())


def feedback_on(name, example, record, inputs, outputs):
    (one,) = judged([(PREDICTORS[name], inputs, outputs)], example, record)
    return one.sentence


def sound_calls(trace, example):
    return [one.in_form for one in teaching(judged(trace, example))]


RECORD = QuestionRecord(
    question=MARTON.question,
    quizzes=[
        QuizRecord(index=1, text="Who governs Marton?", resolved="Who governs Marton?", answer="Torman"),
        QuizRecord(index=2, text="When was #1 born?", resolved="When was Torman born?", depends_on=[1], answer="1915"),
    ],
    answer="1915",
)
QUIZ = {"quiz": "When was Torman born?"}
PASSAGE = "Torman was born on 1 September 1926."


SAILS = "Torman sails."
READ = {"question": QUIZ["quiz"], "passages": ["Nothing.", PASSAGE]}
BLIND = {"question": QUIZ["quiz"], "passages": []}
BACK = ["Who governs Marton?", "When was he born?"]
GIVES = "Judging True was wrong: the answer is '1 September 1926', and only the first answer gives it."


def pair(first, second):
    return QUIZ | {"first_answer": first, "second_answer": second}


@pytest.mark.parametrize(
    ("name", "inputs", "said", "told"),
    [
        ("examination.quiz", QUIZ, "1 September 1926", "is right."),
        ("examination.quiz", QUIZ, "September 1926", "must be written '1 September 1926'"),
        ("examination.quiz", QUIZ, "1915", "'1915' is wrong, the answer is '1 September 1926'"),
        ("examination.quiz", QUIZ, "unknown", "It said that it does not know"),
        ("examination.quiz", {"quiz": "Another?"}, "1915", ""),
        ("answering.answer", READ, "1915", f"and this passage tells it: {PASSAGE}"),
        ("answering.answer", BLIND, "1915", "No passage tells it"),
        ("answering.answer", BLIND, "1926", "must be written"),
        ("examination.same", pair("1926", "1915"), True, GIVES),
        ("examination.same", pair("1926", "September 1926"), True, "Judging True was right"),
        ("examination.same", pair("1930", "1915"), False, "Both answers are wrong"),
        ("picking.judge", QUIZ | {"passage": PASSAGE}, True, "Judging True fits"),
        ("picking.judge", QUIZ | {"passage": PASSAGE}, False, "was judged not helpful"),
        ("picking.judge", QUIZ | {"passage": SAILS}, True, "does not hold the answer"),
        ("picking.judge", QUIZ | {"passage": SAILS}, False, "does not hold."),
        ("decomposition.decompose", {}, ["Who?"], "takes 2 quizzes, not 1. A good decomposition is: 1. Who"),
        ("decomposition.decompose", {}, BACK, "must write #1"),
        ("summarizing.summarize", {}, "1915", "misled by wrong answers to quizzes: When was Torman born?"),
        ("summarizing.summarize", {}, "1926", "right by luck: it was concluded from wrong answers"),
        ("selection.construct", {}, [], ""),
    ],
)
def test_feedback_tells_what_the_call_should_have_given(name, inputs, said, told):
    written = {"examination.same": "same", "picking.judge": "helpful", "decomposition.decompose": "quizzes"}
    found = feedback_on(name, MARTON, RECORD, inputs, {written.get(name, "answer"): said})
    assert told in found
    assert bool(told) == bool(found)


def one_quiz(gold, answer_type="short", choices=()):
    """A question that is its only quiz, answered wrong."""
    asked = "Which is it?"
    quiz = QuizRecord(index=1, text=asked, resolved=asked, answer="wrong")
    record = QuestionRecord(question=asked, answer_type=answer_type, choices=list(choices), quizzes=[quiz])
    return Example("o", asked, (gold,), answer_type, tuple(choices)), record


@pytest.mark.parametrize(
    ("gold", "answer_type", "choices"), [("yes", "yes/no", ()), ("no", "yes/no", ()), ("B", "choice", ("Oslo", "Rome"))]
)
@pytest.mark.parametrize("helpful", [True, False])
def test_nothing_is_said_of_a_passage_that_need_not_hold_the_answer(gold, answer_type, choices, helpful):
    example, record = one_quiz(gold, answer_type, choices)
    shown = {"quiz": "Which is it?", "passage": "No, yes: B, Rome or Oslo."}
    assert feedback_on("picking.judge", example, record, shown, {"helpful": helpful}) == ""
    asked = {"question": "Which is it?", "passages": ["No, yes: B, Rome or Oslo."]}
    told = feedback_on("answering.answer", example, record, asked, {"answer": "wrong"})
    assert told == f"'wrong' is wrong, the answer is {gold!r}."


def test_the_score_is_that_of_the_answer_whichever_predictor_is_asked_about_and_a_failure_says_why():
    metric, asked = keqa.optimizer_metric(f1), [(PREDICTORS["examination.quiz"], QUIZ, {"answer": "1915"})]
    predicted = SimpleNamespace(answer="1926", record=RECORD)
    whole = metric(MARTON, predicted, None, "program", None)
    part = metric(MARTON, predicted, None, "program.examination.quiz", asked)
    assert whole.score == part.score == 0.5
    assert whole.feedback.startswith("The program answered the question with '1926'; the gold answer is")
    assert part.feedback == f"{part.feedback.partition(' The program')[0]} {whole.feedback}"
    assert part.feedback.startswith("'1915' is wrong")
    failure = Failure(stage="summarize", cause="x", message="no reply")
    failed = RECORD.model_copy(update={"answer": None, "failure": failure})
    told = metric(MARTON, SimpleNamespace(answer=None, record=failed), None, "program", None)
    assert (told.score, told.feedback) == (0.0, "The question has no answer, since summarize failed: no reply")


def test_a_metric_for_optimizers_scores_and_says_whether_a_run_ended_well(as_dspy):
    right, (example,) = SimpleNamespace(answer="Ann Spouse0", record=None), as_dspy([TOWN], own=1.0)
    metric = keqa.optimizer_metric(exact_match)
    assert (metric(example, right), metric(example, right, [])) == (1.0, True)
    assert metric(example, SimpleNamespace(answer=None, record=None)) == 0.0
    # One of DSPy's gets the fields of its example, also where GEPA asks for feedback.
    own = keqa.optimizer_metric(lambda example, prediction, trace=None: example.own)
    assert (own(example, right), own(example, right, None, "answering.answer", []).score) == (1.0, 1.0)
    with pytest.raises(ConfigurationError, match="the metric must be"):
        keqa.optimizer_metric(5)


def bootstrapped(program, trainset, metric):
    optimizer = dspy.BootstrapFewShot(metric=metric, max_bootstrapped_demos=4, max_labeled_demos=0)
    return optimizer.compile(program, trainset=trainset)


def nearly(answer, golds, answer_type, choices):
    """As lenient as a metric may be: the surname will do."""
    return float((answer or "").split()[-1:] == golds[0].split()[-1:])


class Nested(dspy.Module):
    def __init__(self, program):
        super().__init__()
        self.ask = program
        self.polish = dspy.Predict("answer -> polished")

    def forward(self, question):
        return dspy.Prediction(answer=self.ask(question=question).answer)


@pytest.mark.parametrize("nested", [False, True])
def test_demonstrations_hold_gold_answers_and_no_wrong_calls(setting, as_dspy, nested):
    world = setting()
    world.program.set_lm(world.lm)
    program = Nested(world.program) if nested else world.program
    with dspy.context(lm=world.lm):
        learned = bootstrapped(program, as_dspy(world.train), keqa.optimizer_metric(nearly))
    learned = learned.ask if nested else learned
    demos = {name: [dict(demo) for demo in p.demos] for name, p in learned.named_predictors()}
    # The language model wrote "Spouse0" and "Mayor0".
    assert {demo["answer"] for demo in demos["answering.answer"]} == {f"Ann Spouse{n}" for n in range(4)}
    assert {demo["answer"] for demo in demos["examination.quiz"]} <= {f"Bo Mayor{n}" for n in range(4)}
    assert len(demos["decomposition.decompose"]) == 4
    assert all(demo["helpful"] for demo in demos["picking.judge"] if "married" in demo["passage"])


@pytest.fixture
def call(setting):
    """Makes a call of a predictor of a world's program, as a trace has it."""
    program = setting().program
    of = {
        "decompose": program.decomposition.decompose,
        "quiz": program.examination.quiz,
        "same": program.examination.same,
        "judge": program.picking.judge,
        "answer": program.answering.answer,
    }
    more = {"quiz": {"answer_type": "short", "choices": []}}
    more["answer"] = {**more["quiz"], "passages": [], "evidence": [], "triples": []}

    def make(name, inputs, **outputs):
        return of[name], {**more.get(name, {}), **inputs}, dspy.Prediction(**outputs)

    return make


TOWN = Example(
    "t0",
    "To whom is the mayor of Town0 married?",
    ("Ann Spouse0",),
    quizzes=("Who governs Town0?", "To whom is #1 married?"),
    quiz_answers=("Bo Mayor0", "Ann Spouse0"),
)
ASKED = {"quiz": "Who governs Town0?"}


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "kept"),
    [
        ("decompose", {"question": TOWN.question}, {"quizzes": ["Who?", "To whom is #1 married?"]}, True),
        ("decompose", {"question": TOWN.question}, {"quizzes": ["Who?"]}, False),
        ("quiz", ASKED, {"answer": "Bo Mayor0"}, True),
        ("quiz", ASKED, {"answer": "Al"}, False),
        # A reply without a field that its signature has is no example.
        ("quiz", ASKED, {}, False),
        ("judge", ASKED | {"passage": "Bo Mayor0 governs it."}, {"helpful": True}, True),
        ("judge", ASKED | {"passage": "Bo Mayor0 governs it."}, {"helpful": False}, False),
        ("judge", ASKED | {"passage": "It rains."}, {"helpful": False}, True),
        ("judge", ASKED | {"passage": "It rains."}, {"helpful": True}, False),
        ("judge", {"quiz": "Who sails?", "passage": "It rains."}, {"helpful": True}, True),
        ("same", ASKED | {"first_answer": "Bo Mayor0", "second_answer": "Al"}, {"same": False}, True),
        ("same", ASKED | {"first_answer": "Bo Mayor0", "second_answer": "Al"}, {"same": True}, False),
        ("answer", {"question": TOWN.question}, {"answer": "Ann Spouse0"}, True),
        ("answer", {"question": TOWN.question}, {"answer": "Cy"}, False),
    ],
)
def test_a_call_teaches_unless_gold_answers_show_that_it_is_wrong(call, name, inputs, outputs, kept):
    step = call(name, inputs, **outputs)
    found = sound_calls([step], TOWN)
    assert len(found) == kept
    for predictor, given, said in found:
        assert (predictor, given, dict(said)) == (step[0], step[1], outputs)


def test_calls_of_which_nothing_is_known_teach_unless_their_predictor_was_right_or_wrong(call):
    sails = {"quiz": "Who sails?"}
    unknown = [call("quiz", sails, answer="Cy"), call("judge", sails | {"passage": "Cy sails."}, helpful=True)]
    wrong = call("judge", ASKED | {"passage": "It rains."}, helpful=True)
    assert sound_calls(unknown, TOWN) == unknown
    assert sound_calls([*unknown, wrong], TOWN) == unknown[:1]
    (kept,) = sound_calls([*unknown, wrong, call("quiz", ASKED, answer="Mayor0")], TOWN)
    assert (kept[0], kept[1]["quiz"], dict(kept[2])) == (unknown[0][0], ASKED["quiz"], {"answer": "Bo Mayor0"})
    # A reply that lacks a field is a wrong one of its predictor; without gold quizzes no number of them is wrong.
    assert sound_calls([*unknown[:1], call("quiz", ASKED)], TOWN) == []
    step = call("decompose", {"question": TOWN.question}, quizzes=["Who?"])
    assert sound_calls([step], Example("u", TOWN.question, TOWN.answers)) == [step]


@pytest.mark.parametrize(("first", "kept"), [("Mayor0", 2), ("Al", 0)])
def test_a_quiz_that_refers_to_a_right_answer_in_another_form_is_known(call, first, kept):
    trace = [
        # In any order: what was answered settles what was asked with it.
        call("quiz", {"quiz": "To whom is Mayor0 married?"}, answer="Ann Spouse0"),
        call("quiz", {"quiz": "To whom is Mayor0 married?"}, answer="Cy"),
        call("quiz", ASKED, answer=first),
    ]
    found = sound_calls(trace, TOWN)
    assert [(given["quiz"], said.answer) for _, given, said in found] == [
        ("To whom is Mayor0 married?", "Ann Spouse0"),
        ("Who governs Town0?", "Bo Mayor0"),
    ][:kept]


QUESTION = "What is the birth date of the mayor of Marton?"
EXAMPLE = replace(MARTON, question=QUESTION, answers=("1 September 1926", "1926-09-01"))
GOVERNS, BORN = "Who governs Marton?", "When was Torman born?"
KNOWN = ("Robert Torman",), ("1 September 1926",)


def record(*quizzes):
    """A record of quizzes, each as its resolved text, its answer and what it refers to."""
    rows = [
        QuizRecord(index=number, text=text or "Blocked", resolved=text, answer=answer, depends_on=depends_on)
        for number, (text, answer, *depends_on) in enumerate(quizzes, start=1)
    ]
    return QuestionRecord(question=QUESTION, quizzes=rows)


@pytest.mark.parametrize(
    ("quizzes", "known"),
    [
        # In other words, and referring to a right answer in another form.
        ([("Who is the mayor who governs Marton?", "Torman"), (BORN, None, 1)], {1: KNOWN[0], 2: KNOWN[1]}),
        # What refers to a wrong answer, or to none, asks about something else.
        ([(GOVERNS, "Ada Elquist"), ("When was Ada Elquist born?", "1926", 1)], {1: KNOWN[0]}),
        ([(GOVERNS, None), ("When was Robert Torman born?", "1926", 1)], {1: KNOWN[0]}),
        ([("Who governs Marmouth?", "Torman"), (None, None, 9)], {}),
        ([(None, None), (GOVERNS, "Torman")], {2: KNOWN[0]}),
        # The question itself, a gold quiz that is asked twice, and two in another order.
        ([(QUESTION, "1926")], {1: EXAMPLE.answers}),
        ([(GOVERNS, "x"), (GOVERNS, "y")], {1: KNOWN[0]}),
        ([("When was Robert Torman born?", "1926"), (GOVERNS, "Torman")], {1: KNOWN[1], 2: KNOWN[0]}),
    ],
)
def test_which_quizzes_have_a_gold_answer(quizzes, known):
    settled = settled_quizzes(EXAMPLE, record(*quizzes))
    assert {one.quiz.index: one.golds for one in settled} == known


def test_a_choice_that_is_the_question_is_settled_as_one():
    example = Example("c", "Which is it?", ("Rome", "B"), "choice", ("Oslo", "Rome"))
    quiz = QuizRecord(index=1, text=example.question, resolved=example.question, answer="b")
    story = QuestionRecord(question=example.question, answer_type="choice", choices=["Oslo", "Rome"], quizzes=[quiz])
    (one,) = settled_quizzes(example, story)
    assert (one.quiz, one.golds, one.answer_type, one.choices) == (quiz, ("Rome", "B"), "choice", ("Oslo", "Rome"))
    assert (one.agrees("b"), one.agrees("a")) == (True, False)
    # One of several quizzes is not the question, though it reads like it.
    twice = story.model_copy(update={"quizzes": [quiz, quiz.model_copy(update={"index": 2})]})
    assert settled_quizzes(example, twice) == []


def test_gold_quizzes_are_resolved_by_gold_answers():
    assert gold_quizzes(EXAMPLE) == [(GOVERNS, "Robert Torman"), ("When was Robert Torman born?", "1 September 1926")]
    assert gold_quizzes(EXAMPLE, {1: "Torman"})[1][0] == BORN
    # Those that do not hold together are none.
    assert gold_quizzes(Example("e", "Who?", ("x",), quizzes=("Who?",))) == []
    assert gold_quizzes(replace(EXAMPLE, quizzes=(GOVERNS, "When was #3 born?"))) == []


@pytest.mark.parametrize(
    ("quiz", "golds"),
    [
        ("Who is the mayor who governs Marton?", KNOWN[0]),
        ("When was the mayor Robert Torman born?", KNOWN[1]),
        ("what is the birth date of the mayor of marton", EXAMPLE.answers),
        ("When was Ada Elquist born?", None),
    ],
)
def test_the_gold_answers_of_one_quiz_by_itself(quiz, golds):
    assert gold_answers(quiz, EXAMPLE) == golds
    assert gold_answers(quiz, Example("e", "Who?", ("x",))) is None


@pytest.mark.parametrize(
    ("quiz", "gold", "same"),
    [
        # Every name and number of the gold quiz, in words that are alike in part.
        ("Marton Kelford", "Is Marton Kelford?", True),
        ("Who won at Marton in 1926?", "Who won in 1926?", True),
        ("Who won in 1930?", "Who won in 1926?", False),
        ("Who governs marton?", GOVERNS, True),
        ("Name every mayor known of old Marton since its very founding", GOVERNS, False),
        ("Who sails to Marton?", GOVERNS, True),
        # Without a name nearly every word: one of seven may differ, one of six may not.
        ("Who made most of their old films", "Who made most of their old songs", True),
        ("Who made most of old films", "Who made most of old songs", False),
    ],
)
def test_what_asks_the_same(quiz, gold, same):
    example = Example("e", "What of it?", ("x",), quizzes=(gold,), quiz_answers=("y",))
    assert gold_answers(quiz, example) == (("y",) if same else None)


def test_of_several_gold_quizzes_the_closest_is_meant():
    quizzes = ("Who sails to Marton?", GOVERNS, "Who lives at Marton?")
    example = Example("e", "What of it?", ("x",), quizzes=quizzes, quiz_answers=("a", "b", "c"))
    assert [gold_answers(quiz, example) for quiz in quizzes] == [("a",), ("b",), ("c",)]
