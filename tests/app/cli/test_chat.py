"""Questions and follow-ups on the command line."""

import io

import pytest

from keqa.errors import StageError

pytestmark = pytest.mark.server

QUESTION = "To whom is the mayor of Carmouth married?"


@pytest.fixture
def chat(keqa_command, server, own_index, monkeypatch):
    def hold(*lines, further=()):
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
        lm = ["--lm", "openai/scripted", "--api-base", server.api_base, "--no-cache"]
        as_papers = ["--no-look-first", "--no-draft", "--no-cite", "--settle", "quizzes"]
        return keqa_command("chat", *as_papers, "--index", own_index, *lm, *further)

    return hold


def test_a_follow_up_stands_alone(chat, server):
    assert chat("Who governs Carmouth?", "", "To whom is the mayor married?").fine().splitlines() == [
        "Flora Isvik",
        "Sources: Heidi Fenman",
        "→ To whom is the mayor of Carmouth married?",
        "Flora Isvik",
        "Sources: Heidi Fenman",
    ]
    assert any("Who governs Carmouth? Flora Isvik" in str(call.messages) for call in server.calls)


def test_the_story_and_a_new_conversation(chat, server):
    ended = chat(
        "/story", QUESTION, "/story", "/new", "/story", "/what", "To whom is the mayor married?", "/quit", "Who?"
    )
    assert ended.code == 0, ended.err
    assert "├── Quiz 1: Who governs Carmouth?" in ended.out
    assert ended.err.count("no question was answered yet") == 2
    assert "there is no /what" in ended.err
    # Nothing was said before, so that nothing stands alone, and after the end nothing is asked.
    assert "→ To whom is the mayor" not in ended.out
    assert not any("Who?" in str(call.messages) for call in server.calls)


def test_a_question_that_cannot_be_asked_or_has_no_answer_does_not_end_it(chat, monkeypatch):
    ended = chat("long " * 3000, QUESTION)
    assert ended.code == 0
    assert "characters" in ended.err
    assert "Flora Isvik" in ended.out

    def fails(self, *args, **kwargs):
        raise StageError("summarize", "LMTimeoutError", "no reply")

    monkeypatch.setattr("keqa.programs.keqa.KEQA.__call__", fails)
    ended = chat(QUESTION, QUESTION)
    assert ended.code == 0
    assert ended.err.count("no reply") == 2


def test_an_interrupt_gives_up_the_question(chat, monkeypatch):
    def interrupted(self, *args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("keqa.programs.keqa.KEQA.__call__", interrupted)
    ended = chat(QUESTION, QUESTION)
    assert ended.code == 0
    assert ended.err.count("given up") == 2
