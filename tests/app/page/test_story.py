"""A story as a file of its own, and every part of a record as the page shows it."""

import json

import pytest
from fixtures.decided import DECIDED
from fixtures.run_files import make_passage

from keqa.page import document, story_page
from keqa.programs.records import (
    CallCost,
    ClusterRecord,
    Cost,
    Degradation,
    Failure,
    QuestionRecord,
    QuizRecord,
    SampleRecord,
    Statement,
    Weighed,
    Written,
)

pytestmark = [pytest.mark.process, pytest.mark.slow]

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


def passage(name, text="One. Two is it. Three.", **more):
    return make_passage(name, text, title="Title", **more)


QUIZ = QuizRecord(
    index=1,
    text=f"Who? {EVIL}",
    samples=[
        SampleRecord(text=EVIL, cluster=0),
        SampleRecord(text="I do not know", abstained=True),
        SampleRecord(error="LMTimeoutError"),
    ],
    clusters=[ClusterRecord(answer=EVIL, size=1, members=[0])],
    tries=3,
    consistency=1 / 3,
    consistency_exact="1/3",
    threshold=0.8,
    threshold_exact="4/5",
    gate="votes",
    known=False,
    retrieved=True,
    passages=[passage("a"), passage("b", text=EVIL), passage("c", kept=False)],
    evidence=["Two is it."],
    answer=EVIL,
    source="passages",
)
RECORD = QuestionRecord(
    question=EVIL,
    quizzes=[QUIZ],
    degradations=[Degradation(stage="judge_utility", quiz=1, cause="X", message=EVIL, action="left it out")],
    explanation=EVIL,
    answer=EVIL,
    answer_source="summary",
    cost=Cost(by_role={"task": CallCost(calls=3, samples=3, prompt_tokens=1200)}, retrievals=1, seconds=1.25),
)


@pytest.fixture
def shown(tmp_path, open_page):
    def show(text: str):
        path = tmp_path / "story.html"
        path.write_text(text, encoding="utf-8")
        return open_page(path.as_uri())

    return show


def test_everything_is_there_and_all_of_it_is_text(shown):
    page = shown(story_page(RECORD))
    assert page.locator("h2").inner_text() == EVIL
    assert page.locator(".answer-text").inner_text() == EVIL
    assert page.locator("#main script, #main img").count() == 0
    quiz = page.get_by_role("region", name="Quiz 1").inner_text()
    for part in ("does not know", "failed", "consistency 1/3 < 4/5: unknown, so search", "✗ left out: Title"):
        assert part in quiz
    assert page.locator("mark").all_inner_texts() == ["Two is it."]
    assert "judge utility, quiz 1" in page.locator("#main").inner_text()
    assert "Cost: 3 LM calls, 1 retrieval, 1,200 tokens, 1.3 s" in page.locator(".cost summary").inner_text()


def test_by_what_a_question_was_settled_and_what_was_kept_over_what(shown):
    weighed = Weighed(memory="Ann", evidence=EVIL, memory_right=0.7, evidence_right=0.2, kept="memory over evidence")
    judged = {"gate": "chooser", "certainty": 0.4, "stopped": "right with 0.40, and a reading is worth 0.70"}
    chances = {"draft": 0.3, "reading": 0.5, "quizzes": 0.8}
    whole = QUIZ.model_copy(update={"index": 0, **judged})
    quizzes = [QUIZ.model_copy(update={"weighed": weighed})]
    told = {"quizzes": quizzes, "whole": whole, "settled_by": "quizzes", "chances": chances}
    page = shown(story_page(RECORD.model_copy(update=told)))
    said = "Settled by its quizzes (probably right: draft 0.30, reading 0.50, quizzes 0.80)"
    assert said in page.locator(".answer").inner_text()
    before = page.get_by_role("region", name="The question itself").inner_text()
    assert "right with 0.40, and a reading is worth 0.70: unknown, so search" in before
    kept = "memory over evidence: memory “Ann” (probably right: 0.70), evidence"
    assert kept in page.get_by_role("region", name="Quiz 1").inner_text()


def test_what_a_gate_compares_is_compared_and_no_sign_is_false(shown):
    quizzes = [quiz.model_copy(update={"index": number}) for number, (quiz, _) in enumerate(DECIDED, start=1)]
    page = shown(story_page(RECORD.model_copy(update={"quizzes": quizzes})))
    for quiz, (_, said) in zip(quizzes, DECIDED, strict=True):
        lines = page.get_by_role("region", name=f"Quiz {quiz.index}", exact=True).inner_text().splitlines()
        assert said + (f" (gate: {quiz.gate})" if quiz.gate else "") in lines


def test_sources_of_one_title_are_told_apart_and_open(shown):
    page = shown(story_page(RECORD))
    lines = page.locator(".answer li").all_inner_texts()
    assert lines == ["Title a (quiz 1)", "Title b (quiz 1)"]
    page.locator(".answer li button").nth(1).click()
    assert page.evaluate("document.activeElement.closest('.passage').querySelector('.text').textContent") == EVIL


