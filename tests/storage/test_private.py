"""What holds questions, answers or passages is its owner's alone, whatever the umask."""

from __future__ import annotations

import os
import stat
import sys

import pytest

import keqa
from keqa.evaluation.records import RunHeader, RunLine
from keqa.evaluation.run_file import RunFile
from keqa.programs.reference.utility_reference import Entry, UtilityReference
from keqa.retrievers import Passage, build_index
from keqa.storage.files import atomic_write, new_file, open_locked
from keqa.storage.journal import SqliteStore

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")


@pytest.fixture(params=[0o000, 0o022])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def modes_below(folder):
    """Modes of a folder and of all that others can reach in it."""
    found = {folder.name: mode(folder)}
    if mode(folder) & 0o077:
        for entry in folder.iterdir():
            found |= modes_below(entry) if entry.is_dir() else {entry.name: mode(entry)}
    return found


def header(*ids):
    return RunHeader(
        method="m", label="m", dataset="", split="", seed=0, ids=list(ids), configuration={}, fingerprint="f"
    )


def line(name):
    return RunLine(id=name, question="q", answers=["a"], answer_type="short", answer="a", scores={}, seconds=0.0)


def test_a_run_file_is_private(tmp_path, umask):
    path = tmp_path / "runs" / "m.jsonl"
    lines = [line("a"), line("b")]
    asked = {one.id: one.content for one in lines}
    with RunFile.open(path, header("a", "b"), asked) as file:
        assert (mode(path.parent), mode(path)) == (0o700, 0o600)
        file.add(lines[1])
        file.add(lines[0])
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
    entry = Entry("q", "To whom is Ann married?", "Ann is the spouse of Bo.", True)
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
    found = modes_below(tmp_path / "shared")
    assert found.pop("shared") == 0o755
    assert set(found.values()) == {0o600, 0o700}


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
