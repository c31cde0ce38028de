"""Tuning: which values are tried, what each scores, and which calls settings share."""

from dataclasses import dataclass
from fractions import Fraction

import dspy
import pytest
from conftest import ScriptedRetriever
from fixtures.boundary import judging

from keqa.errors import ConfigurationError
from keqa.metrics.answers import f1
from keqa.optimize.asking import Asking
from keqa.optimize.demos import learned_forms
from keqa.optimize.options import Options
from keqa.optimize.tuning import BOUNDARY, GRID, Tuning, own_choice, values_to_try
from keqa.programs.boundary import Judgement
from keqa.programs.gates import AlwaysRetrieveGate, ProbabilityGate, VoteGate
from keqa.programs.keqa import KEQA
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.retrievers.base import Hit, Passage

BOTH = (False, True)
SWITCHES = (
    "draft",
    "cite",
    "listwise",
    "summarize_single",
    "summarize_known",
    "read_together",
    "reason",
    "prefer_reliable",
)


NOTHING = {name: () for name in GRID if name != BOUNDARY}


def only(**values):
    """Values to try, of these settings alone."""
    return NOTHING | values


def choice(threshold, tries, top_k, temperature, top_p, **others):
    own = {"threshold": threshold, "tries": tries, "top_k": top_k, "temperature": temperature, "top_p": top_p}
    off = dict.fromkeys((*SWITCHES, "boundary"), False)
    own |= {"on_nothing_helpful": "largest_cluster", "settle": "quizzes", "pick": True, "list_step": None}
    own["expand"] = 0
    return own | off | others


@pytest.fixture
def tuned(journal):
    def run(world, **options):
        return Tuning(world.program, world.val, Asking(journal, f1, in_flight=1), **options).run()

    return run


def test_the_draws_of_a_quiz_are_made_once_for_all_alphas_and_all_n(setting, tuned):
    world = setting(val=2)
    grid = only(threshold=("0.4", "0.6", "0.8", "1"), tries=(2, 5))
    found = tuned(world, grid=grid)
    # α of 2/3, 2/5, 3/5, 4/5 and 1, each with N of 3, 2 and 5, over two questions of two quizzes: 5 draws a quiz.
    assert len(found.curve) == 15
    assert world.engine.count["AnswerQuiz"] == 2 * 2 * 5
    assert world.engine.count["DecomposeQuestion"] == 2
    assert world.engine.count["AnswerWithKnowledge"] == 2
    # One from what was read, one from the guess that one of two tries makes known at α = 2/5.
    assert world.engine.count["Summarize"] == 2 * 2


@pytest.mark.slow
def test_lambda_decides_whether_to_retrieve(setting, tuned):
    def chosen(cost):
        grid = only(threshold=("1/5",))
        return tuned(setting(tries=5, threshold="4/5"), grid=grid, cost_per_retrieval=cost).best

    # The spouse is not known: from memory a guess that is wrong, from passages the surname.
    assert (chosen(0.0).settings["threshold"], chosen(0.0).retrievals) == ("4/5", 1.0)
    assert (chosen(0.9).settings["threshold"], chosen(0.9).retrievals) == ("1/5", 0.0)
    assert chosen(0.0).objective == pytest.approx(2 / 3)


def test_among_equals_the_programs_own_settings_stay(setting, tuned):
    world = setting()
    found = tuned(world, grid=only(threshold=("0.6",), tries=(3,), top_k=(3,), temperature=(0.5,)))
    assert found.best.settings == choice("2/3", 3, 2, 1.0, None)
    assert found.program.examination.gate.threshold == world.program.examination.gate.threshold
    assert type(found.program.examination) is type(world.program.examination)


class PlainGate:
    """A gate that is no dataclass."""

    name = "plain"

    def __init__(self, threshold):
        self.threshold, self.inner = Fraction(threshold), VoteGate()

    def decide(self, draws):
        return self.inner.decide(draws)


def test_the_threshold_of_a_gate_that_cannot_be_made_again_is_left_alone(setting, tuned):
    world = setting(gate=PlainGate("4/5"))
    found = tuned(world, grid=only(threshold=("0.5",), tries=(5,)))
    assert [(point.settings["threshold"], point.settings["tries"]) for point in found.curve] == [(None, 3), (None, 5)]
    assert found.program.examination.gate is world.program.examination.gate