def test_a_source_says_where_it_stands(shown):
    place = {"file": "deck.pptx", "page": 3, "heading": "Results", "date": "2024-05-31"}
    source = {"id": "a", "title": "Title", "text": "One. Two is it. Three.", "quizzes": [1]}
    told = {"record": json.loads(RECORD.model_dump_json())}
    for one in ({**source, **place}, {**source, "place": place}):
        page = shown(document("one", "KEQA", {**told, "sources": [{**one, "sentences": ["Three."]}]}).text)
        assert "Title deck.pptx, slide 3, Results, 2024-05-31" in page.locator(".answer li").inner_text()
        assert page.locator("mark").all_inner_texts() == ["Two is it.", "Three."]


def test_where_sources_disagree_and_what_is_withheld_is_said(shown):
    sentences = ["The mayor of Carmouth is Ann Lee.", "The mayor of Carmouth is Bo Kim."]
    first, second = (passage(name, text=text) for name, text in zip("ab", sentences, strict=True))
    passages = [first.model_copy(update={"sentences": sentences[:1]}), second]
    asked = "Who is the mayor of Carmouth?"
    quiz = QuizRecord(index=1, text=asked, passages=passages, answer="Ann Lee", source="passages")
    record = QuestionRecord(question=asked, quizzes=[quiz], answer="Ann Lee", answer_source="passages")
    line = shown(story_page(record)).locator(".answer .disagreement").inner_text()
    assert line == f"Sources may disagree: Title (a) says “{sentences[0]}” and Title (b) says “{sentences[1]}”"
    unsaid = {"answer": "I do not know", "answer_source": "withheld", "withheld": EVIL, "confidence": 0.25}
    answer = shown(story_page(record.model_copy(update=unsaid))).locator(".answer")
    assert answer.locator(".disagreement").count() == 0
    for part in ("too probably wrong for the risk", f"Withheld: {EVIL}", "Confidence: 0.25"):
        assert part in answer.inner_text()


def test_a_written_answer_cites_its_passages(shown):
    both = [passage("a"), passage("b", text=EVIL)]
    items = [Statement(text=f"{EVIL} [2]", citations=[2]), Statement(text="Bo", given=False, why="it cites no passage")]
    listed = Written(style="list", text=f"- {EVIL} [2]", statements=items, passages=both, looked_at=20, more=True)
    record = QuestionRecord(question="List all.", answer=EVIL, answer_source="passages", written=listed)
    page = shown(story_page(record))
    assert page.locator("ul.written li").all_inner_texts() == [f"{EVIL} [2]"]
    answer = page.locator(".answer").inner_text()
    assert "1 item in 20 passages looked at; there may be more" in answer
    assert "In short" not in answer
    assert "Left out, as no passage carries it, or it says nothing new (1)" in answer
    page.locator("ul.written button").click()
    assert page.evaluate("document.activeElement.closest('.passage').querySelector('.text').textContent") == EVIL
    table = listed.model_copy(update={"style": "table", "table": [["", EVIL, "B"], ["length", f"{EVIL} [1]", "-"]]})
    cells = (
        shown(story_page(record.model_copy(update={"written": table}))).locator("table.written td").all_inner_texts()
    )
    assert cells == ["length", f"{EVIL} [1]", "-"]
    # A report cites passages that carried none of its quizzes.
    passages = [passage("a"), passage("d"), passage("e", kept=False)]
    report = Written(style="report", text="**One** [1]. `Two` is it [2]. 2 * 3 ** 4", passages=passages)
    page = shown(story_page(RECORD.model_copy(update={"written": report})))
    assert page.locator("p.written").inner_text() == "One [1]. Two is it [2]. 2 * 3 ** 4"
    assert page.locator("p.written :is(strong, code)").all_inner_texts() == ["One", "Two"]
    page.locator("p.written button").nth(1).click()
    page.locator(".opened").get_by_role("button", name="Back to the answer").click()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Source 2"
    assert page.get_by_text("What the text cites besides:").locator("..").locator(".passage").count() == 1


def test_a_question_without_an_answer(shown):
    failure = Failure(stage="summarize", cause="LMTimeoutError", message=EVIL)
    page = shown(story_page(QuestionRecord(question="Who?", failure=failure)))
    assert "No answer: summarize failed (LMTimeoutError)" in page.locator(".answer").inner_text()


def test_passages_of_a_method_without_quizzes(shown):
    record = QuestionRecord(
        question="Who?", method="rag", passages=[passage("a")], answer="Ann", answer_source="passages"
    )
    page = shown(story_page(record))
    page.get_by_role("button", name="Title").click()
    assert page.locator(".passage.kept .text").is_visible()


@pytest.mark.server
def test_ask_writes_the_page(keqa_command, served, own_index, tmp_path, open_page):
    question = "To whom is the mayor of Carmouth married?"
    file = tmp_path / "story.html"
    keqa_command("ask", question, "--no-look-first", *served, "--index", own_index, "--html", file).fine()
    assert file.stat().st_size < 300_000
    assert open_page(file.as_uri()).locator(".answer-text").inner_text() == "Flora Isvik"
