"""Every way out of a finding that the documents do not say it, of each kind, and of a guess.

The program is asked for nothing: what it would return is a record made by hand.
"""

import io
import json

import openai
import pytest
from fixtures.findings import EACH, GUESS, GUESSED, WRITTEN, found
from fixtures.run_files import make_line, make_run, write_run
from fixtures.serving import serve
from mcp import Client
from servers.openai_server import markers

import keqa
from keqa.evaluation.run_file import read_run
from keqa.programs.records import QuestionRecord, Statement, Written
from keqa.server.runs import DECLINED, RIGHT, Runs

__all__ = ["found", "serve"]

pytestmark = pytest.mark.server

ASKED = "What does the mayor of Carmouth earn?"


@pytest.fixture
def command(keqa_command, served, own_index, monkeypatch):
    def run(name, *arguments):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{ASKED}\n"))
        return keqa_command(name, *arguments, "--index", own_index, *served)

    return run


@EACH
def test_ask_says_it_first_with_what_was_looked_at(command, found, record):
    found(record)
    ended = command("ask", ASKED)
    lines = [line.rstrip() for line in ended.out.splitlines()]
    assert (ended.code, lines[0]) == (3, record.answer)
    missing = record.unanswered.missing[0]
    assert lines[1] == f"Missing: quiz 2, “What does Ann Lee earn?”: {missing.kind} ({missing.why})"
    assert "Known: quiz 1, “Who governs Carmouth?”: Ann Lee (from the documents)" in lines
    text = " ".join(ended.out.split())
    assert all(" ".join(one.split()) in text for one in (*missing.read, "[1] Town hall (town.md"))
    # The guess stands in the story only.
    assert [line for line in lines if GUESS in line] == [f"├── It would have guessed: {GUESS}"]


@EACH
def test_quiet_and_chat_tell_the_message_and_json_the_record_with_its_sources(command, found, record):
    found(record)
    ended = command("ask", ASKED, "--quiet")
    assert (ended.code, ended.out) == (3, f"{record.answer}\n")
    lines = command("chat").fine().splitlines()
    assert lines[0] == record.answer
    assert lines[1].startswith("Missing: quiz 2, “What does Ann Lee earn?”")
    assert not any(GUESS in line for line in lines)
    ended = command("ask", ASKED, "--json")
    told = json.loads(ended.out)
    assert ended.code == 3
    # What carries the part that is known, and what says several things of the other.
    contradicting = ["Town hall", "Report"] if record.unanswered.missing[0].answers else []
    assert [source["title"] for source in told.pop("sources")] == ["Town hall", *contradicting]
    assert QuestionRecord.model_validate(told) == record


def openai_fields(message):
    return {name: getattr(message, name) for name in ("answer_source", "confidence", "guessed", "unanswered")}


@EACH
def test_openais_text_and_fields_whole_and_as_a_stream(serve, server, found, record):
    found(record)
    serving = serve(server)
    asked = {"model": "keqa", "messages": [{"role": "user", "content": ASKED}]}
    with openai.OpenAI(base_url=f"{serving.url}/v1", api_key="none", max_retries=0) as client:
        message = client.chat.completions.create(**asked).choices[0].message
        with client.chat.completions.create(**asked, stream=True) as stream:
            chunks = [chunk.choices[0].delta for chunk in stream]
    assert message.content == record.answer == "".join(chunk.content or "" for chunk in chunks)
    fields = openai_fields(message)
    assert fields == openai_fields(chunks[-1])
    assert fields["unanswered"].pop("missing")[0]["kind"] == record.unanswered.kind
    assert (fields["answer_source"], fields["confidence"], fields["guessed"]) == ("unanswered", None, False)
    assert (fields["unanswered"]["kind"], GUESS in str(message)) == (record.unanswered.kind, False)
    assert serving.metric("keqa_questions_total", outcome="unanswered") == 2
    assert serving.metric("keqa_questions_total", outcome="answered") == 0


@EACH
async def test_mcp_gives_it_as_a_result_and_not_as_an_error(serve, server, found, record):
    found(record)
    async with Client(f"{serve(server).url}/mcp") as client:
        result = await client.call_tool("ask", {"question": ASKED})
    told = result.structured_content
    assert (result.is_error, told["answer"], told["answer_source"]) == (False, record.answer, "unanswered")
    assert told["unanswered"]["kind"] == record.unanswered.kind
    assert record.unanswered.kind in result.content[0].text
    assert GUESS not in result.content[0].text


