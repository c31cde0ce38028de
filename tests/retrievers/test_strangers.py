"""An embedded index that someone else made, and folders in which one is to be built."""

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.errors import InputError, KeqaError, RetrievalError
from keqa.retrievers import Manifest, add_files, build_index, open_index, read_corpus
from keqa.retrievers.engines import facts_of
from keqa.retrievers.local.build import check_place


@pytest.fixture
def index(tmp_path, passages):
    build_index(passages, tmp_path / "i", sources=["docs"])
    return tmp_path / "i"


@pytest.fixture
def data(index):
    return index / "data"


@pytest.fixture
def manifest(data):
    return next(data.glob("manifest-*.json"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "org/model", "api_base": "http://x"}, r"unknown model, unknown api_base"),
        ({"passages": True}, "passages must be int"),
        ({"passages": 4.0}, "passages must be int"),
        ({"renamed": -1}, "renamed must be a number from 0 on"),
        ({"sources": "docs"}, "sources must be tuple"),
        ({"sources": [1]}, "sources must be str"),
        ({"name": "n" * 5000}, "name has 5,000 characters"),
        ({"analyzer": []}, "analyzer must be an object"),
        (
            {"analyzer": {"version": 2, "language": ["en"], "tokenizer": "en_stem", "title_weight": 0.5}},
            "language must",
        ),
        (
            {"analyzer": {"version": 2, "language": "en", "tokenizer": "en_stem", "title_weight": "1"}},
            "title_weight must",
        ),
        ({"data": "data\x00"}, "must name something inside"),
        ({"data": "C:elsewhere"}, "must name something inside"),
        ({"left_out": {"passed_over": {".png": "many"}}}, "left_out.passed_over must be int"),
        ({"left_out": {"password": 1}}, "unknown left_out.password"),
        ({"schema_version": [1]}, "schema version"),
        ({"format": "other"}, "is not the manifest of an index"),
        ({"engine": "abacus"}, "engine abacus, which this version does not know"),
    ],
)
def test_entries_of_other_types_or_ranges_are_refused_by_name(index, altered, change, message):
    altered(index, **change)
    with pytest.raises(RetrievalError, match=message):
        open_index(index)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"format": "keqa-index", "schema_version": 2, "passages": NaN}',
        '{"format": "keqa-index", "format": "keqa-index"}',
        '{"format": "keqa-index", "schema_version": ' + "1" * 5000 + "}",
        '"keqa-index"',
        "\xff",
    ],
)
def test_json_that_nobody_writes_is_refused(index, manifest, text):
    manifest.write_text(text, encoding="latin-1")
    with pytest.raises(RetrievalError, match=r"manifest-0\.json"):
        open_index(index)


@pytest.mark.parametrize("kind", ["pipe", "device", "link", "large"])
def test_a_manifest_is_a_regular_file_of_bounded_size(index, manifest, tmp_path, kind):
    path = manifest
    path.rename(tmp_path / "elsewhere.json")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere.json")
    else:
        with path.open("wb") as stream:
            stream.truncate(1 << 40)
    with pytest.raises(RetrievalError, match=r"no regular file|the most that is read"):
        open_index(index)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "folder link"])
def test_the_engines_folder_holds_regular_files_only(index, data, tmp_path, kind):
    if kind == "folder link":
        data.rename(tmp_path / "elsewhere")
        data.symlink_to(tmp_path / "elsewhere")
    elif kind == "link":
        (data / "meta.json").rename(tmp_path / "meta.json")
        (data / "meta.json").symlink_to(tmp_path / "meta.json")
    else:
        os.mkfifo(data / "odd") if kind == "pipe" else (data / "odd").mkdir()
    for opening in (open_index, facts_of):
        with pytest.raises(RetrievalError, match=r"is a link|no regular file"):
            opening(index)


@pytest.mark.parametrize("meta", ["[" * 100_000, '{"opstamp": 1e400}', '{"opstamp": true}', "[]", '{"opstamp": "7"}'])
def test_the_record_of_the_engine_is_checked(index, data, meta):
    (data / "meta.json").write_text(meta)
    with pytest.raises(RetrievalError, match="is broken"):
        open_index(index)


def test_fields_of_another_schema_are_refused(index, data):
    meta = json.loads((data / "meta.json").read_text())
    meta["schema"][0]["name"] = "other"
    (data / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(RetrievalError, match=r"has other fields|cannot be opened"):
        open_index(index)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(
            ["name", "passages", "sources", "analyzer", "data", "left_out", "deleted", "x", "engine", "format"]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=5,
        ),
        max_size=3,
    )
)
def test_any_manifest_is_one_or_a_typed_error(change):
    whole = {
        **{"format": "keqa-index", "schema_version": 2, "name": "n", "passages": 4, "renamed": 0, "source_hash": "h"},
        **{"sources": ["s"], "created": "now"},
        "analyzer": {"version": 2, "language": "en", "tokenizer": "whitespace", "title_weight": 0.5},
    }
    reported = ""
    try:
        manifest = Manifest.from_json(json.dumps(whole | change), "manifest.json")
    except RetrievalError as error:
        reported = str(error)
    assert "manifest.json" in reported or Manifest.from_json(manifest.to_json(), "again") == manifest


