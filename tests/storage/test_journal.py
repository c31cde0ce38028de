"""Finished work: on the disk when it was put, there after a kill, its owner's, and of one process and one purpose."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import InputError, StorageError
from keqa.storage.journal import Journal, SqliteStore

pytestmark = pytest.mark.process

PRINT = {"model": "openai/x", "top_k": 10}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "work" / "reference.journal"


# Hypothesis tries the constants of the code, too.
KEYS = st.text().filter(lambda key: key != "\0fingerprint")


@given(st.dictionaries(KEYS, st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=3)))
def test_what_was_put_is_there_when_opened_again(tmp_path_factory, work):
    path = tmp_path_factory.mktemp("journal") / "j"
    with Journal.open(path, PRINT) as journal:
        for key, value in work.items():
            journal.put(key, {"to": "be replaced"})
            journal.put(key, value)
        assert journal.get("\ud7ff never put") is None
    with Journal.open(path, PRINT) as journal:
        assert {key: journal.get(key) for key in journal} == work


def test_a_killed_process_leaves_what_it_finished(path):
    script = "import os; from keqa.storage.journal import Journal; "
    script += f"Journal.open({str(path)!r}, {PRINT!r}).put('a', {{'n': 1}}); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    with Journal.open(path, PRINT) as journal:
        assert journal.get("a") == {"n": 1}


def test_another_fingerprint_is_refused_with_what_differs(path):
    Journal.open(path, PRINT).close()
    with pytest.raises(InputError, match=r"\(top_k was 10, now 5; seed was absent, now 1\).*another folder, or delete"):
        Journal.open(path, {"model": "openai/x", "top_k": 5, "seed": 1})
    Journal.open(path, PRINT).close()
    # Of what is long, where it differs.
    Journal.open(path.with_name("long"), {"models": ["openai/x"] * 20}).close()
    with pytest.raises(InputError, match=r'\(models was \.\.\..*"openai/x"\], now \.\.\..*"openai/y"\]\)'):
        Journal.open(path.with_name("long"), {"models": [*["openai/x"] * 19, "openai/y"]})


def test_a_fingerprint_is_compared_as_json(path):
    Journal.open(path, {"roles": ("task", "utility")}).close()
    Journal.open(path, {"roles": ["task", "utility"]}).close()
    for name, value, message in (("null", None, "x was null, now absent"), ("empty", {}, "x was {}, now absent")):
        Journal.open(path.with_name(name), {"x": value}).close()
        with pytest.raises(InputError, match=message):
            Journal.open(path.with_name(name), {})


@pytest.mark.parametrize("made", ["my notes", '{"key": 1}\n', None])
def test_what_is_no_journal_is_left_alone(tmp_path, made):
    path = tmp_path / "notes"
    path.mkdir() if made is None else path.write_text(made)
    with pytest.raises(
        InputError, match=r"notes cannot be used as a journal of a compilation.*name another, or delete"
    ):
        Journal.open(path, PRINT)
    assert path.is_dir() if made is None else path.read_text() == made


def test_a_journal_without_its_fingerprint_is_none(path):
    with Journal.open(path, PRINT) as journal:
        journal.put("a", {})
        journal.drop("\0fingerprint")
    with pytest.raises(InputError, match="is no journal"):
        Journal.open(path, PRINT)


def test_what_is_there_and_something_else_is_damaged(path):
    with Journal.open(path, PRINT) as journal:
        journal.put("a", {"n": "x"})
        assert journal.get_as("b", lambda value: int(value["n"])) is None
        with pytest.raises(StorageError, match=r"the journal is damaged at 'a' \(invalid literal"):
            journal.get_as("a", lambda value: int(value["n"]))


def test_a_second_writer_is_refused(path):
    with Journal.open(path, PRINT), pytest.raises(InputError, match="in use by another compilation; wait for its end"):
        Journal.open(path, PRINT)
    Journal.open(path, PRINT).close()


def test_a_full_disk_is_an_error_with_a_type_and_what_was_kept_stays(path):
    with Journal.open(path, PRINT) as journal:
        journal.put("a", {})
        pages = journal._file.execute("PRAGMA page_count").fetchone()[0]
        journal._file.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StorageError, match=r"cannot be written: database or disk is full"):
            journal.put("b", {"text": "x" * 100_000})
        assert journal.get("b") is None
        journal.put("c", {})
    with Journal.open(path, PRINT) as journal:
        assert sorted(journal) == ["a", "c"]


@pytest.mark.parametrize("value", [{"n": float("nan")}, {"set": {1}}])
def test_what_is_not_json_is_refused_and_not_written(path, value):
    with Journal.open(path, PRINT) as journal:
        with pytest.raises((ValueError, TypeError)):
            journal.put("a", value)
        assert list(journal) == []


def test_a_link_leaves_what_it_leads_to_as_it_is(tmp_path):
    (tmp_path / "other.sqlite").write_bytes(b"")
    (tmp_path / "other.sqlite").chmod(0o644)
    (tmp_path / "calls.sqlite").symlink_to("other.sqlite")
    with pytest.raises(InputError, match="is a link"):
        SqliteStore(tmp_path / "calls.sqlite", "things", "a cache of things")
    assert (tmp_path / "other.sqlite").stat().st_mode & 0o777 == 0o644


def test_a_file_that_fails_says_so(tmp_path):
    file = SqliteStore(tmp_path / "kept.sqlite", "things", "a cache of things")
    file._file.execute("DROP TABLE things")
    with pytest.raises(StorageError, match="cannot be read"):
        file.get("a")
    file.close()
    with pytest.raises(StorageError, match="cannot be written"):
        file.put("a", 1)
