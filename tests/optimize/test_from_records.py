"""What becomes a demonstration of which predictor."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from fixtures.marton import MARTON
from hypothesis import given
from hypothesis import strategies as st

from keqa.metrics.answers import f1
from keqa.optimize.asking import Trace
from keqa.optimize.demos import Candidate, choose, complete, from_records
from keqa.programs.keqa import KEQA
from keqa.programs.records import ClusterRecord, PassageVerdict, QuestionRecord, QuizRecord, SampleRecord
from keqa.signatures import AnswerWithKnowledge, Summarize

PASSAGES = [
    PassageVerdict(passage_id="1", title="Torman", text="Born 1926.", score=2, verdict="helpful", kept=True, why=""),
    PassageVerdict(passage_id="2", title="", text="No.", score=1, verdict="not helpful", kept=False, why=""),
]


def examined(*texts: str) -> dict:
    """The samples of a quiz, each text a cluster of its own unless it is there already."""
    kinds = list(dict.fromkeys(texts))
    members = [[place for place, text in enumerate(texts) if text == kind] for kind in kinds]
    return {
        "tries": len(texts),
        "samples": [SampleRecord(text=text, cluster=kinds.index(text)) for text in texts],
        "clusters": [ClusterRecord(answer=k, size=len(m), members=m) for k, m in zip(kinds, members, strict=True)],
    }


def trace(final: str = "1926", score: float = 0.5, **quiz) -> Trace:
    second = {
        "index": 2,
        "text": "When was #1 born?",
        "resolved": "When was Torman born?",
        "depends_on": [1],
        "answer": "1926",
        "source": "passages",
        "passages": PASSAGES,
        **examined("1920", "1920", "1915"),
    } | quiz
    record = QuestionRecord(
        question=MARTON.question,
        quizzes=[
            QuizRecord(
                index=1,
                text="Who governs Marton?",
                resolved="Who governs Marton?",
                answer="Torman",
                source="memory",
                **examined("Torman", "Robert Torman", "Ada Elquist"),
            ),
            QuizRecord(**second),
        ],
        explanation="It follows.",
        answer=final,
        answer_source="summary",
    )
    return Trace(MARTON, record, None, score)


def found(*traces: Trace, program: KEQA | None = None, closed_book=lambda trace, one: 0.0, threshold=0.5):
    program = program or KEQA(None)
    pools = from_records(program, traces, metric=f1, threshold=threshold, closed_book=closed_book)
    return {name: [dict(one.demo) for one in pool] for name, pool in pools.items()}


def test_what_came_out_right_is_written_in_the_gold_form():
    pools = found(trace())
    assert pools["decomposition.decompose"] == [
        {"question": MARTON.question, "quizzes": ["Who governs Marton?", "When was #1 born?"]}
    ]
    (summary,) = pools["summarizing.summarize"]
    assert list(summary) == list(Summarize.fields)
    assert summary["answer"] == "1 September 1926"
    assert summary["answered_quizzes"] == ["Who governs Marton? Torman", "When was Torman born? 1926"]
    assert pools["examination.quiz"] == [
        {"quiz": "Who governs Marton?", "answer_type": "short", "choices": [], "answer": "Robert Torman"}
    ]
    (answer,) = pools["answering.answer"]
    assert list(answer) == list(AnswerWithKnowledge.fields)
    assert answer["passages"] == ["Torman: Born 1926."]
    assert (answer["question"], answer["answer"], answer["evidence"]) == (
        "When was Torman born?",
        "1 September 1926",
        [],
    )
    assert "picking.judge" not in pools


def test_a_final_answer_that_is_wrong_teaches_neither_decomposition_nor_summary():
    wrong = found(trace("2 September 1926", 0.67))
    assert wrong["summarizing.summarize"] == []
    # The gold decomposition stands in where the program's own never came out right.
    assert wrong["decomposition.decompose"] == [{"question": MARTON.question, "quizzes": list(MARTON.quizzes)}]
    assert found(trace("1926", 0.5), threshold=0.8)["summarizing.summarize"] == []


def test_an_answer_from_passages_must_be_better_than_the_closed_book_one():
    assert found(trace(**examined("1926", "1926")))["answering.answer"] == []
    assert found(trace(source="memory"))["answering.answer"] == []
    assert found(trace(answer="1930"))["answering.answer"] == []


def test_where_the_passages_tell_the_gold_answer_and_another_is_taken_the_gold_answer_is_shown():
    told = [PASSAGES[0].model_copy(update={"text": "Born on 1 September 1926."}), PASSAGES[1]]
    (shown,) = found(trace("1930", 0.0, answer="1930", passages=told))["answering.answer"]
    assert (shown["passages"], shown["answer"]) == (["Torman: Born on 1 September 1926."], "1 September 1926")
    titled = [PASSAGES[0].model_copy(update={"title": "1 September 1926"}), PASSAGES[1]]
    assert found(trace("1930", 0.0, answer="1930", passages=titled))["answering.answer"] == []
    # One that was not kept was not there to be read.
    dropped = [told[0].model_copy(update={"kept": False}), PASSAGES[1]]
    assert found(trace("1930", 0.0, answer="1930", passages=dropped))["answering.answer"] == []


def test_the_summary_of_a_choice_gives_the_option():
    choices = ["1 September 1926", "2 September 1926"]
    one = trace("A", 1.0)
    record = one.record.model_copy(update={"answer_type": "choice", "choices": choices})
    example = replace(MARTON, answer_type="choice", choices=tuple(choices), answers=("Fall of 1926", choices[0]))
    (summary,) = found(replace(one, example=example, record=record))["summarizing.summarize"]
    assert (summary["answer"], summary["answer_type"], summary["choices"]) == (choices[0], "choice", choices)


def test_a_right_answer_from_wrong_ones_teaches_no_summary():
    pools = found(trace(answer="1930"))
    assert pools["summarizing.summarize"] == []
    assert len(pools["decomposition.decompose"]) == 1


def test_without_an_examination_the_closed_book_answer_is_asked_for():
    unexamined = {"tries": 0, "samples": [], "clusters": []}
    assert len(found(trace(**unexamined))["answering.answer"]) == 1
    assert found(trace(**unexamined), closed_book=lambda trace, one: 1.0)["answering.answer"] == []


def test_consistency_labels_follow_rule_9():
    pairs = found(trace())["examination.same"]
    shown = [(demo["first_answer"], demo["second_answer"], demo["same"]) for demo in pairs]
    # Both right are the same, one right differs; of the second quiz both are wrong, and the pair is dropped.
    assert shown == [("Robert Torman", "Torman", True), ("Ada Elquist", "Torman", False)]


def test_the_gold_answer_stands_in_where_a_verdict_has_no_pair():
    pairs = found(trace(**examined("1926", "1926")))["examination.same"]
    assert ("Robert Torman", "Torman", True) in [(d["first_answer"], d["second_answer"], d["same"]) for d in pairs]


def test_parts_that_are_off_learn_nothing():
    pools = found(trace(), program=KEQA(None, decompose=False, examine=False))
    assert set(pools) == {"answering.answer"}
    assert "selection.construct" in found(trace(), program=KEQA(None, select=True))
    shown = found(trace(evidence=["Born 1926."], triples=["x | y | ?"]), program=KEQA(None, select="instead"))
    assert shown["answering.answer"][0]["passages"] == []
    assert shown["selection.construct"] == [{"question": "When was Torman born?", "triples": ["x | y | ?"]}]


def test_a_demonstration_has_every_field():
    assert complete(AnswerWithKnowledge, {"passages": [], "question": "q", "answer": "a"})["choices"] == []
    with pytest.raises(KeyError, match="'answer'"):
        complete(AnswerWithKnowledge, {"passages": [], "question": "q"})


def pool(kinds: str) -> list[Candidate]:
    return [Candidate({"n": number}, kind, f"root{number // 2}") for number, kind in enumerate(kinds)]


def test_kinds_are_mixed_and_so_are_questions():
    chosen = choose(pool("aaaaaaab"), 4, random.Random(0))
    assert {one.kind for one in chosen} == {"a", "b"}
    assert len({one.root for one in chosen}) == 4


def test_a_judge_is_shown_both_verdicts_equally_often_or_none():
    chosen = choose(pool("TTTTTF"), 8, random.Random(0), balanced=True)
    assert sorted(one.kind for one in chosen) == ["F", "T"]
    assert choose(pool("TTTT"), 8, random.Random(0), balanced=True) == []


def test_what_is_too_long_for_a_prompt_is_left_out():
    long = Candidate({"text": "x" * 10_000}, "a", "r")
    assert choose([long], 2, random.Random(0)) == []


@given(st.text("abc", max_size=12), st.integers(0, 8), st.integers())
def test_a_draw_is_a_seeded_part_of_the_pool(kinds, count, seed):
    chosen = choose(pool(kinds), count, random.Random(seed))
    assert len(chosen) == min(count, len(kinds))
    assert len({one.demo["n"] for one in chosen}) == len(chosen)
    assert chosen == choose(pool(kinds), count, random.Random(seed))
