"""``keqa index add``, ``remove``, ``sync`` and ``info --files``."""

import json

import pytest


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "zebra.txt").write_text("The zebra has stripes.")
    (folder / "okapi.txt").write_text("The okapi lives in the forest.")
    return folder


def test_an_index_follows_a_folder(keqa_command, documents, tmp_path):
    index = tmp_path / "index"
    assert keqa_command("index", documents, "-o", index).code == 0
    (documents / "zebra.txt").write_text("The zebra has many stripes.")
    (documents / "okapi.txt").unlink()
    (documents / "dodo.md").write_text("# Dodo\n\nThe dodo is extinct.")
    ended = keqa_command("index", "sync", index, documents)
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        f"new: {documents / 'dodo.md'}",
        f"changed: {documents / 'zebra.txt'}",
        f"gone: {documents / 'okapi.txt'}",
        f"{index}: 1 new, 1 changed, 1 gone and 0 unchanged files; 2 passages written, 2 removed, 2 now",
    ]
    found = json.loads(keqa_command("search", "stripes", "-i", index, "--json").out)["hits"]
    assert [hit["text"] for hit in found] == ["The zebra has many stripes."]
    described = keqa_command("index", "info", index, "--files").out
    assert [line.split() for line in described.splitlines()][-2:] == [
        ["1", str(documents / "dodo.md")],
        ["1", str(documents / "zebra.txt")],
    ]


def test_files_come_and_go(keqa_command, documents, tmp_path):
    index, other = tmp_path / "index", tmp_path / "other.txt"
    keqa_command("index", documents, "-o", index)
    other.write_text("A quagga.")
    done = json.loads(keqa_command("index", "add", index, other, "--json").out)["indexes"]
    assert [(one["added"], one["passages"]) for one in done] == [([str(other)], 3)]
    # The second time, as after a kill whose command had done all of it.
    for gone in (1, 0):
        ended = keqa_command("index", "remove", index, other, "zebra.txt")
        assert (ended.code, ended.out.count(" 1 gone and"), ended.out.count("1 now")) == (0, gone, 1)
    (part,) = json.loads(keqa_command("index", "info", index, "--json").out)["indexes"]
    assert (part["passages"], part["sources"]) == (1, [str(documents)])
    assert part["files"] == {str(documents / "okapi.txt"): 1, str(documents / "zebra.txt"): 0}


def test_a_damaged_index_is_named_with_exit_code_1(keqa_command, documents, tmp_path):
    index = tmp_path / "index"
    keqa_command("index", documents, "-o", index)
    ended = keqa_command("index", "info", index, "--verify")
    assert ended.code == 0
    assert "checksums damaged" in ended.out
    store = next(index.glob("data/*.store"))
    whole = store.read_bytes()
    # This process has the file in its memory.
    store.unlink()
    store.write_bytes(whole[:1] + bytes([whole[1] ^ 1]) + whole[2:])
    ended = keqa_command("index", "info", index, "--verify", "--json")
    assert ended.code == 1
    assert json.loads(ended.out)["indexes"][0]["checksums"]["damaged"] == [store.name]
    assert f"{index} is damaged, in {store.name}: build it again" in " ".join(ended.err.split())


def test_what_cannot_be_read_ends_in_1(keqa_command, documents, tmp_path):
    index = tmp_path / "index"
    keqa_command("index", documents, "-o", index)
    (documents / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    ended = keqa_command("index", "sync", index, documents)
    assert ended.code == 1
    assert "broken.pdf" in ended.err
    assert keqa_command("index", "sync", index, documents, "--skip-unreadable").code == 0
    assert keqa_command("index", "add", index, tmp_path / "nowhere").code == 2
    assert keqa_command("index", "remove", index, "nowhere.txt").code == 2
    assert keqa_command("index", "sync", tmp_path / "no-index", documents).code == 2


def test_a_hybrid_is_changed_part_by_part(keqa_command, documents, tmp_path):
    for name in ("one", "two"):
        keqa_command("index", documents, "-o", tmp_path / name)
    (documents / "dodo.txt").write_text("The dodo is extinct.")
    done = keqa_command("index", "sync", f"{tmp_path / 'one'},{tmp_path / 'two'}", documents, "--json").out
    assert [one["passages"] for one in json.loads(done)["indexes"]] == [3, 3]
