import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.storage.journal import Journal

pytestmark = pytest.mark.process

PRINT = {"model": "openai/x", "top_k": 10}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "work" / "reference.jsonl"


def test_what_was_put_is_there_when_opened_again(path):
    with Journal.open(path, PRINT) as journal:
        journal.put("a", {"text": "Zoë\u2028\n", "n": 1})
        journal.put("b", {})
        assert len(journal) == 2
    with Journal.open(path, PRINT) as journal:
        assert journal.get("a") == {"text": "Zoë\u2028\n", "n": 1}
        assert journal.get("b") == {}
        assert journal.get("c") is None
        assert "a" in journal
        assert "c" not in journal
        assert len(journal) == 2
        assert journal.path == path


def test_the_last_of_one_key_counts(path):
    with Journal.open(path, PRINT) as journal:
        journal.put("a", {"n": 1})
        journal.put("a", {"n": 2})
        assert len(journal) == 1
    with Journal.open(path, PRINT) as journal:
        assert journal.get("a") == {"n": 2}


def test_every_line_is_on_the_disk_when_put_returns(path):
    with Journal.open(path, PRINT) as journal:
        for number in range(3):
            journal.put(str(number), {})
            assert path.read_bytes().count(b"\n") == number + 2


def test_wherever_a_kill_cuts_it_off_the_whole_lines_stay(path):
    with Journal.open(path, PRINT) as journal:
        for number in range(3):
            journal.put(str(number), {"n": number})
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with Journal.open(path, PRINT) as journal:
            assert len(journal) == max(0, whole[:cut].count(b"\n") - 1)
            journal.put("new", {"cut": cut})
        with Journal.open(path, PRINT) as journal:
            assert journal.get("new") == {"cut": cut}
        assert path.read_bytes()[:header] == whole[:header]


def test_a_tail_of_zeros_is_dropped(path):
    with Journal.open(path, PRINT) as journal:
        journal.put("a", {})
    path.write_bytes(path.read_bytes() + b"\0" * 40)
    with Journal.open(path, PRINT) as journal:
        assert len(journal) == 1


def test_a_killed_process_leaves_what_it_finished(path):
    script = (
        "import os, signal, sys\n"
        "from keqa.storage.journal import Journal\n"
        f"journal = Journal.open({str(path)!r}, {PRINT!r})\n"
        "journal.put('a', {'n': 1})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    with Journal.open(path, PRINT) as journal:
        assert journal.get("a") == {"n": 1}


def test_another_fingerprint_is_refused_with_what_differs(path):
    Journal.open(path, PRINT).close()
    before = path.read_bytes()
    with pytest.raises(InputError) as caught:
        Journal.open(path, {"model": "openai/x", "top_k": 5, "seed": 1})
    message = str(caught.value)
    assert "seed was absent, now 1; top_k was 10, now 5" in message
    assert "another folder" in message
    assert "delete" in message
    assert "model" not in message.partition("(")[2]
    assert path.read_bytes() == before


def test_a_fingerprint_is_compared_as_json(path):
    Journal.open(path, {"roles": ("task", "utility")}).close()
    Journal.open(path, {"roles": ["task", "utility"]}).close()
    Journal.open(path.with_name("other"), {"x": None}).close()
    with pytest.raises(InputError, match="x was null, now absent"):
        Journal.open(path.with_name("other"), {})


@pytest.mark.parametrize("text", ["my notes", "my notes\n", '{"key": 1}\n', "[]\n"])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(InputError, match="is no journal"):
        Journal.open(path, PRINT)
    assert path.read_text() == text


def test_a_journal_of_another_version_is_refused(path):
    Journal.open(path, PRINT).close()
    path.write_bytes(path.read_bytes().replace(b'"keqa_journal": 1', b'"keqa_journal": 2'))
    with pytest.raises(InputError, match="another version"):
        Journal.open(path, PRINT)


def test_damage_in_the_middle_is_named_by_line(path):
    with Journal.open(path, PRINT) as journal:
        for key in "abc":
            journal.put(key, {})
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2][:9] + b"\n", *lines[3:]]))
    with pytest.raises(InputError, match="line 3: the journal is damaged"):
        Journal.open(path, PRINT)


def test_a_second_writer_is_refused(path):
    with Journal.open(path, PRINT), pytest.raises(InputError, match="in use by another compilation"):
        Journal.open(path, PRINT)
    Journal.open(path, PRINT).close()


def test_a_folder_in_its_place_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be opened"):
        Journal.open(tmp_path, PRINT)


def test_a_full_disk_is_an_error_with_a_type_and_leaves_no_torn_line(path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with Journal.open(path, PRINT) as journal:
        journal.put("a", {})
        whole = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(InputError, match="No space left on device"):
                journal.put("b", {})
        assert path.read_bytes() == whole
        assert "b" not in journal
        journal.put("c", {})
    with Journal.open(path, PRINT) as journal:
        assert len(journal) == 2


def test_many_threads_write_whole_lines(path):
    with Journal.open(path, PRINT) as journal, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: journal.put(str(n), {"text": "x" * n}), range(100)))
    assert len([json.loads(line) for line in path.read_bytes().splitlines()]) == 101
    with Journal.open(path, PRINT) as journal:
        assert {journal.get(str(n))["text"] for n in range(100)} == {"x" * n for n in range(100)}


def test_what_the_caller_changes_later_stays_outside(path):
    value = {"list": [1]}
    with Journal.open(path, PRINT) as journal:
        journal.put("a", value)
        value["list"].append(2)
        assert journal.get("a") == {"list": [1]}


@pytest.mark.parametrize("value", [{"n": float("nan")}, {"set": {1}}])
def test_what_is_not_json_is_refused_and_not_written(path, value):
    with Journal.open(path, PRINT) as journal:
        before = path.read_bytes()
        with pytest.raises((ValueError, TypeError)):
            journal.put("a", value)
        assert path.read_bytes() == before


@given(st.dictionaries(st.text(), st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=3)))
def test_any_text_comes_back(tmp_path_factory, work):
    path = tmp_path_factory.mktemp("journal") / "j.jsonl"
    with Journal.open(path, PRINT) as journal:
        for key, value in work.items():
            journal.put(key, value)
    with Journal.open(path, PRINT) as journal:
        assert {key: journal.get(key) for key in work} == work
