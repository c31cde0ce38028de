"""Which indexes an address names, and what is said of them."""

import importlib
from types import SimpleNamespace

import pytest

from keqa.errors import ConfigurationError, InputError, RetrievalError
from keqa.retrievers import HybridRetriever, TantivyRetriever, build_index, engines, open_index
from keqa.retrievers.embedding import LOCAL
from keqa.retrievers.engines import facts_of, folder_and_model, parts_of


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("a", ["a"]),
        ("a, b", ["a", "b"]),
        ("elasticsearch://h:9200/name", ["elasticsearch://h:9200/name"]),
        ("elasticsearch://h:1,i:2/name", ["elasticsearch://h:1,i:2/name"]),
        ("a,elasticsearch+https://h,i/n,b/c", ["a", "elasticsearch+https://h,i/n", "b/c"]),
        ("elasticsearch://h/n,elasticsearch://i/n", ["elasticsearch://h/n", "elasticsearch://i/n"]),
        ("https://h,i/n,b", ["https://h,i/n", "b"]),
    ],
)
def test_where_one_address_ends(address, parts):
    assert parts_of(address) == parts


def test_folders_and_what_a_comma_joins(tmp_path, passages):
    build_index(passages, tmp_path / "one", name="one", sources=["corpus.json"])
    build_index(passages[:2], tmp_path / "two", name="two")
    both = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    assert [type(open_index(one)) for one in (tmp_path / "one", str(tmp_path / "one"))] == [TantivyRetriever] * 2
    hybrid = open_index(both)
    assert (type(hybrid), hybrid.manifest.name) == (HybridRetriever, "one + two")
    one, two = facts_of(both)
    assert (one["engine"], one["name"], one["passages"], one["sources"]) == ("embedded", "one", 4, ("corpus.json",))
    assert (one["analyzer"]["language"], one["bytes"] > 1000) == ("en", True)
    assert (two["address"], two["passages"]) == (str(tmp_path / "two"), 2)
    assert not {"data", "commit", "schema_version"} & one.keys()
    with pytest.raises(RetrievalError, match=r"there is no index at .*three"):
        open_index(f"{tmp_path / 'one'},{tmp_path / 'three'}")
    # A folder that is there is one address, whatever its name.
    build_index(passages, tmp_path / "a,b")
    assert isinstance(open_index(str(tmp_path / "a,b")), TantivyRetriever)
    assert parts_of(tmp_path / "never,built") == [str(tmp_path / "never,built")]


def test_folders_with_an_at_sign(tmp_path, monkeypatch):
    (tmp_path / "a@b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert [str(one) for one in folder_and_model("a@b")] == ["a@b", "None"]
    assert [str(one) for one in folder_and_model("a@b@org/model")] == ["a@b", "org/model"]
    assert [str(one) for one in folder_and_model("none@org/model")] == ["none@org/model", "None"]


OF_SERVER = r"Set ELASTICSEARCH_API_KEY.*write elasticsearch://host"


@pytest.mark.parametrize("ask", [facts_of, open_index])
@pytest.mark.parametrize(
    ("address", "message"),
    [
        *((one, "named by its folder") for one in ("", "a,", ",a", "a,,b", "elasticsearch://me:secret@h/n,,a")),
        ("a,a", "named twice"),
        ("http://localhost:9200/wiki", "'http://localhost:9200/wiki' is not the address of an index in Elastic"),
        ("https://elastic:secret@localhost:9200/wiki", OF_SERVER),
        ("https://elastic:se,secret@localhost:9200/wiki", OF_SERVER),
        ("http://elastic:secret@localhost:9200", OF_SERVER),
        ("a,https://elastic:secret@localhost/wiki", OF_SERVER),
    ],
)
def test_what_is_no_address_is_refused_and_no_password_repeated(tmp_path, passages, monkeypatch, ask, address, message):
    build_index(passages, tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message) as refused:
        ask(address)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("ask", [facts_of, open_index])
def test_what_is_no_index_is_not_opened(tmp_path, ask):
    (tmp_path / "file").write_text("x")
    for place, message in (("missing", "there is no index at"), ("", "is not an index"), ("file", "is not an index")):
        with pytest.raises(RetrievalError, match=message):
            ask(tmp_path / place)


def test_what_each_engine_builds_with_and_says_of_what_was_built(monkeypatch):
    made = []

    def module(name):
        if name in ("elasticsearch.client", "embedding"):
            return importlib.import_module(f"keqa.retrievers.{name}")
        return SimpleNamespace(
            **{
                called: lambda *given, called=called, **options: made.append((f"{name}.{called}", *given, options))
                for called in ("build_index", "build_dense", "load_index", "changing", "ElasticsearchDenseRetriever")
            }
        )

    monkeypatch.setattr(engines, "_module", module)
    address = "elasticsearch://h:9200/wiki"
    for name, place in (("embedded", "out"), ("dense", "out"), ("elasticsearch", address)):
        engine = engines.ENGINES[name]
        engine.build("passages", place, name="wiki", sources="s")
        assert engine.builds
    engines.ENGINES["elasticsearch"].change(address, "m")
    vectors = engines.ENGINES["elasticsearch-dense"]
    vectors.open(address, "m")
    assert (vectors.builds, vectors.options) == (False, ())
    assert made == [
        ("local.build.build_index", "passages", "out", {"name": "wiki", "sources": "s"}),
        ("local.dense.build_dense", "passages", "out", {"name": "wiki", "sources": "s"}),
        ("elasticsearch.writing.load_index", "passages", address, {"sources": "s"}),
        ("elasticsearch.writing.changing", address, "m", {}),
        ("elasticsearch.retriever.ElasticsearchDenseRetriever", address, "m", {}),
    ]
    plain = SimpleNamespace(languages={"en": 2, "de": 1}, language="en", engine="x")
    encoded = SimpleNamespace(
        languages={}, language="en", encoder=SimpleNamespace(model="passage/m", query_model="q/m")
    )
    ours = SimpleNamespace(encoder=SimpleNamespace(model=LOCAL, query_model=LOCAL))
    for name, built, described, searched in (
        ("embedded", plain, "en, de", "out"),
        ("embedded", SimpleNamespace(languages={}, language="", engine="x"), "x", "out"),
        ("dense", encoded, "dense, passage/m", "out@q/m"),
        ("dense", ours, f"dense, {LOCAL}", "out"),
    ):
        engine = engines.ENGINES[name]
        assert (engine.described(built), engine.searched("out", built)) == (described, searched)
    server, dense = engines.ENGINES["elasticsearch"], "elasticsearch+dense://h:9200/wiki"
    assert (server.described(plain), server.searched(address, plain)) == ("en, de", address)
    assert (server.described(encoded), server.searched(address, encoded)) == (
        "en, passage/m",
        f"{address},{dense}@q/m",
    )
    assert server.searched(address, ours) == f"{address},{dense}"
    assert server.locate({"url": "http://h", "name": "wiki"}) == address
    for given in ({"url": "http://h"}, {"name": "wiki"}, {"url": "http://h", "name": None}):
        with pytest.raises(InputError, match=r"^an index in Elasticsearch needs --url, the cluster, and --name, its"):
            server.locate(given)
    with pytest.raises(InputError, match=r"^--out is missing: name a folder for the index$"):
        engines.ENGINES["dense"].locate({"url": "http://h"})
    with pytest.raises(ConfigurationError, match=r"^the engine documents builds no index$"):
        engines.ENGINES["documents"].build([], "x")
    with pytest.raises(ConfigurationError, match=r"^the engine documents cannot change an index that is there: build"):
        engines.ENGINES["documents"].change("x", None)