def test_what_was_left_out_is_kept_and_reported(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("A note.")
    (folder / "b.pdf").write_text("no PDF")
    (folder / "c.png").write_bytes(b"x")
    reported = []
    corpus = read_corpus([folder], notice=reported.append)
    manifest = build_index(corpus, tmp_path / "i")
    assert manifest.left_out.unexpected == 1
    assert manifest.left_out == corpus.left_out == open_index(tmp_path / "i").manifest.left_out
    assert facts_of(tmp_path / "i")[0]["left_out"] == {
        "passed_over": {".png": 1},
        "unread": {"damaged": 1},
        "names": manifest.left_out.names,
    }
    assert reported[:2] == [
        f"passed over, as such files are not read: 1 .png ({folder}/c.png)",
        "left out, although it should have been read: 1 damaged",
    ]
    # One that knows of nothing says nothing of it, as indexes of earlier versions do.
    assert "left_out" not in build_index([*read_corpus([folder / "a.txt"])], tmp_path / "j").to_json()


def test_an_index_of_other_sources_is_not_replaced_unasked(index, passages):
    with pytest.raises(InputError, match=r"holds an index of other sources \(docs\).*--force"):
        build_index(passages[:1], index, sources=["other"])
    with pytest.raises(InputError, match="other sources"):
        build_index(passages[:1], index)
    assert open_index(index).manifest.passages == 4
    assert build_index(passages[:2], index, sources=["./docs/"]).passages == 2
    assert build_index(passages[:1], index, sources=["other"], overwrite=True).passages == 1
    assert open_index(index).manifest.sources == ("other",)


def test_a_place_that_cannot_be_written_to_is_reported_before_any_work(index, tmp_path, passages, monkeypatch):
    def never():
        pytest.fail("passages were read")
        yield

    monkeypatch.setattr(os, "access", lambda path, mode, **_: False)
    for place in (index, tmp_path / "new" / "index"):
        with pytest.raises(
            InputError, match=r"cannot be written to.*read-only. Name a folder .* in which you may write"
        ):
            build_index(never(), place, sources=["docs"])
    assert not (tmp_path / "new").exists()


def test_a_place_below_a_file_is_reported(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"cannot be created: .*file is a file"):
        check_place(tmp_path / "file" / "index", (), overwrite=False)


@pytest.mark.parametrize("name", ["documents:idx", "documents:idx/new", Path("documents:idx")])
def test_a_name_that_is_the_address_of_something_else_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    passages = iter(["The oak is old."])
    with pytest.raises(InputError, match=r"could not be named afterwards: .* another folder, such as documents-idx"):
        build_index(passages, name)
    assert list(tmp_path.iterdir()) == []
    assert next(passages) == "The oak is old."


def test_an_index_is_for_its_owner_and_a_folder_that_was_there_is_left_as_it_is(index, tmp_path, passages):
    assert stat.S_IMODE(index.stat().st_mode) == 0o700
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    build_index(passages, tmp_path / "shared")
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "shared" / "data").stat().st_mode) == 0o700


def test_links_in_an_index_from_elsewhere_lead_no_writing_out_of_it(index, tmp_path, passages):
    mine = tmp_path / "mine"
    mine.write_text("precious")
    for name in (".manifest-0.json.tmp", "checksums.json", "0.rows"):
        (index / "data" / name).unlink(missing_ok=True)
        (index / "data" / name).symlink_to(mine)
    build_index(passages, index, sources=["docs"])
    assert mine.read_text() == "precious"
    (index / "lock").unlink()
    (index / "lock").symlink_to(mine)
    with pytest.raises(KeqaError, match="cannot be changed"):
        build_index(passages, index, sources=["docs"])


@pytest.mark.parametrize("files", ["", "[]", '{"/a": 5}', "{" * 100_000])
def test_what_is_said_of_files_is_checked(index, manifest, files, tmp_path):
    manifest.write_text(manifest.read_text().partition("\n")[0] + "\n" + files)
    assert open_index(index).search("zebra")
    for asked in (facts_of, lambda address: add_files(address, [index.parent])):
        with pytest.raises(RetrievalError, match=r"manifest-0\.json"):
            asked(index)


def test_a_source_whose_name_is_no_text_is_kept(tmp_path, passages):
    name = os.fsdecode(b"caf\xe9")
    build_index(passages, tmp_path / "i", sources=[name])
    assert open_index(tmp_path / "i").manifest.sources == (name,)
    assert build_index(passages, tmp_path / "i", sources=[name]).passages == 4
