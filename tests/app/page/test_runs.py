"""Run files side by side: what is read of them, the page, and the file of its own."""

from contextlib import ExitStack

import pytest
from fixtures.run_files import make_line, make_passage, make_run, write_run
from fixtures.serving import TOKEN, in_a_thread
from starlette.testclient import TestClient

from keqa.evaluation.records import header_line, run_line
from keqa.programs.records import Failure, QuizRecord
from keqa.server.runs import FAILED, LIMITS, PARTLY, RIGHT, WRONG, Runs, run_view
from keqa.server.serving import server

EVIL = "<img src=x onerror=alert(1)></script>"


def line(number, answer="Ann", em=1.0, f1=1.0, text="A passage.", **further):
    asked, passages = f"Who is {number}?", [make_passage("p", text, title="Title")]
    quiz = QuizRecord(index=1, text=asked, passages=passages, answer=answer, source="passages")
    story = {"question": asked, "quizzes": [quiz], "answer": answer, "answer_source": "passages"}
    made = make_line(number, em, f1, kind="odd" if number % 2 else "even", answers=["Ann"], **story)
    return made.model_copy(update={"id": str(number), **further})


def failed(number):
    failure = Failure(stage="answer", cause="LMTimeoutError", message="no reply")
    return line(number, None, 0.0, 0.0, record=None, error=failure)


def write(path, lines, label=None, **further):
    return write_run(path, make_run("keqa", lines, label=label or path.stem, **further))


