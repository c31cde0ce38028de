"""What gold answers say of calls: which teach, in which form, and what a reflecting language model is told."""

from __future__ import annotations

from types import SimpleNamespace

import dspy
import pytest
from fixtures.marton import MARTON

import keqa
from keqa.data.example import Example
from keqa.data.question import question_digest
from keqa.errors import ConfigurationError
from keqa.metrics.answers import exact_match, f1
from keqa.optimize.judged import judged, teaching
from keqa.optimize.scoring import as_example_of, example_for_metrics, feedback_metric
from keqa.programs.keqa import KEQA
from keqa.programs.records import Degradation, Failure, QuestionRecord, QuizRecord
from keqa.programs.reference.utility_reference import Entry, UtilityReference

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


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "told"),
    [
        ("examination.quiz", QUIZ, {"answer": "1 September 1926"}, "is right."),
        ("examination.quiz", QUIZ, {"answer": "September 1926"}, "must be written '1 September 1926'"),
        ("examination.quiz", QUIZ, {"answer": "1915"}, "'1915' is wrong, the answer is '1 September 1926'"),
        ("examination.quiz", QUIZ, {"answer": "unknown"}, "It said that it does not know"),
        ("examination.quiz", {"quiz": "Another?"}, {"answer": "1915"}, ""),
        (
            "answering.answer",
            {"question": QUIZ["quiz"], "passages": ["Nothing.", PASSAGE]},
            {"answer": "1915"},
            f"and this passage tells it: {PASSAGE}",
        ),
        ("answering.answer", {"question": QUIZ["quiz"], "passages": []}, {"answer": "1915"}, "No passage tells it"),
        ("answering.answer", {"question": QUIZ["quiz"], "passages": []}, {"answer": "1926"}, "must be written"),
        (
            "examination.same",
            QUIZ | {"first_answer": "1926", "second_answer": "1915"},
            {"same": True},
            "Judging True was wrong: the answer is '1 September 1926', and only the first answer gives it.",
        ),
        (
            "examination.same",
            QUIZ | {"first_answer": "1926", "second_answer": "September 1926"},
            {"same": True},
            "Judging True was right",
        ),
        (
            "examination.same",
            QUIZ | {"first_answer": "1930", "second_answer": "1915"},
            {"same": False},
            "Both answers are wrong",
        ),
        ("picking.judge", QUIZ | {"passage": PASSAGE}, {"helpful": True}, "Judging True fits"),
        ("picking.judge", QUIZ | {"passage": PASSAGE}, {"helpful": False}, "was judged not helpful"),
        ("picking.judge", QUIZ | {"passage": "Torman sails."}, {"helpful": True}, "does not hold the answer"),
        ("picking.judge", QUIZ | {"passage": "Torman sails."}, {"helpful": False}, "does not hold."),
        (
            "decomposition.decompose",
            {},
            {"quizzes": ["Who?"]},
            "takes 2 quizzes, not 1. A good decomposition is: 1. Who",
        ),
        ("decomposition.decompose", {}, {"quizzes": ["Who governs Marton?", "When was he born?"]}, "must write #1"),
        ("summarizing.summarize", {}, {"answer": "1915"}, "misled by wrong answers to quizzes: When was Torman born?"),
        ("summarizing.summarize", {}, {"answer": "1926"}, "right by luck: it was concluded from wrong answers"),
        ("selection.construct", {}, {"triples": []}, ""),
    ],
)
def test_feedback_tells_what_the_call_should_have_given(name, inputs, outputs, told):
    said = feedback_on(name, MARTON, RECORD, inputs, outputs)
    assert told in said
    assert bool(told) == bool(said)


def test_a_summary_that_does_not_follow_is_told_the_facts():
    right = RECORD.model_copy(
        update={"quizzes": [RECORD.quizzes[0], RECORD.quizzes[1].model_copy(update={"answer": "1926"})]}
    )
    form = feedback_on("summarizing.summarize", MARTON, right, {}, {"answer": "1926"})
    assert "must be written '1 September 1926'" in form
    told = feedback_on("summarizing.summarize", MARTON, right, {}, {"answer": "1915"})
    assert told.endswith(
        "The facts are: Who governs Marton? Robert Torman; When was Robert Torman born? 1 September 1926."
    )