ALPHAS = only(threshold=("1/4", "1/2"), tries=(5,))


def test_a_gate_by_probability_is_tuned_on_draws_that_have_them(setting, journal, tuned):
    world = setting(val=2, gate=ProbabilityGate())
    world.engine.probability = 0.4
    found = tuned(world, grid=ALPHAS)
    assert [(point.settings["threshold"], point.retrievals) for point in found.curve[:2]] == [
        ("1/2", 2.0),
        ("1/4", 0.0),
    ]
    # The mayor, and the spouse of whoever was taken for the mayor: from memory, and from passages.
    assert world.engine.count["AnswerQuiz"] == 2 * 3 * 5
    calls = len(world.engine.calls)
    assert tuned(world, grid=ALPHAS).curve == found.curve
    assert len(world.engine.calls) == calls


# Costs, switches and the boundary model.


@pytest.mark.slow
def test_mu_weighs_what_the_program_itself_would_call(setting, tuned):
    world = setting(val=3)
    found = tuned(world, grid=only(threshold=("1",), tries=(5,), top_k=(1,)))
    for point in found.curve:
        chosen = point.settings
        again = setting(val=3, **{name: chosen[name] for name in ("tries", "threshold", "top_k")})
        records = [outcome.record for outcome in again.program.answer_many([one.question for one in world.val])]
        assert point.calls == sum(record.cost.samples for record in records) / 3

    def tries(cost):
        grid = only(tries=(5,))
        return tuned(setting(tries=3, threshold="4/5"), grid=grid, cost_per_call=cost)

    dear = tries(0.01)
    assert dear.best.objective == pytest.approx(dear.best.score - 0.01 * dear.best.calls)
    assert dear.best.calls == min(point.calls for point in dear.curve)


def test_switches_are_tried_both_ways_where_a_program_uses_them(setting, tuned):
    grid = only(**dict.fromkeys(SWITCHES[2:], BOTH), on_nothing_helpful=("closed_book",))
    found = tuned(setting(val=1), grid=grid)
    tried = [tuple(one.settings[name] for name in SWITCHES[2:5]) for one in found.curve]
    assert tried[:4] == [(False, False, False), (True, False, False), (False, True, False), (False, False, True)]
    assert [one.settings["on_nothing_helpful"] for one in found.curve[6:]] == ["closed_book"]
    # Among equals the program's own settings stay.
    assert found.best is found.curve[0]
    whole = tuned(setting(val=1, decompose=False, examine=False, pick=False), grid=grid)
    assert [one.settings["reason"] for one in whole.curve] == [False, True]


def test_passages_are_judged_in_one_call_where_that_saves_some(setting, tuned):
    world = setting(val=2)
    grid = only(listwise=BOTH)
    found = tuned(world, grid=grid, cost_per_call=0.01)
    own, listed = found.curve
    assert (listed.score, listed.retrievals, own.calls - listed.calls) == (own.score, own.retrievals, 1.0)
    assert found.best is listed
    assert found.program.picking.together.judge.lm is world.lm
    calls = len(world.engine.calls)
    assert tuned(world, grid=grid, cost_per_call=0.01).curve == found.curve
    assert len(world.engine.calls) == calls
    again = found.program.answer_many([one.question for one in world.val])
    assert listed.calls == sum(outcome.record.cost.samples for outcome in again) / 2


