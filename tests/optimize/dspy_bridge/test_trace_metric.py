"""The metric for DSPy's own optimizers: what they learn from is right, and no question is shown its own labels."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import dspy
import pytest

import keqa
from keqa.data.example import Example
from keqa.data.question import question_digest
from keqa.errors import ConfigurationError
from keqa.metrics.answers import exact_match
from keqa.optimize.dspy_bridge.trace_metric import sound_calls
from keqa.programs.reference.utility_reference import Entry, UtilityReference


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


def test_wrong_calls_of_a_run_that_ended_well_are_taken_out(setting, as_dspy):
    world = setting()
    world.program.set_lm(world.lm)
    (example,) = as_dspy(world.train[:1])
    with dspy.context(trace=[]):
        prediction = world.program(question=example.question)
        trace = list(dspy.settings.trace)
    judge = world.program.picking.judge
    step = next(step for step in trace if step[0] is judge)
    wrong = (judge, {**step[1], "passage": "It rains."}, dspy.Prediction(helpful=True))
    own = (dspy.Predict("a -> b"), {"a": "1"}, dspy.Prediction(b="2"))
    spoilt = [*trace, wrong, own]
    assert keqa.optimizer_metric(nearly)(example, prediction, spoilt) is True
    assert wrong not in spoilt
    assert own in spoilt
    assert Counter(id(step[0]) for step in spoilt)[id(world.program.summarizing.summarize)] == 1


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


def test_what_a_reply_has_beyond_its_signature_stays(call):
    [(_, _, said)] = sound_calls([call("quiz", ASKED, answer="Mayor0", told="by heart")], TOWN)
    assert dict(said) == {"answer": "Bo Mayor0", "told": "by heart"}


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