def test_a_yes_from_wrong_answers_is_not_praised():
    example = Example(
        "y", "Are A and B of one town?", ("yes",), "yes/no", (), ("Where is A?", "Where is B?"), ("Oslo", "Oslo")
    )
    quizzes = [
        QuizRecord(index=number, text=text, resolved=text, answer="Bergen")
        for number, text in enumerate(example.quizzes, start=1)
    ]
    record = RECORD.model_copy(update={"answer_type": "yes/no", "quizzes": quizzes, "answer": "yes"})
    told = feedback_on("summarizing.summarize", example, record, {}, {"answer": "yes"})
    assert told == (
        "'yes' is right by luck: it was concluded from wrong answers to quizzes: Where is A? Bergen (it is Oslo); "
        "Where is B? Bergen (it is Oslo)"
    )


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


def test_broken_references_are_told_to_the_decomposition():
    broken = Degradation(stage="references", cause="x", message="refers to #4, which is not there", action="blocked")
    blocked = RECORD.model_copy(update={"degradations": [broken]})
    told = feedback_on("decomposition.decompose", MARTON, blocked, {}, {"quizzes": list(MARTON.quizzes)})
    assert told.startswith("Refers to #4, which is not there.")


def test_the_score_is_that_of_the_answer_whichever_predictor_is_asked_about():
    metric = feedback_metric(f1)
    gold = example_for_metrics(MARTON)
    predicted = SimpleNamespace(answer="1926", record=RECORD)
    whole = metric(gold, predicted)
    part = metric(
        gold, predicted, None, "program.examination.quiz", [(PREDICTORS["examination.quiz"], QUIZ, {"answer": "1915"})]
    )
    assert whole.score == part.score == 0.5
    assert whole.feedback.startswith("The program answered the question with '1926'; the gold answer is")
    assert part.feedback.startswith("'1915' is wrong")
    assert whole.feedback in part.feedback


def test_a_question_without_an_answer_says_why():
    failed = RECORD.model_copy(
        update={"answer": None, "failure": Failure(stage="summarize", cause="x", message="no reply")}
    )
    told = feedback_metric(f1)(example_for_metrics(MARTON), SimpleNamespace(answer=None, record=failed))
    assert (told.score, told.feedback) == (0.0, "The question has no answer, since summarize failed: no reply")


LATER = "A later quiz says 'he', 'she', 'it' or 'that' where it must write #1, #2 for an earlier answer."


def test_a_decomposition_is_told_of_quizzes_without_an_answer_and_how_many_there_are():
    quizzes = [
        RECORD.quizzes[0].model_copy(update={"answer": None}),
        RECORD.quizzes[1].model_copy(update={"abstained": True, "resolved": None}),
        RECORD.quizzes[0],
    ]
    record = RECORD.model_copy(update={"quizzes": quizzes})
    one = Example("o", "Who governs Marton?", ("Torman",), quizzes=("Who governs Marton?",), quiz_answers=("Torman",))
    assert feedback_on("decomposition.decompose", one, record, {}, {"quizzes": ["a", "b"]}) == (
        "This question takes 1 quiz, not 2. A good decomposition is: 1. Who governs Marton? "
        "These quizzes could not be answered: Who governs Marton?; When was #1 born?"
    )
    ungiven = Example("u", "Who governs Marton?", ("Torman",))
    assert feedback_on("decomposition.decompose", ungiven, RECORD, {}, {"quizzes": ["a", "b"]}) == ""


def test_a_summary_of_a_choice_is_compared_as_a_choice():
    example, record = one_quiz("Rome", "choice", ("Oslo", "Rome"))
    assert feedback_on("summarizing.summarize", example, record, {}, {"answer": "B"}) == (
        "'B' is right by luck: it was concluded from wrong answers to quizzes: Which is it? wrong (it is Rome)"
    )
    unanswered = record.model_copy(update={"quizzes": [record.quizzes[0].model_copy(update={"answer": None})]})
    assert feedback_on("summarizing.summarize", example, unanswered, {}, {"answer": "B"}) == "'B' is right."
    for answer in ("A", ""):
        told = feedback_on("summarizing.summarize", example, unanswered, {}, {"answer": answer} if answer else {})
        assert told == f"{answer!r} does not follow: the answer is 'Rome'."


