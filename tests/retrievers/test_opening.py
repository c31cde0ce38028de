"""Which indexes an address names, and what is said of them."""

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
    for place, message in (
        ("missing", "there is no index at"),
        ("", r"is not an index.*`keqa index .* --out INDEX`"),
        ("file", "is not an index"),
    ):
        with pytest.raises(RetrievalError, match=message):
            ask(tmp_path / place)


def test_what_engines_say_of_what_was_built_and_need_to_build_it():
    of = engines.ENGINES
    address, dense = "elasticsearch://h:9200/wiki", "elasticsearch+dense://h:9200/wiki"
    plain = SimpleNamespace(languages={"en": 2, "de": 1}, language="en", engine="x")
    encoder = SimpleNamespace(model="passage/m", query_model="q/m")
    encoded = SimpleNamespace(languages={}, language="en", encoder=encoder)
    ours = SimpleNamespace(languages={}, language="en", encoder=SimpleNamespace(model=LOCAL, query_model=LOCAL))
    for name, built, place, described, searched in (
        ("embedded", plain, "out", "en, de", "out"),
        ("embedded", SimpleNamespace(languages={}, language="", engine="x"), "out", "x", "out"),
        ("dense", encoded, "out", "dense, passage/m", "out@q/m"),
        ("dense", ours, "out", f"dense, {LOCAL}", "out"),
        ("elasticsearch", plain, address, "en, de", address),
        ("elasticsearch", encoded, address, "en, passage/m", f"{address},{dense}@q/m"),
        ("elasticsearch", ours, address, f"en, {LOCAL}", f"{address},{dense}"),
    ):
        assert (of[name].described(built), of[name].searched(place, built)) == (described, searched)
    assert of["elasticsearch"].locate({"url": "http://h", "name": "wiki"}) == address
    for given in ({"url": "http://h"}, {"name": "wiki"}, {"url": "http://h", "name": None}):
        with pytest.raises(InputError, match=r"^an index in Elasticsearch needs --url, the cluster, and --name, its"):
            of["elasticsearch"].locate(given)
    with pytest.raises(InputError, match=r"^--out is missing: name a folder for the index$"):
        of["dense"].locate({"url": "http://h"})
    with pytest.raises(ConfigurationError, match=r"^the engine documents builds no index$"):
        of["documents"].build([], "x")
    with pytest.raises(ConfigurationError, match=r"^the engine documents cannot change an index that is there: build"):
        of["documents"].change("x", None)
