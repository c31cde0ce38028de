import os
from contextlib import ExitStack

import pytest
from servers import elasticsearch

from keqa.retrievers import Passage
from keqa.retrievers.elasticsearch.client import connect, index_address, parse_address


@pytest.fixture
def address(elasticsearch_address):
    return elasticsearch_address


@pytest.fixture
def client(address):
    """The official client, to look at the cluster past the code that is tested."""
    client = connect(parse_address(address))
    yield client
    client.close()


@pytest.fixture
def altered(address, elasticsearch_url):
    """Gives the address of the same index by way of a server that alters what the real one answers."""
    if not elasticsearch_url.startswith("http://"):
        pytest.skip("altered answers need a server without TLS and credentials")
    with ExitStack() as opened:

        def start(alter):
            server = opened.enter_context(elasticsearch.AlteringServer(alter, elasticsearch_url))
            return index_address(server.url, parse_address(address).name)

        yield start


@pytest.fixture
def guarded(elasticsearch_url):
    """Makes a proxy that asks for credentials and speaks TLS."""
    if os.environ.get("ES_URL") or elasticsearch.why_missing():
        pytest.skip("the proxy that asks for credentials stands before the test server, not before a cluster of ES_URL")
    return lambda **options: elasticsearch.load_guard()(to=elasticsearch_url, **options)


@pytest.fixture
def words():
    """Makes so many passages, with numbers for ids."""
    return lambda count, start=0: [Passage(str(n), "", f"word {n}") for n in range(start, start + count)]
