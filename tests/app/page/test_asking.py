"""The page of a server, in a browser and as events."""

import re
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from fixtures.findings import EACH, GUESS, GUESSED, found
from fixtures.serving import MARKUP, QUESTION, TOKEN, asked, until
from servers.openai_server import OpenAIServer

from keqa.cli.serve import about_of
from keqa.conversations import Conversations
from keqa.programs.abstention import Abstention
from keqa.server.intake import Intake

__all__ = ["found"]

pytestmark = pytest.mark.server


def ask(page, text):
    page.get_by_role("textbox", name="Question").fill(text)
    page.get_by_role("button", name="Ask", exact=True).click()


def answered(page, turn=0):
    """Wait for the whole answer: while it streams, its beginning is there already, outside of a story."""
    page.locator(".story .answer-text").nth(turn).wait_for()


def test_the_events_of_a_question(serving):
    with serving.client as client:
        events = asked(client)
    kinds = [event["kind"] for event in events]
    assert kinds[:2] == ["QuizFound", "QuizFound"]
    assert kinds[-1] == "Answered"
    assert {"QuizExamined", "Searching", "PassagesKept", "QuizAnswered"} <= set(kinds)
    end = events[-1]
    assert end["record"]["answer"] == "Flora Isvik"
    assert [(source["id"], source["text"]) for source in end["sources"]] == [("1", MARKUP)]
    assert "Known: Who governs Carmouth? Heidi Fenman" in [event.get("said") for event in events]


def test_a_question_without_an_answer_ends_with_its_story(serve):
    with OpenAIServer(lambda messages, n, body: ["no form at all"] * n) as lm:
        serving = serve(lm)
        serving.answers._program.unanswered = "guess"
        with serving.client as client:
            *_, end = asked(client)
    assert end["kind"] == "Failed"
    assert "failed" in end["message"]
    assert end["record"]["answer"] is None


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 400), ({"question": " "}, 400), ({"question": "Who?", "history": [{"answer": "x"}]}, 400), ([], 400)],
)
def test_what_cannot_be_asked(serving, server, body, status):
    with serving.client as client:
        assert client.post("/ask", json=body).status_code == status
        assert client.post("/ask", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert server.count == 0


def test_the_page_is_open_and_questions_are_not(serve, server):
    serving = serve(server, token=TOKEN)
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    with serving.client as client:
        page = client.get("/")
        assert page.status_code == 200
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert client.get("/", headers=link).status_code == 200
        # A page of another site may lead to this one, and neither read it nor ask.
        assert client.get("/", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}).status_code == 403
        assert client.post("/ask", json={"question": QUESTION}, headers=link).status_code == 403
        assert client.get("/metrics", headers=link).status_code == 403
        assert client.post("/ask", json={"question": QUESTION}).status_code == 401
    assert server.count == 0


@pytest.mark.usefixtures("writing")
def test_how_it_is_answered_is_chosen_where_the_server_writes(serving, open_page):
    page = open_page(serving.url + "/")
    page.get_by_role("combobox", name="Kind of answer").select_option("a list")
    ask(page, QUESTION)
    assert page.locator(".story ul.written").inner_text() == "Flora Isvik [1]"


def test_asking_in_a_browser_and_a_source_opens_at_its_passage(serving, server, open_page):
    page = open_page(serving.url + "/")
    page.get_by_role("combobox", name="Kind of answer").select_option("choice")
    page.get_by_role("textbox", name="Choices, one a line").fill("Flora Isvik\nIda Holm")
    ask(page, QUESTION)
    answered(page)
    assert page.locator(".answer-text").inner_text() == "Flora Isvik"
    assert any("Ida Holm" in str(call.messages) for call in server.calls)
    quiz = page.get_by_role("region", name="Quiz 1")
    assert quiz.get_by_role("listitem").first.inner_text().split() == ["“Heidi", "Fenman”", "×4"]
    assert "known" in quiz.inner_text()
    # What a passage holds is text.
    assert page.locator(".passage.kept .text").inner_text() == MARKUP
    assert page.locator("#main script").count() == 0
    assert page.get_by_role("status").inner_text() == "Answer: Flora Isvik"
    passage = page.locator(".passage.kept")
    passage.locator("summary").click()
    assert not passage.locator(".text").is_visible()
    page.get_by_role("button", name="Heidi Fenman").focus()
    page.keyboard.press("Enter")
    assert passage.locator(".text").is_visible()
    assert passage.evaluate("one => one.contains(document.activeElement)")
    assert page.locator(".opened").count() == 1


