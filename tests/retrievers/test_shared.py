"""An index that others may read and not write: another user's, or on a disk that is mounted read-only."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from keqa.retrievers import build_index, delete_passages, open_index

pytestmark = pytest.mark.process


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no such rights here")
def test_an_index_is_searched_where_nothing_can_be_written(passages):
    script = """
import os, sys
from keqa.retrievers import build_index, delete_passages, open_index
from keqa.retrievers.engines import facts_of

def used(index):
    facts_of(index, verify=True)
    return open_index(index).search("zebra")[0].passage.id

used(sys.argv[1])  # Everything is imported, which another user may not be allowed to.
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
print(used(sys.argv[2]))
"""
    with tempfile.TemporaryDirectory() as folder:
        index, own = Path(folder, "index"), Path(folder, "own")
        build_index(passages, index)
        build_index(passages, own)
        for entry in (Path(folder), index, *index.rglob("*")):
            # As chmod -R a+rX, and for its owner as on such a disk.
            entry.chmod(0o555 if entry.is_dir() else 0o444)
        command = [sys.executable, "-c", script, own, index]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        for entry in (Path(folder), index, *index.rglob("*")):
            entry.chmod(0o700)
        assert found.stdout == "p4\n", found.stderr


def test_it_stays_open_when_the_links_to_it_are_gone(tmp_path, passages, monkeypatch):
    build_index(passages, tmp_path / "i")
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: mode != os.W_OK and real(path, mode, **more))
    opened = open_index(tmp_path / "i")
    assert [opened.search(query)[0].passage.id for query in ("zebra", "band", "zebra")] == ["p4", "p3", "p4"]
    assert opened.reload().passages == 4
    assert opened.search("stripes")[0].passage.text == "The zebra has black and white stripes."


def test_a_file_that_somebody_cuts_off_is_an_error_and_no_end_of_the_process(tmp_path, passages):
    manifest = build_index(passages, tmp_path / "i")
    stores = sorted((tmp_path / "i" / manifest.data).glob("*.store"))
    script = "import os, sys; from keqa.retrievers import open_index; from keqa.errors import RetrievalError\n"
    script += "found = open_index(sys.argv[1]); found.search('zebra'); [os.truncate(one, 0) for one in sys.argv[2:]]\n"
    script += "try: found.search('zebra')\nexcept RetrievalError as error: print(error)"
    command = [sys.executable, "-c", script, tmp_path / "i", *stores]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout.endswith(".store was cut off while it was in use: build the index again\n"), found.returncode


def test_a_change_cuts_nothing_off(tmp_path, passages):
    build_index(passages, tmp_path / "i")
    opened = open_index(tmp_path / "i")
    for number in range(3):
        delete_passages(tmp_path / "i", [f"p{number + 1}"])
        assert opened.search("zebra")[0].passage.id == "p4"
