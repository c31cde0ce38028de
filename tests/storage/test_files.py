"""What holds questions, answers or passages is its owner's alone, and one process's at a time."""

import errno
import os
import stat
import subprocess
import sys

import filelock
import pytest

import keqa
from keqa.errors import InputError, RetrievalError
from keqa.evaluation.records import RunHeader, RunLine
from keqa.evaluation.run_file import RunFile
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.retrievers import Passage, build_index
from keqa.storage.files import atomic_write, new_file, open_locked
from keqa.storage.journal import SqliteStore

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights and locks")


@pytest.fixture(params=[0o000, 0o022])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_run_file_is_private(tmp_path, umask):
    path = tmp_path / "runs" / "m.jsonl"
    line = RunLine(id="a", question="q", answers=["a"], answer_type="short", answer="a", scores={}, seconds=0.0)
    named = {"method": "m", "label": "m", "dataset": "", "split": "", "configuration": {}, "fingerprint": "f"}
    with RunFile.open(path, RunHeader(**named, seed=0, ids=["a"]), {"a": line.content}) as file:
        assert (mode(path.parent), mode(path)) == (0o700, 0o600)
        file.add(line)
    assert [mode(one) for one in path.parent.iterdir()] == [0o600]


def test_a_file_of_an_earlier_version_is_narrowed_and_the_users_folder_is_not(tmp_path, umask):
    tmp_path.chmod(0o755)
    for path in (tmp_path / "run.jsonl", tmp_path / "calls.sqlite"):
        path.touch()
        path.chmod(0o644)
    open_locked(tmp_path / "run.jsonl", "another run", "wait").close()
    SqliteStore(tmp_path / "calls.sqlite", "calls", "a cache").close()
    assert [mode(path) for path in tmp_path.iterdir()] == [0o600, 0o600]
    assert mode(tmp_path) == 0o755


def test_a_cache_and_the_files_beside_it_are_private(tmp_path, umask):
    path = tmp_path / "cache" / "calls.sqlite"
    with SqliteStore(path, "calls", "a cache") as file:
        file.put("a", "secret")
        found = {one.name: mode(one) for one in path.parent.iterdir()}
    assert found == {name: 0o600 for name in ("calls.sqlite", "calls.sqlite-wal", "calls.sqlite-shm")}
    assert mode(path.parent) == 0o700


def test_a_program_is_private_also_where_it_replaces_one(tmp_path, umask):
    entry = UtilityEntry("q", "To whom is Ann married?", "Ann is the spouse of Bo.", True)
    for _ in range(2):
        keqa.save(keqa.KEQA(None, reference=UtilityReference().fit([entry])), tmp_path / "program")
        assert mode(tmp_path / "program") == 0o700
        assert {mode(path) for path in (tmp_path / "program").iterdir()} == {0o600}


def test_an_index_is_private_in_a_folder_of_its_own_and_in_one_that_is_shared(tmp_path, umask):
    build_index([Passage("a", "secret", "secret")], tmp_path / "own")
    assert mode(tmp_path / "own") == 0o700
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    build_index([Passage("a", "secret", "secret")], tmp_path / "shared")
    assert mode(tmp_path / "shared") == 0o755
    assert {mode(one) for one in (tmp_path / "shared").iterdir()} == {0o600, 0o700}


def test_no_link_is_followed_under_a_name_that_others_know(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for planted in (".manifest.json.new", ".run.new"):
        (tmp_path / planted).symlink_to(precious)
    atomic_write(tmp_path / "manifest.json", b"{}")
    with new_file(tmp_path / ".run.new") as stream:
        stream.write(b"{}")
    assert precious.read_text() == "mine"
    assert not (tmp_path / "manifest.json").is_symlink()
    assert (tmp_path / "manifest.json").read_text() == "{}"


HOLDING = """
import sys, time
from pathlib import Path
from keqa.storage.files import open_locked
stream = open_locked(Path(sys.argv[1]), "another run", "wait")
print("held", flush=True)
time.sleep(600)
"""


def test_a_second_process_is_refused_with_advice_until_the_first_is_killed(tmp_path):
    path = tmp_path / "run.jsonl"
    first = subprocess.Popen([sys.executable, "-c", HOLDING, str(path)], stdout=subprocess.PIPE)
    try:
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(InputError) as refused:
            open_locked(path, "another run", "name another label")
        assert str(refused.value) == f"{path} is in use by another run; wait for its end, or name another label"
    finally:
        first.kill()
        first.wait()
        first.stdout.close()
    open_locked(path, "another run", "name another label").close()


def test_a_file_that_is_there_for_its_lock_is_private_and_its_kind_of_error_is_raised(tmp_path, umask):
    path = tmp_path / "lock"
    held = open_locked(path, "another process", "end it", lock_only=True)
    with held, pytest.raises(RetrievalError, match="in use by another process; wait for its end, or end it"):
        open_locked(path, "another process", "end it", lock_only=True, error=RetrievalError)
    assert mode(path) == 0o600


@pytest.mark.parametrize("lock_only", [False, True])
def test_a_pipe_is_not_waited_for_and_a_link_that_leads_nowhere_not_written_through(tmp_path, lock_only):
    os.mkfifo(tmp_path / "lock")
    (tmp_path / "keqa.jsonl").symlink_to(tmp_path / "elsewhere")
    for name, message in (("lock", "no regular file"), ("keqa.jsonl", "is a link that leads nowhere")):
        with pytest.raises(InputError, match=message):
            open_locked(tmp_path / name, "another run", "wait", lock_only=lock_only)
    assert not (tmp_path / "elsewhere").exists()


def test_a_link_is_followed_to_a_run_file_and_not_to_a_lock(tmp_path):
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    open_locked(tmp_path / "link", "another run", "wait").close()
    with pytest.raises(OSError, match="link"):
        open_locked(tmp_path / "link", "another process", "end it", lock_only=True)


def test_without_locks_a_run_file_is_used_and_an_index_refused(tmp_path, monkeypatch):
    def unsupported(descriptor, *, blocking):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(filelock, "lock_descriptor", unsupported)
    with open_locked(tmp_path / "run.jsonl", "another run", "wait") as stream:
        stream.write(b"line\n")
    with pytest.raises(InputError, match=r"cannot be locked.*another disk"):
        open_locked(tmp_path / "lock", "another process", "end it", lock_only=True)
