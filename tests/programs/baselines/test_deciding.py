"""KBM, Rowen, Self-RAG and SlimPLM: when they search, and what they answer from.

What a failure of each prompt leads to is in the stories.
"""

from typing import Any

import pytest
from dspy.lm15 import ContextLengthError
from fixtures.boundary import judging, make_model

from keqa.errors import ConfigurationError
from keqa.lms.loops import questions
from keqa.programs import UnansweredError
from keqa.programs.baselines import KBM, Rowen, SelfRAG, SlimPLM
from keqa.programs.boundary import BoundaryError, Judgement
from keqa.programs.registry import parse_spec
from keqa.programs.saved_settings import read_values

# KBM.

PASSAGES = ("Ann lives in Oslo.", "Bergen rains.")


def model_of(judged, reads="quiz"):
    """A boundary model that says this; it keeps what it saw."""
    seen = []

    def judge(quiz, draws, reference):
        seen.append((quiz, draws.answers, reference))
        if isinstance(judged, BoundaryError):
            raise judged
        return judged

    return judging(judge, reads, seen=seen)


def replies(name, inputs, config):
    return {
        "JudgeKnowledge": {"mastery": "Oslo" in inputs.get("reference", ""), "certainty": True},
        "AnswerQuiz": {"answer": "Draft"},
        "AnswerQuestion": {"answer": "From memory"},
        "AnswerWithKnowledge": {"answer": "From passages"},
    }[name]


@pytest.fixture
def kbm(asked):
    return lambda reply=replies, passages=PASSAGES, **settings: asked(KBM, reply, *passages, **settings)


@pytest.mark.parametrize(
    ("judged", "settings", "known", "measure", "threshold"),
    [
        (Judgement(0.5, 0.0), {}, True, 0.5, "1/2"),
        (Judgement(0.49, 1.0), {}, False, 0.49, "1/2"),
        (Judgement(0.0, 0.85), {"of": "certainty"}, True, 0.85, "1/2"),
        (Judgement(0.0, 0.85), {"of": "certainty", "threshold": "0.9"}, False, 0.85, "9/10"),
    ],
)
def test_what_is_mastered_is_answered_from_memory_else_from_passages(kbm, judged, settings, known, measure, threshold):
    model = model_of(judged)
    record, engine, queries = kbm(model=model, **settings)
    source = "memory" if known else "passages"
    assert (record.answer, record.answer_source, queries) == (f"From {source}", source, [] if known else ["Who?"])
    assert engine.count == {"AnswerQuestion" if known else "AnswerWithKnowledge": 1}
    (quiz,) = record.quizzes
    assert (quiz.known, quiz.retrieved, quiz.certainty, quiz.threshold_exact) == (known, not known, measure, threshold)
    assert [one.kept for one in quiz.passages] == ([] if known else [True, True])
    assert model.seen[-1] == ("Who?", (), None)


@pytest.mark.parametrize(("reads", "draws"), [("quiz", 0), ("draft", 1), ("draws", 3)])
def test_a_model_is_given_the_draws_that_it_reads(kbm, reads, draws):
    model = model_of(Judgement(1.0, 1.0), reads=reads)
    record, engine, _ = kbm(model=model, tries=3)
    assert (model.seen[-1][1], engine.count.get("AnswerQuiz", 0)) == (("Draft",) * draws, draws)
    assert record.answer == "From memory"


def test_judged_again_with_passages(kbm):
    record, engine, _ = kbm(rejudge=True, passages=["Bergen rains."])
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("From memory", "closed_book", 1)
    assert engine.count == {"JudgeKnowledge": 2, "AnswerQuestion": 1}
    (quiz,) = record.quizzes
    assert (quiz.known, quiz.retrieved) == (False, True)
    assert [(one.kept, one.why) for one in quiz.passages] == [(False, "judged again with them: they do not settle it")]
    # A boundary model is given them as reference, and holds up no other question meanwhile.
    seen = []
    model = judging(
        lambda quiz, draws, reference: seen.append((reference, questions.is_here())) or Judgement(bool(reference), 0),
        waits=True,
    )
    assert kbm(model=model, rejudge=True)[0].answer == "From passages"
    assert seen == [(None, False), ("Ann lives in Oslo.\n\nBergen rains.", False)]


