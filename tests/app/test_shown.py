"""An answer and its story on the terminal."""

import pytest
from fixtures.command_line import printed
from fixtures.decided import DECIDED
from fixtures.run_files import make_passage

from keqa.cli.story import cost_line, follow, record_tree, shown_answer
from keqa.programs.prediction import Answered, QuizAnswered, QuizFound, Searching
from keqa.programs.records import (
    CallCost,
    ClusterRecord,
    Cost,
    Degradation,
    EvidenceSentence,
    Failure,
    QuestionRecord,
    QuizRecord,
    SampleRecord,
    Weighed,
)

LONG = "Carmouth has a mayor. " + "It rains there, as everybody knows. " * 20


def story(quiz, width=120, **further):
    asked = {"question": "Why?", "answer": "x", "answer_source": "passages", **further}
    return printed(record_tree(QuestionRecord(quizzes=[quiz] if quiz else [], **asked)), width)


def passage(name, title, text, **more):
    return make_passage(name, text, title=title, **more)


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
        passage("p/1", "Heidi Fenman [mayor]", "Her spouse is Flora Isvik."),
        passage("p/2", "", "The harbour \x1b[2J of Carmouth.", kept=False, verdict="failed", why="the judge failed"),
    ],
    answer="Flora Isvik",
    source="passages",
)
TIMEOUT = Degradation(
    stage="judge_utility", quiz=2, cause="LMTimeoutError", message="no reply in 5 s", action="left the passage out"
)
TASK = CallCost(calls=6, samples=6, prompt_tokens=1200, completion_tokens=80, seconds=1.0)
COST = Cost(
    by_role={"task": TASK, "utility": CallCost(calls=2, cached=1, samples=3, failed=1)}, retrievals=1, seconds=1.25
)


def test_the_whole_record():
    asked = "To whom is the mayor of Carmouth married?"
    record = QuestionRecord(question=asked, quizzes=[KNOWN, UNKNOWN], degradations=[TIMEOUT], answer="x", cost=COST)
    assert printed(record_tree(record), 160) == (
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


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({}, "0 LM calls"),
        ({"calls": 1, "samples": 4}, "4 LM calls in 1 request (task 1)"),
        ({"cached": 27, "samples": 27}, "27 LM calls, all answered from the cache"),
        ({"cached": 2, "samples": 5}, "5 LM calls, all answered from the cache"),
    ],
)
def test_what_a_question_cost(task, said):
    assert cost_line(Cost(by_role={"task": CallCost(**task)})) == f"{said}, 0 retrievals, 0.0 s"


EARLY = KNOWN.model_copy(update={"complete": False, "samples": KNOWN.samples[:4]})


@pytest.mark.parametrize(
    ("quiz", "said"),
    [
        (EARLY, "asked 4 times of 5, which settled it: “Heidi Fenman” ×4\n"),
        (QuizRecord(index=1, text="Why?", source="failed"), "no answer (failed)"),
        *((quiz, f"├── {said}") for quiz, said in DECIDED),
    ],
)
def test_how_a_quiz_was_decided(quiz, said):
    assert said in story(quiz)


def test_the_fallback_an_empty_search_and_a_long_question_are_shown():
    fallback = QuizRecord(index=0, text="Why?", retrieved=True, answer="Because", source="closed_book")
    text = story(None, fallback=fallback, answer_source="fallback")
    for part in ("The question itself: Why?", "searched: nothing found", "closed book: nothing retrieved helped"):
        assert part in text
    text = story(None, question="x" * 100_000)
    assert (len(text) < 4000, "100,000 characters" in text) == (True, True)


JUDGED = {"gate": "chooser", "certainty": 0.4, "stopped": "right with 0.40, and a reading is worth 0.70"}


def test_by_what_a_question_was_settled_is_told_with_how_probably_each_answer_is_right():
    one = {"samples": [SampleRecord(text="Anna", cluster=0)], "clusters": UNKNOWN.clusters[:1], "tries": 1}
    asked = {"index": 0, "text": "Why?", "resolved": "Why?", "complete": True}
    whole = UNKNOWN.model_copy(update={**asked, **one, **JUDGED})
    chances = {"draft": 0.3, "reading": 0.5, "quizzes": 0.8}
    apart = story(KNOWN, settled_by="quizzes", chances=chances, whole=whole)
    assert [line.strip("│├─└ ") for line in apart.splitlines() if "passage" not in line][1:5] == [
        "settled by: its quizzes (probably right: draft 0.30, reading 0.50, quizzes 0.80)",
        "The question itself: Why?",
        "asked 1 time: “Anna” ×1",
        "right with 0.40, and a reading is worth 0.70: unknown, so search",
    ]
    assert "Quiz 1: Who governs Carmouth?" in apart
    assert "settled by: memory alone\n├── The question itself: Who governs" in story(KNOWN, settled_by="draft")
    assert "settled by" not in story(KNOWN, settled_by="quizzes")


def test_what_an_arbiter_kept_is_told():
    found = Weighed(memory="Anna", evidence="Flora", memory_right=0.7, evidence_right=0.2, kept="memory over evidence")
    other = found.model_copy(update={"kept": "evidence over memory", "evidence_right": 0.9})
    lines = [story(UNKNOWN.model_copy(update={"weighed": one})) for one in (found, other)]
    assert "memory over evidence: “Anna” (0.70) is more probably right than “Flora” (0.20)" in lines[0]
    assert "evidence over memory: “Flora” (0.90) is more probably right than “Anna” (0.70)" in lines[1]


