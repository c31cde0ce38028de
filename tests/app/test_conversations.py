"""Conversations on disk: whole or not at all, for their owner alone, and of a bounded size."""

import stat

import pytest
from fixtures.run_files import make_passage

from keqa import conversations
from keqa.conversations import Conversations, exported
from keqa.errors import InputError
from keqa.programs.earlier import findings_of
from keqa.programs.records import QuestionRecord, QuizRecord

PASSAGE = make_passage("1", "The fee is 5 crowns.", title="Harbour [rules]", file="rules.pdf", page=3)


def answered(question: str = "What is the fee?", **further) -> QuestionRecord:
    quiz = QuizRecord(
        index=1, text=question, resolved=question, passages=[PASSAGE], answer="5 crowns", source="passages", **further
    )
    return QuestionRecord(question=question, quizzes=[quiz], answer="5 crowns", answer_source="passages")


@pytest.fixture
def kept(tmp_path) -> Conversations:
    return Conversations(tmp_path / "own" / "conversations")


def test_what_was_said_is_there_again_in_its_order(kept):
    talk = kept.begin("What is\nthe fee?", "Answers from rules by m")
    talk = kept.answer(kept.ask(talk, "What is\nthe fee?"), answered(), by="one")
    kept.ask(talk, "And when?")
    (about,) = kept.listed()
    assert (about.title, about.about) == ("What is the fee?", "Answers from rules by m")
    again = kept.read(about.id)
    assert [(turn.question, turn.record) for turn in again.turns] == [
        ("What is\nthe fee?", answered()),
        # It was broken off.
        ("And when?", None),
    ]
    assert again.history == [("What is the fee?", "5 crowns")]
    (path,) = kept.folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.folder.stat().st_mode) == 0o700
    kept.delete(about.id)
    assert kept.listed() == []
    # What ends afterwards brings nothing back.
    kept.answer(talk, answered())
    assert kept.listed() == []


def test_two_questions_at_once_do_not_lose_each_other(kept):
    first = kept.ask(kept.begin("a"), "a")
    second = kept.ask(first, "b")
    kept.answer(first, answered("a"))
    kept.answer(second, answered("b"))
    assert [turn.record and turn.record.question for turn in kept.read(first.about.id).turns] == ["a", "b"]


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "0" * 15, "0" * 17, "G" * 16, "0" * 16 + "\n"])
def test_a_name_leads_nowhere_else(kept, name):
    for use in (kept.read, kept.delete):
        with pytest.raises(InputError, match="is named by"):
            use(name)


def test_what_is_no_conversation_is_said_and_passed_over(kept, tmp_path):
    talk = kept.ask(kept.begin("a"), "a")
    (kept.folder / f"{'1' * 16}.json").write_text("no JSON\n")
    (kept.folder / f"{'2' * 16}.json").symlink_to(kept.folder / f"{talk.about.id}.json")
    assert [one.id for one in kept.listed()] == [talk.about.id]
    for name in ("1" * 16, "2" * 16):
        with pytest.raises(InputError):
            kept.read(name)
    with pytest.raises(InputError, match="there is no conversation"):
        kept.read("3" * 16)


def test_sizes_are_bounded(kept, monkeypatch):
    monkeypatch.setattr(conversations, "MOST", 1)
    monkeypatch.setattr(conversations, "MOST_TURNS", 2)
    talk = kept.ask(kept.ask(kept.begin("a"), "a"), "b")
    with pytest.raises(InputError, match="begin a new one"):
        kept.ask(talk, "c")
    with pytest.raises(InputError, match="delete some"):
        kept.ask(kept.begin("d"), "d")
    monkeypatch.setattr(conversations, "MOST_BYTES", 300)
    with pytest.raises(InputError, match="begin a new one"):
        kept.answer(talk, answered("x" * 300))


def test_a_conversation_as_markdown_and_as_a_page(kept):
    talk = kept.answer(
        kept.ask(kept.begin("What is *the* fee?", "Answers from rules"), "What is *the* fee?"), answered()
    )
    talk = kept.ask(talk, "When?")
    text = exported(talk, "md", lambda source: f"http://here/{source.file}#page={source.page}")
    assert text == (
        "# What is \\*the\\* fee?\n\nAnswers from rules.\n\n## What is \\*the\\* fee?\n\n5 crowns\n\nSources:\n\n"
        "1. [Harbour \\[rules\\] (rules.pdf, page 3)](http://here/rules.pdf#page=3)\n\n"
        "[1]: http://here/rules.pdf#page=3\n\n## When?\n\nNo answer: it was broken off.\n"
    )
    page = exported(talk, "html", lambda source: None)
    assert "Content-Security-Policy" in page
    assert "The fee is 5 crowns." in page
    assert '"question":"When?"' in page
    assert '"about":"Answers from rules"' in page


@pytest.mark.parametrize(
    ("quiz", "settled"),
    [
        ({}, True),
        ({"supported": True}, True),
        ({"supported": False}, False),
        ({"abstained": True}, False),
        ({"source": "memory", "known": True}, True),
        ({"source": "memory", "known": False}, False),
        ({"source": "largest_cluster"}, False),
        ({"source": "closed_book"}, False),
        ({"answer": None, "source": "unanswered"}, False),
    ],
)
def test_only_what_is_no_guess_is_settled(quiz, settled):
    record = answered()
    (made,) = record.quizzes
    record = record.model_copy(update={"quizzes": [made.model_copy(update=quiz)]})
    assert [one.earlier for one in findings_of([record]).values()] == ["What is the fee?"] * settled
