"""Indexes in folders that someone else made, and folders in which one is to be built."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from fixtures.drawing import at_most
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.errors import ConfigurationError, InputError, KeqaError, RetrievalError
from keqa.retrievers import Manifest, add_files, build_dense, build_index, open_index, read_corpus
from keqa.retrievers.embedding import open_model
from keqa.retrievers.engines import facts_of


@pytest.fixture
def index(tmp_path, passages):
    build_index(passages, tmp_path / "i", sources=["docs"])
    return tmp_path / "i"


@pytest.fixture
def dense(library, tmp_path, passages):
    build_dense(passages, tmp_path / "d", model="some/model")
    library.CALLS.clear()
    return tmp_path / "d"


@pytest.fixture
def manifest(index):
    return next((index / "data").glob("manifest-*.json"))


def opened(folder):
    return open_index(folder, model="some/model")


def vectors(folder, suffix):
    return next((folder / "data").glob(f"vectors-*{suffix}"))


ANALYZER = {"version": 2, "language": "en", "tokenizer": "whitespace", "title_weight": 0.5}


WRONG = [
    ({"model": "org/model", "api_base": "http://x"}, r"model: Unexpected .*; api_base: Unexpected"),
    ({"passages": 5}, "its manifest says 5 passages, it holds 4"),
    ({"passages": "4"}, "passages: Input should be a valid integer"),
    ({"passages": 10**30}, "passages: Input should be less than"),
    ({"renamed": -1}, "renamed: Input should be greater than or equal to 0"),
    ({"sources": [1]}, "sources.0: Input should be a valid string"),
    ({"name": "n" * 5000}, "name: has 5,000 characters"),
    ({"analyzer": {}}, "analyzer.version: Field required"),
    ({"analyzer": {**ANALYZER, "version": 9}}, "does not know"),
    ({"data": "C:elsewhere"}, "data: String should match pattern"),
    ({"left_out": {"passed_over": {".png": "many"}}}, "left_out.passed_over..png: Input should be a valid integer"),
    ({"left_out": {"password": 1}}, "left_out.password: Unexpected"),
    ({"schema_version": [1]}, "schema version"),
    ({"format": "other"}, "is not the manifest of an index"),
    ({"engine": "abacus"}, "engine abacus, which this version does not know"),
]
WRONG_OF_VECTORS = [
    ({"encoder": {"dimension": 10**12}}, "encoder.dimension: Input should be less than or equal to 65536"),
    ({"encoder": {"similarity": "euclid"}}, "encoder.similarity: String should match pattern"),
    ({"encoder": {"trust_remote_code": True}}, "encoder.trust_remote_code: Unexpected"),
    ({"vectors": {"kind": "hnsw"}}, "vectors.kind: String should match pattern"),
    ({"vectors": {"kind": "ivf-sq8", "lists": 2**40, "nprobe": 1}}, "vectors.lists and nprobe"),
    ({"data": ""}, "must name the files"),
    ({"language": "xx"}, "unknown language"),
    ({"probe": [1.0]}, "probe must be 16 numbers"),
    ({"rows": 5}, "not complete"),
    ({"engine": "embedded"}, "analyzer: Field required"),
]


@pytest.mark.parametrize(
    ("kind", "change", "message"), [*(("index", *one) for one in WRONG), *(("dense", *one) for one in WRONG_OF_VECTORS)]
)
def test_entries_of_other_types_or_ranges_are_refused_by_name(request, altered, kind, change, message):
    folder = request.getfixturevalue(kind)
    altered(folder, **change)
    with pytest.raises(RetrievalError, match=message):
        opened(folder)


@pytest.mark.parametrize("model", ["sentence-transformers/of-a-stranger", "/srv/elsewhere", "./inside"])
def test_a_model_is_opened_only_where_the_user_names_it(dense, altered, library, monkeypatch, model):
    altered(dense, encoder={"model": model, "query_model": model})
    monkeypatch.setattr(library.SentenceTransformer, "__init__", lambda *_: pytest.fail("a model was opened"))
    with pytest.raises(ConfigurationError) as caught:
        open_index(dense)
    assert f"{dense}@{model}" in str(caught.value)
    assert f"model={model!r}" in str(caught.value)
    # What the index is is reported all the same.
    assert facts_of(f"{dense}@{model}")[0]["passages"] == 4


@pytest.mark.parametrize("suffix", [".rows", ".keys"])
@pytest.mark.parametrize("kind", ["cut", "gone", "link", "pipe", "folder"])
def test_files_of_vectors_are_whole_and_regular(dense, tmp_path, suffix, kind):
    path = vectors(dense, suffix)
    content = path.read_bytes()
    path.rename(tmp_path / "elsewhere")
    if kind == "cut":
        path.write_bytes(content[:-8])
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind != "gone":
        os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(RetrievalError, match=r"is not complete|cannot be read|no regular file"):
        opened(dense)


def test_vectors_that_are_no_numbers_or_of_no_passage(dense):
    rows, keys = vectors(dense, ".rows"), vectors(dense, ".keys")
    altered = np.frombuffer(keys.read_bytes(), "<i8").copy()
    altered[:2] = 5, -1
    keys.write_bytes(altered.tobytes())
    assert sorted(hit.passage.id for hit in opened(dense).search("zebra", 10)) == ["p3", "p4"]
    rows.write_bytes(np.full(rows.stat().st_size // 4, np.nan, "<f4").tobytes())
    with pytest.raises(RetrievalError, match="are damaged"):
        opened(dense).search("zebra")


@pytest.mark.parametrize("note", ["[1]", "[" * 100_000, "5", '{"settings": 5, "probe": "x"}'])
def test_a_note_of_another_build_that_is_no_note_is_passed_over(dense, note, passages):
    vectors(dense, ".json").write_text(note)
    build_dense(passages, dense, model="some/model")
    assert opened(dense).manifest.passages == 4


@pytest.mark.model
@pytest.mark.parametrize("kind", ["evil.Evil", "os.Evil"])
def test_a_folder_whose_modules_name_a_class_runs_no_code(tmp_path, kind):
    pytest.importorskip("sentence_transformers")
    folder = tmp_path / "model"
    folder.mkdir()
    modules = [{"idx": 0, "name": "0", "path": "", "type": kind}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config_sentence_transformers.json").write_text("{}")
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    with pytest.raises(ConfigurationError, match="not part of Sentence Transformers"):
        open_model(str(folder))
    assert not (tmp_path / "ran").exists()


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


@pytest.mark.parametrize(
    "kind", ["pipe", "device", "link", "large", "folder link", "meta link", "odd pipe", "odd folder"]
)
def test_an_index_is_a_folder_of_regular_files_of_bounded_size(index, manifest, tmp_path, kind):
    data = index / "data"
    if kind in ("pipe", "device", "link", "large"):
        manifest.rename(tmp_path / "elsewhere")
    if kind == "pipe" or kind == "odd pipe":
        os.mkfifo(manifest if kind == "pipe" else data / "odd")
    elif kind in ("device", "link"):
        manifest.symlink_to("/dev/zero" if kind == "device" else tmp_path / "elsewhere")
    elif kind == "large":
        with manifest.open("wb") as stream:
            stream.truncate(1 << 40)
    elif kind == "odd folder":
        (data / "odd").mkdir()
    else:
        moved = data if kind == "folder link" else data / "meta.json"
        moved.rename(tmp_path / "elsewhere")
        moved.symlink_to(tmp_path / "elsewhere")
    for opening in (open_index, facts_of):
        with pytest.raises(RetrievalError, match=r"is a link|no regular file|the most that is read"):
            opening(index)


@pytest.mark.parametrize("meta", ["[" * 100_000, '{"opstamp": 1e400}', '{"opstamp": true}', "[]", '{"opstamp": "7"}'])
def test_the_record_of_the_engine_is_checked(index, meta):
    path = index / "data" / "meta.json"
    record = json.loads(path.read_text())
    path.write_text(meta)
    with pytest.raises(RetrievalError, match="is broken"):
        open_index(index)
    record["schema"][0]["name"] = "other"
    path.write_text(json.dumps(record))
    with pytest.raises(RetrievalError, match=r"has other fields|cannot be opened"):
        open_index(index)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sources": [1] * 9}, r"sources\.0: [^;]*"),
        ({"left_out": {"passed_over": dict.fromkeys(map(str, range(100_001)), -1)}}, ".* more than 100,000 entries"),
    ],
)
def test_a_manifest_of_many_wrong_entries_is_refused_by_the_first(index, manifest, change, said):
    manifest.write_text(json.dumps(json.loads(manifest.read_text().partition("\n")[0]) | change))
    with pytest.raises(RetrievalError, match=rf"manifest-0\.json: {said}$"):
        open_index(index)


ENTRIES = ["name", "passages", "sources", "analyzer", "data", "left_out", "deleted", "x", "engine", "format"]


@settings(max_examples=at_most(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(ENTRIES),
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
        **{"sources": ["s"], "created": "now", "analyzer": ANALYZER},
    }
    reported = ""
    try:
        manifest = Manifest.from_json(json.dumps(whole | change), "manifest.json")
    except RetrievalError as error:
        reported = str(error)
    assert "manifest.json" in reported or Manifest.from_json(manifest.to_json(), "again") == manifest


@pytest.mark.parametrize("files", ["", "[]", '{"/a": 5}', "{" * 100_000])
def test_what_is_said_of_files_is_checked(index, manifest, files, tmp_path):
    manifest.write_text(manifest.read_text().partition("\n")[0] + "\n" + files)
    assert open_index(index).search("zebra")
    for asked in (facts_of, lambda address: add_files(address, [index.parent])):
        with pytest.raises(RetrievalError, match=r"manifest-0\.json"):
            asked(index)


def test_what_was_left_out_is_kept_and_reported(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("A note.")
    (folder / "b.pdf").write_text("no PDF")
    (folder / "c.png").write_bytes(b"x")
    reported = []
    corpus = read_corpus([folder], notice=reported.append)
    left_out = build_index(corpus, tmp_path / "i").left_out
    assert (left_out.unexpected, left_out) == (1, corpus.left_out)
    assert left_out == open_index(tmp_path / "i").manifest.left_out
    said = {
        "passed_over": {".png": 1},
        "unread": {"damaged": 1},
        "names": left_out.names,
        "examples": {".png": f"{folder}/c.png"},
    }
    assert facts_of(tmp_path / "i")[0]["left_out"] == said
    assert reported[:2] == [
        f"passed over, as such files are not read: 1 .png ({folder}/c.png)",
        "left out, although it should have been read: 1 damaged",
    ]
    build_index([*read_corpus([folder / "a.txt"])], tmp_path / "j")
    assert "left_out" not in facts_of(tmp_path / "j")[0]


def test_an_index_of_other_sources_is_not_replaced_unasked(index, passages):
    for sources in (["other"], []):
        with pytest.raises(InputError, match=r"holds an index of other sources \(\S*docs\).*--force"):
            build_index(passages[:1], index, sources=sources)
    assert open_index(index).manifest.passages == 4
    assert build_index(passages[:2], index, sources=["./docs/"]).passages == 2
    # A name that is no text is kept.
    name = os.fsdecode(b"caf\xe9")
    assert build_index(passages[:1], index, sources=[name], overwrite=True).passages == 1
    assert open_index(index).manifest.sources == (name,)
    assert build_index(passages, index, sources=[name]).passages == 4


def test_a_place_that_cannot_be_written_to_is_reported_before_any_work(index, tmp_path, monkeypatch):
    def never():
        pytest.fail("passages were read")
        yield

    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    # The name may be that of something else, or lead into it.
    for place, message in (
        (tmp_path / "file" / "index", r"cannot be created: .*file is a file"),
        *((one, r"could not be named .* such as documents-id") for one in ("documents:idx", Path("documents:idx/new"))),
    ):
        with pytest.raises(InputError, match=message):
            build_index(never(), place)
    monkeypatch.setattr(os, "access", lambda path, mode, **_: False)
    message = r"cannot be written to.*read-only. Name a folder .* in which you may write"
    for place in (index, tmp_path / "new" / "index"):
        with pytest.raises(InputError, match=message):
            build_index(never(), place, sources=["docs"])
    assert {one.name for one in tmp_path.iterdir()} == {"i", "file"}


def test_links_in_an_index_from_elsewhere_lead_no_writing_out_of_it(index, tmp_path, passages):
    mine = tmp_path / "mine"
    mine.write_text("precious")
    for name in (".manifest-0.json.new", "checksums.json", "0.rows"):
        (index / "data" / name).unlink(missing_ok=True)
        (index / "data" / name).symlink_to(mine)
    build_index(passages, index, sources=["docs"])
    assert mine.read_text() == "precious"
    (index / "lock").unlink()
    (index / "lock").symlink_to(mine)
    with pytest.raises(KeqaError, match="cannot be changed"):
        build_index(passages, index, sources=["docs"])
