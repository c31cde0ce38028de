"""What is sent to a cluster and what is made of its answers, by one that is played in this process."""

import base64
import copy
import fnmatch
import gzip
import io
import json
import re
import socket
import subprocess
import sys
import traceback
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
import urllib3
from elasticsearch import __version__
from urllib3 import exceptions as errors

from keqa.errors import ConfigurationError, InputError, KeqaError, MissingExtraError, RetrievalError
from keqa.retrievers import Hit, Passage
from keqa.retrievers.base import Origin, Place
from keqa.retrievers.elasticsearch import client, generation, mapping, retriever, writing
from keqa.retrievers.elasticsearch.client import connect, may_pass, parse_address
from keqa.retrievers.elasticsearch.generation import Generations
from keqa.retrievers.elasticsearch.mapping import ANALYZERS
from keqa.retrievers.elasticsearch.retriever import ElasticsearchDenseRetriever, ElasticsearchRetriever
from keqa.retrievers.elasticsearch.writing import changing, load_index
from keqa.retrievers.embedding import Encoder
from keqa.retrievers.engines import facts_of
from keqa.retrievers.manifest import EncoderSettings, FileChange, PlannedChange
from keqa.retrievers.text import MAX_QUERY_TERMS, stop_words

ADDRESS = "elasticsearch://host:9201/wiki"
SHARDS = {"_shards": {"total": 1, "successful": 1, "failed": 0}}
JSON = "application/vnd.elasticsearch+json;compatible-with=8"
HEADERS = {"Content-Type": JSON, "X-Elastic-Product": "Elasticsearch", "Content-Encoding": "gzip"}
ABSENT = {"error": {"type": "index_not_found_exception", "reason": "no such index [wiki]"}}


class Cluster:
    """Keeps indexes as Elasticsearch does and finds all passages; `sent` has each request, `answers` come first.

    What `altered` has for a part of a path makes another answer of the true one, a status with it.
    """

    def __init__(self):
        self.indexes, self.sent, self.answers, self.headers, self.altered = {}, [], [], HEADERS, {}

    def urlopen(self, pool, method, url, body=None, **how):
        sent = {"asked": f"{method} {url}", "body": read_lines(body), "node": f"{pool.host}:{pool.port}"}
        self.sent.append(SimpleNamespace(**sent, **how))
        path = url.partition("?")[0]
        answer = self.answers.pop(0) if self.answers else (200, self.reply(method, path, body))
        for part, alter in self.altered.items():
            answer = alter(answer[1]) if part in path else answer
        if isinstance(answer, Exception):
            raise answer
        status, said = answer if answer[1] is not None else (404, ABSENT)
        data = gzip.compress(said if isinstance(said, bytes) else json.dumps(said).encode())
        return urllib3.HTTPResponse(io.BytesIO(data), self.headers, status, preload_content=False)

    def named(self, name):
        return {one: of for one, of in self.indexes.items() if name in of["aliases"] or fnmatch.fnmatch(one, name)}

    def reply(self, method, path, data):  # noqa: C901
        (name, _, what), lines = path.strip("/").partition("/"), read_lines(data)
        found, body = self.named(name), next(iter(lines), {})
        state = next(iter(found.values()), {})
        match method, what or name:
            case "GET", "":
                return {"version": {"number": "8.19.14"}}
            case "PUT", "_bulk":
                return self.bulk(lines)
            case _, "_aliases":
                for ((kind, one),) in map(dict.items, body["actions"]):
                    if kind == "remove_index":
                        del self.indexes[one["index"]]
                    else:
                        of = self.indexes[one["index"]]["aliases"]
                        of.pop(one["alias"], None) if kind == "remove" else of.update({one["alias"]: {}})
            case _, "_msearch":
                pairs = zip(lines[::2], lines[1::2], strict=True)
                return {"responses": [self.hits(self.indexes[head["index"]], one) for head, one in pairs]}
            case _, "_search":
                return self.hits(state, body)
            case "GET", "_settings":
                return {name: {"settings": {"index": {"number_of_replicas": "2"}}}}
            case "PUT", "_settings":
                state["settings"] |= body
            case _, "_mapping":
                state["mappings"] |= body
            case _, "_mget":
                docs = {one: {name: of[name] for name in of if name != "vector"} for one, of in state["docs"].items()}
                return {"docs": [{"found": one in docs, "_source": docs.get(one)} for one in body["ids"]]}
            case "PUT", _ if what:
                self.indexes[what.removeprefix("_clone/")] = {**copy.deepcopy(state), "aliases": body["aliases"]}
            case "PUT", _:
                self.indexes[name] = {**body, "docs": {}}
            case "DELETE", _ if not what:
                del self.indexes[name]
            case "GET", _ if not what:
                return found or None
        count = {"count": len(state.get("docs", ()))}
        return {"acknowledged": True, "shards_acknowledged": True, "timed_out": False, **count, **SHARDS}

    def hits(self, state, body):
        hits = [{"_source": one, "_score": 0.75} for one in state["docs"].values()][: body["size"]]
        return {"timed_out": False, "hits": {"hits": hits}, **SHARDS}

    def bulk(self, lines):
        items, lines = [], iter(lines)
        for ((kind, of),) in map(dict.items, lines):
            ((_, state),) = self.named(of["_index"]).items()
            given = next(lines) if kind != "delete" else {}
            # As where the first answer got lost, and the request was sent again.
            status = 404 if kind == "delete" else 200
            state["docs"][of["_id"]] = {**state["docs"].get(of["_id"], {}), **given.get("doc", given)}
            if kind == "delete":
                del state["docs"][of["_id"]]
            items.append({kind: {"_id": of["_id"], "status": status}})
        return {"errors": True, "items": items}


