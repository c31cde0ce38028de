"""``keqa index --engine elasticsearch``, ``keqa index info`` and ``keqa search`` with a real server."""

import pytest
from servers.elasticsearch import AlteringServer
from servers.openai_server import OpenAIServer

from keqa.retrievers.elasticsearch.client import index_address, parse_address


@pytest.fixture
def flags(elasticsearch_url, elasticsearch_address):
    return "--engine", "elasticsearch", "--url", elasticsearch_url, "--name", parse_address(elasticsearch_address).name


def test_an_index_is_loaded_described_and_searched(keqa_command, corpus, flags, elasticsearch_address):
    out = keqa_command("index", corpus, *flags, "--shards", 2, "--replicas", 0).fine()
    assert f"Indexed 3 passages (en) into {elasticsearch_address}" in out
    assert f"--index {elasticsearch_address}" in out
    reported = keqa_command("search", "Who planted the oak?", "-i", elasticsearch_address, "--json").json()
    assert [hit["id"] for hit in reported["hits"]] == ["a"]
    ((part,),) = [keqa_command("index", "info", elasticsearch_address, "--json").json()["indexes"]]
    assert (part["engine"], part["passages"], part["shards"], part["replicas"]) == ("elasticsearch", 3, 2, 0)
    assert part["sources"] == [str(corpus)]
    assert "Forest: The oldest oak" in keqa_command("index", "info", elasticsearch_address, "-q", "oak").out


def test_a_hybrid_with_an_embedded_index_is_asked_and_no_run_names_the_server(
    keqa_command, corpus, flags, elasticsearch_address, served, write_json, tmp_path
):
    assert keqa_command("index", corpus, *flags).code == 0
    assert keqa_command("index", corpus, "-o", tmp_path / "index").code == 0
    both = f"{tmp_path / 'index'},{elasticsearch_address}"
    found = keqa_command("search", "boats at dawn", "-i", both, "-k", 1, "--json").json()["hits"]
    assert (found[0]["id"], found[0]["score"]) == ("b", pytest.approx(2 / 3))
    asked = write_json("questions.jsonl", [{"question": "Who planted the oak?", "answer": "monks"}])
    keqa_command("evaluate", "rag", "-q", asked, "--index", both, *served, "-o", tmp_path / "runs").fine()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file())
    assert b"oldest oak" in kept
    assert elasticsearch_address.partition("://")[2].rpartition("/")[0].encode() not in kept
    assert b"<address>" in kept


def test_what_cannot_be_reached_or_is_not_there(keqa_command, elasticsearch_address):
    ended = keqa_command("search", "oak", "-i", elasticsearch_address)
    assert (ended.code, ended.out) == (2, "")
    name = parse_address(elasticsearch_address).name
    assert f"there is no index {name} at" in ended.err
    ended = keqa_command("search", "oak", "-i", "elasticsearch://127.0.0.1:9/wiki")
    assert (ended.code, ended.out) == (2, "")
    assert "http://127.0.0.1:9 cannot be reached" in ended.err


def test_info_shows_what_the_credentials_allow_to_ask(keqa_command, corpus, flags, elasticsearch_url):
    assert keqa_command("index", corpus, *flags).code == 0

    def guarding(method, path, body, forward):
        if path == "/" or path.startswith("/_cluster") or "_stats" in path:
            return 403, {"error": {"type": "security_exception", "reason": "monitor is unauthorized"}, "status": 403}
        return forward()

    with AlteringServer(guarding, elasticsearch_url) as server:
        ended = keqa_command("index", "info", index_address(server.url, flags[-1]))
    assert ended.code == 0, ended.err
    reported = dict(line.strip().split(maxsplit=1) for line in ended.out.splitlines() if len(line.split()) > 1)
    assert (reported["passages"], reported["size"]) == ("3", "not known: the credentials do not allow to ask")
    assert reported["health"] == reported["version"] == reported["size"]


def test_an_index_with_vectors_is_loaded_searched_both_ways_and_followed(
    keqa_command, flags, elasticsearch_address, tmp_path, monkeypatch
):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "oak.txt").write_text("The oldest oak was planted by Ida Holm.")
    server = OpenAIServer(embedding=lambda text: [1.0, text.count("oak"), text.count("boat")]).start()
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.setenv(name, server.api_base)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-right" * 5)
    model = "openai/text-embedding-3-small"
    dense = f"{elasticsearch_address.replace('://', '+dense://')}@{model}"
    try:
        out = keqa_command("index", folder, *flags, "--model", model).fine()
        assert f"Indexed 1 passage (en, {model}) into {elasticsearch_address}. Ask with:" in out
        assert f"--index {elasticsearch_address},{dense} --lm" in out
        (folder / "boat.txt").write_text("A boat at dawn.")
        keqa_command("index", "sync", dense, folder).fine()
        for address in (dense, f"{elasticsearch_address},{dense}"):
            reported = keqa_command("search", "a boat", "-i", address, "-k", 1, "--json").json()
            assert [hit["title"] for hit in reported["hits"]] == ["boat"]
        keqa_command("index", "sync", elasticsearch_address, folder).refused("has vectors, which change with its text")
        keqa_command("search", "a boat", "-i", dense.partition("@")[0]).refused(f"write the index as {dense}")
        ((part,),) = [keqa_command("index", "info", dense, "--json").json()["indexes"]]
        assert (part["engine"], part["passages"], part["encoder"]["model"]) == ("elasticsearch-dense", 2, model)
    finally:
        server.close()