def test_failures_met_alike_take_one_line_and_long_messages_are_cut():
    failed = [
        Degradation(stage="judge_utility", quiz=1, cause="AdapterParseError", message=f"{i} " * 200, action="left out")
        for i in range(10)
    ]
    (line,) = [line for line in story(None, 300, degradations=failed).splitlines() if "judge utility" in line]
    assert "judge utility, quiz 1, 10 times: 0 0 0" in line
    assert line.endswith("… (AdapterParseError) → left out")
    assert len(line) < 260


def test_evidence_is_highlighted_in_its_passage_and_says_what_selected_it():
    triple, sentence = "Carmouth | mayor | Ann Berg", "Its mayor is Ann Berg."
    quiz = QuizRecord(
        index=1,
        text="Who governs Carmouth?",
        retrieved=True,
        passages=[passage("p1", "Carmouth", f"It is old. {sentence}")],
        evidence=[sentence],
        selected=[EvidenceSentence(text=sentence, passage_id="p1", nearest_to=triple, distance=0.825)],
        triples=[triple],
        answer="Ann Berg",
        source="passages",
    )
    record = QuestionRecord(question=quiz.text, method="ks-llm", quizzes=[quiz], answer="Ann Berg")
    lines = printed(record_tree(record), force_terminal=True, color_system="standard").splitlines()
    (in_passage,) = [line for line in lines if "It is old." in line]
    assert f"\x1b[1;2;36m{sentence}\x1b[0m" in in_passage
    text = printed(record_tree(record))
    assert f"{sentence} (distance 0.82 from {triple})" in text
    assert triple in text.partition("triples")[2].splitlines()[1]


def test_the_answer_stands_first_then_its_sources_then_the_story():
    first, second = "The mayor of Carmouth is Ann Lee.", "The mayor of Carmouth is Bo Kim."
    place = {"file": "a.pdf", "page": 3, "heading": "Town\x1b[2J", "date": "2024-05-31"}
    passages = [
        passage("a.pdf#1", "Report", LONG, **place, sentences=[first]),
        passage("b.pdf#1", "Report", second, file="b.pdf", page=1, sentences=[second]),
    ]
    quiz = QuizRecord(index=1, text="Who is it?", answer="Ann Lee", source="passages", passages=passages)
    record = QuestionRecord(
        question="Who is it?", quizzes=[quiz], answer="Ann Lee", answer_source="summary", explanation="It is said."
    )
    head, _, below = printed(shown_answer(record), 240).partition("\n\n")
    assert [line.rstrip() for line in head.splitlines()] == [
        "Answer: Ann Lee (summed up from the quizzes)",
        "Explanation: It is said.",
        "Sources:",
        "[1] Report (a.pdf, page 3, Town␛[2J), 2024-05-31 · quiz 1",
        f"    “{first}”",
        "[2] Report (b.pdf, page 1) · quiz 1",
        f"    “{second}”",
        f"Sources may disagree: Report (a.pdf, page 3, Town␛[2J), 2024-05-31 says “{first}” and Report (b.pdf, page 1) "
        f"says “{second}”",
    ]
    assert below.startswith("Who is it?\n├── Quiz 1: Who is it?")
    assert "✓ Report [b.pdf, page 1] (judged helpful)" in below
    assert "everybody knows" not in below
    whole = " ".join(printed(shown_answer(record, full=True)).replace("│", " ").split())
    assert whole.count("It rains there, as everybody knows.") == 40


def test_an_answer_keeps_its_lines():
    record = QuestionRecord(question="How?", answer="1. Moor\x1b[2J\n\t2. Press CONNECT", answer_source="passages")
    shown = printed(shown_answer(record)).partition("\n\n")[0]
    assert [line.rstrip() for line in shown.splitlines()] == [
        *("Answer:", "1. Moor␛[2J", "    2. Press CONNECT", "(from passages)")
    ]


def test_a_failure_and_what_is_withheld_are_called_no_answer():
    failure = Failure(stage="answer", cause="LMTimeoutError", message="no reply")
    shown = printed(shown_answer(QuestionRecord(question="Why?", failure=failure)))
    assert shown.startswith("No answer: answer failed (LMTimeoutError): no reply\n")
    withheld = {"answer": "I do not know", "answer_source": "withheld", "withheld": "Ann", "confidence": 0.4213}
    assert printed(shown_answer(QuestionRecord(question="Who?", **withheld))).splitlines()[:3] == [
        "Answer: I do not know (withheld: its own answer is too probably wrong for the risk)",
        "Withheld: Ann",
        "Confidence: 0.42",
    ]


def test_each_quiz_is_shown_as_it_settles():
    updates = []
    events = [
        QuizFound(1, "Who is it?"),
        Searching(1, "Who is it?"),
        QuizAnswered(1, "Who is it?", "Ann\x1b[2J", "passages"),
        QuizAnswered(0, "Why?", None, "failed", provisional=True),
        QuizAnswered(2, "Where?", "Oslo", "memory", provisional=True),
        Answered("the prediction"),
    ]
    assert follow(events, lambda text: updates.append(text.plain)) == "the prediction"
    first = "asking…\nQuiz 1: Who is it? → Ann␛[2J (from the passages kept)"
    second = f"{first}\nThe question itself: Why? → no answer (failed)"
    assert updates == [
        "Quiz 1: Who is it?",
        "Searching: Who is it?",
        first,
        second,
        f"{second}\nQuiz 2: Where? → Oslo (from memory; provisional)",
    ]