def test_where_kbm_cannot_judge_passages_are_read_and_what_it_refuses(kbm):
    record, _, _ = kbm(model=model_of(BoundaryError("no verdict")))
    told = [(one.stage, one.cause, one.action) for one in record.degradations]
    assert (record.answer, told) == ("From passages", [("boundary", "BoundaryError", "taken for unknown")])
    with pytest.raises(ConfigurationError, match="a light boundary model reads none"):
        kbm(model=make_model(), rejudge=True)
    # A saved program opens no file that a stranger names.
    with pytest.raises(ConfigurationError, match="a saved program holds its model, and opens no file"):
        read_values(KBM.Settings, {"model": "/etc/passwd"}, {})
    spec = parse_spec("kbm:of=certainty,rejudge=True,threshold=0.9")
    assert (spec.method.title, spec.arguments) == ("KBM", {"of": "certainty", "rejudge": True, "threshold": "0.9"})


# Rowen.


class Rephrased:
    """Rephrases by number and answers what it is told to, by question."""

    def __init__(self, answers: dict[str, str], *, same: tuple[str, ...] = (), **other: Any) -> None:
        self.answers, self.same, self.other, self.drawn = answers, same, other, list[Any]()

    def __call__(self, name: str, inputs: dict[str, str], config: Any) -> dict[str, Any] | str:
        if name in self.other:
            return self.other[name]
        if name == "RephraseQuestion":
            self.drawn.append((config.temperature, config.seed))
            return {"rephrased": f"Who, put {len(self.drawn) % 3}?"}
        if name == "TranslateQuestion":
            return {"translated": f"{inputs['language']}: {inputs['question']}"}
        if name == "AnswerQuestion":
            return {"answer": self.answers.get(inputs["question"], self.answers["*"])}
        return {"same": inputs["second_answer"] in self.same} if name == "JudgeConsistency" else {"answer": "Repaired"}


@pytest.fixture
def rowen(asked):
    def ask(answers, *texts, same=(), other=None, **settings):
        model = Rephrased(answers, same=same, **(other or {}))
        settings = {"language": None, "reason": False, **settings}
        return *asked(Rowen, model, *(texts or ("text",)), **settings)[:2], model

    return ask


@pytest.mark.parametrize(("least", "answer"), [("1/3", "Ann"), ("0.5", "Repaired")])
def test_below_the_threshold_the_answer_is_repaired(rowen, least, answer):
    answers = {"*": "Bo", "Who?": "Ann", "Who, put 1?": "Ann"}
    record, engine, _ = rowen(answers, "one", "two", min_consistency=least)
    quiz = record.quizzes[0]
    assert (record.answer, quiz.consistency_exact, quiz.known) == (answer, "1/3", answer == "Ann")
    if answer == "Repaired":
        assert (record.answer_source, record.cost.retrievals) == ("passages", 4)
        assert [verdict.kept for verdict in quiz.passages] == [True, True]
    assert [call["second_answer"] for call in engine.asked("JudgeConsistency")] == ["Bo", "Bo"]


def test_both_checks_are_weighted(rowen):
    answers = {"*": "Ann", **{f"German: Who, put {place}?": "Bo" for place in range(3)}}
    record, _, _ = rowen(answers, language="German", cross_model=True, cross_model_weight="0.5")
    # Languages disagree at weight 1, models agree at weight 1/2.
    assert (record.quizzes[0].consistency_exact, record.quizzes[0].known) == ("1/3", False)


def test_what_says_that_it_is_not_known(rowen):
    record, engine, _ = rowen({"*": "unknown"})
    assert (record.answer, engine.count) == ("Repaired", {"AnswerQuestion": 1, "AnswerWithKnowledge": 1})
    # Two that do not know do not agree, and an option is an answer whatever it says.
    record, engine, _ = rowen({"*": "unknown", "Who?": "Ann"})
    assert (record.answer, record.quizzes[0].consistency, engine.count["JudgeConsistency"]) == ("Repaired", 0.0, 0)
    record, engine, _ = rowen({"*": "Unknown"}, question=("Who?", "choice", ["Unknown", "Ann"]))
    assert (record.answer, record.answer_source, engine.count["RephraseQuestion"]) == ("Unknown", "memory", 6)