def test_the_address_that_is_printed_has_the_token(serve, server, open_page):
    about = "Answers from my-index by openai/scripted"
    serving = serve(server, token=TOKEN, about=about)
    with serving.client as client:
        assert client.get("/about").status_code == 401
        assert about not in client.get("/").text
    page = open_page(f"{serving.url}/#token={TOKEN}")
    page.reload()
    ask(page, QUESTION)
    page.get_by_text("Flora Isvik").first.wait_for()
    # Another tab has none, and asks for it.
    other = open_page(f"{serving.url}/")
    ask(other, QUESTION)
    other.get_by_label("Token of this server").fill(TOKEN)
    other.get_by_role("button", name="Ask").click()
    other.get_by_text("Flora Isvik").first.wait_for()
    other.get_by_text(about).wait_for()
    assert TOKEN not in other.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")
    open_page(serve(server, about=about).url + "/").get_by_text(about).wait_for()


class Unsure:
    """Takes no answer for right."""

    def of(self, record):
        return 0.25


@pytest.fixture
def at_risk(serving):
    """A server that withholds every answer."""
    serving.answers._program.abstention = Abstention(Unsure(), 0.5, 0.1, 0.1, "")
    return serving


def test_the_page_marks_what_may_yet_be_withheld(at_risk, server, open_page):
    server.latency = 0.3
    page = open_page(at_risk.url + "/")
    ask(page, QUESTION)
    known = re.compile(r"^known: Heidi Fenman.* \(provisional: the answer may yet be withheld\)$")
    page.get_by_role("region", name="Quiz 1").get_by_text(known).wait_for()
    answered(page)
    assert page.locator(".answer-text").inner_text() == "I do not know"
    assert page.get_by_role("status").inner_text() == "Answer: I do not know"
    assert page.get_by_text("provisional").count() == 0


def test_what_is_typed_meanwhile_stays_and_a_new_conversation_knows_nothing_of_the_old(serving, server, open_page):
    usual, go_on = server.reply, threading.Event()

    def reply(messages, n, body):
        go_on.wait(30)
        return usual(messages, n, body)

    server.reply = reply
    page, box = (made := open_page(serving.url + "/")), made.get_by_role("textbox", name="Question")
    ask(page, QUESTION)
    box.fill("To whom is the mayor married?")
    go_on.set()
    answered(page)
    assert box.input_value() == "To whom is the mayor married?"
    go_on.clear()
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_role("button", name="New conversation").click()
    go_on.set()
    until(lambda: serving.metric("keqa_in_work") == 0)
    server.calls.clear()
    page.locator("button.main:enabled").wait_for()
    ask(page, QUESTION)
    answered(page)
    assert page.locator(".story").count() == 1
    assert not any("history" in str(call.messages) for call in server.calls)


def test_by_keyboard_a_reload_keeps_the_conversation_and_a_new_one_forgets_it(serving, open_page):
    page = open_page(serving.url + "/", color_scheme="dark")
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    answered(page)
    page.reload()
    assert page.locator(".answer-text").inner_text() == "Flora Isvik"
    assert page.locator(".passage.kept .text").inner_text() == MARKUP
    assert page.get_by_role("status").inner_text() == ""
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    page.keyboard.type("To whom is the mayor married?")
    page.keyboard.press("Enter")
    page.get_by_text("Asked as: To whom is the mayor of Carmouth married?").first.wait_for()
    answered(page, 1)
    page.reload()
    assert page.locator(".turn h2, .story h2").first.inner_text() == "To whom is the mayor married?"
    page.get_by_role("button", name="New conversation").click()
    page.evaluate("sessionStorage.setItem('other', '1')")
    page.reload()
    assert page.locator(".answer-text").count() == 0
    page.evaluate("sessionStorage.setItem('keqa-conversation', '[[1], 2')")
    page.reload()
    assert page.get_by_role("button", name="Ask").is_enabled()


def test_a_question_that_was_broken_off_can_be_asked_again(serve, server, open_page, tmp_path):
    kept = Conversations(tmp_path / "kept")
    kept.ask(kept.begin(QUESTION), QUESTION)
    page = open_page(serve(server, conversations=kept).url + "/")
    page.get_by_text("Conversations").click()
    page.get_by_role("button", name=QUESTION, exact=True).click()
    page.get_by_text("It was broken off before its answer was there.").wait_for()
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator(".answer-text").wait_for()


def test_a_conversation_that_is_kept_is_resumed_saved_and_deleted(serve, server, open_page, tmp_path):
    serving = serve(server, conversations=Conversations(tmp_path / "kept"), token=TOKEN)
    page = open_page(f"{serving.url}/#token={TOKEN}")
    ask(page, QUESTION)
    answered(page)
    count = server.count
    page.reload()
    page.locator(".answer-text").get_by_text("Flora Isvik").wait_for()
    assert page.locator(".passage.kept .text").inner_text() == MARKUP
    ask(page, QUESTION)
    page.get_by_text(f"Settled before, and not asked again: {QUESTION}").first.wait_for()
    assert server.count - count <= 3
    page.get_by_role("button", name="New conversation").click()
    assert page.locator(".answer-text").count() == 0
    page.get_by_text("Conversations").click()
    page.get_by_role("button", name=QUESTION, exact=True).click()
    answered(page, 1)
    assert page.locator("[aria-current=true]").inner_text() == QUESTION
    assert page.title() == f"{QUESTION} – KEQA"
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Save {QUESTION} as Markdown").click()
    assert f"## {QUESTION}" in Path(download.value.path()).read_text()
    page.get_by_role("button", name=f"Delete {QUESTION}").click()
    page.get_by_text("None is kept yet.").wait_for()
    assert page.locator(".answer-text").count() == 0
    assert TOKEN not in page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")


