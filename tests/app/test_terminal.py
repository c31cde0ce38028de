"""What comes from outside acts on no terminal, whichever command shows it and wherever it comes from."""

import io
import json
import os
import re
import subprocess
import sys
import unicodedata

import pytest
from fixtures.command_line import served_by
from hypothesis import given
from hypothesis import strategies as st
from servers.openai_server import HTTPFault, OpenAIServer, markers

from keqa.cli.console import results
from keqa.retrievers import Passage, build_index
from keqa.storage.redaction import GuardedStream, json_text, visible, visible_line

pytestmark = pytest.mark.server

EVIL = (
    "\x1b]0;owned\x07\x1b]52;c;ZXZpbA==\x1b\\\x1b[2J\x9b31m\x90q\x9c\x08\x7f\rX\u202eevil\u2066\u200f\u061c\u200b\U000e0041"
    "\u00ad\ufeff\ufff9\u2029 [link=http://evil]here[/link] end"
)
SURROGATE = "half \ud83d of a pair"
KEY = "sk-proj-0123456789abcdefXYZ"
QUESTION = "Who planted the oak?"


def acting(text: str) -> set[str]:
    """Characters that act on a terminal or hide in it."""
    return {
        char for char in text if char not in "\n\t" and unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    }


@pytest.fixture
def hostile_index(tmp_path, monkeypatch):
    """An index as a stranger makes it: nothing in it was cleaned."""
    passages = [
        Passage(f"a{EVIL}", f"Oak {EVIL}", f"The oldest oak was planted by monks. {EVIL}"),
        Passage("b", "Rain", "Rain."),
    ]
    folder = tmp_path / "stranger"
    with monkeypatch.context() as uncleaned:
        uncleaned.setattr("keqa.retrievers.intake.cleaned", lambda passage: passage)
        build_index(passages, folder, name="stranger")
    manifest = next(folder.glob("data/manifest-*.json"))
    values, files = map(json.loads, manifest.read_text().splitlines())
    values["name"] = f"stranger {EVIL}"
    manifest.write_text(f"{json.dumps(values)}\n{json.dumps(files)}")
    return folder