def test_the_stages_of_one_call_are_taken_where_they_save_calls(setting, tuned, journal):
    world = setting(val=2)
    asking = Asking(journal, f1, in_flight=1)
    before = [dict(world.engine.count)]
    forms = learned_forms(world.program, world.program, world.train, asking, Options())
    before.append(dict(world.engine.count))
    assert learned_forms(world.program, world.program, world.train, asking, Options()).keys() == forms.keys()
    assert world.engine.count == before[1], "calls that were made are not made again"
    # What sums up single quizzes already is not changed without a comparison.
    sums = world.program.deepcopy()
    sums.summarize_single = True
    assert "summarizing" not in learned_forms(sums, world.program, world.train, asking, Options())
    grid = only(draft=BOTH, cite=BOTH, summarize_single=BOTH)
    found = Tuning(world.program, world.val, asking, grid=grid, cost_per_call=0.01, forms=forms).run()
    own, drafted, *_ = found.curve
    assert (own.settings["draft"], drafted.settings["draft"]) == (False, True)
    # A plan, one reading of the spouse and a summary; what is known of the mayor costs nothing.
    assert (found.best.calls, found.best.settings["draft"], found.best.settings["cite"]) == (3.0, True, True)
    chosen = found.program
    assert chosen.drafting.draft.demos[0]["drafts"][1] == "UNKNOWN"
    assert all(demo["citations"] for demo in chosen.citing.cite.demos)
    assert (world.program.drafting, world.program.citing) == (None, None)
    # A summary gives its answer a form, which is learned where questions of one quiz are summarized as well.
    summed = found.program_of({**found.best.settings, "summarize_single": True})
    assert summed.summarizing.summarize.demos
    assert not chosen.summarizing.summarize.demos
    # A question that a demonstration comes from is asked without it.
    assert any(
        chosen.learned.hides(one.question, (), demo, chosen.drafting.draft.signature)
        for one in world.train
        for demo in chosen.drafting.draft.demos
    )
    calls = len(world.engine.calls)
    assert (
        Tuning(world.program, world.val, asking, grid=grid, cost_per_call=0.01, forms=forms).run().curve == found.curve
    )
    assert len(world.engine.calls) == calls


class TwoPapers(ScriptedRetriever):
    """Finds what was true once before what is true; a judge of passages sees no difference."""

    def __init__(self):
        super().__init__([])

    def search(self, query, k=10):
        number = "".join(char for char in query if char.isdigit())
        found = [("Ann Spouse99", "Herald"), (f"Ann Spouse{number}", "Atlas")]
        texts = [f"Bo Mayor{number} is married to {name}. Source: {source}." for name, source in found]
        return [Hit(Passage(f"{place}-{number}", "", text), 2.0 - place) for place, text in enumerate(texts)][:k]


def labelled(herald, atlas):
    return UtilityReference().fit(
        UtilityEntry(f"q{one}", "Who?", f"Text {one}. Source: {source}.", one < helpful)
        for source, helpful in (("Herald", herald), ("Atlas", atlas))
        for one in range(40)
    )


@pytest.mark.parametrize("listwise", [False, True])
def test_reliable_sources_are_preferred_where_that_scores_better(setting, tuned, listwise):
    world = setting(val=2, reference=labelled(2, 30), listwise=listwise)
    world.program.bind_retriever(TwoPapers())
    found = tuned(world, grid=only(prefer_reliable=BOTH))
    own, preferred = found.curve
    assert [one.settings["prefer_reliable"] for one in found.curve] == [False, True]
    assert (own.score, preferred.score) == (pytest.approx(0.0), pytest.approx(2 / 3))
    assert found.best is preferred
    assert found.program.picking.prefer_reliable
    assert not world.program.picking.prefer_reliable
    again = found.program.answer_many([one.question for one in world.val])
    assert [[one.kept for one in outcome.record.quizzes[-1].passages] for outcome in again] == [[False, True]] * 2


def knows_mayors(quiz, draws, reference):
    """What a boundary model says that knows what the world's language model knows."""
    assert draws.drawn == 1
    return Judgement(0.75 if "governs" in quiz else 0.1, 1.0)


@pytest.mark.parametrize("probability", [None, 0.6])
def test_a_boundary_model_decides_where_it_saves_calls(setting, tuned, probability):
    world = setting(val=3)
    world.engine.probability = probability
    grid, model = only(boundary_threshold=("0.7", "0.8")), judging(knows_mayors, "draft", uses_probabilities=True)
    found = tuned(world, grid=grid, cost_per_call=0.01, boundary=model)
    own, known, unknown = found.curve
    assert [(one.settings["boundary"], one.settings["threshold"]) for one in found.curve] == [
        (False, "2/3"),
        (True, "7/10"),
        (True, "4/5"),
    ]
    # A draft a quiz instead of two draws for the mayor, and for the spouse as many until they cannot agree.
    assert (own.retrievals, known.retrievals, unknown.retrievals) == (1.0, 1.0, 2.0)
    assert known.score == own.score
    assert known.calls < own.calls
    assert found.best is known
    gate = found.program.examination.gate
    assert (gate.name, gate.threshold) == ("boundary model", Fraction(7, 10))
    again = found.program.answer_many([one.question for one in world.val])
    assert known.calls == sum(outcome.record.cost.samples for outcome in again) / 3