def test_wordings_are_drawn_apart_and_the_same_way_again(rowen):
    drawn = [sorted(rowen({"*": "Ann"}, rephrasings=3, seed=seed)[2].drawn) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1]
    assert {*drawn[0]}.isdisjoint(drawn[2])
    assert len(set(drawn[0])) == 3
    assert {temperature for temperature, _ in drawn[0]} == {1.0}
    # Without another wording than its own the answer counts as inconsistent.
    record, _, _ = rowen({"*": "Ann"}, other={"RephraseQuestion": {"rephrased": "Who?"}})
    assert (record.answer, record.degradations[0].cause) == ("Repaired", "NoRephrasing")


def test_repairing_searches_with_the_question_and_its_other_wordings(rowen):
    found = {"Who?": [0, 1], "Who, put 0?": [1, 2], "Who, put 1?": [2, 0], "Who, put 2?": [3]}
    record, _, _ = rowen({"*": "Bo", "Who?": "Ann"}, "a", "b", "c", "d", found=found, top_k=3)
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("Repaired", "passages", 4)
    # The best of each search come first, each passage once, and no more than top_k.
    texts = [verdict.text for verdict in record.quizzes[0].passages]
    assert texts[0] == "a"
    assert sorted(texts) in (["a", "b", "c"], ["a", "b", "d"], ["a", "c", "d"])
    # The first answer stands only where nothing is found.
    record, _, _ = rowen({"*": "Bo", "Who?": "Ann"}, found={})
    assert (record.answer, record.answer_source) == ("Ann", "closed_book")


# Self-RAG.


class Critic:
    """Answers what a passage says; its verdicts are given by answer, or by the last word of the passage."""

    def __init__(self, **said: Any) -> None:
        self.said = {"retrieve": True, "relevant": {}, "support": {}, "usefulness": {}} | said

    def __call__(self, name: str, inputs: dict[str, str], config: Any) -> dict[str, Any] | str:
        if name == "DecideRetrieval":
            return {"retrieve": self.said["retrieve"]}
        if name == "AnswerQuestion":
            return {"answer": "From memory"}
        if name == "AnswerWithKnowledge":
            word = inputs["passages"].split("says ")[1].strip('"].')
            return "garbage {" if word == "broken" else {"answer": word}
        if name == "JudgeRelevance":
            return {"relevant": self.said["relevant"].get(inputs["passage"].split()[-1], True)}
        if name == "JudgeSupport":
            return {"support": self.said["support"].get(inputs["answer"], "no")}
        return {"usefulness": self.said["usefulness"].get(inputs["answer"], 3)}


@pytest.fixture
def critical(asked):
    def ask(model, *texts, **settings):
        record, engine, _ = asked(SelfRAG, model, *texts, reason=False, **settings)
        return record, engine, [one.why.split("score ")[-1] for one in record.quizzes[0].passages]

    return ask


def test_without_need_it_answers_from_memory_in_two_calls(critical):
    record, engine, _ = critical(Critic(retrieve=False), "it says Ann")
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("From memory", "closed_book", 0)
    assert engine.count == {"DecideRetrieval": 1, "AnswerQuestion": 1}
    assert (record.quizzes[0].known, record.quizzes[0].retrieved) == (True, False)


def test_each_passage_has_an_answer_and_the_best_critique_wins(critical):
    support = {"Ann": "partially", "Bo": "fully", "Cy": "fully"}
    model = Critic(relevant={"Cy": False}, support=support, usefulness=dict.fromkeys(support, 5))
    record, engine, scores = critical(model, "it says Ann", "it says Bo", "it says Cy")
    assert (record.answer, record.answer_source) == ("Bo", "passages")
    told = [(verdict.kept, verdict.verdict) for verdict in record.quizzes[0].passages]
    assert told == [(False, "helpful"), (True, "helpful"), (False, "not helpful")]
    # 1 + 0.5 + 0.5, 1 + 1 + 0.5 and 0 + 1 + 0.5.
    assert scores == ["2", "2.5", "1.5"]
    assert engine.count["AnswerWithKnowledge"] == engine.count["JudgeSupport"] == engine.count["JudgeRelevance"] == 3
    # Usefulness counts from minus one half to one half.
    assert critical(Critic(usefulness={"Ann": 1, "Bo": 4}), "it says Ann", "it says Bo")[2] == ["0.5", "1.25"]


