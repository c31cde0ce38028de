"""``keqa chat``: questions and follow-ups on the terminal, and what is kept of them."""

import io

import pytest
from fixtures.serving import QUESTION

from keqa.conversations import Conversations
from keqa.errors import StageError

pytestmark = pytest.mark.server


@pytest.fixture
def chat(keqa_command, served, own_index, monkeypatch):
    """Has lines typed into the command, which asks as the papers do."""
    options = ("--no-look-first", "--no-draft", "--no-cite", "--settle", "quizzes", "--no-cache", "--index", own_index)

    def typed(*lines, arguments=()):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return keqa_command("chat", *options, *served, *arguments)

    return typed


def test_a_follow_up_stands_alone(chat, server):
    answer = ["Flora Isvik", "Sources: Heidi Fenman (1)"]
    said = chat("Who governs Carmouth?", "", "To whom is the mayor married?").fine().splitlines()
    assert said == [*answer, f"→ {QUESTION}", *answer]
    assert any("Who governs Carmouth? Flora Isvik" in str(call.messages) for call in server.calls)


def test_the_story_and_a_new_conversation(chat, server):
    typed = ("/story", QUESTION, "/story", "/new", "/story", "/what", "To whom is the mayor married?", "/quit", "Who?")
    ended = chat(*typed)
    assert "├── Quiz 1: Who governs Carmouth?" in ended.fine()
    assert ended.err.count("no question was answered yet") == 2
    assert "there is no /what" in ended.err
    # Nothing was said before, so that nothing stands alone, and after the end nothing is asked.
    assert "→ To whom is the mayor" not in ended.out
    assert not any("Who?" in str(call.messages) for call in server.calls)


@pytest.mark.parametrize(
    ("error", "said"),
    [(StageError("summarize", "LMTimeoutError", "no reply"), "no reply"), (KeyboardInterrupt(), "given up")],
)
def test_a_question_that_is_refused_fails_or_is_interrupted_does_not_end_it(chat, monkeypatch, error, said):
    ended = chat("long " * 3000, QUESTION)
    assert "Flora Isvik" in ended.fine()
    assert "characters" in ended.err

    def fails(self, *args, **kwargs):
        raise error

    monkeypatch.setattr("keqa.programs.keqa.KEQA.__call__", fails)
    ended = chat(QUESTION, QUESTION)
    assert (ended.code, ended.err.count(said)) == (0, 2)


def test_a_conversation_is_kept_resumed_exported_and_deleted(chat, server, tmp_path):
    assert chat(QUESTION, "/list").fine().splitlines()[0] == "Flora Isvik"
    (kept,) = Conversations(tmp_path / "conversations").listed()
    assert (kept.title, kept.about) == (QUESTION, "Answers from own by openai/scripted")
    asked = server.count
    exports = [f"/export {tmp_path / 'talk.md'}", f'/export "{tmp_path / "talk.html"}"']
    ended = chat(QUESTION, *exports, exports[0], "/story", "/export x", "/resume", arguments=("--resume", "last"))
    assert "/list shows the names" in ended.err
    assert f"> {QUESTION}" in ended.fine()
    assert f"settled before, and not asked again, by: {QUESTION}" in ended.out
    assert server.count - asked <= 3
    assert "the file ends in .html or .md" in ended.err
    assert "talk.md is there already: give another name" in "".join(ended.err.split("\n"))
    assert (tmp_path / "talk.md").read_text().count(f"## {QUESTION}") == 2
    assert "<!DOCTYPE html>" in (tmp_path / "talk.html").read_text()
    conversations = Conversations(tmp_path / "conversations")
    conversations.ask(conversations.read(kept.id), "And where?")
    ended = chat("/resume last", "/delete", "/list")
    assert "> And where?\nno answer" in ended.out
    assert "Deleted." in ended.err
    assert Conversations(tmp_path / "conversations").listed() == []


def test_an_answer_that_cannot_be_kept_is_seen(chat, monkeypatch):
    monkeypatch.setattr("keqa.conversations.MOST_BYTES", 3000)
    ended = chat(QUESTION)
    assert ended.fine().splitlines()[0] == "Flora Isvik"
    assert "holds as much as is kept of one" in ended.err


def test_bytes_that_are_no_text_do_not_end_it(chat, tmp_path):
    assert "Flora Isvik" in chat(f"{QUESTION}\udce4").fine()
    assert Conversations(tmp_path / "conversations").listed()[0].title == QUESTION


def test_what_is_not_there_is_said(chat, tmp_path, server):
    chat("/story", arguments=("--resume", "0" * 16)).refused("there is no conversation 0000000000000000")
    chat(arguments=("--resume", "last", "--no-keep")).refused("leave out --no-keep")
    assert server.count == 0
    ended = chat("/list", "/export x.md", "/resume zz", QUESTION, QUESTION, arguments=("--no-keep",))
    assert "conversations are not kept here" in ended.err
    assert "no question was answered yet" in ended.err
    # In memory it goes on all the same.
    assert ended.fine().splitlines().count("Flora Isvik") == 2
    assert not (tmp_path / "conversations").exists()