def test_what_is_refused_stays_in_the_box_and_is_no_part_of_the_conversation(serve, server, open_page):
    page = open_page(serve(server, token=TOKEN).url + "/")
    ask(page, QUESTION)
    page.get_by_role("status").get_by_text("This server asks for its token").wait_for()
    page.locator("#token").fill("another")
    page.keyboard.press("Enter")
    page.get_by_role("status").get_by_text("This is not the token of this server.").wait_for()
    assert page.locator(".turn").count() == 0
    assert page.get_by_label("Question", exact=True).input_value() == QUESTION
    page.locator("#token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.locator(".answer-text").wait_for()
    assert not page.locator("#token").is_visible()


def test_a_server_that_cannot_be_reached_is_asked_again(serving, open_page):
    page = open_page(serving.url + "/")
    page.context.set_offline(True)
    ask(page, QUESTION)
    page.get_by_role("status").get_by_text("The server cannot be reached").wait_for()
    assert page.locator(".turn").count() == 0
    page.context.set_offline(False)
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator(".answer-text").wait_for()


def test_a_proxy_may_put_the_page_below_a_path_of_its_own(serving, open_page):
    page = open_page(serving.url + "/")
    page.route("**/*", lambda one: one.fulfill(status=404))
    page.route("**/keqa/*", lambda one: one.fulfill(response=one.fetch(url=one.request.url.replace("/keqa/", "/"))))
    page.goto(f"{serving.url}/keqa/")
    ask(page, QUESTION)
    page.locator(".answer-text").wait_for()
    # What is still being fetched would fail within the next test, when this page is closed.
    page.unroute_all(behavior="wait")


def test_a_document_is_dropped_on_the_page_or_chosen(serve, server, open_page, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    serving = serve(server, watch=True, intake=Intake(str(tmp_path / "own"), folder, 100))
    page = open_page(serving.url + "/")
    page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(["The ferry leaves at nine."], "ferry.txt"));
          document.getElementById("turns").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }));
        }"""
    )
    page.get_by_text("Added ferry.txt: 1 passage. The next question sees it.").wait_for()
    given = {"ferry.txt": b"x", "a.txt": b"x" * 101, "b.pdf": b"no PDF", "Öl & Gas.txt": b"Oil is dear."}
    kinds = [{"name": name, "mimeType": "text/plain", "buffer": content} for name, content in given.items()]
    page.locator("#chosen").set_input_files(kinds)
    page.get_by_role("status").get_by_text("Added Öl & Gas.txt: 1 passage.").wait_for()
    said = page.get_by_role("status").inner_text()
    for wrong in ("ferry.txt was not added: there is a document", "a.txt was not added: it is larger", "b.pdf was not"):
        assert wrong in said
    assert str(folder) not in said
    assert {path.name for path in folder.iterdir()} == {"ferry.txt", "Öl & Gas.txt"}
    assert not open_page(serve(server).url + "/").locator("#drop").is_visible()


@pytest.mark.parametrize(
    ("index", "models", "program", "said"),
    [
        (None, ["keqa/tiny"] * 3, None, "the testbed by keqa/tiny"),
        (
            "a/b/mine/,elasticsearch://user-host:9200/wiki@m/e5",
            ["openai/gpt", "openai/gpt", "transformers//home/me/judge"],
            Path("x/prog"),
            "mine and wiki by openai/gpt and transformers/judge, with the program prog",
        ),
    ],
)
def test_what_answers_is_named_without_addresses_and_folders(index, models, program, said):
    roles = SimpleNamespace(every=[SimpleNamespace(model=model) for model in models])
    assert about_of(SimpleNamespace(index=index, program=program), roles) == f"Answers from {said}"


def test_stopping_frees_the_place(serve, slow, open_page):
    serving = serve(slow)
    page = open_page(serving.url + "/")
    ask(page, QUESTION)
    until(lambda: slow.count == 1)
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("alert").get_by_text("Stopped.").wait_for()
    until(lambda: serving.metric("keqa_questions_total", outcome="cancelled") == 1)
    assert serving.metric("keqa_in_work") == 0


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
    ask(page, ASKED)
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
    ask(page, ASKED)
    assert page.locator(".answer-text").inner_text() == f"{GUESS} (a guess)"
    assert page.locator("#state").inner_text() == f"Answer: {GUESS} (a guess)"