def test_a_guess_is_marked(command, found, serve, server):
    found(GUESSED)
    ended = command("ask", ASKED)
    assert (ended.code, ended.out.splitlines()[0]) == (0, f"Answer: {GUESS} (a guess)")
    assert command("chat").out.splitlines()[0] == f"{GUESS} (a guess)"
    ended = command("ask", ASKED, "--quiet")
    assert (ended.out, "is a guess" in ended.err) == (f"{GUESS}\n", True)
    serving = serve(server)
    message = serving.chat().json()["choices"][0]["message"]
    assert (message["content"], message["guessed"], message["unanswered"]) == (f"{GUESS} (a guess)", True, None)
    assert keqa.KEQA(None).as_tool()(question=ASKED).startswith(f"{GUESS} (a guess)\n")


def test_a_written_answer_in_the_terminal_and_as_json(command, found):
    found(WRITTEN)
    ended = command("ask", ASKED)
    lines = [line.rstrip() for line in ended.out.splitlines()]
    assert (ended.code, lines[:2]) == (0, [WRITTEN.written.text, "In short: Ann Lee"])
    assert lines[2] == "Left out, as no passage that it cites carries it, or it says nothing new: 1 statement"
    assert lines[4] == "[1] Town hall (town.md, Mayor)"
    assert any(line.endswith("✗ She is tall. (it cites no passage that there is)") for line in lines)
    assert command("ask", ASKED, "--quiet").out.startswith(f"{WRITTEN.written.text}\nIn short: Ann Lee\n")
    told = json.loads(command("ask", ASKED, "--json").out)
    assert [source["title"] for source in told.pop("sources")] == ["Town hall", "Report"]
    assert QuestionRecord.model_validate(told) == WRITTEN
    lines = command("chat").out.splitlines()
    assert (lines[0], lines[3]) == (WRITTEN.written.text, "[1] Town hall (town.md, Mayor)")


def test_a_table_and_a_list_in_the_terminal(command, found):
    table = Written(style="table", text="| | a |", table=[["", "Nile", "Thames"], ["length", "6,650 km [1]", "-"]])
    found(WRITTEN.model_copy(update={"written": table}))
    out = command("ask", ASKED, "--quiet").out
    assert "│ length │ 6,650 km [1] │ -      │" in out
    items = [Statement(text="Ann [1]", citations=[1]), Statement(text="Bo [1]", citations=[1])]
    gathered = Written(style="list", text="- Ann [1]\n- Bo [1]", statements=items, looked_at=20, more=True)
    found(WRITTEN.model_copy(update={"written": gathered}))
    assert command("ask", ASKED, "--quiet").out.splitlines() == [
        "- Ann [1]",
        "- Bo [1]",
        "2 items in 20 passages looked at; there may be more, as no further passage was looked at",
    ]


def test_a_written_answer_for_openais_clients_and_agents(serve, server, found):
    found(WRITTEN)
    message = serve(server).chat().json()["choices"][0]["message"]
    # Nothing that documents hold is an image, a link or a tag for a client that reads Markdown.
    text = "Ann Lee governs Carmouth [1]. She earns < b>millions< /b> [2]."
    sources = "1. Town hall (town.md, Mayor)\n2. Report (!\\[x\\](http://a.b).md)"
    assert message["content"] == f"{text}\n\nSources:\n\n{sources}"
    cited = [one["url_citation"] for one in message["annotations"]]
    assert [message["content"][one["start_index"] : one["end_index"]] for one in cited] == ["[1]", "[2]"]
    assert (message["short_answer"], message["written"]["style"]) == ("Ann Lee", "report")
    assert keqa.KEQA(None).as_tool()(question=ASKED).startswith(f"{WRITTEN.written.text}\nSources:\n[1] Town hall")


