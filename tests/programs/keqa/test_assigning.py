"""Arguments of the constructor, assigned afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import dspy
import pytest
from fixtures.director_of_up import QUESTION, World

from keqa.errors import ConfigurationError
from keqa.lms import Roles
from keqa.programs import KEQA, VoteGate
from keqa.programs.baselines.always_retrieve import AlwaysRetrieve
from keqa.programs.baselines.closed_book import ClosedBook
from keqa.programs.gates.uncertainty import ConfidenceGate, ProbabilityGate, PromptGate
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.settings import settings_of
from keqa.programs.stages.gate_question import RetrievalDecision


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tries", "3", "KEQA: tries must be a whole number from 1 to 1,000, not '3'"),
        ("top_k", 0, "KEQA: top_k must be a whole number"),
        ("threshold", 2, "KEQA: threshold must be a number above 0"),
        ("select", "aside", "KEQA: select must be True, False, 'beside' or 'instead', not 'aside'"),
        ("demonstrations", "no", "KEQA: demonstrations must be True or False, not 'no'"),
        ("retriever", 3, "KEQA: retriever must be an index"),
        ("lms", "openai/m", "keqa.build_roles"),
        ("gate", "votes", "KEQA: gate must be a gate"),
    ],
)
def test_what_the_constructor_refuses_is_refused(name, value, message):
    program = KEQA(None)
    before = settings_of(program)
    with pytest.raises(ConfigurationError, match=message):
        setattr(program, name, value)
    assert settings_of(program) == before


def test_the_workers_are_the_constructors():
    with pytest.raises(AttributeError):
        KEQA(None).workers = 3


def test_it_decides_how_questions_are_asked(scripted, retriever):
    lm, engine = scripted(World())
    program = KEQA(None)
    program.set_lm(lm)
    program.tries, program.threshold, program.top_k = 2, 1, 1
    program.retriever = retriever("Pete Docter was born in 1968.", "Up is a film.", "Cars is a film.")
    record = program(question=QUESTION).record
    assert engine.count["AnswerQuiz"] == 4
    assert {quiz.tries for quiz in record.quizzes} == {2}
    assert max(len(quiz.passages) for quiz in record.quizzes) == 1


def test_a_gate_brings_what_it_asks_and_takes_it_away(scripted, retriever):
    lm, engine = scripted(World(DecideRetrieval={"retrieve": False}, StateConfidence={"confidence": "90"}))
    program = KEQA(retriever("Pete Docter was born in 1968."))
    program.set_lm(lm)
    plain = {name for name, _ in program.named_predictors()}
    program.gate = PromptGate()
    program(question=QUESTION)
    assert engine.count["DecideRetrieval"] == 2
    program.gate = ConfidenceGate()
    program(question=QUESTION)
    assert (engine.count["DecideRetrieval"], engine.count["StateConfidence"]) == (2, 2)
    program.gate = VoteGate()
    assert {name for name, _ in program.named_predictors()} == plain


def test_a_gate_that_is_refused_changes_nothing():
    class Clashing(RetrievalDecision):
        attribute = "same"

    @dataclass(frozen=True)
    class Asking(PromptGate):
        asks = Clashing

    program = KEQA(None, gate=PromptGate())
    before = {name for name, _ in program.named_predictors()}
    with pytest.raises(ConfigurationError, match="which an examination has"):
        program.gate = Asking()
    assert program.gate == PromptGate()
    assert {name for name, _ in program.named_predictors()} == before


def test_a_gate_that_reads_probabilities_has_them_drawn():
    program = KEQA(None)
    program.gate = ProbabilityGate()
    assert program.examination.probabilities
    program.threshold = 0.5
    assert not program.examination.probabilities
    assert program.gate == VoteGate(program.threshold)


def test_parts_that_are_assigned(scripted):
    program, (lm, _), (judge, _) = KEQA(None), scripted(World()), scripted(World())
    program.lms = Roles(task=lm, consistency=judge, utility=judge)
    assert (program.get_lm(), program.examination.same.lm, program.lms.utility) == (lm, judge, judge)
    program.listwise = True
    assert program.picking.together.judge.lm is judge
    reference = UtilityReference()
    program.reference = reference
    assert program.picking.reference is reference is program.reference


def test_demonstrations_that_are_switched_off_are_off_at_once():
    program = KEQA(None)
    program.set_lm(dspy.LM("openai/m", api_key="none"))
    program.demonstrations = False
    assert not any(predictor.fixed for predictor in program.predictors())
    assert not program.demonstrations


def test_another_method_is_bound_anew_and_not_given_an_attribute_that_nothing_reads(scripted, retriever):
    program = AlwaysRetrieve(retriever("Up is a film."))
    lm, _ = scripted(World())
    other = retriever("Cars is a film.")
    program.retriever = other
    program.lms = Roles(task=lm, consistency=lm, utility=lm)
    assert program.given_retriever is other
    assert program.get_lm() is lm
    with pytest.raises(AttributeError, match="given to the constructor"):
        program.workers = 3
    with pytest.raises(ConfigurationError, match=r"keqa\.build_roles"):
        program.lms = "openai/m"
    with pytest.raises(ConfigurationError, match="takes no retriever"):
        ClosedBook().retriever = other
