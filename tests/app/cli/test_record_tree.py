from io import StringIO

import pytest
from rich.console import Console, RenderableType

from keqa.cli.story import cost_line, record_tree, shown_answer
from keqa.programs.records import (
    CallCost,
    ClusterRecord,
    Cost,
    Degradation,
    EvidenceSentence,
    Failure,
    PassageVerdict,
    QuestionRecord,
    QuizRecord,
    SampleRecord,
)


def printed(renderable: RenderableType, width: int = 120) -> str:
    console = Console(file=StringIO(), width=width, highlight=False)
    console.print(renderable)
    return console.file.getvalue()


def shown(record: QuestionRecord, width: int = 120) -> str:
    return printed(record_tree(record), width)


def passage(identifier: str, title: str, text: str, verdict: str, why: str) -> PassageVerdict:
    return PassageVerdict(
        passage_id=identifier, title=title, text=text, score=3.0, verdict=verdict, kept=verdict == "helpful", why=why
    )


KNOWN = QuizRecord(
    index=1,
    text="Who governs Carmouth?",
    resolved="Who governs Carmouth?",
    samples=[SampleRecord(text="Heidi Fenman", cluster=0)] * 4 + [SampleRecord(text="unknown", abstained=True)],
    clusters=[ClusterRecord(answer="Heidi Fenman", size=4, members=[0, 1, 2, 3])],
    tries=5,
    consistency=0.8,
    consistency_exact="4/5",
    threshold=0.8,
    threshold_exact="4/5",
    known=True,
    answer="Heidi Fenman",
    source="memory",
)
UNKNOWN = QuizRecord(
    index=2,
    text="To whom is #1 married?",
    resolved="To whom is Heidi Fenman married?",
    depends_on=[1],
    samples=[SampleRecord(text="Anna"), SampleRecord(text="Bertha", cluster=1), SampleRecord(error="LMTimeoutError")],
    clusters=[ClusterRecord(answer="Anna", size=1, members=[0]), ClusterRecord(answer="Bertha", size=1, members=[1])],
    tries=5,
    complete=False,
    consistency=0.2,
    consistency_exact="1/5",
    threshold=0.8,
    threshold_exact="4/5",
    known=False,
    retrieved=True,
    passages=[
        passage("p/1", "Heidi Fenman [mayor]", "Her spouse is Flora Isvik.", "helpful", "judged helpful"),
        passage("p/2", "", "The harbour \x1b[2J of Carmouth.", "failed", "the judge failed"),
    ],
    answer="Flora Isvik",
    source="passages",
)
TIMEOUT = Degradation(
    stage="judge_utility", quiz=2, cause="LMTimeoutError", message="no reply in 5 s", action="left the passage out"
)
RECORD = QuestionRecord(
    question="To whom is the mayor of Carmouth married?",
    quizzes=[KNOWN, UNKNOWN],
    degradations=[TIMEOUT],
    explanation="The mayor of Carmouth is Heidi Fenman, and her spouse is Flora Isvik.",
    answer="Flora Isvik",
    answer_source="summary",
    cost=Cost(
        by_role={
            "task": CallCost(calls=6, prompt_tokens=1200, completion_tokens=80, seconds=1.0),
            "utility": CallCost(calls=2, cached=1, failed=1),
        },
        retrievals=1,
        seconds=1.25,
    ),
)


def test_tries_that_went_out_together_are_lm_calls_each():
    cost = Cost(by_role={"task": CallCost(calls=1, samples=4), "utility": CallCost(calls=1)}, seconds=1.0)
    assert cost_line(cost) == "5 LM calls in 2 requests (task 1, utility 1), 0 retrievals, 1.0 s"


@pytest.mark.parametrize(("cached", "samples", "said"), [(27, 27, "27 LM calls"), (2, 5, "5 LM calls")])
def test_of_a_question_that_was_asked_before_the_calls_are_named_and_that_none_was_made(cached, samples, said):
    cost = Cost(by_role={"task": CallCost(calls=0, cached=cached, samples=samples)}, seconds=0.2)
    assert cost_line(cost) == f"{said}, all answered from the cache, 0 retrievals, 0.2 s"


def test_the_whole_record():
    assert shown(RECORD, width=160) == (
        "To whom is the mayor of Carmouth married?\n"
        "├── Quiz 1: Who governs Carmouth?\n"
        "│   ├── asked 5 times: “Heidi Fenman” ×4, does not know ×1\n"
        "│   ├── consistency 4/5 ≥ 4/5: known\n"
        "│   └── answer: Heidi Fenman (from memory)\n"
        "├── Quiz 2: To whom is #1 married? → To whom is Heidi Fenman married?\n"
        "│   ├── asked 3 times of 5, which settled it: “Anna” ×1, “Bertha” ×1, failed ×1\n"
        "│   ├── consistency 1/5 so far, 4/5 out of reach: unknown, so search\n"
        "│   ├── retrieved 2 passages, kept 1\n"
        "│   │   ├── ✓ Heidi Fenman [mayor] (judged helpful)\n"
        "│   │   │   └── Her spouse is Flora Isvik.\n"
        "│   │   └── ✗ p/2 (the judge failed)\n"
        "│   │       └── The harbour ␛[2J of Carmouth.\n"
        "│   └── answer: Flora Isvik (from the passages kept)\n"
        "├── What went wrong, and what was done\n"
        "│   └── judge utility, quiz 2: no reply in 5 s (LMTimeoutError) → left the passage out\n"
        "└── Cost: 8 LM calls (task 6, utility 2), 1 more from the cache, 1 failed, 1,200 tokens read and 80 written, "
        "1 retrieval, 1.2 s\n"
    )


