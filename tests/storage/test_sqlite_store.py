import pytest

from keqa.errors import InputError, StorageError
from keqa.storage.journal import SqliteStore


def test_what_is_kept_outlasts_the_process(tmp_path):
    path = tmp_path / "new" / "kept.sqlite"
    with SqliteStore(path, "things", "a cache of things") as file:
        assert file.get("a") is None
        file.put("a", {"text": "ö\ud800", "score": 0.1})
        file.put("b", [])
        file.put("b", None)
    with SqliteStore(path, "things", "a cache of things") as file:
        assert file.get("a") == {"text": "ö\ud800", "score": 0.1}
        assert file.get("b") is None


def test_another_file_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("no database, though it may look like one from afar")
    with pytest.raises(InputError, match=r"notes\.txt cannot be used as a cache of things.*name another, or delete"):
        SqliteStore(tmp_path / "notes.txt", "things", "a cache of things")
    with pytest.raises(InputError, match="cannot be used"):
        SqliteStore(tmp_path, "things", "a cache of things")


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