def read_lines(body):
    return [json.loads(line) for line in (body or b"").splitlines()]


@pytest.fixture
def cluster(monkeypatch):
    for name in ("API_KEY", "USERNAME", "PASSWORD", "CA_CERTS", "FINGERPRINT", "TIMEOUT"):
        monkeypatch.delenv(f"ELASTICSEARCH_{name}", raising=False)
    played = Cluster()
    monkeypatch.setattr(urllib3.HTTPConnectionPool, "urlopen", lambda *given, **how: played.urlopen(*given, **how))
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: io.BytesIO())
    return played


@pytest.fixture
def pauses(monkeypatch):
    """The pauses between attempts, in which alone time passes."""
    pauses = []
    clock = SimpleNamespace(sleep=pauses.append, monotonic=lambda: sum(pauses))
    monkeypatch.setattr(retriever, "time", clock)
    monkeypatch.setattr("elasticsearch.helpers.actions.time", clock)
    return pauses


def asked(cluster):
    """What was sent since this was last asked, but the question for the version: with the name of a generation as N."""
    sent, cluster.sent = cluster.sent, []
    return json.loads(re.sub(r"wiki-[0-9a-f]{12}", "N", json.dumps([[one.asked, *one.body] for one in sent])))[1:]


ANN, BO = Passage("a", "Ann", "Ann lives in Oslo."), Passage("b", "", "Bo lives in Rome.")


def test_what_a_load_a_search_and_a_change_send(cluster, library):
    notices = []
    loading = {"sources": ["mine"], "replicas": 1, "model": "one", "notice": notices.append}
    manifest = load_index([ANN, BO], ADDRESS, progress=notices.append, **loading)
    *_, (put, body), (bulk, *written), refreshed, _, _, _, finished, _, described, _, switched = asked(cluster)
    assert (put, body["aliases"]) == ("PUT /N", {"N-load": {"is_write_index": True}})
    assert (bulk, written[0]) == ("PUT /_bulk?require_alias=true", {"create": {"_id": "a", "_index": "N-load"}})
    (vector,) = library.SentenceTransformer("one").encode_document(["Ann: Ann lives in Oslo."], **ENCODING).tolist()
    assert written[1] == {"doc_id": "a", "title": "Ann", "text": ANN.text, "vector": pytest.approx(vector)}
    assert (len(written), refreshed) == (4, ["POST /N/_refresh"])
    final = {"auto_expand_replicas": "false", "number_of_replicas": 1, "refresh_interval": None, "blocks.write": True}
    meta = json.loads(manifest.to_json().replace(manifest.data, "N"))
    assert (finished, described[1]) == (["PUT /N/_settings", final], {"_meta": {"keqa": meta}})
    actions = [{"add": {"index": "N", "alias": "wiki"}}]
    actions += [{"remove": {"index": "N", "alias": "N-load", "must_exist": True}}]
    assert switched == ["POST /_aliases", {"actions": actions}]
    assert (manifest.passages, manifest.sources, manifest.languages, notices) == (2, ("mine",), {"en": 2}, [2])
    assert manifest.probe == tuple(Encoder.choose("one").query_probe().tolist())
    header = {"index": "N", "search_type": "dfs_query_then_fetch", "allow_partial_search_results": False}
    wanted = {"_source": ["doc_id", "title", "text", "place"]}
    with closing(ElasticsearchRetriever(ADDRESS)) as opened:
        assert opened.search_many(["?", "Who is in Oslo?"], 5) == [[], [Hit(ANN, 0.75), Hit(BO, 0.75)]]
        body = mapping.query_body("Who is in Oslo?", manifest.analyzer, 2)
    assert asked(cluster) == [["GET /wiki"], ["POST /N/_count"], ["POST /_msearch", header, body | wanted]]
    with closing(ElasticsearchDenseRetriever(ADDRESS, "one")) as opened:
        assert opened.search_many(["?", "Oslo"], 1) == [[], [Hit(ANN, 0.5)]]
        body = mapping.knn_body(Encoder.choose("one").queries(["Oslo"])[0], 1)
    assert asked(cluster)[2:] == [["POST /_msearch", header, body | wanted]]
    with changing(f"{ADDRESS.replace('://', '+dense://')}@one") as changer:
        assert changer.held(["a", "x"]) == {"a"}
        cleo = Passage("c", "", "Cleo lives in Bonn.")
        files = {"f.txt": FileChange("digest", ("c", "b"))}
        changed = changer.apply(PlannedChange(new=[cleo], gone=["a"], leaving=[ANN], kept=[BO], files=files))
        assert (changer.manifest, changed.passages, changed.deleted) == (changed, 2, 0)
    sent = {one: body for one, *body in asked(cluster)}
    (clone,), (deleted, updated, bo, _, new) = sent["PUT /N/_clone/N"], sent["PUT /_bulk?require_alias=true"]
    assert (clone["aliases"], clone["settings"]["index.blocks.write"]) == ({"N-change": {"is_write_index": True}}, None)
    assert deleted == {"delete": {"_id": "a", "_index": "N-change"}}
    assert updated == {"update": {"_id": "b", "_index": "N-change"}}
    assert bo == {"doc": {"doc_id": "b", "title": "", "text": BO.text, "file": "f.txt", "file_digest": "digest"}}
    assert (new["doc_id"], new["file"], len(new["vector"])) == ("c", "f.txt", 16)
    assert "POST /N/_forcemerge?max_num_segments=1" in sent
    # The state before stays until the next change.
    assert sorted(cluster.indexes) == sorted((manifest.data, changed.data))
    assert cluster.named("wiki") == {changed.data: cluster.indexes[changed.data]}
    assert cluster.indexes[changed.data]["settings"]["number_of_replicas"] == 2
    # Copies that come by themselves do so afterwards.
    said = {changed.data: {"settings": {"index": {"auto_expand_replicas": "0-1", "number_of_replicas": "1"}}}}
    cluster.altered["/_settings"] = lambda reply: (200, reply if "acknowledged" in reply else said)
    with changing(f"{ADDRESS.replace('://', '+dense://')}@one") as changer:
        again = cluster.indexes[changer.apply(PlannedChange(gone=["b"])).data]["settings"]
    assert (again["auto_expand_replicas"], again["blocks.write"]) == ("0-1", True)


