"""What becomes a demonstration of which predictor."""

from __future__ import annotations

from fixtures.marton import MARTON

from keqa.metrics.answers import f1
from keqa.optimize.asking import Trace
from keqa.optimize.demos import from_records
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
    return Trace(MARTON, record, score)


def found(*traces: Trace, program: KEQA | None = None, closed_book=lambda one: 0.0, threshold=0.5):
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


def test_a_right_answer_from_wrong_ones_teaches_no_summary():
    pools = found(trace(answer="1930"))
    assert pools["summarizing.summarize"] == []
    assert len(pools["decomposition.decompose"]) == 1


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
