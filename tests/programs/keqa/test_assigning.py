"""Arguments of the constructor, assigned afterwards."""

from dataclasses import dataclass

import dspy
import pytest
from fixtures.boundary import make_model
from fixtures.director_of_up import QUESTION, World
from pydantic import Field

from keqa.errors import ConfigurationError
from keqa.lms import Roles
from keqa.programs import KEQA
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
from keqa.programs.baselines.deciding import KBM, SelfRAG
from keqa.programs.gates import VoteGate
from keqa.programs.gates.uncertainty import ConfidenceGate, ProbabilityGate, PromptGate, RetrievalDecision
from keqa.programs.reference.utility_reference import UtilityReference


def test_it_decides_how_questions_are_asked(programmed, retriever):
    program, engine = programmed(KEQA(None), World())
    program.tries, program.threshold, program.top_k = 2, 1, 1
    program.retriever = retriever("Pete Docter was born in 1968.", "Up is a film.", "Cars is a film.")
    record = program(question=QUESTION).record
    assert engine.count["AnswerQuiz"] == 4
    assert {quiz.tries for quiz in record.quizzes} == {2}
    assert max(len(quiz.passages) for quiz in record.quizzes) == 1


def test_a_gate_brings_what_it_asks_and_takes_it_away(programmed, retriever):
    program, engine = programmed(
        KEQA(retriever("Pete Docter was born in 1968.")),
        World(DecideRetrieval={"retrieve": False}, StateConfidence={"confidence": "90"}),
    )
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
    with pytest.raises(ConfigurationError, match=r"Answering\.answer is one call: a dspy\.Predict"):
        program.answering.answer = dspy.ChainOfThought("passages, question -> answer")


def test_another_method_is_bound_anew_and_not_given_an_attribute_that_nothing_reads(scripted, retriever):
    program = AlwaysRetrieve(retriever("Up is a film."))
    lm, _ = scripted(World())
    other = retriever("Cars is a film.")
    program.retriever = other
    program.lms = Roles(task=lm, consistency=lm, utility=lm)
    assert program.retriever is other
    assert program.get_lm() is lm
    with pytest.raises(AttributeError, match="given to the constructor"):
        program.workers = 3
    with pytest.raises(ConfigurationError, match=r"keqa\.build_roles"):
        program.lms = "openai/m"
    with pytest.raises(ConfigurationError, match="AlwaysRetrieve: retriever must be an index"):
        program.retriever = 3
    with pytest.raises(ConfigurationError, match="takes no retriever"):
        ClosedBook().retriever = other
    assert program.retriever is other


def test_what_a_prompt_learned_stays_where_the_prompt_stays():
    program = KBM(None)
    demo = dspy.Example(question="Where?", answer="Oslo")
    program.recall.demos = [demo]
    recall, read = program.recall, program.read
    program.top_k = 3
    assert (program.recall, program.read, program.recall.demos) == (recall, read, [demo])
    program.reason = True
    assert program.recall.demos == []
    assert set(program.recall.signature.output_fields) == {"reasoning", "answer"}


@pytest.mark.parametrize("method", [KEQA, SelfRAG])
def test_demonstrations_are_shown_as_was_loaded_or_assigned(method):
    def fixed(program):
        return {predictor.fixed for predictor in program.predictors()}

    program, loaded = method(None), method(None)
    program.demonstrations = False
    loaded.load_state(program.dump_state())
    assert (fixed(program), fixed(loaded)) == ({False}, {False})
    program.demonstrations = True
    assert fixed(program) == {True}


def test_a_new_prompt_takes_the_language_model_of_the_one_before(scripted):
    lm, other = scripted(World())[0], scripted(World())[0]
    parent = dspy.Module()
    parent.part = SelfRAG(None)
    parent.set_lm(lm)
    parent.part.read.lm = other
    parent.part.reason = False
    assert (parent.part.recall.lm, parent.part.read.lm) == (lm, other)
    parent.part.load_state(SelfRAG(None).dump_state())
    assert (parent.part.recall.lm, parent.part.read.lm) == (lm, other)


def test_a_part_that_a_setting_brings_takes_the_one_language_model_and_goes_again(scripted):
    lm, _ = scripted(World())
    program = KBM(None)
    program.set_lm(lm)
    plain = {name for name, _ in program.named_predictors()}
    program.lms = None
    for predictor in program.predictors():
        predictor.lm = lm
    program.model = make_model(reads="draft")
    assert program.examination.quiz.lm is lm
    assert program.examination.bound is program.bound
    program.model = None
    assert {name for name, _ in program.named_predictors()} == plain


def test_what_the_user_put_in_place_stays():
    program = AlwaysRetrieve(None)
    mine, extra = dspy.Predict("question, passages -> answer"), SelfRAG(None).reflection
    program.answer, program.extra = mine, extra
    program.top_k = 3
    assert (program.answer, program.extra) == (mine, extra)


class Twice(AlwaysRetrieve):
    """A method of a user's, whose prompts are DSPy's own."""

    words: list[str] = Field(default_factory=list)
    twice: bool = False

    def __init__(self, retriever, **settings):
        super().__init__(retriever, **settings)
        self.words = sorted(self.words)
        self.note = "mine"

    def set_up(self):
        super().set_up()
        self.first = dspy.ChainOfThought("question -> reason" if self.twice else "question -> answer")
        self.hops = [dspy.Predict("question -> query") for _ in range(2)]
        if self.twice:
            self.check = dspy.Predict("answer -> right: bool")


def test_a_method_of_ones_own_is_set_up_anew():
    program = Twice(None, words=["b", "a"])
    hops = program.hops
    program.hops[0].demos = [dspy.Example(question="Where?", query="where")]
    program.twice = True
    assert list(program.first.predict.signature.output_fields) == ["reasoning", "reason"]
    assert (program.words, program.note, program.hops) == (["a", "b"], "mine", hops)
    program.twice = False
    assert not hasattr(program, "check")
    with pytest.raises(ConfigurationError, match="Twice: twice must be True or False"):
        program.twice = "no"


def test_a_subclass_with_a_constructor_of_its_own():
    class Short(AlwaysRetrieve):
        def __init__(self, retriever, note="none"):
            super().__init__(retriever, top_k=3)
            self.note = note
            self.max_question_chars = 100

    program = Short(None, note="mine")
    program.top_k = 5
    program.reason = True
    assert (program.top_k, program.max_question_chars, program.note) == (5, 100, "mine")
    assert "reasoning" in program.answer.signature.output_fields
    with pytest.raises(ConfigurationError, match="Short: top_k must be a whole number"):
        program.top_k = 0
