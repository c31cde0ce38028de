import shutil
import socket
import subprocess
import sys
import threading
import traceback

import pytest
from servers.elasticsearch import AlteringServer, version_reply

from keqa.errors import ConfigurationError, MissingExtraError, RetrievalError
from keqa.retrievers.elasticsearch import client
from keqa.retrievers.elasticsearch.client import index_address
from keqa.retrievers.elasticsearch.retriever import ElasticsearchRetriever
from keqa.retrievers.elasticsearch.writing import load_index
from keqa.storage.redaction import without_secrets

pytestmark = pytest.mark.server

VARIABLES = ("API_KEY", "USERNAME", "PASSWORD", "CA_CERTS", "FINGERPRINT", "TIMEOUT")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No credentials but those of the test."""

    def give(**values):
        for name in VARIABLES:
            monkeypatch.delenv(f"ELASTICSEARCH_{name}", raising=False)
        for name, value in values.items():
            monkeypatch.setenv(f"ELASTICSEARCH_{name}", value)

    give()
    return give


def failing(status, error, **options):
    """A server whose every answer is an error."""
    return AlteringServer(lambda *_: (status, {"error": error, "status": status}), **options)


def opening(server):
    return ElasticsearchRetriever(index_address(server.url, "wiki"))


def refusal(kind, reason):
    return {"type": kind, "reason": reason, "root_cause": []}


def test_a_missing_client_is_reported_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "elasticsearch", None)
    with pytest.raises(MissingExtraError, match=r"elasticsearch://here:9200/wiki needs .* 'keqa\[elasticsearch\]'"):
        ElasticsearchRetriever("elasticsearch://here/wiki")
    code = "import sys, keqa.retrievers.elasticsearch.writing; sys.exit('elasticsearch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nobody_answers(environment):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    said = rf"{url} cannot be reached \(Connection refused\).*where the cluster speaks TLS, write"
    with pytest.raises(RetrievalError, match=said):
        ElasticsearchRetriever(index_address(url, "wiki"))


def test_refused_credentials(environment):
    both = "ELASTICSEARCH_USERNAME and ELASTICSEARCH_PASSWORD"
    for given, message in (
        ({}, f"asks for credentials: set ELASTICSEARCH_API_KEY, or {both}"),
        ({"API_KEY": "geheimer"}, "does not accept the credentials in ELASTICSEARCH_API_KEY$"),
        ({"USERNAME": "elastic", "PASSWORD": "geheimer"}, f"does not accept the credentials in {both}$"),
    ):
        environment(**given)
        with failing(401, refusal("security_exception", "unable to authenticate")) as server:
            with pytest.raises(ConfigurationError, match=message) as caught:
                opening(server)
            assert "geheimer" not in str(caught.value)


CONTROL, BYTES = "holds a line end or another control character", "holds bytes that are no UTF-8"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"API_KEY": "geheim\nX-Other: 1"}, f"API_KEY {CONTROL}"),
        ({"API_KEY": "geheimü"}, "API_KEY holds a character that no API key has"),
        ({"API_KEY": "id:geheim\udce4"}, f"API_KEY {BYTES}"),
        ({"USERNAME": "elastic", "PASSWORD": "geheim\udce4"}, f"PASSWORD {BYTES}"),
        ({"USERNAME": "elastic", "PASSWORD": "geheim\x07"}, f"PASSWORD {CONTROL}"),
        *(({"FINGERPRINT": one}, "FINGERPRINT holds no SHA-256 fingerprint") for one in ("geheim" * 10, "0" * 40)),
        ({"CA_CERTS": "geheim" * 1000}, "CA_CERTS names no file"),
        *(({"TIMEOUT": one}, "TIMEOUT must be a number of sec.* 1 to 3600") for one in ("geheim", "0", "nan", "1e300")),
        ({"API_KEY": "geheim", "USERNAME": "b", "PASSWORD": "geheim"}, "PASSWORD, not both"),
        ({"USERNAME": "b"}, "USERNAME is set and ELASTICSEARCH_PASSWORD is not"),
        ({"PASSWORD": "geheim"}, "PASSWORD is set and ELASTICSEARCH_USERNAME is not"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is_and_not_repeated(environment, given, message):
    environment(**given)
    with pytest.raises(ConfigurationError, match=f"ELASTICSEARCH_{message}") as caught:
        ElasticsearchRetriever("elasticsearch+https://localhost:1/wiki")
    shown = "".join(traceback.format_exception(caught.value, chain=True)[-1:])
    assert "geheim" not in shown
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_no_message_names_a_host_but_in_the_address(monkeypatch):
    monkeypatch.setattr(client, "_RETRIES", 0)
    with pytest.raises(RetrievalError, match="cannot be reached") as caught:
        ElasticsearchRetriever("elasticsearch://no-such-host.invalid/wiki")
    assert "no-such-host" not in without_secrets(str(caught.value))
    reason = "[es-7.lan][10.0.0.5:9300][indices:data/read/get] disconnected"
    with failing(500, refusal("boom", reason)) as server, pytest.raises(RetrievalError) as caught:
        opening(server)
    assert r"answered 500 ([<address>][indices:data/read/get] disconnected)" in str(caught.value)


OPENSEARCH = {"version": {"number": "2.11.0", "distribution": "opensearch"}}
ABSENT = 404, {"error": refusal("x", "no such index"), "status": 404}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (version_reply("7.17.0"), r"is version 7\.17\.0.*needs Elasticsearch 8 or newer"),
        (version_reply("11.1.0"), r"pip install 'elasticsearch>=11,<12'"),
        # The next one is accepted.
        (version_reply("9.1.0"), "there is no index wiki at"),
        ((200, OPENSEARCH), "is not Elasticsearch"),
        ((200, "<p>"), r"is not Elasticsearch|does not speak"),
    ],
)
def test_which_servers_are_understood(reply, message):
    def alter(method, path, body, forward):
        return reply if path == "/" else ABSENT

    is_product, kinds = "not Elasticsearch" not in message, (ConfigurationError, RetrievalError)
    with AlteringServer(alter, product=is_product) as server, pytest.raises(kinds, match=message):
        opening(server)


def test_an_answer_is_waited_for_as_long_as_is_asked_for(environment, monkeypatch):
    monkeypatch.setattr(client, "_RETRIES", -1)
    come = threading.Event()

    def alter(method, path, body, forward):
        come.wait(60)
        return version_reply()

    environment(TIMEOUT="1")
    with AlteringServer(alter) as server:
        with pytest.raises(RetrievalError, match="did not answer in time"):
            opening(server)
        come.set()


def test_basic_credentials_are_sent(environment, guarded, address, passages):
    name = address.rpartition("/")[2]
    environment(USERNAME="elastic", PASSWORD="geheimer")
    with guarded(user="elastic:geheimer", reader="bob:geheim2") as url:
        load_index(passages, index_address(url, name))
        assert len(ElasticsearchRetriever(index_address(url, name)).search("zebra")) == 1
        environment(USERNAME="elastic", PASSWORD="falsches")
        with pytest.raises(ConfigurationError, match="does not accept") as caught:
            ElasticsearchRetriever(index_address(url, name))
        assert "falsches" not in str(caught.value)
        environment(USERNAME="bob", PASSWORD="geheim2")
        assert len(ElasticsearchRetriever(index_address(url, name)).search("zebra")) == 1
        with pytest.raises(ConfigurationError, match=r"do not allow it .*unauthorized for user \[bob\]"):
            load_index(passages, index_address(url, name))


def test_api_keys_are_sent_in_both_forms(environment, guarded, address, passages):
    with guarded(api_key="id:secret") as url:
        for given in ("id:secret", "aWQ6c2VjcmV0", "aWQ6c2VjcmV0\n", " id:secret\r\n"):
            environment(API_KEY=given)
            load_index(passages, index_address(url, address.rpartition("/")[2]))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate of this test, and is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    names = "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1,DNS:localhost"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 {names} -out cert.pem -keyout key.pem"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    print_ = "openssl x509 -in cert.pem -noout -fingerprint -sha256"
    printed = subprocess.run(print_.split(), cwd=folder, check=True, capture_output=True, text=True).stdout
    return folder, printed.strip().rpartition("=")[2]


def test_tls_is_spoken_and_the_certificate_checked(environment, guarded, address, passages, certificate):
    folder, fingerprint = certificate
    name = address.rpartition("/")[2]
    with guarded(api_key="id:secret", cert=folder / "cert.pem", key=folder / "key.pem") as url:
        there = index_address(url, name)
        environment(API_KEY="id:secret", CA_CERTS=str(folder / "cert.pem"))
        load_index(passages, there)
        environment(API_KEY="id:secret", FINGERPRINT=fingerprint)
        assert len(ElasticsearchRetriever(there).search("zebra")) == 1
        environment(API_KEY="id:secret")
        with pytest.raises(ConfigurationError, match=r"is not trusted: .*ELASTICSEARCH_CA_CERTS"):
            ElasticsearchRetriever(there)
        environment(API_KEY="id:secret", FINGERPRINT=("BB" if fingerprint[:2] == "AA" else "AA") + fingerprint[2:])
        with pytest.raises(ConfigurationError, match="is not trusted"):
            ElasticsearchRetriever(there)
        with pytest.raises(RetrievalError, match=r"write elasticsearch\+https://"):
            ElasticsearchRetriever(there.replace("+https", ""))


@pytest.mark.parametrize("given", [{}, {"FINGERPRINT": "AA:" * 31 + "AA"}])
def test_a_server_without_tls_is_reported_from_a_certificate(environment, given):
    environment(**given)
    with AlteringServer(lambda *_: version_reply()) as server:
        there = index_address(server.url.replace("http", "https"), "wiki")
        with pytest.raises(ConfigurationError, match=r"does not speak TLS .*: write elasticsearch:// in") as caught:
            ElasticsearchRetriever(there)
    assert "certificate" not in str(caught.value)
