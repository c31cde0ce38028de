"""Gates measured against each other on the same draws."""

from __future__ import annotations

from fractions import Fraction

import pytest

from keqa.errors import ConfigurationError, InputError
from keqa.metrics.gates import auroc
from keqa.programs import KEQA, AlwaysRetrieveGate, CertaintyGate, NeverRetrieveGate, VoteGate
from keqa.programs.draws import SharedDraws
from keqa.programs.gates import ConfidenceGate, LexicalSimilarityGate, OracleGate, ProbabilityGate, RandomGate
from keqa.programs.measuring import Verdict, measure_gates

GOLDS = {"Capital of Norway?": ["Oslo"], "Capital of Sweden?": ["Stockholm"], "Capital of Gondor?": ["Minas Tirith"]}
DRAWN = {
    "Capital of Norway?": ["Oslo"],
    "Capital of Sweden?": ["Stockholm", "Stockholm", "Malmö", "Stockholm"],
    "Capital of Gondor?": ["Edoras", "unknown", "Bree", "Osgiliath"],
}
STATED = {"Oslo": "100", "Stockholm": "90", "Edoras": "95"}


@pytest.fixture
def knows(scripted):
    """A program of four tries that knows two capitals of three, and the engine behind it."""
    counts: dict[str, int] = {}

    def reply(name, inputs, config):
        quiz = inputs["quiz"]
        if name == "AnswerQuiz":
            counts[quiz] = counts.get(quiz, -1) + 1
            return {"answer": DRAWN[quiz][counts[quiz] % len(DRAWN[quiz])]}
        return {"confidence": STATED[inputs["proposed_answer"]]} if name == "StateConfidence" else {"same": False}

    lm, engine = scripted(reply)
    engine.probability = 0.6
    program = KEQA(None, tries=4, workers=1)
    program.set_lm(lm)
    return program, engine


def test_every_gate_decides_on_the_same_draws(knows):
    program, engine = knows
    gates = [
        VoteGate(Fraction(3, 4)),
        CertaintyGate(Fraction(1, 2), "by_samples"),
        LexicalSimilarityGate(Fraction(1, 2)),
        ConfidenceGate(),
        ProbabilityGate(),
        AlwaysRetrieveGate(),
        NeverRetrieveGate(),
        RandomGate(Fraction(1, 2)),
        OracleGate(GOLDS),
    ]
    found = list(measure_gates(program.examination, gates, GOLDS))
    assert [measured.votes.quiz for measured in found] == list(GOLDS)
    assert [measured.votes.leading for measured in found] == ["Oslo", "Stockholm", "Edoras"]
    assert [measured.votes.sizes for measured in found] == [(4,), (3, 1), (1, 1, 1)]
    assert engine.count["AnswerQuiz"] == 12
    assert engine.count["StateConfidence"] == 3
    assert [list(measured.verdicts) for measured in found] == [[gate.name for gate in gates]] * 3
    known = {gate.name: [measured.verdicts[gate.name].known for measured in found] for gate in gates}
    random = known.pop("random, retrieving 0.5")
    assert known == {
        "votes": [True, True, False],
        "certainty by_samples over clusters": [True, True, False],
        "lexical similarity rouge_l": [True, True, False],
        "verbalised confidence": [True, True, True],
        # Three answers and an abstention, each of .6.
        "token probability": [True, True, False],
        "always retrieve": [False, False, False],
        "never retrieve": [True, True, True],
        "oracle": [True, True, False],
    }
    assert random == [measured.verdicts["random, retrieving 0.5"].score >= 0.5 for measured in found]
    assert found[1].verdicts["votes"] == Verdict(True, 0.75)
    assert found[1].verdicts["lexical similarity rouge_l"].score == pytest.approx(0.5)
    assert found[2].verdicts["token probability"].score == pytest.approx(0.45)
    assert found[2].verdicts["never retrieve"].score is None
    right = [measured.verdicts["oracle"].known for measured in found]

    def area(name):
        scores = [measured.verdicts[name].score for measured in found]
        return auroc(
            [score for score, is_right in zip(scores, right, strict=True) if is_right],
            [score for score, is_right in zip(scores, right, strict=True) if not is_right],
        )

    assert (area("votes"), area("verbalised confidence")) == (1.0, 0.5)


def test_costs_and_failures_are_told_once(knows):
    program, engine = knows
    measured = list(measure_gates(program.examination, [VoteGate(), CertaintyGate()], ["Capital of Gondor?"]))
    assert [one.cost.by_role["task"].calls for one in measured] == [4]
    assert measured[0].cost.lm_requests == len(engine.calls)
    assert measured[0].degradations == []


def test_draws_are_shared_with_programs(knows):
    program, engine = knows
    draws = SharedDraws()
    (measured,) = measure_gates(program.examination, [VoteGate()], ["Capital of Norway?"], draws=draws)
    program.decompose = False
    record = draws.sharing(program, CertaintyGate())("Capital of Norway?").record
    assert [sample.text for sample in record.quizzes[0].samples] == list(measured.votes.answers)
    assert engine.count["AnswerQuiz"] == 4


def test_without_draws_of_its_own_the_examination_is_left_as_it_was(knows):
    program, _ = knows
    list(measure_gates(program.examination, [ConfidenceGate()], ["Capital of Norway?"]))
    assert (program.examination.confidence, program.examination.gate) == (None, VoteGate())


@pytest.mark.parametrize("gates", [[], [VoteGate(), VoteGate(Fraction(1, 2))]])
def test_gates_need_names_of_their_own(knows, gates):
    with pytest.raises(ConfigurationError, match="names of their own"):
        list(measure_gates(knows[0].examination, gates, ["q"]))


def test_what_is_missing_is_told(knows):
    examination = knows[0].examination
    with pytest.raises(ConfigurationError, match=r"SharedDraws\(probabilities=True\)"):
        list(measure_gates(examination, [ProbabilityGate()], ["q"], draws=SharedDraws()))
    with pytest.raises(ConfigurationError, match="no gold answer"):
        list(measure_gates(examination, [OracleGate({})], ["Capital of Norway?"]))
    with pytest.raises(InputError, match="empty"):
        list(measure_gates(examination, [VoteGate()], [" "]))