@pytest.fixture
def keqa(keqa_command, monkeypatch):
    """Runs the command line with a key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("COLUMNS", "100")
    return keqa_command


def spoken(messages, n, body):
    """A language model whose every answer acts on the terminal."""
    said = messages[-1]["content"]
    if "[[ ## passage ## ]]" in said:
        return [markers(helpful=True)] * n
    if "Respond with the corresponding output fields" in said and "quizzes" in said.rpartition("Respond with")[2]:
        return [markers(quizzes=json.dumps([QUESTION]), drafts='["UNKNOWN"]')] * n
    return [markers(citations="[1]", answer=f"monks {EVIL} {SURROGATE} {KEY}", explanation=f"They say {EVIL}")] * n


def refused(messages, n, body):
    raise HTTPFault(400, f"no such thing {EVIL} with the key {KEY} or sk-proj-****fXYZ")


@pytest.mark.parametrize(
    ("command", "colour"),
    [(["search", "oak", "-i"], "FORCE_COLOR"), (["index", "info", "-q", "oak"], "NO_COLOR")],
)
def test_a_hostile_index_is_shown_harmlessly_and_is_the_same_in_json(keqa, hostile_index, monkeypatch, command, colour):
    with monkeypatch.context() as coloured:
        coloured.setenv(colour, "1")
        ended = keqa(*command, hostile_index)
    assert ("\x1b[" in ended.fine()) is (colour == "FORCE_COLOR")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", ended.out)
    assert not acting(plain)
    assert all(one in plain for one in ("owned", "\N{SYMBOL FOR ESCAPE}", "\\u202e"))
    assert "[link=" in re.sub(r"\s", "", plain)
    assert "]0;owned\x07" not in ended.err
    if "info" in command:
        assert "stranger \N{SYMBOL FOR ESCAPE}]0;owned" in plain
    ended = keqa(*command, hostile_index, "--json")
    assert acting(ended.out + ended.err) == set()
    reported = ended.json()
    assert reported["hits"][0]["title"] == f"Oak {EVIL}"
    assert reported.get("indexes", [{"name": f"stranger {EVIL}"}])[0]["name"] == f"stranger {EVIL}"


def test_a_hostile_language_model_is_shown_harmlessly(keqa, hostile_index):
    with OpenAIServer(reply=spoken) as server:
        ask = ("ask", QUESTION, *served_by(server), "--index", hostile_index, "--no-examine", "--unanswered", "guess")
        ended = keqa(*ask)
        assert "Answer:\nmonks \N{SYMBOL FOR ESCAPE}]0;owned" in ended.fine()
        assert not acting(ended.out + ended.err)
        assert KEY not in ended.out + ended.err
        ended = keqa(*ask, "--json")
    record = ended.json()
    assert not acting(ended.out + ended.err)
    # An HTTP library may have put a replacement character in the place of half a pair.
    assert re.search("half [\ud83d\ufffd] of", record["answer"])
    assert KEY not in ended.out
    assert record["quizzes"][0]["passages"][0]["title"] == f"Oak {EVIL}"


@pytest.mark.parametrize("status", [400, 401])
def test_what_a_server_says_when_it_refuses_is_shown_harmlessly_and_without_the_key(keqa, status):
    def refuse(messages, n, body):
        raise HTTPFault(status, f"Incorrect key {KEY} (sk-p*****fXYZ) {EVIL}", "invalid_api_key")

    with OpenAIServer(reply=refuse) as server:
        for form in ([], ["--json"]):
            ended = keqa("ask", QUESTION, *served_by(server), *form)
            assert ended.code in (1, 2)
            assert "Incorrect key" in ended.err
            assert not acting(ended.out + ended.err)
            assert not any(one in ended.out + ended.err for one in (KEY, "fXYZ"))


def test_runs_with_hostile_labels_and_ids_are_shown_harmlessly(keqa, write_json, tmp_path):
    asked = write_json("asked.jsonl", [{"id": f"q{EVIL}", "question": f"Who {EVIL}?", "answers": ["monks"]}])
    with OpenAIServer(reply=refused) as server:
        ended = keqa("evaluate", "closed-book", "--questions", asked, "-o", tmp_path, *served_by(server))
    assert not acting(ended.out + ended.err)
    run = tmp_path / "closed-book.jsonl"
    assert KEY not in run.read_text()
    assert "fXYZ" not in run.read_text()
    header, line = run.read_text().rstrip("\n").split("\n")
    values = json.loads(header)
    values["header"]["label"] = f"mine {EVIL}"
    run.write_text(json.dumps(values) + "\n" + line + "\n")
    ended = keqa("compare", run, "-o", tmp_path / "out")
    assert "mine \N{SYMBOL FOR ESCAPE}" in ended.fine()
    assert not acting(ended.out + ended.err)
    tables = [path.read_text() for path in (tmp_path / "out" / "report").iterdir() if path.suffix != ".png"]
    assert not any(acting(table) for table in tables)


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", QUESTION, "--top-k", EVIL),
        (EVIL,),
        ("search", "x", "--index", f"/nowhere/{EVIL}"),
        ("search", "x", f"--{EVIL}"),
        ("reproduce", f"{EVIL}.yaml"),
    ],
)
def test_an_argument_that_an_error_repeats_is_shown_harmlessly(keqa_command, arguments):
    ended = keqa_command(*arguments)
    assert (ended.code, bool(ended.err), acting(ended.out + ended.err)) == (2, True, set())


def test_a_traceback_and_a_warning_show_nothing_hostile_and_no_key(tmp_path):
    script = (
        "import logging, sys, keqa.__main__\n"
        "def fail():\n"
        f"    logging.getLogger('x').warning({EVIL!r})\n"
        f"    raise TypeError({EVIL + KEY!r})\n"
        "keqa.__main__._run = fail\n"
        "keqa.__main__.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, env={**os.environ, "OPENAI_API_KEY": KEY}, check=False
    )
    err = done.stderr.decode("utf-8")
    assert err.count("owned") >= 2
    assert "Traceback" in err
    assert KEY not in err
    assert not acting(err)


class Screen(io.StringIO):
    """What is written to a terminal."""

    def isatty(self):
        return True


def test_whatever_rich_is_given_only_rich_acts_on_the_terminal(monkeypatch):
    from rich.progress import Progress, TextColumn
    from rich.table import Table
    from rich.text import Text

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", Screen())
    console = results()
    table = Table(EVIL, title=EVIL, caption=EVIL)
    table.add_row(EVIL)
    table.add_row(Text.assemble(("a ", "bold"), (EVIL, "red"), (KEY, "green")))
    for shown in (EVIL, Text(EVIL), table, Text.from_markup("[link=http://evil]here[/link]")):
        console.print(shown, style="red")
    with Progress(TextColumn("{task.description}"), console=console, auto_refresh=False) as bar:
        bar.add_task(EVIL.replace("[/link]", ""), total=1)
        bar.refresh()
    with console.status("asking"):
        sys.stdout.write(f"{EVIL}\n")
    written = sys.stdout.getvalue()
    assert KEY not in written
    assert "http://evil" in written
    # Colours, the cursor hidden and shown, up a line and to its begin, and lines erased: what a bar of rich needs.
    assert not acting(re.sub(r"\x1b\[(?:[0-9;]*m|\?25[lh]|1A|2K)|\r(?=\x1b|$)", "", written))


@given(st.text(st.characters() | st.sampled_from("\x1b\x9b\r\u202e\u200d\ud800\U000e0041")))
def test_whatever_the_text_what_is_shown_does_nothing(text):
    left = acting(visible(text)) - {"\u200c", "\u200d"}
    # Marks that are written before digits are seen.
    assert not {char for char in left if unicodedata.category(char) != "Cf" or char in EVIL}
    assert "\n" not in visible_line(text)
    assert json.loads(json_text(text)) == text
    assert not acting(json_text(text)) - left


def test_joiners_stay_where_a_script_needs_them():
    for needed in ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001f468\u200d\U0001f469"):
        assert visible(needed) == needed
    assert visible("pass\u200dword") == "pass\\u200dword"


def test_styling_passes_to_a_terminal_only(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    for stream, escape in ((Screen(), "\x1b"), (io.StringIO(), "␛")):
        GuardedStream(stream).write("\r\x1b[1;31mred\x1b[0m \x1b[2J\x1b]0;owned\x07")
        assert stream.getvalue() == f"\r{escape}[1;31mred{escape}[0m ␛[2J␛]0;owned␇"
        assert not hasattr(GuardedStream(stream), "buffer")


def test_json_is_plain_where_the_terminal_knows_no_more():
    assert json_text("Łódź", encoding="ascii") == '"\\u0141\\u00f3d\\u017a"'
    assert json_text("Łódź") == '"Łódź"'
