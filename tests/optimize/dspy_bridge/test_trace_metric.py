"""The metric for DSPy's own optimizers: what they learn from is right, and no question is shown its own labels."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import dspy
import pytest

import keqa
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
