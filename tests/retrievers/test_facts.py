import pytest

from keqa.errors import InputError, RetrievalError
from keqa.retrievers import build_index, open_index
from keqa.retrievers.engines import facts_of


def test_each_part_of_an_address_is_reported(tmp_path, passages):
    build_index(passages, tmp_path / "one", name="one", sources=["corpus.json"])
    build_index(passages[:2], tmp_path / "two", name="two")
    one, two = facts_of(f"{tmp_path / 'one'},{tmp_path / 'two'}")
    assert (one["engine"], one["name"], one["passages"], one["sources"]) == ("embedded", "one", 4, ("corpus.json",))
    assert one["analyzer"]["language"] == "en"
    assert one["bytes"] > 1000
    assert (two["address"], two["passages"]) == (str(tmp_path / "two"), 2)
    assert not {"data", "commit", "schema_version"} & one.keys()


def test_what_is_no_index_is_reported(tmp_path):
    with pytest.raises(RetrievalError, match="there is no index at"):
        facts_of(tmp_path / "nowhere")
    with pytest.raises(InputError, match="named by its folder"):
        facts_of("a,,b")


@pytest.mark.parametrize(
    "address",
    [
        "https://elastic:secret@localhost:9200/wiki",
        "https://elastic:se,secret@localhost:9200/wiki",
        "http://elastic:secret@localhost:9200",
        "a,https://elastic:secret@localhost/wiki",
    ],
)
def test_an_address_with_a_password_is_no_folder_and_is_not_repeated(tmp_path, passages, monkeypatch, address):
    build_index(passages, tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    for ask in (facts_of, open_index):
        with pytest.raises(InputError, match=r"Set ELASTICSEARCH_API_KEY.*write elasticsearch://host") as said:
            ask(address)
        assert "secret" not in str(said.value)


def test_another_kind_of_address_is_reported_as_on_opening():
    for ask in (facts_of, open_index):
        with pytest.raises(InputError, match="'http://localhost:9200/wiki' is not the address of an index in Elastic"):
            ask("http://localhost:9200/wiki")
