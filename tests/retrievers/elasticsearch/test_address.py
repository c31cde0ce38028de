import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.retrievers.elasticsearch.client import Address, index_address, parse_address, without_hosts

hosts = st.from_regex(r"[a-z][a-z0-9_-]{0,9}(\.[a-z0-9]{1,9}){0,2}\.?|\[[0-9a-f:]{2,10}\]", fullmatch=True)
names = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,30}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "urls", "full"),
    [
        ("elasticsearch://here/wiki", ["http://here:9200"], "elasticsearch://here:9200/wiki"),
        ("elasticsearch+http://here:80/wiki/", ["http://here:80"], "elasticsearch://here:80/wiki"),
        ("Elasticsearch+HTTPS://es.org:443/w", ["https://es.org:443"], "elasticsearch+https://es.org:443/w"),
        ("elasticsearch://a,b:9201/w", ["http://a:9200", "http://b:9201"], "elasticsearch://a:9200,b:9201/w"),
        ("elasticsearch://[::1]:9200/w", ["http://[::1]:9200"], "elasticsearch://[::1]:9200/w"),
        ("elasticsearch://proxy/to/es/w", ["http://proxy:9200/to/es"], "elasticsearch://proxy:9200/to/es/w"),
    ],
)
def test_addresses_are_read_and_written_in_full(text, urls, full):
    address = parse_address(text)
    assert address.urls == urls
    assert str(address) == full
    assert parse_address(full) == address


@given(
    st.sampled_from(["http", "https"]),
    st.lists(st.tuples(hosts, st.integers(1, 65535)), min_size=1, max_size=3),
    st.sampled_from(["", "/es", "/a/b"]),
    names,
    st.booleans(),
)
def test_what_is_written_is_read_back(scheme, nodes, prefix, name, dense):
    address = Address(scheme, tuple(nodes), prefix, name, dense)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://here:9200/wiki", "is not the address of an index in Elasticsearch: write elasticsearch://host"),
        ("elasticsearch://here:9200/", "names no index"),
        ("elasticsearch://:9200/w", "is not a host"),
        ("elasticsearch://here:x/w", "is not a host"),
        ("elasticsearch://a..b/w", "'a..b' in .* is not a host"),
        ("elasticsearch://here," + "x" * 64 + "/w", "is not a host"),
        ("elasticsearch://here:99999/w", "there is no port 99999"),
        ("elasticsearch://here/Wiki", "'Wiki' cannot be the name"),
        ("elasticsearch://here/_all", "cannot be the name"),
        ("elasticsearch://here/wiki*", "cannot be the name"),
        ("elasticsearch://here/" + "x" * 240, "too long"),
    ],
)
def test_what_is_no_address_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "elasticsearch://elastic:geheim@here:9200/wiki",
        "https://elastic:geheim@here:9200",
        "elasticsearch://here/wiki?api_key=geheim",
        "elasticsearch://here/wiki#geheim",
        "elasticsearch+dense://me:geheim@a/wiki",
        "elasticsearch://a/wiki@geheim/model",
        "elasticsearch+dense://a/b@",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(text):
    for read in (parse_address, lambda url: index_address(url, "wiki")):
        with pytest.raises(InputError, match="ELASTICSEARCH_API_KEY") as caught:
            read(text)
        assert "geheim" not in str(caught.value)


def test_the_address_of_vectors_may_name_a_model():
    address = parse_address("elasticsearch+dense+https://a:1,b/prefix/wiki@org/model")
    assert address.dense
    assert address.model == "org/model"
    assert address.urls == ["https://a:1/prefix", "https://b:9200/prefix"]
    assert str(address) == "elasticsearch+dense+https://a:1,b:9200/prefix/wiki"
    assert parse_address("elasticsearch+dense://a/wiki").model is None


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://here:9200", "elasticsearch://here:9200/wiki"),
        ("https://here", "elasticsearch+https://here:9200/wiki"),
        ("http://a:1,b:2", "elasticsearch://a:1,b:2/wiki"),
        ("http://a:1/, http://b:2/", "elasticsearch://a:1,b:2/wiki"),
        ("https://proxy:443/es/", "elasticsearch+https://proxy:443/es/wiki"),
        ("elasticsearch+https://here:1", "elasticsearch+https://here:1/wiki"),
    ],
)
def test_urls_of_clusters_become_addresses(url, address):
    assert index_address(url, "wiki") == address


def test_what_is_no_url_is_refused():
    for url in ("here:9200", "ftp://here", "http://a:1,https://b:2"):
        with pytest.raises(InputError, match="is not the URL of a cluster"):
            index_address(url, "wiki")
    with pytest.raises(InputError, match="same path"):
        index_address("http://a:1/x,http://b:2/y", "wiki")


ADDRESS = parse_address("elasticsearch://no-such-host.invalid,search:9201/wiki")


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        ("Failed to resolve 'no-such-host.invalid' ([Errno -2])", "Failed to resolve '<address>' ([Errno -2])"),
        ("NO-SUCH-HOST.invalid. is unknown", "<address>. is unknown"),
        ("not valid for 'my.no-such-host.invalid'", "not valid for 'my.no-such-host.invalid'"),
        ("no answer of search, all searches failed", "no answer of <address>, all searches failed"),
        ("[node-2][10.0.0.5:9300][indices:data/read] gone", "[<address>][indices:data/read] gone"),
        ("[es-7.lan][[::1]:9300] gone", "[<address>] gone"),
        ("connect to [fe80::1%eth0]:9300", "connect to <address>"),
        ("left {n1}{Pw3x}{9aQ}{n1}{10.0.0.5}{10.0.0.5:9300}{dim}", "left {<address>}{dim}"),
        ("by es-1.internal/10.0.0.5:9300 and localhost:9200", "by <address> and <address>"),
        ("at db.lan:80", "at <address>"),
        ("[1:25] [bool] failed, shard:12, took 17:42:10", "[1:25] [bool] failed, shard:12, took 17:42:10"),
        ("[wiki][0] of version 8.19.14 failed 12 times", "[wiki][0] of version 8.19.14 failed 12 times"),
    ],
)
def test_hosts_are_taken_out_and_all_else_stays(said, reported):
    assert without_hosts(said, ADDRESS) == reported


@given(st.ip_addresses(v=4), st.integers(1, 65535), st.text())
def test_a_node_by_number_never_stays(number, port, around):
    said = f"{around} [{number}:{port}] {number} {around}"
    assert f" [{number}" not in without_hosts(said, ADDRESS)
    assert f" {number} " not in without_hosts(said, ADDRESS)


@pytest.mark.parametrize("unit", ["{}", "{a}", "[a]", "[::", "[", "{", "a-", "a:1234 "])
def test_no_message_takes_more_than_its_length(unit):
    begun = time.perf_counter()
    without_hosts(unit * (100_000 // len(unit)), ADDRESS)
    assert time.perf_counter() - begun < 20
