"""One process at a time: locks that end with their process, and what a second process is advised to do."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys

import filelock
import pytest

from keqa.errors import InputError, RetrievalError
from keqa.storage.files import open_locked

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files with content are not locked on Windows")

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


def test_a_file_that_is_there_for_its_lock_is_private_and_its_kind_of_error_is_raised(tmp_path):
    path = tmp_path / "lock"
    before = os.umask(0)
    try:
        with (
            open_locked(path, "another process", "end it", lock_only=True),
            pytest.raises(RetrievalError, match="in use by another process; wait for its end, or end it"),
        ):
            open_locked(path, "another process", "end it", lock_only=True, error=RetrievalError)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("lock_only", [False, True])
def test_a_pipe_is_refused_rather_than_waited_for(tmp_path, lock_only):
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(InputError, match="no regular file"):
        open_locked(tmp_path / "lock", "another run", "wait", lock_only=lock_only)


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


@pytest.mark.parametrize("lock_only", [True, False])
def test_a_link_that_leads_nowhere_is_not_written_through(tmp_path, lock_only):
    (tmp_path / "keqa.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is a link that leads nowhere"):
        open_locked(tmp_path / "keqa.jsonl", "another run", "wait", lock_only=lock_only)
    assert not (tmp_path / "elsewhere").exists()
