"""A byte that changes in an index is found by its checksums, whatever the engine makes of it."""

import shutil

import pytest

from keqa.retrievers import add_passages, build_index, open_index
from keqa.retrievers.base import Passage
from keqa.retrievers.checksums import verify
from keqa.retrievers.engines import facts_of


def checked(index):
    return facts_of(index, verify=True)[0]["checksums"]


@pytest.fixture
def index(tmp_path, passages):
    build_index(passages, tmp_path / "i", sources=["docs"])
    add_passages(tmp_path / "i", [Passage("new", "", "okapi")])
    return tmp_path / "i"


def test_any_byte_of_any_file_counts(index):
    data = index / open_index(index).manifest.data
    names = [one.name for one in data.iterdir() if not one.name.startswith(".")]
    kept = [one for one in names if one not in ("checksums.json", "files.sqlite")]
    assert checked(index) == {"files": len(kept) + 1, "damaged": (), "unknown": ()}
    # Nothing has mapped a copy into memory.
    index = shutil.copytree(index, index.with_name("copy"))
    for path in (index / data.name / name for name in kept):
        whole = path.read_bytes()
        for place in (0, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            assert verify(index).damaged == (path.name,)
        path.write_bytes(whole)
    manifest = index / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"docs"', b'"dogs"'))
    assert verify(index).damaged == ("manifest.json",)
    manifest.write_bytes(manifest.read_bytes().replace(b'"dogs"', b'"docs"'))
    assert verify(index).damaged == ()


def test_an_index_of_an_earlier_version_has_none_until_it_is_changed(index):
    (index / open_index(index).manifest.data / "checksums.json").unlink()
    found = checked(index)
    assert (found["files"], found["damaged"]) == (0, ())
    assert "manifest.json" in found["unknown"]
    add_passages(index, [Passage("later", "", "quagga")])
    assert checked(index)["unknown"] == ()
