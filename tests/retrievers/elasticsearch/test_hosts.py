import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.retrievers.elasticsearch.address import parse_address
from keqa.retrievers.elasticsearch.hosts import without_hosts

ADDRESS = parse_address("elasticsearch://no-such-host.invalid,search:9201/wiki")


@pytest.mark.parametrize(
    ("said", "told"),
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
def test_hosts_are_taken_out_and_all_else_stays(said, told):
    assert without_hosts(said, ADDRESS) == told


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
