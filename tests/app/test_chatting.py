"""``keqa chat``: a conversation on the terminal, and what is kept of it."""

import io
import sys

import pytest
from fixtures.serving import QUESTION

from keqa.conversations import Conversations


@pytest.fixture
def chat(keqa_command, server, own_index, monkeypatch):
    """Has lines typed into the command."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    options = ("--settle", "quizzes", "--no-look-first", "--no-cache", "--index", own_index, "--lm", "openai/scripted")

    def typed(*lines, arguments=()):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return keqa_command("chat", *options, "--api-base", server.api_base, *arguments)

    return typed


def test_a_conversation_is_kept_resumed_exported_and_deleted(chat, server, tmp_path):
    assert chat(QUESTION, "/list").fine().splitlines()[0] == "Flora Isvik"
    (kept,) = Conversations(tmp_path / "conversations").listed()
    assert (kept.title, kept.about) == (QUESTION, "Answers from own by openai/scripted")
    asked = server.count
    ended = chat(
        QUESTION,
        f"/export {tmp_path / 'talk.md'}",
        f"/export {tmp_path / 'talk.html'}",
        "/story",
        "/export x",
        arguments=("--resume", "last"),
    )
    assert f"> {QUESTION}" in ended.fine()
    assert f"settled before, and not asked again, by: {QUESTION}" in ended.out
    assert server.count - asked <= 3
    assert "the file ends in .html or .md" in ended.err
    assert (tmp_path / "talk.md").read_text().count(f"## {QUESTION}") == 2
    assert "<!DOCTYPE html>" in (tmp_path / "talk.html").read_text()
    assert "Deleted." in chat("/resume last", "/delete", "/list").err
    assert Conversations(tmp_path / "conversations").listed() == []


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