@pytest.mark.parametrize(("golds", "outcome", "em"), [([], RIGHT, 1.0), (["40,000"], DECLINED, 0.0)])
@EACH
def test_view_tells_it_from_a_wrong_answer(record, golds, outcome, em, tmp_path):
    line = make_line(1, em, answers=golds).model_copy(update={"answer": record.answer, "record": record})
    runs = Runs([write_run(tmp_path / "run.jsonl", make_run("keqa", [line]))])
    assert runs.overview()["questions"][0][4] == [[outcome, record.answer]]
    assert runs.story(0, 0)["record"]["unanswered"]["kind"] == record.unanswered.kind


@pytest.fixture
def unhelped(server):
    """A language model whose answers from memory differ, and that finds no passage helpful."""

    def reply(messages, n, body, own=server.reply):
        if "[[ ## passage ## ]]" in messages[-1]["content"]:
            return [markers(helpful=False)] * n
        if "Respond with" in messages[-1]["content"] and "quizzes" in messages[-1]["content"].rpartition("Respond")[2]:
            return [markers(quizzes=json.dumps([ASKED]))] * n
        return own(messages, n, body)

    server.reply = reply
    return server


def test_what_is_done_is_an_option_and_a_setting_of_a_file(command, unhelped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = command("ask", ASKED)
    assert (ended.code, ended.out.splitlines()[0]) == (3, f"Not in your documents: nothing was found on “{ASKED}”.")
    for guess in (["--unanswered", "guess"], []):
        ended = command("ask", ASKED, *guess)
        assert (ended.code, ended.out.splitlines()[0]) == (0, "Answer: guess 0 (a guess)")
        (tmp_path / "keqa.toml").write_text('unanswered = "guess"\n')
    assert command("ask", ASKED, "--unanswered", "say").code == 3
    command("ask", ASKED, "--unanswered", "raise").refused("'--unanswered': 'raise' is not one of 'say', 'guess'")


def test_evaluate_reports_citations_and_what_is_told(command, server, tmp_path):
    def reply(messages, n, body, own=server.reply):
        if "[[ ## text ## ]]" in messages[-1]["content"].rpartition("Respond")[2]:
            return [markers(text="She married Flora Isvik [1]. She is tall [1].")] * n
        return own(messages, n, body)

    server.reply = reply
    (tmp_path / "own.jsonl").write_text(
        json.dumps({"question": "Tell me about Heidi.", "answer": "Flora Isvik"}) + "\n"
    )
    asked = ("--questions", tmp_path / "own.jsonl", "--out", tmp_path / "out", "--no-pick")
    ended = command("evaluate", "keqa", *asked, "--style", "report")
    assert (ended.code, "Of written answers: citation recall" in ended.out) == (0, True)
    (line,) = read_run(tmp_path / "out" / "keqa.jsonl").lines
    found = {name: line.scores[name] for name in ("citation recall", "citation precision", "answer contained")}
    assert line.record.written.text == "She married Flora Isvik [1]."
    assert found == {"citation recall": 1.0, "citation precision": 1.0, "answer contained": 1.0}
    ended = command("evaluate", "keqa", *asked[:2], "--out", tmp_path / "short", "--no-pick")
    assert (ended.code, "citation recall" in ended.out) == (0, False)


def test_one_method_says_it_and_methods_side_by_side_guess(command, unhelped, tmp_path):
    (tmp_path / "own.jsonl").write_text(json.dumps({"question": ASKED, "answer": None}) + "\n")
    asked = ("--questions", tmp_path / "own.jsonl", "--out")

    def sources(folder):
        return {path.stem: read_run(path).lines[0].record.answer_source for path in (tmp_path / folder).glob("*.jsonl")}

    ended = command("evaluate", "keqa", *asked, tmp_path / "one")
    assert (ended.code, "unanswerable declined" in ended.out, sources("one")) == (0, True, {"keqa": "unanswered"})
    assert command("compare", "keqa", "rag", *asked, tmp_path / "two").code == 0
    assert sources("two") == {"keqa": "largest_cluster", "rag": "closed_book"}
    assert command("compare", "keqa", "rag", *asked, tmp_path / "three", "--unanswered", "say").code == 0
    assert sources("three") == {"keqa": "unanswered", "rag": "closed_book"}
    command("evaluate", "rag", *asked, tmp_path / "four", "--unanswered", "say").refused(
        "--unanswered means nothing to rag"
    )