SOME = {"threshold": ("0.5", "4/5", "1"), "tries": (2, 3), "top_k": (1, 2), "temperature": (0.5, 1.0)}


@pytest.fixture
def program(retriever):
    """Makes a program that has a retriever unless told otherwise."""

    def make(searching=True, **settings):
        chosen = {"tries": 3, "top_k": 2} | ({} if "gate" in settings else {"threshold": "2/3"}) | settings
        return KEQA(retriever("text") if searching else None, **chosen)

    return make


def test_the_programs_own_values_come_first_and_none_twice(program):
    found = values_to_try(program(), SOME)
    assert [found[name] for name in ("threshold", "tries", "top_k", "temperature", "top_p")] == [
        ("2/3", "1/2", "4/5", "1/1"),
        (3, 2),
        (2, 1),
        (1.0, 0.5),
        (None, 0.9),
    ]
    assert (found["listwise"], found["prefer_reliable"]) == ((False, True), (False,))
    alone = values_to_try(program(), {"tries": 5, "threshold": "1/2", "boundary_threshold": 0.5})
    assert (alone["tries"], alone["threshold"], alone["boundary_threshold"]) == ((3, 5), ("2/3", "1/2"), ("1/2",))
    assert own_choice(program())["threshold"] == "2/3"
    tuned = program()
    tuned.set_lm(dspy.LM("openai/scripted"))
    for predictor in tuned.predictors():
        predictor.lm.finetuned = True
    assert (values_to_try(tuned, SOME)["draft"], values_to_try(tuned, SOME)["cite"]) == ((False,), (False,))


class Doubting:
    """A reference of one's own that knows sources."""

    def __call__(self, quiz, passage):
        return ()

    source_of = __call__


DRAWING, PICKING = {"tries", "temperature", "top_p", "threshold", "on_nothing_helpful"}, {"cite", "listwise"}


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({"examine": False}, DRAWING | {"draft"}),
        ({"gate": AlwaysRetrieveGate()}, DRAWING),
        ({"decompose": False}, {"draft", "read_together", "summarize_known", "summarize_single"}),
        ({"pick": False, "reference": Doubting()}, PICKING | {"on_nothing_helpful"}),
        (
            {"searching": False, "style": "list"},
            PICKING | {"on_nothing_helpful", "pick", "read_together", "reason", "expand", "top_k"},
        ),
        *(({name: value}, {"cite", "reason"}) for name, value in (("select", True), ("extract_sentences", 2))),
        ({"unanswered": "say"}, {"reason"}),
        ({"settle": "cascade"}, {"settle"}),
        # These alone are tried in addition.
        ({"style": "list"}, {"list_step"}),
        ({"reference": Doubting()}, {"prefer_reliable"}),
        ({"reference": lambda quiz, passage: ()}, set()),
    ],
)
def test_what_is_tried_depends_on_what_makes_a_difference(program, given, changed):
    usual, found = (values_to_try(program(**settings), {}) for settings in ({}, given))
    assert {name for name in GRID if (len(usual[name]) > 1) != (len(found[name]) > 1)} == changed


@dataclass(frozen=True)
class Low(VoteGate):
    """A gate that takes low thresholds only."""

    def __post_init__(self) -> None:
        if self.threshold > Fraction(1, 2):
            raise ValueError("too high")


def test_a_threshold_that_a_gate_does_not_take_is_refused(program):
    gate = Low(Fraction(1, 2))
    assert values_to_try(program(gate=gate), {"threshold": ("0.4",)})["threshold"] == ("1/2", "2/5")
    with pytest.raises(ConfigurationError, match=r"'votes' cannot be given the threshold 1/1 \(too high\): give grid="):
        values_to_try(program(gate=gate), {"threshold": ("0.4", "1")})
