"""What the page shows where the documents do not say it, and of a guess."""

from __future__ import annotations

import pytest
from fixtures.findings import EACH, GUESS, GUESSED, found

__all__ = ["found"]

pytestmark = pytest.mark.server

ASKED = "What does the mayor of Carmouth earn?"
KINDS = {
    "nothing found": "Nothing was found",
    "nothing supports an answer": "Nothing that was read carries an answer",
    "sources contradict each other": "The sources contradict each other",
}


@EACH
def test_the_page_shows_it_calmly_and_the_guess_on_demand(serve, server, found, record, open_page):
    found(record)
    page = open_page(serve(server).url + "/")
    page.get_by_role("textbox", name="Question").fill(ASKED)
    page.get_by_role("button", name="Ask", exact=True).click()
    card = page.locator(".card.finding")
    assert card.locator(".answer-text").inner_text() == record.answer
    assert page.locator("#state").inner_text() == record.answer
    for part in (KINDS[record.unanswered.kind], "What is known", "Town hall"):
        assert part in card.inner_text()
    missing = record.unanswered.missing[0]
    assert card.locator(".missing li").all_inner_texts() == [*missing.answers, *missing.read]
    assert card.locator(".bad, .good .answer-text").count() == 0
    guess = page.get_by_text(GUESS)
    assert not guess.is_visible()
    page.get_by_text("What it would have guessed").click()
    assert guess.is_visible()


def test_a_guess_is_marked(serve, server, found, open_page):
    found(GUESSED)
    page = open_page(serve(server).url + "/")
    page.get_by_role("textbox", name="Question").fill(ASKED)
    page.get_by_role("button", name="Ask", exact=True).click()
    assert page.locator(".answer-text").inner_text() == f"{GUESS} (a guess)"
    assert page.locator("#state").inner_text() == f"Answer: {GUESS} (a guess)"