ENCODING = {"convert_to_numpy": True, "normalize_embeddings": True, "show_progress_bar": False}


def test_a_load_that_was_interrupted_sends_what_is_missing(cluster, library, monkeypatch):
    monkeypatch.setattr(writing, "BATCH", 1)
    monkeypatch.setattr(generation, "BATCH", 1)
    refusing, notices = {"index": {"_id": "b", "status": 400, "error": {"type": "x", "reason": "too deep"}}}, []
    bulk, told = cluster.bulk, {"model": "two", "notice": notices.append}
    cluster.bulk = lambda lines: {"errors": True, "items": [refusing]} if "Bo" in str(lines) else bulk(lines)
    with pytest.raises(RetrievalError, match=r"^passage 'b' could not be written: 400 \(too deep\)$"):
        load_index([ANN, BO], ADDRESS, **told)
    with pytest.raises(RetrievalError, match=r"the index wiki at http://host:9201 is not finished: its load is still"):
        ElasticsearchRetriever(ADDRESS)
    cluster.bulk, library.CALLS[:], cluster.sent = bulk, [], []
    manifest = load_index([ANN, BO], ADDRESS, **told)
    (written,) = [one for one in asked(cluster) if "_bulk" in one[0]]
    assert written[1] == {"create": {"_id": "b", "_index": "N-load"}}
    (notice,) = notices
    begun = f"an earlier load of wiki, begun {manifest.created}"
    assert notice == f"{begun}, was interrupted after about 1 passages: resuming from there"
    assert [texts for _, _, texts in library.CALLS][-2] == ["Bo lives in Rome."]
    # Another load is another generation, and takes the place of this one; whoever searches goes on in the new one.
    with closing(ElasticsearchRetriever(ADDRESS)) as opened:
        again = load_index([BO], ADDRESS, notice=notices.append, replicas=0)
        assert list(cluster.indexes) == [again.data] != [manifest.data]
        cluster.answers = [(404, {"error": {"type": "index_not_found_exception", "reason": "no such index [x]"}})]
        assert opened.search("Rome", 3) == [Hit(BO, 0.75)]
        assert opened.manifest == again
        # A closing index may refuse a search as if the search were at fault.
        again = load_index([ANN], ADDRESS, notice=notices.append)
        cluster.answers = [(200, {"responses": [{"status": 400, **refusal("x", "all shards failed")}]})]
        assert opened.search("Rome", 3) == [Hit(ANN, 0.75)]
        assert opened.manifest == again


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shards": 0}, "an index needs at least one shard, not 0"),
        ({"replicas": -1}, "an index cannot have -1 replicas"),
        ({"query_prefix": "x"}, "query_prefix say how a model encodes: name the model as well"),
    ],
)
def test_what_cannot_be_loaded_is_refused_before_anything_is_sent(cluster, given, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        load_index([ANN], ADDRESS, **given)
    assert cluster.sent == []


def refusal(kind, reason, **more):
    return {"error": {"type": kind, "reason": reason, **more}}


CAUSED = refusal("x", "[es-7.lan][10.0.0.5:9300] left", caused_by={"reason": "it died"})
KEY, BOTH = "ELASTICSEARCH_API_KEY", "ELASTICSEARCH_USERNAME and ELASTICSEARCH_PASSWORD"
UNREAD = "the settings of the index wiki could not be read"
CHECK = "Check the address, its port, and that the server runs"
AWAY = f"{UNREAD}: H cannot be reached (<address> left). {CHECK}; where the cluster speaks TLS, write elasticsearch+https://"
FULL = (
    "the index wiki is read-only and cannot be written to: FORBIDDEN/12. Elasticsearch sets such a block itself when a "
    "disk is nearly full; free space, or lift the block (index.blocks), and run the same again"
)
CLIENT = f"which the installed client {'.'.join(map(str, __version__[:2]))} cannot talk to"
OLD = f"the server at H is older, {CLIENT}: KEQA needs Elasticsearch 8 or newer"
OLDER = "the server at H is older, which the installed client 9.1 cannot talk to. Install the client of its version: "
NO_TLS = (
    "the server at H does not speak TLS ([SSL: WRONG_VERSION_NUMBER]): write elasticsearch:// in the place of "
    "elasticsearch+https://, or http:// of https://"
)
STRANGER = (
    "the certificate of H is not trusted: name the file of the authority that signed it in ELASTICSEARCH_CA_CERTS, or "
    "its SHA-256 fingerprint in ELASTICSEARCH_FINGERPRINT (self-signed)"
)
GIVEN = {"key": {KEY: "geheim"}, "password": dict.fromkeys(BOTH.split(" and "), "geheim")}
# What is answered, or raised where nothing is, and what is said of it.
REFUSALS = {
    "key": (401, refusal("x", "who?"), f"H does not accept the credentials in {KEY}"),
    "password": (401, refusal("x", "who?"), f"H does not accept the credentials in {BOTH}"),
    "nobody": (401, refusal("x", "who?"), f"H asks for credentials: set {KEY}, or {BOTH}, in the environment"),
    "not he": (403, refusal("x", "no rights"), f"{UNREAD}: the credentials for H do not allow it (no rights)"),
    "full": (429, refusal("cluster_block_exception", "FORBIDDEN/12"), FULL),
    "old": (406, refusal("media_type_header_exception", "no"), OLD),
    "older": (400, refusal("x", "not compatible-with=9"), f"{OLDER}pip install 'elasticsearch>=8,<9'"),
    "none": (404, refusal("x", "no such index [w]"), f"{UNREAD}: there is no such index at H (no such index [w])"),
    "lost": (404, refusal("no_shard", ""), f"{UNREAD}: H answered 404 (no_shard)"),
    "cause": (500, CAUSED, f"{UNREAD}: H answered 500 ([<address>] left: it died)"),
    "busy": (503, {"error": "wait"}, f"{UNREAD}: H answered 503 (wait)"),
    "slow": (0, errors.ReadTimeoutError(None, "/", "late"), f"{UNREAD}: H did not answer in time"),
    "away": (0, errors.ProtocolError("es-7:9300 left"), AWAY),
    "no tls": (0, errors.SSLError("[SSL: WRONG_VERSION_NUMBER]"), NO_TLS),
    "stranger": (0, errors.SSLError("self-signed"), STRANGER),
    "other": (200, b"<p>", f"{UNREAD}: what answers at H does not speak as Elasticsearch does"),
    "long": (200, b"1" * 2000, f"{UNREAD}: H: the server's reply has more than 0 MB, the most that is read"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_said_of_each_refusal(cluster, monkeypatch, name):
    status, answer, message = REFUSALS[name]
    monkeypatch.setattr(client, "_MOST_BYTES", 1000)
    for variable, value in GIVEN.get(name, {}).items():
        monkeypatch.setenv(variable, value)
    target = parse_address(ADDRESS)
    with closing(connect(target)) as connected:
        cluster.answers = [(status, answer) if status else answer] * 9
        monkeypatch.setattr("elasticsearch.__version__", (9, 1, 0) if name == "older" else __version__)
        with pytest.raises(KeqaError) as caught:
            Generations(connected, target).settings("wiki")
    assert str(caught.value) == re.sub(r"\bH\b", "http://host:9201", message)
    configured = name in (*GIVEN, "nobody", "not he", "old", "older", "no tls", "stranger")
    assert type(caught.value) is (ConfigurationError if configured else RetrievalError)
    assert may_pass(caught.value) == (name in ("full", "busy", "slow", "away"))
    # What a server is too busy for, or a connection loses, is sent again at once.
    again = not status or status in (429, 503)
    assert len(cluster.sent) - 1 == (6 if again else 1)


NEWER = __version__[0] + 2
INSTALL = f"pip install 'elasticsearch>={NEWER},<{NEWER + 1}'"
VERSIONS = {
    "7.17.0": f"is version 7.17.0, {CLIENT}: KEQA needs Elasticsearch 8 or newer",
    f"{NEWER}.1": f"is version {NEWER}.1, {CLIENT}. Install the client of its version: {INSTALL}",
}


def test_a_missing_client_is_reported_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "elasticsearch", None)
    with pytest.raises(MissingExtraError, match=r"elasticsearch://here:9200/wiki needs .* 'keqa\[elasticsearch\]'"):
        ElasticsearchRetriever("elasticsearch://here/wiki")


@pytest.mark.process
def test_loading_needs_no_client_until_it_connects():
    code = "import sys, keqa.retrievers.elasticsearch.writing; sys.exit('elasticsearch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_how_a_cluster_is_connected_to(cluster, monkeypatch, tmp_path):
    target = parse_address("elasticsearch+https://one,[::1]:9201/path/wiki")
    (tmp_path / "ca.pem").write_text("")
    given = {"TIMEOUT": "7", "USERNAME": "ann", "PASSWORD": " pü ", "FINGERPRINT": "AB" * 32}
    for name, value in (given | {"CA_CERTS": f"{tmp_path}/ca.pem\n"}).items():
        monkeypatch.setenv(f"ELASTICSEARCH_{name}", value)
    trusted = {"ca_certs": f"{tmp_path}/ca.pem", "ssl_assert_fingerprint": "AB" * 32}
    assert (client._trust(target), client._trust(parse_address(ADDRESS))) == (trusted, {})
    connect(parse_address(ADDRESS)).close()
    sent = cluster.sent[0]
    assert sent.timeout == 7
    assert sent.headers["authorization"] == f"Basic {base64.b64encode('ann: pü '.encode()).decode()}"
    for name in ("USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"ELASTICSEARCH_{name}")
    for key, sent_as in ((" id:secret\r\n", base64.b64encode(b"id:secret").decode()), ("aWQ=", "aWQ=")):
        monkeypatch.setenv(KEY, key)
        connect(parse_address(ADDRESS)).close()
        assert cluster.sent[-1].headers["authorization"] == f"ApiKey {sent_as}"
    for version, message in VERSIONS.items():
        cluster.answers = [(200, {"version": {"number": version}})]
        with pytest.raises(ConfigurationError, match=re.escape(f"the server at http://host:9201 {message}") + "$"):
            connect(parse_address(ADDRESS))
    cluster.headers = {name: value for name, value in HEADERS.items() if name != "X-Elastic-Product"}
    with pytest.raises(ConfigurationError, match=r"^what answers at http://host:9201 is not Elasticsearch \(OpenS"):
        connect(parse_address(ADDRESS))
    cluster.headers = HEADERS
    # The next one is accepted, and who may only search need not be told the version.
    for answer in ((200, {"version": {"number": f"{NEWER - 1}.0"}}), (403, refusal("x", "no"))):
        cluster.answers = [answer]
        connect(parse_address(ADDRESS)).close()
    asked_for, refusing = [], {"one": TimeoutError(), "::1": ConnectionRefusedError(111, "Connection refused")}

    def connecting(place, timeout):
        asked_for.append((*place, timeout))
        raise refusing[place[0]]

    monkeypatch.setattr(socket, "create_connection", connecting)
    why = "no connection within 3 seconds; Connection refused"
    nodes = "https://one:9200/path, https://[::1]:9201/path"
    said = f"the cluster could not be asked for its version: {nodes} cannot be reached ({why}). {CHECK}"
    with pytest.raises(RetrievalError, match=re.escape(said) + "$"):
        connect(target)
    assert sorted(asked_for) == [("::1", 9201, 3), ("one", 9200, 3)]


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
def test_what_cannot_be_sent_is_refused_before_anything_is_and_not_repeated(cluster, monkeypatch, given, message):
    for name, value in given.items():
        monkeypatch.setenv(f"ELASTICSEARCH_{name}", value)
    with pytest.raises(ConfigurationError, match=f"ELASTICSEARCH_{message}") as caught:
        ElasticsearchRetriever("elasticsearch+https://localhost:1/wiki")
    shown = "".join(traceback.format_exception(caught.value, chain=True)[-1:])
    assert "geheim" not in shown
    assert (caught.value.__cause__, cluster.sent) == (None, [])
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


PARTS = {"_shards": {"total": 5, "failed": 2}, "timed_out": False}
FAILED = "searching the index wiki failed: "
# An answer to one of two queries, and what is said where it stays so; only what may pass is asked for again.
PASSING = {
    "parts": (PARTS, "2 of 5 parts of the index did not answer"),
    "late": ({**SHARDS, "timed_out": True}, "the search was cut off because it took too long"),
    **{f"{n}": ({"status": n, **refusal("x", "no")}, f"{n} (no)") for n in (404, 429, 500)},
}


@pytest.mark.parametrize("name", PASSING)
def test_what_fails_in_passing_is_asked_for_again(cluster, monkeypatch, pauses, name):
    answer, message = PASSING[name]
    load_index([ANN, BO], ADDRESS, notice=str)
    with closing(ElasticsearchRetriever(ADDRESS)) as opened:
        hits = {"hits": {"hits": [{"_source": {"doc_id": "x"}, "_score": 1}]}, "timed_out": False, **SHARDS}
        cluster.sent = []
        cluster.answers = [(200, {"responses": [hits, answer]}), *[(503, {})] * 6]
        first, second = opened.search_many(["first", "second"], 1)
        assert (first[0].passage.id, second[0].passage.id, pauses) == ("x", "a", [0.1, 0.2])
        # Those that are answered are kept, and the client itself asks six times without a pause.
        assert [len(one.body) for one in cluster.sent] == [4, *[2] * 7]
        pauses.clear()
        cluster.answers = [(200, {"responses": [answer]})] * 34
        with pytest.raises(RetrievalError, match=re.escape(f"{FAILED}{message} (asked again for 90 seconds)") + "$"):
            opened.search("first")
        assert (pauses, cluster.answers) == ([0.1, 0.2, 0.4, 0.8, 1.6, *[3.0] * 28], [])
        cluster.answers = [(200, {"responses": [{"status": 400, **refusal("x", "bad")}]})]
        with pytest.raises(RetrievalError, match=rf"^{FAILED}400 \(bad\)$"):
            opened.search("first")
        monkeypatch.setattr(mapping, "MOST_HITS", 1)
        assert len(opened.search("first", 1)) == 1
        with pytest.raises(InputError, match=r"^Elasticsearch finds 1 passages at most for a question, not 2$"):
            opened.search("first", 2)


def test_what_another_load_or_change_leaves_behind_goes_with_the_next_but_what_others_use(cluster):
    notices, altered = [], {"_bulk": lambda _: (200, {"items": [{"create": refused_item(400, "x")}]})}
    first = load_index([ANN, BO], ADDRESS, sources=["docs"], notice=notices.append).data
    cluster.altered = altered
    with pytest.raises(RetrievalError, match="could not be written"):
        load_index([BO], ADDRESS, sources=["docs"])
    cluster.altered = {}
    (interrupted,) = set(cluster.indexes) - {first}
    # Of another index, whose name is longer.
    cluster.indexes["wiki-en-1"] = {"mappings": {"_meta": {"keqa": {"name": "wiki-en"}}}, "aliases": {}}
    begun = cluster.indexes[interrupted]["mappings"]["_meta"]["keqa"]["created"]
    changed = []
    for gone in ("a", "b"):
        with changing(ADDRESS) as changer:
            changed.append(changer.apply(PlannedChange(gone=[gone], sources=("docs",))).data)
    # The state before the last change, and the load that is under way.
    assert set(cluster.indexes) == {interrupted, "wiki-en-1", *changed}
    cluster.indexes[changed[1]]["aliases"]["mine"] = {}
    with pytest.raises(InputError, match=r"holds an index of other sources \(docs\)"):
        load_index([ANN], ADDRESS, sources=["other"])
    last = load_index([ANN], ADDRESS, sources=["other"], overwrite=True, notice=notices.append)
    assert {name: list(of["aliases"]) for name, of in cluster.indexes.items()} == {
        "wiki-en-1": [],
        changed[1]: ["mine"],
        last.data: ["wiki"],
    }
    assert notices == [
        f"an earlier load of wiki, begun {begun}, was interrupted: again (its passages or settings are others)",
        f"the earlier index {changed[1]} stays, since another alias stands for it",
    ]
    for theirs in ({"wiki": {"aliases": {}}}, {"theirs": {"aliases": {"wiki": {}}}}):
        cluster.indexes = theirs
        with pytest.raises(
            InputError, match=r"^wiki at http://host:9201 is an index that KEQA did not make; it is left"
        ):
            load_index([ANN], ADDRESS)


def refused_item(status, kind):
    return {"_id": "a", "status": status, "error": {"type": kind, "reason": "why"}}


def partial(reply):
    return 200, {**reply, "_shards": {"total": 3, "failed": 1}}


UNSOUND = "the index wiki did not pass its verification: 2 passages went into it and"
LOST = "It is not published, and what was written is removed; what was there before stays. Run the same again"
# What is answered where, and what a load of two passages says of it.
FAILED_LOADS = {
    "taken": ("_bulk", (404, "index_not_found_exception"), "another process has begun to load wiki, or finished it: t"),
    "full": ("_bulk", (403, "cluster_block_exception"), FULL.replace("FORBIDDEN/12", "why")),
    "busy": ("_bulk", (429, "x"), "passage 'a' could not be written: 429 (why)"),
    "parts": ("_refresh", partial, "1 of 3 parts of the index N did not answer: look at the state of the cluster at H"),
    "fewer": ("_count", [1], f"{UNSOUND} 1 are in it. {LOST}"),
    "bare": ("_count", [2, 1], f"{UNSOUND} 2 are in it and 1 vectors. "),
}


@pytest.mark.parametrize("name", FAILED_LOADS)
def test_why_a_load_fails(cluster, library, pauses, name):
    part, answer, message = FAILED_LOADS[name]
    if isinstance(answer, tuple):
        cluster.altered[part] = lambda _: (200, {"items": [{"create": refused_item(*answer)}] * 2})
    elif isinstance(answer, list):
        counts = iter(answer)
        cluster.altered[part] = lambda reply: (200, {**reply, "count": next(counts)})
    else:
        cluster.altered[part] = answer
    with pytest.raises(RetrievalError) as caught:
        load_index([ANN, BO], ADDRESS, model="one" if name == "bare" else None)
    said = re.sub(r"wiki-[0-9a-f]{12}", "N", str(caught.value))
    assert said.startswith(message.replace("at H", "at http://host:9201"))
    assert len(cluster.indexes) == (0 if part == "_count" else 1)
    assert pauses == ([1, 2, 4, 8, 16, 30, 30, 30] if name == "busy" else [])


@pytest.mark.parametrize(
    ("health", "notices"),
    [
        (
            lambda reply: (408, {**reply, "timed_out": True}),
            ["not all copies of wiki are there yet: the cluster keeps"],
        ),
        (lambda reply: (403, refusal("x", "no")), ["whether all copies of wiki are there yet is not known: the cred"]),
    ],
)
def test_a_load_is_published_without_its_copies_and_where_the_answer_to_the_switch_gets_lost(cluster, health, notices):
    reported = []
    cluster.altered = {"_aliases": lambda _: (503, {"error": "lost"}), "/health/": health}
    manifest = load_index([ANN, BO], ADDRESS, notice=reported.append)
    assert list(cluster.named("wiki")) == [manifest.data]
    assert [one[: len(wanted)] for one, wanted in zip(reported, notices, strict=True)] == notices


def of_another_analyzer(indexes, data):
    indexes[data]["mappings"]["_meta"]["keqa"]["analyzer"]["tokenizer"] = "cjk"


# What becomes of a loaded index, and what is said where it is opened.
INDEX = "the index wiki at http://host:9201"
UNOPENED = {
    "none": (
        lambda indexes, data: indexes.clear(),
        "there is no index wiki at http://host:9201. Load one with `keqa index SOURCE --engine elasticsearch --url "
        "http://host:9201 --name wiki`",
    ),
    "two": (lambda of, data: of.update({"wiki-2": of[data]}), f"{INDEX} is an alias of several indexes: wiki-2, N"),
    "foreign": (
        lambda indexes, data: indexes[data]["mappings"].pop("_meta"),
        f"{INDEX} was not made by KEQA: its mapping holds no manifest",
    ),
    "analyzer": (
        of_another_analyzer,
        f"{INDEX} was built with analyzer settings that this version does not know (AnalyzerSettings(",
    ),
    "fewer": (
        lambda of, data: of[data]["docs"].popitem(),
        f"{INDEX} is not complete: its manifest says 2 passages, it holds 1. Load it again",
    ),
}


@pytest.mark.parametrize("name", UNOPENED)
def test_what_is_no_sound_index_is_not_opened(cluster, name):
    alter, message = UNOPENED[name]
    alter(cluster.indexes, load_index([ANN, BO], ADDRESS).data)
    with pytest.raises(RetrievalError) as caught:
        ElasticsearchRetriever(ADDRESS)
    assert re.sub(r"wiki-[0-9a-f]{12}", "N", str(caught.value)).startswith(message)


def test_what_is_asked_about_an_index_and_its_files(cluster, monkeypatch):
    manifest = load_index([ANN, BO], ADDRESS, replicas=2)
    monkeypatch.setattr(generation, "_FILES_PAGE", 2)
    # A file that was given twice is two, of two digests.
    pages = [[("/d/a", "1", 2), ("/d/b", "2", 1)], [("/d/b", "3", 1)]] * 2
    pages.append([])

    def page(_):
        found = [{"key": {"file": path, "file_digest": digest}, "doc_count": n} for path, digest, n in pages.pop(0)]
        return 200, {"aggregations": {"files": {"buckets": found, "after_key": {"file": "/d/b"}}}, **SHARDS}

    settings = {"index": {"number_of_replicas": "2", "number_of_shards": "3"}}
    cluster.altered = {
        f"/{manifest.data}/_stats/store": lambda _: (200, {"_all": {"total": {"store": {"size_in_bytes": 7}}}}),
        f"/health/{manifest.data}": lambda _: (200, {"cluster_name": "c", "status": "yellow"}),
        f"/{manifest.data}/_settings": lambda _: (200, {manifest.data: {"settings": settings}}),
        "/_search": page,
    }
    (found,) = facts_of(ADDRESS)
    facts = {"engine": "elasticsearch", "version": "8.19.14", "index": manifest.data, "name": "wiki", "passages": 2}
    facts |= {"bytes": 7, "shards": 3, "replicas": 2, "health": "yellow", "files": {"/d/a": 2, "/d/b": 2}}
    assert {name: found[name] for name in facts} == facts
    target, no = parse_address(ADDRESS), dict.fromkeys(("/_stats", "/health/"), lambda _: (403, refusal("x", "no")))
    with closing(connect(target)) as connected:
        generations = Generations(connected, target)
        asked(cluster)
        assert generations.files("wiki", ["/d", "/e/"]) == {"/d/a": ("1", 2), "/d/b": ("3", 2)}
        below = [{"prefix": {"file": "/d/"}}, {"prefix": {"file": "/e/"}}]
        first, second = (one.body[0] for one in cluster.sent)
        assert first["query"]["bool"]["filter"][0]["bool"]["should"] == [{"terms": {"file": ["/d", "/e/"]}}, *below]
        assert second["aggs"]["files"]["composite"]["after"] == {"file": "/d/b"}
        cluster.altered |= no
        found = generations.facts(manifest.data)
        assert (found["bytes"], found["health"], found["shards"]) == (None, None, 3)
        # More are read by a scan, from its beginning.
        monkeypatch.setattr(generation, "_PAGE", 2)
        cluster.altered = {}
        cluster.sent = []
        given = [[{"_source": {"doc_id": one}} for one in some] for some in (["b", "a"], ["b", "a"], ["c"], [])]
        cluster.answers = [(200, {"_scroll_id": "s", "hits": {"hits": some}, **SHARDS}) for some in given]
        assert generations.ids("wiki", {"term": {"file": "x"}}) == ["b", "a", "c"]
        wanted = {"query": {"term": {"file": "x"}}, "size": 2}
        first, scan = ([one.asked, *one.body] for one in cluster.sent[:2])
        assert scan == ["POST /wiki/_search?scroll=5m", {**wanted, "sort": "_doc", "_source": ["doc_id"]}]
        assert first == ["POST /wiki/_search?_source_includes=doc_id", {**wanted, "sort": ["_doc"]}]
        failed = {"_shards": {"total": 3, "successful": 2, "skipped": 0, "failed": 1}}
        cluster.answers = [(200, {"_scroll_id": "s", "hits": {"hits": given[0]}, **one}) for one in (SHARDS, failed)]
        with pytest.raises(RetrievalError, match=r"index wiki could not be read: .*succeeded on 2 .* out of 3"):
            generations.ids("wiki", {"term": {"file": "x"}})


def test_the_fields_and_settings_of_an_index():
    text = {"type": "text", "analyzer": "keqa_text", "search_analyzer": "keqa_query", "similarity": "keqa_bm25"}
    vector = {"type": "dense_vector", "dims": 16, "index": True, "similarity": "max_inner_product"}
    word, kept = {"type": "keyword"}, {"type": "keyword", "index": False}
    fields = {"doc_id": word, "title": {**text, "index_options": "freqs"}, "text": {**text, "index_options": "freqs"}}
    fields |= {"place": {**kept, "doc_values": False}, "file": word, "file_digest": kept}
    body = mapping.index_body("zh", 3, EncoderSettings("one", "one", "", "", ": ", "dot", 16))
    with_vector = {**vector, "index_options": {"type": "hnsw", "m": 16, "ef_construction": 100}}
    assert body["mappings"] == {"dynamic": "strict", "properties": {**fields, "vector": with_vector}}
    body = mapping.index_body("en", 3, None)
    assert body["mappings"]["properties"] == fields
    analysis = body["settings"].pop("analysis")
    loading = {"number_of_replicas": 0, "auto_expand_replicas": "false", "refresh_interval": "-1"}
    similarity = {"keqa_bm25": {"type": "BM25", "k1": 1.2, "b": 0.75}}
    assert body["settings"] == {"number_of_shards": 3, **loading, "max_result_window": 10_000, "similarity": similarity}
    before = ["keqa_possessive", "cjk_width", "lowercase", "cjk_bigram"]
    query = ["porter_stem", "unique", "keqa_most"]
    chains = {"text": [*before, query[0]], "query": [*before, "keqa_stop", *query], "every_word": [*before, *query]}
    custom = {"type": "custom", "tokenizer": "standard"}
    assert analysis["analyzer"] == {f"keqa_{name}": {**custom, "filter": chain} for name, chain in chains.items()}
    assert analysis["filter"] == {
        "keqa_possessive": {"type": "stemmer", "language": "possessive_english"},
        "keqa_stop": {"type": "stop", "stopwords": sorted(stop_words("en"))},
        "keqa_most": {"type": "limit", "max_token_count": MAX_QUERY_TERMS},
    }
    assert [("the" in stop_words(code), "\u7684" in stop_words(code)) for code in ("en", "zh")] == [
        (True, False),
        (True, True),
    ]
    passage = Passage("p", "T", "Text.", Place("f.pdf", 2, "Fees", "2020"))
    stored = mapping.document(passage, Origin("/f.pdf", "digest"))
    assert (stored["file"], stored["file_digest"], mapping.passage_of(stored)) == ("/f.pdf", "digest", passage)
    ordered = {"size": 9, "sort": [{"_score": "desc"}, {"doc_id": "asc"}], "track_total_hits": False}
    asked_for = {"query": "the who", "analyzer": "keqa_every_word"}
    matches = [{"match": {"text": asked_for}}, {"match": {"title": {**asked_for, "boost": 0.5}}}]
    assert mapping.query_body("the who", ANALYZERS["en"], 9) == {"query": {"bool": {"should": matches}}, **ordered}
    candidates = [mapping.knn_body([0.1], k)["knn"]["num_candidates"] for k in (9, 200, 9000)]
    knn = {"field": "vector", "query_vector": [0.1], "k": 9, "num_candidates": 300}
    assert (mapping.knn_body(np.float32([0.1]), 9), candidates) == ({"knn": knn, **ordered}, [300, 400, 10_000])
    assert [mapping.score_of(*one) for one in (("cosine", 0.75), ("dot", 3.5), ("dot", 0.25))] == [0.5, 2.5, -3.0]
