import pytest

from keqa.errors import InputError, RetrievalError
from keqa.retrievers import HybridRetriever, TantivyRetriever, build_index, open_index
from keqa.retrievers.engines import facts_of, parts_of


@pytest.fixture
def two(tmp_path, passages):
    build_index(passages, tmp_path / "one", name="one")
    build_index(passages, tmp_path / "two", name="two")
    return tmp_path


def test_a_folder_is_an_address(two):
    assert isinstance(open_index(two / "one"), TantivyRetriever)
    assert isinstance(open_index(str(two / "one")), TantivyRetriever)
    assert facts_of(two / "one")[0]["engine"] == "embedded"


def test_addresses_that_a_comma_joins_are_a_hybrid(two):
    hybrid = open_index(f"{two / 'one'},{two / 'two'}")
    assert isinstance(hybrid, HybridRetriever)
    assert hybrid.manifest.name == "one + two"
    assert hybrid.search("zebra")[0].passage.title == "Zebra"


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


def test_a_folder_that_is_there_is_one_address_whatever_its_name(tmp_path, passages):
    build_index(passages, tmp_path / "a,b")
    assert isinstance(open_index(str(tmp_path / "a,b")), TantivyRetriever)
    assert parts_of(tmp_path / "never,built") == [str(tmp_path / "never,built")]


@pytest.mark.parametrize("address", ["", "a,", ",a", "a,,b", "a,a", "elasticsearch://me:secret@h/n,,a"])
def test_what_is_no_address_is_refused_and_not_repeated(address):
    with pytest.raises(InputError) as refused:
        open_index(address)
    assert "secret" not in str(refused.value)


def test_another_kind_of_address_is_refused():
    with pytest.raises(InputError, match="elasticsearch://host:9200/name"):
        open_index("http://host:9200/name")


def test_a_part_that_is_missing_is_named(two):
    with pytest.raises(RetrievalError, match=r"there is no index at .*three"):
        open_index(f"{two / 'one'},{two / 'three'}")