def test_weights_change_the_order_and_of_equal_answers_the_first_passage_is_kept(critical):
    model = Critic(relevant={"Ann": False}, support={"Ann": "fully"})
    assert critical(model, "it says Bo", "it says Ann")[0].answer == "Bo"
    assert critical(model, "it says Bo", "it says Ann", relevance_weight=0.5)[0].answer == "Ann"
    record, engine, _ = critical(Critic(), "it says Ann", "here it says Ann")
    assert [verdict.kept for verdict in record.quizzes[0].passages] == [True, False]
    assert engine.count["RateUsefulness"] == 1


def test_a_passage_without_an_answer_is_left_out(critical):
    record, _, _ = critical(Critic(), "it says broken", "it says Ann")
    touching = [d.action for d in record.degradations if d.touches]
    assert (record.answer, touching) == ("Ann", ["left the passage out"])
    assert record.quizzes[0].passages[0].why == "gave no answer"
    with pytest.raises(UnansweredError, match="no passage that was found could be answered from"):
        critical(Critic(), "it says broken")
    record, _, _ = critical(Critic(), found={})
    assert (record.answer, record.quizzes[0].known, record.cost.retrievals) == ("From memory", False, 1)


# SlimPLM.

WHO, WHERE = "Who wrote it?", "Where is Ann from?"


class Proxy:
    """Knows what it is told to know, and says what it is told to say."""

    def __init__(self, *known: str, **said: Any) -> None:
        self.known, self.said = known, said

    def __call__(self, name: str, inputs: dict[str, str], config: Any) -> dict[str, Any] | str:
        if "two" in inputs.get("passages", "") and "window" in self.said:
            raise ContextLengthError("too long")
        return {
            "ReasonFromMemory": {"reasoning": "Ann wrote it. Ann is from Oslo.", "answer": "Oslo."},
            "JudgeHeuristicAnswer": {"known": inputs.get("question") in self.known},
            "RewriteQueries": {"queries": f'["{WHO}", "{WHERE}"]'},
            "AnswerQuestion": {"answer": "From memory"},
            "AnswerWithKnowledge": {"answer": "From passages"},
            **self.said,
        }[name]


@pytest.fixture
def slim(asked):
    def ask(model, *texts, **settings):
        record, engine, _ = asked(SlimPLM, model, *texts, reason=False, **settings)
        return record, engine, [(one.passage_id, one.kept, one.why) for one in record.quizzes[0].passages]

    return ask


def test_what_is_known_is_answered_from_memory(slim):
    record, engine, _ = slim(Proxy("Who?"), "text")
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("From memory", "memory", 0)
    assert engine.count == {"ReasonFromMemory": 1, "JudgeHeuristicAnswer": 1, "AnswerQuestion": 1}
    assert engine.asked("JudgeHeuristicAnswer") == [
        {"question": "Who?", "heuristic_answer": "Ann wrote it. Ann is from Oslo. The answer is Oslo."}
    ]


def test_passages_of_several_queries_take_turns_and_come_once(slim):
    found = {WHO: [0, 1, 2], WHERE: [1, 3]}
    _, engine, passages = slim(Proxy(), "a", "b", "c", "d", found=found, top_k=3)
    assert [(name, why) for name, _, why in passages] == [
        ("p0", f"found by: {WHO}"),
        ("p1", f"found by: {WHO} | {WHERE}"),
        ("p3", f"found by: {WHERE}"),
    ]
    assert engine.asked("AnswerWithKnowledge")[0]["passages"] == '["a", "b", "d"]'
    # Those that do not fit are told apart from those that were read.
    _, _, passages = slim(Proxy(window="small"), "one", "two", found={WHO: [0], WHERE: [1]})
    assert passages == [("p0", True, f"found by: {WHO}"), ("p1", False, "did not fit")]


@pytest.mark.parametrize(
    "model",
    [Proxy(WHO, WHERE), Proxy(RewriteQueries={"queries": "[]"}), Proxy(RewriteQueries={"queries": "garbage {"})],
)
def test_without_an_unknown_claim_the_question_is_searched_for(slim, model):
    assert slim(model, "text", found={"Who?": [0]})[2] == [("p0", True, "found by: Who?")]


def test_one_query_needs_no_second_judgement_and_more_than_wanted_are_left_out(slim):
    assert slim(Proxy(), "text", max_queries=1)[1].count["JudgeHeuristicAnswer"] == 1
    record, engine, _ = slim(Proxy(RewriteQueries={"queries": '["a", "a", "b", "c"]'}), "text", max_queries=2)
    assert (engine.count["JudgeHeuristicAnswer"], record.cost.retrievals) == (3, 2)
