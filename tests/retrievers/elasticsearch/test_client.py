"""Credentials and certificates, before a server that asks for them."""

import shutil
import subprocess

import pytest
from servers.elasticsearch import AlteringServer, version_reply

from keqa.errors import ConfigurationError, RetrievalError
from keqa.retrievers.elasticsearch.client import index_address
from keqa.retrievers.elasticsearch.retriever import ElasticsearchRetriever
from keqa.retrievers.elasticsearch.writing import load_index

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