def test_a_failure_is_reported_and_nothing_is_called_an_answer():
    record = QuestionRecord(
        question="Why?",
        quizzes=[QuizRecord(index=1, text="Why?", source="failed")],
        failure=Failure(stage="answer", cause="LMTimeoutError", message="no reply"),
    )
    assert "no answer (failed)" in shown(record)
    assert printed(shown_answer(record)).startswith("No answer: answer failed (LMTimeoutError): no reply\n")


def test_the_fallback_and_an_empty_search_are_shown():
    fallback = QuizRecord(index=0, text="Why?", retrieved=True, answer="Because", source="closed_book")
    text = shown(QuestionRecord(question="Why?", fallback=fallback, answer="Because", answer_source="fallback"))
    assert "The question itself: Why?" in text
    assert "searched: nothing found" in text
    assert "answer: Because (closed book: nothing retrieved helped)" in text


def test_a_long_question_is_cut_in_the_tree():
    text = shown(QuestionRecord(question="x" * 100_000, answer="y", answer_source="memory"))
    assert len(text) < 4000
    assert "100,000 characters" in text


def test_cost_of_nothing():
    assert cost_line(Cost()) == "0 LM calls, 0 retrievals, 0.0 s"


def test_a_verdict_reached_early_is_reported_as_such():
    early = KNOWN.model_copy(update={"complete": False, "samples": KNOWN.samples[:4]})
    text = shown(QuestionRecord(question="Why?", quizzes=[early], answer="Heidi Fenman", answer_source="memory"))
    assert "asked 4 times of 5, which settled it: “Heidi Fenman” ×4\n" in text
    assert "consistency already 4/5 ≥ 4/5: known" in text


def test_a_gate_of_another_measure_is_shown_with_its_own():
    other = UNKNOWN.model_copy(update={"consistency_exact": None, "threshold_exact": None, "certainty": 0.256})
    text = shown(QuestionRecord(question="Why?", quizzes=[other], answer="x", answer_source="passages"))
    assert "certainty 0.26: unknown, so search" in text


def test_what_a_boundary_model_decided_by_is_shown_instead_of_the_consistency():
    quiz = UNKNOWN.model_copy(
        update={"certainty": 0.31, "stopped": "one draft decides: mastery 0.31 is below 4/5", "known": False}
    )
    text = shown(QuestionRecord(question="Why?", quizzes=[quiz], answer="Because"))
    assert "one draft decides: mastery 0.31 is below 4/5: unknown, so search" in text
    assert "out of reach" not in text


def test_failures_met_alike_take_one_line_and_long_messages_are_cut():
    failed = [
        Degradation(stage="judge_utility", quiz=1, cause="AdapterParseError", message=f"{i} " * 200, action="left out")
        for i in range(10)
    ]
    record = QuestionRecord(question="Why?", degradations=failed, answer="x", answer_source="memory")
    (line,) = [line for line in shown(record, width=300).splitlines() if "judge utility" in line]
    assert "judge utility, quiz 1, 10 times: 0 0 0" in line
    assert line.endswith("… (AdapterParseError) → left out")
    assert len(line) < 260


def test_evidence_is_highlighted_in_its_passage_and_says_what_selected_it():
    triple = "Carmouth | mayor | Ann Berg"
    quiz = QuizRecord(
        index=1,
        text="Who governs Carmouth?",
        resolved="Who governs Carmouth?",
        retrieved=True,
        passages=[passage("p1", "Carmouth", "It is old. Its mayor is Ann Berg.", "helpful", "evidence")],
        evidence=["Its mayor is Ann Berg."],
        selected=[EvidenceSentence(text="Its mayor is Ann Berg.", passage_id="p1", nearest_to=triple, distance=0.825)],
        triples=[triple],
        answer="Ann Berg",
        source="passages",
    )
    record = QuestionRecord(question=quiz.text, method="ks-llm", quizzes=[quiz], answer="Ann Berg")
    console = Console(file=StringIO(), width=120, highlight=False, force_terminal=True, color_system="standard")
    console.print(record_tree(record))
    lines = console.file.getvalue().splitlines()
    (in_passage,) = [line for line in lines if "It is old." in line]
    assert "\x1b[1;2;36mIts mayor is Ann Berg.\x1b[0m" in in_passage
    assert "Its mayor is Ann Berg. (distance 0.82 from Carmouth | mayor | Ann Berg)" in shown(record)
    assert triple in shown(record).partition("triples")[2].splitlines()[1]