def test_an_option_that_reads_like_an_abstention_is_an_answer():
    example, record = one_quiz("Unknown", "choice", ("Known", "Unknown"))
    assert feedback_on("examination.quiz", example, record, {"quiz": "Which is it?"}, {"answer": "unknown"}) == (
        "'unknown' is right."
    )


CHOICE = Example(
    "c", "Which is it?", ("Rome", "The city of Rome"), "choice", ("Oslo", "Rome"), ("Which?", "Is #1?"), ("B", "yes")
)


def test_an_example_is_the_same_after_an_optimizer_carried_it_about():
    carried = example_for_metrics(CHOICE)
    assert as_example_of(carried) == CHOICE
    assert set(carried.inputs().keys()) == {"root", "question", "answer_type", "choices"}


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


def test_calls_of_which_nothing_is_known_teach_unless_their_predictor_was_right_or_wrong(setting):
    world = setting()
    (example,) = world.train[:1]
    judge, quiz = world.program.picking.judge, world.program.examination.quiz

    def answered(text, answer):
        inputs = {"quiz": text, "answer_type": "short", "choices": []}
        return quiz, inputs, dspy.Prediction(answer=answer)

    def judged(text, passage, helpful):
        return judge, {"quiz": text, "passage": passage}, dspy.Prediction(helpful=helpful)

    unknown = [answered("Who sails?", "Cy"), judged("Who sails?", "Cy sails.", True)]
    right = answered("Who governs Town0?", "Mayor0")
    wrong = judged("Who governs Town0?", "It rains.", True)
    assert sound_calls(unknown, example) == unknown
    assert sound_calls([*unknown, wrong], example) == unknown[:1]
    (kept,) = sound_calls([*unknown, wrong, right], example)
    assert (kept[0], kept[1]["quiz"], dict(kept[2])) == (quiz, "Who governs Town0?", {"answer": "Bo Mayor0"})


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


def test_a_reply_that_lacks_a_field_is_a_wrong_one_of_its_predictor(call):
    unknown = call("quiz", {"quiz": "Who sails?"}, answer="Cy")
    assert sound_calls([unknown], TOWN) == [unknown]
    assert sound_calls([unknown, call("quiz", ASKED)], TOWN) == []


@pytest.mark.parametrize(("answer", "said"), [("B", ["Rome"]), ("rome", ["Rome"]), ("A", [])])
def test_the_answer_to_a_choice_is_compared_with_its_options(call, answer, said):
    question = Example("c", "Which is it?", ("Rome",), "choice", ("Oslo", "Rome"))
    asked = {"question": question.question, "answer_type": "choice", "choices": ["Oslo", "Rome"]}
    found = sound_calls([call("answer", asked, answer=answer)], question)
    assert [one.answer for _, _, one in found] == said


def test_a_question_without_gold_quizzes_has_no_wrong_number_of_them(call):
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


def test_scores_and_feedback(setting, as_dspy):
    example = as_dspy(setting().train[:1])[0]
    right = SimpleNamespace(answer="Ann Spouse0", record=None)
    metric = keqa.optimizer_metric(exact_match)
    assert metric(example, right) == 1.0
    assert metric(example, SimpleNamespace(answer=None, record=None)) == 0.0
    assert metric(example, right, []) is True
    told = metric(example, right, [], "answering.answer", [])
    assert (told.score, isinstance(told.feedback, str)) == (1.0, True)
    with pytest.raises(ConfigurationError, match="the metric must be"):
        keqa.optimizer_metric(5)


def test_no_question_is_shown_its_own_labels_by_an_optimizer_of_dspys(setting, as_dspy):
    world = setting()
    world.program.set_lm(world.lm)
    entries = [
        Entry(
            one.id, f"To whom is Bo Mayor{number} married?", f"label of {one.id}", True, question_digest(one.question)
        )
        for number, one in enumerate(world.train)
    ]
    world.program.picking.reference = UtilityReference(k=8, least=0).fit(entries)
    bootstrapped(world.program, as_dspy(world.train), keqa.optimizer_metric(nearly))
    shown = {}
    for prompt in world.engine.prompts:
        for number, one in enumerate(world.train):
            if f"Mayor{number} married" in prompt.rsplit("[[ ## quiz ## ]]", 1)[-1]:
                shown.setdefault(one.id, set()).update(o.id for o in world.train if f"label of {o.id}" in prompt)
    assert shown
    assert all(others and own not in others for own, others in shown.items())
