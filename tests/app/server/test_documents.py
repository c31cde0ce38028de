"""The files behind the sources: those of the folder, and no others."""

import json

import pytest
from fixtures.browser import browser, open_page
from fixtures.serving import QUESTION, TOKEN

from keqa.errors import InputError
from keqa.server.application import Documents
from keqa.server.limits import ProblemError

__all__ = ["browser", "open_page"]

pytestmark = pytest.mark.server

OUTSIDE = ". .. ../outside.txt sub/../../outside.txt /etc/passwd link.txt .env .hidden/a.txt key.pem sub missing.txt"


@pytest.fixture
def folder(tmp_path):
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "sub" / "rules & fees.txt").write_text("Harbour rules")
    (docs / "page.html").write_text("<script>alert(1)</script>")
    (docs / "deck.pptx").write_bytes(b"PK")
    (docs / ".env").write_text("KEY=1")
    (docs / ".hidden").mkdir()
    (docs / ".hidden" / "a.txt").write_text("hidden")
    (docs / "key.pem").write_text("key")
    (docs / "secrets.yml").write_text("key")
    (tmp_path / "outside.txt").write_text("outside")
    (docs / "link.txt").symlink_to(tmp_path / "outside.txt")
    return docs


def test_documents_are_given_as_what_cannot_run_to_those_who_may_ask(serve, server, folder):
    with serve(server, documents=Documents(folder)).client as client:
        text = client.get("/documents/sub/rules%20%26%20fees.txt")
        assert (text.text, text.headers["content-type"]) == ("Harbour rules", "text/plain; charset=utf-8")
        page = client.get("/documents/page.html")
        assert page.headers["content-type"] == "text/plain; charset=utf-8"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert client.get("/documents/deck.pptx").headers["content-disposition"].startswith("attachment")
        (folder / "README").write_text("x")
        (folder / "mill.js").write_text("x")
        for name in ("README", "mill.js"):
            assert client.get(f"/documents/{name}").headers["content-type"] == "text/plain; charset=utf-8"
        # As files of a Mac are called, and as an index has their names.
        (folder / "Pru\u0308fung  1.txt").write_text("Harbour exam")
        assert client.get("/documents/Pr\u00fcfung 1.txt").text == "Harbour exam"
    with serve(server).client as client:
        assert client.get("/documents/page.html").status_code == 404
    with serve(server, documents=Documents(folder), token=TOKEN).client as client:
        assert client.get("/documents/page.html").status_code == 401
    with pytest.raises(InputError, match="there is no folder"):
        Documents(folder / "missing")


@pytest.mark.parametrize(
    "path", ["", "a\0.txt", "sub\\..\\..\\outside.txt", "x" * 5000 + ".txt", "secrets.yml", *OUTSIDE.split()]
)
def test_nothing_else_is(folder, path):
    with pytest.raises(ProblemError) as error:
        Documents(folder).response(path)
    assert error.value.status == 404


def test_a_source_leads_to_its_document(serve, server, folder, open_page):
    page = open_page(serve(server, documents=Documents(folder)).url + "/")
    source = {"id": "1", "title": "Rules", "text": "Harbour", "file": "sub/rules & fees.txt", "page": 3, "quizzes": []}
    record = {"question": QUESTION, "answer": "Ann", "answer_source": "passages"}
    event = {"kind": "Answered", "record": record, "sources": [source]}
    page.route(
        "**/ask", lambda route: route.fulfill(content_type="text/event-stream", body=f"data: {json.dumps(event)}\n\n")
    )
    page.get_by_role("textbox", name="Question").fill(QUESTION)
    page.get_by_role("button", name="Ask").click()
    link = page.get_by_role("link", name="open the document")
    assert link.get_attribute("href") == "./documents/sub/rules%20%26%20fees.txt#page=3"
    with page.context.expect_page() as opened:
        link.click()
    opened.value.wait_for_load_state()
    assert opened.value.locator("body").inner_text() == "Harbour rules"
