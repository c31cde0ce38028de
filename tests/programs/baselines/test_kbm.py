"""KBM: whom the boundary is asked of, what is searched for, and what a second judgement changes."""

from __future__ import annotations

from typing import Any

import pytest
from fixtures.boundary import make_model

from keqa.errors import ConfigurationError
from keqa.programs.baselines.deciding import KBM
from keqa.programs.boundary import BoundaryError, Judgement
from keqa.programs.registry import parse_spec
from keqa.programs.saving.values import read_values

PASSAGES = ("Ann lives in Oslo.", "Bergen rains.")


class Boundary:
    """A boundary model that is told what to say, and keeps what it was given."""

    uses_probabilities = False

    def __init__(self, judged: Judgement | BoundaryError, again: Judgement | None = None, reads: str = "quiz") -> None:
        self.reads, self._judged, self._again = reads, judged, again
        self.seen: list[tuple[Any, ...]] = []

    def judge(self, quiz, signals, reference=None):
        self.seen.append((quiz, signals.answers, reference))
        said = self._judged if reference is None else self._again
        if isinstance(said, BoundaryError):
            raise said
        return said

    def written(self):
        return {"kind": "scripted"}

    spec = written


def replies(name, inputs, config):
    reference = inputs.get("reference", "")
    return {
        "JudgeKnowledge": {"mastery": "Oslo" in reference, "certainty": True},
        "AnswerQuiz": {"answer": "Draft"},
        "AnswerQuestion": {"answer": "From memory"},
        "AnswerWithKnowledge": {"answer": "From passages"},
    }[name]


@pytest.fixture
def asked(scripted, retriever):
    def ask(reply=replies, passages=PASSAGES, **settings):
        lm, engine = scripted(reply)
        program = KBM(retriever(*passages), **settings)
        program.set_lm(lm)
        return program("Where does Ann live?").record, engine

    return ask


def test_what_is_mastered_is_answered_from_memory(asked):
    model = Boundary(Judgement(0.5, 0.0))
    record, engine = asked(model=model)
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("From memory", "memory", 0)
    assert engine.count == {"AnswerQuestion": 1}
    (quiz,) = record.quizzes
    assert (quiz.known, quiz.retrieved, quiz.certainty, quiz.threshold_exact) == (True, False, 0.5, "1/2")
    assert model.seen[-1] == ("Where does Ann live?", (), None)


def test_the_rest_is_searched_for_and_every_passage_read(asked):
    record, engine = asked(model=Boundary(Judgement(0.49, 1.0)))
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("From passages", "passages", 1)
    assert engine.count == {"AnswerWithKnowledge": 1}
    (quiz,) = record.quizzes
    assert (quiz.known, quiz.retrieved, [one.kept for one in quiz.passages]) == (False, True, [True, True])


def test_of_certainty_and_with_a_threshold(asked):
    judged = Judgement(0.0, 0.85)
    assert asked(model=Boundary(judged), of="certainty")[0].answer == "From memory"
    assert asked(model=Boundary(judged), of="certainty", threshold="0.9")[0].answer == "From passages"


@pytest.mark.parametrize(("reads", "draws"), [("quiz", 0), ("draft", 1), ("draws", 3)])
def test_a_model_is_given_the_draws_that_it_reads(asked, reads, draws):
    model = Boundary(Judgement(1.0, 1.0), reads=reads)
    record, engine = asked(model=model, tries=3)
    assert model.seen[-1][1] == ("Draft",) * draws
    assert engine.count.get("AnswerQuiz", 0) == draws
    assert record.answer == "From memory"


def test_without_a_model_the_language_model_of_role_consistency_is_asked(asked):
    record, engine = asked()
    assert record.answer == "From passages"
    assert engine.count == {"JudgeKnowledge": 1, "AnswerWithKnowledge": 1}
    assert record.cost.by_role["consistency"].calls == 1
    assert asked(of="certainty")[0].answer == "From memory"


def test_judged_again_with_passages(asked):
    record, engine = asked(rejudge=True)
    assert record.answer == "From passages"
    references = ["[]", '["Ann lives in Oslo.", "Bergen rains."]']
    assert [one["reference"] for one in engine.asked("JudgeKnowledge")] == references
    record, engine = asked(rejudge=True, passages=["Bergen rains."])
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("From memory", "closed_book", 1)
    assert engine.count == {"JudgeKnowledge": 2, "AnswerQuestion": 1}
    (quiz,) = record.quizzes
    assert (quiz.known, quiz.retrieved) == (False, True)
    assert [(one.kept, one.why) for one in quiz.passages] == [(False, "judged again with them: they do not settle it")]
    # A boundary model is given them as reference.
    model = Boundary(Judgement(0, 0), Judgement(1, 1))
    assert asked(model=model, rejudge=True)[0].answer == "From passages"
    assert model.seen[-1][2] == "Ann lives in Oslo.\n\nBergen rains."


def test_where_it_cannot_be_judged_passages_are_read_and_a_note_says_so(asked):
    record, _ = asked(model=Boundary(BoundaryError("no verdict")))
    assert record.answer == "From passages"
    assert [(one.stage, one.cause, one.action) for one in record.degradations] == [
        ("boundary", "BoundaryError", "taken for unknown"),
    ]
    record, _ = asked(lambda name, inputs, config: "?" if name == "JudgeKnowledge" else replies(name, inputs, config))
    assert record.answer == "From passages"
    assert record.degradations[-1].action == "taken for unknown"


def test_what_is_refused(asked):
    with pytest.raises(ConfigurationError, match="a light boundary model reads none"):
        asked(model=make_model(), rejudge=True)
    # A saved program opens no file that a stranger names.
    with pytest.raises(ConfigurationError, match="a saved program holds its model, and opens no file"):
        read_values(KBM.Settings, {"model": "/etc/passwd"}, {})
    spec = parse_spec("kbm:of=certainty,rejudge=True,threshold=0.9")
    assert (spec.method.title, spec.arguments) == ("KBM", {"of": "certainty", "rejudge": True, "threshold": "0.9"})