@pytest.fixture
def folder(tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    write(runs / "keqa.jsonl", [line(0), line(1, text=EVIL), line(2, "Bo Ann", 0.0, 0.5), failed(3)])
    write(runs / "rag.jsonl", [line(0), line(1, EVIL, 0.0, 0.0), line(4)])
    (runs / "calls.jsonl").write_text('{"other": 1}\n')
    return runs


@pytest.fixture
def viewed(open_page):
    """Opens runs in a browser, as `keqa view` serves them."""
    with ExitStack() as stack:

        def view(runs):
            url, _ = stack.enter_context(in_a_thread(server(run_view(runs, TOKEN), LIMITS, 1)))
            page = open_page(f"{url}/#token={TOKEN}")
            page.locator("#main[data-ready]").wait_for()
            return page

        yield view


def test_what_became_of_each_question(folder):
    found = Runs([folder])
    overview = found.overview()
    assert [run["label"] for run in overview["runs"]] == ["keqa", "rag"]
    assert [row[0] for row in overview["questions"]] == ["0", "1", "2", "3", "4"]
    assert overview["questions"][1] == ["1", "Who is 1?", ["Ann"], "odd", [[RIGHT, "Ann"], [WRONG, EVIL]]]
    assert overview["questions"][2][4] == [[PARTLY, "Bo Ann"], None]
    assert overview["questions"][3][4] == [[FAILED, ""], None]
    keqa = overview["runs"][0]
    assert (keqa["asked"], keqa["failed"], keqa["em"], keqa["f1"]) == (4, 1, 0.5, 0.625)
    assert (keqa["calls"], keqa["retrievals"], keqa["tokens"]) == (1.5, 0.75, 75.0)


def test_a_question_asked_again_has_its_later_story(tmp_path):
    path = write(tmp_path / "keqa.jsonl", [failed(0), line(0)], ids=["0"])
    found = Runs([path])
    assert found.overview()["runs"][0]["failed"] == 0
    assert found.story(0, 0)["record"]["answer"] == "Ann"


def test_questions_of_two_data_sets_are_two(tmp_path):
    write(tmp_path / "a.jsonl", [line(0)], label="keqa")
    write(tmp_path / "b.jsonl", [line(0)], label="keqa", dataset="other")
    found = Runs([tmp_path])
    assert str(found) == "2 runs of 2 questions"
    assert [run["label"].rpartition("/")[2] for run in found.overview()["runs"]] == ["a", "b"]


def test_questions_of_two_files_of_one_name_are_not_one_for_their_ids(tmp_path):
    write(tmp_path / "a.jsonl", [line(0)])
    write(tmp_path / "b.jsonl", [line(0, question="Who else?", answers=["Bo"])])
    found = Runs([tmp_path]).overview()["questions"]
    assert [row[1:3] for row in found] == [["Who is 0?", ["Ann"]], ["Who else?", ["Bo"]]]


@pytest.mark.server
def test_methods_side_by_side_and_stories_next_to_each_other(folder, viewed):
    page = viewed(Runs([folder]))
    assert page.get_by_role("region", name="Methods").get_by_role("row").nth(1).inner_text().split("\t")[:4] == [
        "keqa",
        "4",
        "0.500",
        "0.625",
    ]
    page.get_by_role("button", name="Who is 1?").focus()
    page.keyboard.press("Enter")
    page.get_by_role("region", name="rag").wait_for()
    stories = page.locator("#stories .story")
    assert stories.count() == 2
    assert stories.nth(0).locator(".passage .text").inner_text() == EVIL
    assert stories.nth(1).locator(".answer-text").inner_text() == EVIL
    assert page.evaluate("document.activeElement.textContent") == "Who is 1?"


@pytest.mark.server
def test_filters(folder, viewed):
    page = viewed(Runs([folder]))
    shown = page.locator("#questions .question")

    def questions():
        return [text.removeprefix("Who is ").rstrip("?") for text in shown.all_inner_texts()]

    page.get_by_role("combobox", name="Outcome").select_option("failed")
    assert questions() == ["3"]
    page.get_by_role("combobox", name="Outcome").select_option("right")
    assert questions() == ["0", "1", "4"]
    page.get_by_role("combobox", name="Method").select_option("rag")
    assert questions() == ["0", "4"]
    page.get_by_role("combobox", name="Kind").select_option("odd")
    assert page.get_by_role("status").inner_text() == "no question of 5"
    page.get_by_role("combobox", name="Kind").select_option("any")
    page.get_by_role("combobox", name="Outcome").select_option("any")
    page.get_by_role("combobox", name="Method").select_option("any")
    page.get_by_role("checkbox", name="methods differ").check()
    assert questions() == ["1", "2", "3", "4"]
    page.get_by_role("searchbox", name="Text").fill("bo ann")
    assert questions() == ["2"]


def large(folder, count):
    """Two runs of so many questions."""
    right, wrong = (run_line(line(9, answer, score, score)) for answer, score in (("Ann", 1.0), ("Bo", 0.0)))
    ids = [str(number) for number in range(count)]
    for label, each in (("keqa", 7), ("rag", 3)):
        with (folder / f"{label}.jsonl").open("wb") as stream:
            stream.write(header_line(make_run("keqa", [], label=label, ids=ids).header))
            for number in range(count):
                text = (right if number % each else wrong).replace(b'"id": "9"', b'"id": "%d"' % number)
                stream.write(text.replace(b"Who is 9?", b"Who is %d?" % number))
    return folder


@pytest.mark.server
@pytest.mark.process
def test_ten_thousand_questions_open_and_are_filtered_at_once(tmp_path, viewed):
    page = viewed(Runs([large(tmp_path, 10_000)]))
    assert page.locator("#questions .question").count() == 50
    # From the request to the list: about a second on a machine with nothing else to do.
    assert page.evaluate("performance.now()") < 10_000
    page.get_by_role("combobox", name="Method").select_option("keqa")
    page.get_by_role("combobox", name="Outcome").select_option("wrong")
    assert "1,429 questions of 10,000" in page.get_by_role("status").inner_text()
    page.get_by_role("button", name="Next").click()
    assert "51 to 100" in page.get_by_role("status").inner_text()
    page.get_by_role("button", name="Who is 350?").click()
    page.locator("#stories .story").nth(1).wait_for()


@pytest.mark.process
def test_a_file_of_its_own(tmp_path, keqa_command, open_page):
    file = tmp_path / "view.html"
    ended = keqa_command("view", large(tmp_path, 1_000), "--html", file)
    assert ended.code == 0, ended.err
    assert "2 runs of 1,000 questions" in ended.err
    page = open_page(file.as_uri())
    page.get_by_role("searchbox", name="Text").fill("Who is 999?")
    page.get_by_role("button", name="Who is 999?").click()
    page.locator("#stories .story").nth(1).wait_for()
    assert page.locator("#stories .passage .text").first.inner_text() == "A passage."


def test_on_a_telephone_no_table_is_cut_and_no_number_broken(folder, tmp_path, open_page):
    file = tmp_path / "view.html"
    file.write_text("".join(Runs([folder]).page()))
    page = open_page(file.as_uri(), viewport={"width": 390, "height": 844})
    page.locator("#main[data-ready]").wait_for()
    page.get_by_role("button", name="Who is 0?").click()
    page.locator("#stories .story").first.wait_for()
    cut = "[...document.querySelectorAll('html, .scroll')].filter((one) => one.scrollWidth > one.clientWidth).length"
    assert page.evaluate(cut) == 0
    heights = "[...document.querySelectorAll('td.number')].filter((one) => one.offsetHeight > 30).length"
    assert page.evaluate(heights) == 0


def asked(folder, token=None):
    return TestClient(run_view(Runs([folder]), token), base_url="http://127.0.0.1:8322")


def test_the_server_gives_the_page_the_list_and_a_story(folder):
    client = asked(folder)
    assert "connect-src 'self'" in client.get("/").headers["content-security-policy"]
    assert client.get("/runs.json").json()["questions"][0][1] == "Who is 0?"
    assert client.get("/story?run=0&question=0").json()["record"]["answer"] == "Ann"
    assert client.get("/story?run=0&question=1").json()["sources"][0]["text"] == EVIL
    assert client.get("/story?run=0&question=3").json() == {"record": None, "error": "no reply"}
    for query in ("", "?run=0", "?run=1&question=2", "?run=0&question=99", "?run=x&question=0", "?run=-1&question=0"):
        assert client.get(f"/story{query}").status_code == 404
    (folder / "keqa.jsonl").write_text("something else")
    changed = client.get("/story?run=0&question=0")
    assert (changed.status_code, "has changed since" in changed.json()["error"]["message"]) == (409, True)


def test_who_may_not_read_runs(folder):
    client = asked(folder, TOKEN)
    assert [client.get(path).status_code for path in ("/", "/runs.json", "/story")] == [200, 401, 401]
    known = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/runs.json", headers=known).status_code == 200
    assert client.get("/runs.json", headers={**known, "Host": "evil.example"}).status_code == 421
    assert client.get("/runs.json", headers={**known, "Origin": "http://evil.example"}).status_code == 403
    assert client.get("/../keqa.jsonl", headers=known).status_code == 404
    assert (client.post("/runs.json", headers=known)).status_code == 405
