"""Rowen: what is compared with what, when it repairs, and what a failure leads to."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from keqa.programs import UnansweredError
from keqa.programs.baselines import rowen
from keqa.programs.records import QuestionRecord

Rowen = partial(rowen.Rowen, reason=False)


class Model:
    """Rephrases by number and answers what it is told to, by question."""

    def __init__(self, answers: dict[str, str], *, wordings: int = 3, same: tuple[str, ...] = ()) -> None:
        self.answers, self.wordings, self.same, self.drawn = answers, wordings, same, 0

    def __call__(self, name: str, inputs: dict[str, str], config: Any) -> dict[str, Any] | str:
        if name == "RephraseQuestion":
            self.drawn += 1
            return {"rephrased": f"Who, put {self.drawn % self.wordings}?"}
        if name == "TranslateQuestion":
            return {"translated": f"{inputs['language']}: {inputs['question']}"}
        if name == "AnswerQuestion":
            answer = self.answers.get(inputs["question"], self.answers["*"])
            return "garbage" if answer == "garbage" else {"answer": answer}
        if name == "JudgeConsistency":
            return {"same": inputs["second_answer"] in self.same}
        assert name == "AnswerWithKnowledge"
        return {"answer": "Repaired"}


def asked(scripted, program, model) -> tuple[QuestionRecord, Any]:
    lm, engine = scripted(model)
    program.set_lm(lm)
    return program(question="Who?").record, engine


def test_answers_that_agree_stand(scripted, retriever):
    record, engine = asked(scripted, Rowen(retriever("text"), language=None), Model({"*": "Ann"}))
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("Ann", "memory", 0)
    assert (record.quizzes[0].consistency_exact, record.quizzes[0].known) == ("1/1", True)
    # Six draws of three wordings; equal answers need no judge.
    assert engine.count == {"AnswerQuestion": 4, "RephraseQuestion": 6}


@pytest.mark.parametrize(("least", "answer"), [("1/3", "Ann"), ("0.5", "Repaired")])
def test_below_the_threshold_the_answer_is_repaired(scripted, retriever, least, answer):
    model = Model({"*": "Bo", "Who?": "Ann", "Who, put 1?": "Ann"})
    record, engine = asked(scripted, Rowen(retriever("one", "two"), language=None, min_consistency=least), model)
    quiz = record.quizzes[0]
    assert (record.answer, quiz.consistency_exact, quiz.known) == (answer, "1/3", answer == "Ann")
    if answer == "Repaired":
        assert (record.answer_source, record.cost.retrievals) == ("passages", 4)
        assert [verdict.kept for verdict in quiz.passages] == [True, True]
    assert [call["second_answer"] for call in engine.asked("JudgeConsistency")] == ["Bo", "Bo"]


def test_the_judge_can_tell_that_other_words_mean_the_same(scripted, retriever):
    model = Model({"*": "Miss Ann", "Who?": "Ann"}, same=("Miss Ann",))
    assert asked(scripted, Rowen(retriever("text")), model)[0].answer == "Ann"


def test_by_default_each_wording_is_compared_with_its_translation_into_chinese(scripted, retriever):
    model = Model({"*": "Ann", "Chinese: Who, put 0?": "安", "Chinese: Who, put 1?": "博"}, same=("安",))
    program = Rowen(retriever("text"), min_consistency="0.7")
    record, engine = asked(scripted, program, model)
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


def test_both_checks_are_weighted(scripted, retriever):
    model = Model({"*": "Ann", "German: Who, put 0?": "Bo", "German: Who, put 1?": "Bo", "German: Who, put 2?": "Bo"})
    program = Rowen(retriever("text"), language="German", cross_model=True, cross_model_weight="0.5")
    record, _ = asked(scripted, program, model)
    # Languages disagree at weight 1, models agree at weight 1/2.
    assert (record.quizzes[0].consistency_exact, record.quizzes[0].known) == ("1/3", False)


def test_an_answer_that_is_not_known_is_repaired_without_a_check(scripted, retriever):
    record, engine = asked(scripted, Rowen(retriever("text"), language=None), Model({"*": "unknown"}))
    assert (record.answer, engine.count) == ("Repaired", {"AnswerQuestion": 1, "AnswerWithKnowledge": 1})


def test_an_option_of_a_choice_is_checked_whatever_it_says(scripted, retriever):
    lm, engine = scripted(Model({"*": "Unknown"}))
    program = Rowen(retriever("text"), language=None)
    program.set_lm(lm)
    record = program(question="Who?", answer_type="choice", choices=["Unknown", "Ann"]).record
    assert (record.answer, record.answer_source, engine.count["RephraseQuestion"]) == ("Unknown", "memory", 6)


def test_two_that_do_not_know_do_not_agree(scripted, retriever):
    record, engine = asked(scripted, Rowen(retriever("text"), language=None), Model({"*": "unknown", "Who?": "Ann"}))
    assert (record.answer, record.quizzes[0].consistency, engine.count["JudgeConsistency"]) == ("Repaired", 0.0, 0)


def test_without_another_wording_the_answer_counts_as_inconsistent(scripted, retriever):
    def same_words(name: str, inputs: dict[str, str], config: Any) -> Any:
        return {"rephrased": "Who?"} if name == "RephraseQuestion" else Model({"*": "Ann"})(name, inputs, config)

    record, _ = asked(scripted, Rowen(retriever("text"), language=None), same_words)
    assert (record.answer, record.degradations[0].cause) == ("Repaired", "NoRephrasing")


def test_wordings_are_drawn_apart_and_the_same_way_again(scripted, retriever):
    drawn = []

    def reply(name: str, inputs: dict[str, str], config: Any) -> Any:
        if name == "RephraseQuestion":
            drawn.append((config.temperature, config.seed))
        return Model({"*": "Ann"})(name, inputs, config)

    program = Rowen(retriever("text"), language=None, rephrasings=3)
    asked(scripted, program, reply)
    first = sorted(drawn)
    drawn.clear()
    asked(scripted, program, reply)
    assert sorted(drawn) == first
    assert len(set(first)) == 3
    assert {temperature for temperature, _ in first} == {1.0}


def test_failures_lead_to_retrieval_and_not_back(scripted, retriever):
    record, _ = asked(scripted, Rowen(retriever("text"), language=None), Model({"*": "garbage"}))
    told = [d.action for d in record.degradations]
    assert (record.answer, told) == ("Repaired", ["asked again"] * 4 + ["went on to retrieve"])
    record, _ = asked(scripted, Rowen(retriever("text"), language=None), Model({"*": "garbage", "Who?": "Ann"}))
    touching = {d.action for d in record.degradations if d.touches}
    assert (record.answer, touching) == ("Repaired", {"taken for different answers"})
    record, _ = asked(scripted, Rowen(retriever(found={}), language=None), Model({"*": "Bo", "Who?": "Ann"}))
    assert (record.answer, record.answer_source) == ("Ann", "closed_book")

    def unreadable(name: str, inputs: dict[str, str], config: Any) -> Any:
        return "garbage" if name == "AnswerWithKnowledge" else Model({"*": "Bo", "Who?": "Ann"})(name, inputs, config)

    with pytest.raises(UnansweredError, match="answer failed"):
        asked(scripted, Rowen(retriever("text"), language=None), unreadable)


def test_repairing_searches_with_the_question_and_its_other_wordings(scripted, retriever):
    searched = retriever(
        "a",
        "b",
        "c",
        "d",
        found={"Who?": [0, 1], "Who, put 0?": [1, 2], "Who, put 1?": [2, 0], "Who, put 2?": [3]},
    )
    record, _ = asked(scripted, Rowen(searched, language=None, top_k=3), Model({"*": "Bo", "Who?": "Ann"}))
    assert sorted(searched.queries) == ["Who, put 0?", "Who, put 1?", "Who, put 2?", "Who?"]
    assert record.cost.retrievals == 4
    # The best of each search come first, each passage once, and no more than top_k.
    texts = [verdict.text for verdict in record.quizzes[0].passages]
    assert texts[0] == "a"
    assert sorted(texts) in (["a", "b", "c"], ["a", "b", "d"], ["a", "c", "d"])
    assert (record.answer, record.answer_source) == ("Repaired", "passages")


def test_by_default_it_reasons(scripted, retriever):
    def reply(name: str, inputs: dict[str, str], config: Any) -> Any:
        if name in ("ReasonFromMemory", "ReasonWithKnowledge"):
            return {"reasoning": "because", "answer": "Ann" if name == "ReasonWithKnowledge" else inputs["question"]}
        return Model({})(name, inputs, config)

    record, engine = asked(scripted, rowen.Rowen(retriever("text"), language=None), reply)
    assert (record.answer, record.explanation) == ("Ann", "because")
    assert {"ReasonFromMemory", "ReasonWithKnowledge"} < set(engine.count)
