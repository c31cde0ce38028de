"""Rowen: what is compared with what, and when it repairs; what a failure leads to is in its story, too."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from keqa.programs import baselines
from keqa.programs.records import QuestionRecord

Rowen = partial(baselines.Rowen, reason=False)


class Model:
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
            answer = self.answers.get(inputs["question"], self.answers["*"])
            return "garbage" if answer == "garbage" else {"answer": answer}
        return {"same": inputs["second_answer"] in self.same} if name == "JudgeConsistency" else {"answer": "Repaired"}


@pytest.fixture
def asked(scripted, retriever):
    def ask(model, *texts, found=None, question=("Who?",), made=Rowen, **settings) -> tuple[QuestionRecord, Any]:
        lm, engine = scripted(model)
        program = made(retriever(*(texts or ("text",)), found=found), **{"language": None, **settings})
        program.set_lm(lm)
        return program(*question).record, engine

    return ask


def test_answers_that_agree_stand(asked):
    record, engine = asked(Model({"*": "Ann"}))
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("Ann", "memory", 0)
    assert (record.quizzes[0].consistency_exact, record.quizzes[0].known) == ("1/1", True)
    # Six draws of three wordings; equal answers need no judge.
    assert engine.count == {"AnswerQuestion": 4, "RephraseQuestion": 6}


@pytest.mark.parametrize(("least", "answer"), [("1/3", "Ann"), ("0.5", "Repaired")])
def test_below_the_threshold_the_answer_is_repaired(asked, least, answer):
    model = Model({"*": "Bo", "Who?": "Ann", "Who, put 1?": "Ann"})
    record, engine = asked(model, "one", "two", min_consistency=least)
    quiz = record.quizzes[0]
    assert (record.answer, quiz.consistency_exact, quiz.known) == (answer, "1/3", answer == "Ann")
    if answer == "Repaired":
        assert (record.answer_source, record.cost.retrievals) == ("passages", 4)
        assert [verdict.kept for verdict in quiz.passages] == [True, True]
    assert [call["second_answer"] for call in engine.asked("JudgeConsistency")] == ["Bo", "Bo"]


def test_by_default_each_wording_is_compared_with_its_translation_into_chinese(asked):
    model = Model({"*": "Ann", "Chinese: Who, put 0?": "安", "Chinese: Who, put 1?": "博"}, same=("安",))
    record, engine = asked(model, language="Chinese", min_consistency="0.7")
    assert baselines.Rowen(None).language == "Chinese"
    assert record.quizzes[0].consistency_exact == "2/3"
    assert engine.count["TranslateQuestion"] == 3
    assert {call["second_answer"] for call in engine.asked("JudgeConsistency")} == {"安", "博"}


def test_across_models_a_verifier_answers_each_wording(scripted, retriever):
    made = {role: scripted(Model({"*": answer})) for role, answer in (("task", "Ann"), ("consistency", "Bo"))}
    lms = SimpleNamespace(task=made["task"][0], consistency=made["consistency"][0], utility=None)
    record = Rowen(retriever("text"), language=None, cross_model=True, lms=lms)(question="Who?").record
    assert (record.answer, record.quizzes[0].consistency_exact) == ("Repaired", "0/1")
    assert made["consistency"][1].count == {"AnswerQuestion": 3, "JudgeConsistency": 3}
    assert record.cost.by_role["consistency"].calls == 6


def test_both_checks_are_weighted(asked):
    model = Model({"*": "Ann", **{f"German: Who, put {place}?": "Bo" for place in range(3)}})
    record, _ = asked(model, language="German", cross_model=True, cross_model_weight="0.5")
    # Languages disagree at weight 1, models agree at weight 1/2.
    assert (record.quizzes[0].consistency_exact, record.quizzes[0].known) == ("1/3", False)


def test_what_says_that_it_is_not_known(asked):
    record, engine = asked(Model({"*": "unknown"}))
    assert (record.answer, engine.count) == ("Repaired", {"AnswerQuestion": 1, "AnswerWithKnowledge": 1})
    # Two that do not know do not agree, and an option is an answer whatever it says.
    record, engine = asked(Model({"*": "unknown", "Who?": "Ann"}))
    assert (record.answer, record.quizzes[0].consistency, engine.count["JudgeConsistency"]) == ("Repaired", 0.0, 0)
    record, engine = asked(Model({"*": "Unknown"}), question=("Who?", "choice", ["Unknown", "Ann"]))
    assert (record.answer, record.answer_source, engine.count["RephraseQuestion"]) == ("Unknown", "memory", 6)


def test_wordings_are_drawn_apart_and_the_same_way_again(asked):
    drawn = []
    for _ in range(2):
        asked(model := Model({"*": "Ann"}), rephrasings=3)
        drawn.append(sorted(model.drawn))
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 3
    assert {temperature for temperature, _ in drawn[0]} == {1.0}
    # Without another wording than its own the answer counts as inconsistent.
    record, _ = asked(Model({"*": "Ann"}, RephraseQuestion={"rephrased": "Who?"}))
    assert (record.answer, record.degradations[0].cause) == ("Repaired", "NoRephrasing")


def test_repairing_searches_with_the_question_and_its_other_wordings(asked):
    found = {"Who?": [0, 1], "Who, put 0?": [1, 2], "Who, put 1?": [2, 0], "Who, put 2?": [3]}
    record, _ = asked(Model({"*": "Bo", "Who?": "Ann"}), "a", "b", "c", "d", found=found, top_k=3)
    assert record.cost.retrievals == 4
    # The best of each search come first, each passage once, and no more than top_k.
    texts = [verdict.text for verdict in record.quizzes[0].passages]
    assert texts[0] == "a"
    assert sorted(texts) in (["a", "b", "c"], ["a", "b", "d"], ["a", "c", "d"])
    assert (record.answer, record.answer_source) == ("Repaired", "passages")
