import json
import threading

import pytest

from keqa.errors import InputError, RetrievalError
from keqa.retrievers import Passage
from keqa.retrievers.elasticsearch import ElasticsearchRetriever, lifecycle, load_index, loading
from keqa.retrievers.elasticsearch.address import parse_address

MANY = 3000


@pytest.fixture
def small(monkeypatch):
    """Small steps, so that few passages show what happens to many."""
    monkeypatch.setattr(loading, "_HEAD", 50)
    monkeypatch.setattr(loading, "_BATCH", 100)
    monkeypatch.setattr(loading, "_NOTE_EVERY", 300)
    monkeypatch.setattr(loading, "_FIRST_PAUSE", 0.01)


def name_of(address):
    return parse_address(address).name


def behind(client, address):
    """The indexes of an address in the cluster, with their aliases."""
    found = client.indices.get(index=f"{name_of(address)}*")
    return {index: sorted(state["aliases"]) for index, state in found.items()}


def record_of(client, address):
    ((_, state),) = client.indices.get(index=f"{name_of(address)}-*").items()
    return state["mappings"]["_meta"]["keqa"]


def stored(client, address):
    """Every id that is stored, however many there are."""
    client.indices.refresh(index=f"{name_of(address)}*")
    hits = client.search(index=name_of(address), size=10_000, source=["doc_id"])["hits"]["hits"]
    return sorted((hit["_source"]["doc_id"] for hit in hits), key=str)


def deleted(client, manifest):
    """How many passages were written twice: what is deleted still counts in the ranking."""
    return client.indices.stats(index=manifest.data)["_all"]["primaries"]["docs"]["deleted"]


def test_counts_progress_and_manifest(address, client, words):
    seen = []
    manifest = load_index(words(2500), address, progress=seen.append, sources=["x.tsv"])
    assert seen == sorted(seen)
    assert seen[-1] == 2500
    assert (manifest.passages, manifest.name, manifest.sources) == (2500, name_of(address), ("x.tsv",))
    assert (manifest.language, manifest.analyzer.tokenizer) == ("en", "english")
    assert ElasticsearchRetriever.open(address).manifest == manifest
    assert behind(client, address) == {manifest.data: [name_of(address)]}
    assert stored(client, address) == sorted(str(n) for n in range(2500))


def test_the_manifest_is_that_of_the_embedded_index(address, tmp_path, words):
    from keqa.retrievers import build_index

    given = [*words(20), *words(3)]
    embedded, loaded = build_index(given, tmp_path / "i"), load_index(given, address)
    assert (loaded.source_hash, loaded.renamed) == (embedded.source_hash, 3)
    assert loaded.passages == embedded.passages == 23


def test_repeated_and_very_long_ids(address, client):
    long = "é" * 600
    notices = []
    load_index([Passage(one, "", "word") for one in ("7", "7", long, long[:-1] + "e")], address, notice=notices.append)
    assert stored(client, address) == ["7", "7~2", long[:-1] + "e", long]
    assert notices == ["1 passages had an id that was taken and got a suffix such as ~2"]


def test_settings_while_loading_and_afterwards(address, client, words, small):
    during = []

    def look(count):
        ((data, state),) = client.indices.get(index=f"{name_of(address)}-*").items()
        during.append((data, state["settings"]["index"]))

    load_index(words(300), address, progress=look, shards=2, replicas=0, k1=0.9, b=0.4)
    data, settings = during[0]
    assert (settings["refresh_interval"], settings["number_of_replicas"], settings["number_of_shards"]) == (
        "-1",
        "0",
        "2",
    )
    after = client.indices.get_settings(index=data)[data]["settings"]["index"]
    assert "refresh_interval" not in after
    assert after["blocks"] == {"write": "true"}
    assert after["similarity"]["keqa_bm25"] == {"type": "BM25", "k1": "0.9", "b": "0.4"}


def test_a_copy_is_made_where_there_is_a_second_node(address, client, words):
    data = load_index(words(3), address).data
    assert client.indices.get_settings(index=data)[data]["settings"]["index"]["auto_expand_replicas"] == "0-1"


def test_copies_that_cannot_be_made_are_reported(address, client, words, monkeypatch):
    monkeypatch.setattr(lifecycle, "_WAIT_FOR_COPIES", "1s")
    nodes = client.cluster.health()["number_of_data_nodes"]
    notices = []
    load_index(words(3), address, replicas=nodes, notice=notices.append)
    assert "not all copies" in notices[0]
    assert len(ElasticsearchRetriever.open(address).search("word")) == 3


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([], {}, "corpus is empty"),
        ([Passage(" ", "T", "x")], {}, "has no id"),
        ([Passage("1", "", "x")], {"language": "fr"}, "'fr'"),
        ([Passage("1", "", "x")], {"shards": 0}, "at least one shard"),
        ([Passage("1", "", "x")], {"threads": 0}, "at least one shard and one thread"),
        ([Passage("1", "", "x")], {"replicas": -1}, "-1 replicas"),
        ([Passage("1", "", "x")], {"b": 1.5}, "between 0 and 1"),
    ],
)
def test_what_cannot_be_loaded_leaves_nothing_behind(address, client, given, options, message):
    with pytest.raises(InputError, match=message):
        load_index(given, address, **options)
    assert behind(client, address) == {}


def test_memory_is_bounded_by_what_is_on_its_way(address, words, small):
    read = arrived = most = 0

    def reading():
        nonlocal read, most
        for passage in words(3000):
            read += 1
            most = max(most, read - arrived)
            yield passage

    def progress(count):
        nonlocal arrived
        arrived = count

    load_index(reading(), address, progress=progress, threads=2)
    # Four batches of 100 on their way, one being filled, one whose arrival was not reported yet.
    assert most <= 600


def test_a_rebuild_switches_at_once_and_removes_the_old_index(address, client, passages, words, small):
    old = load_index(passages, address)
    retriever = ElasticsearchRetriever.open(address)
    stop, failures, seen = threading.Event(), [], set()

    def search():
        while not stop.is_set():
            try:
                seen.add(tuple(hit.passage.id for hit in retriever.search("zebra word", 1)))
            except BaseException as error:
                failures.append(error)
                return

    thread = threading.Thread(target=search)
    thread.start()
    new = load_index(words(500), address)
    while ("1",) not in seen and not failures and thread.is_alive() and len(seen) < 2:
        pass
    stop.set()
    thread.join()
    assert failures == []
    assert seen == {("p4",), ("0",)}
    assert retriever.manifest == new != old
    assert behind(client, address) == {new.data: [name_of(address)]}


def test_an_old_index_that_has_another_alias_stays(address, client, passages):
    old = load_index(passages, address)
    client.indices.put_alias(index=old.data, name=f"{name_of(address)}-mine")
    notices = []
    new = load_index(passages[:2], address, notice=notices.append)
    assert notices == [f"the earlier index {old.data} stays, since another alias stands for it"]
    assert behind(client, address) == {old.data: [f"{name_of(address)}-mine"], new.data: [name_of(address)]}


def test_what_another_made_is_left_alone(address, client, passages):
    name = name_of(address)
    client.indices.create(index=name)
    with pytest.raises(InputError, match="an index that KEQA did not make; it is left alone"):
        load_index(passages, address)
    assert behind(client, address) == {name: []}
    client.indices.delete(index=name)
    client.indices.create(index=f"{name}-theirs", aliases={name: {}})
    with pytest.raises(InputError, match="did not make"):
        load_index(passages, address)
    assert behind(client, address) == {f"{name}-theirs": [name]}


def test_indexes_of_longer_names_are_left_alone(address, client, passages):
    other = load_index(passages, f"{address}-en")
    load_index(passages, address)
    load_index(passages, address)
    assert other.data in behind(client, address)
    assert ElasticsearchRetriever.open(f"{address}-en").manifest == other


def test_a_finished_index_takes_no_further_passages(address, client, passages):
    data = load_index(passages, address).data
    reply = client.options(ignore_status=403).index(index=data, document={"doc_id": "x", "title": "", "text": "y"})
    assert "index write" in str(reply)


@pytest.fixture
def run_killed(killed):
    """Loads in another process until it kills itself."""
    preamble = """
        from keqa.retrievers.elasticsearch import lifecycle, load_index, loading
        loading._HEAD, loading._BATCH, loading._NOTE_EVERY = 50, 100, 300
        """
    return lambda body: killed(preamble, body)


def test_a_killed_load_is_never_opened_and_resumes_where_it_was(address, client, words, small, altered, run_killed):
    run_killed(f"load_index(words({MANY}, 2500), {address!r})")
    with pytest.raises(RetrievalError, match="is not finished"):
        ElasticsearchRetriever.open(address)
    noted = record_of(client, address)["passages"]
    assert 1000 <= noted <= 2500
    sent = []

    def counting(method, path, body, forward):
        if "_bulk" in path:
            sent.extend(json.loads(line)["doc_id"] for line in body.splitlines()[1::2])
        return forward()

    notices = []
    manifest = load_index(words(MANY), altered(counting), notice=notices.append)
    assert "was interrupted after about" in notices[0]
    assert sorted(map(int, sent)) == list(range(noted, MANY))
    assert manifest.passages == MANY
    assert stored(client, address) == sorted(str(n) for n in range(MANY))
    assert behind(client, address) == {manifest.data: [name_of(address)]}
    assert deleted(client, manifest) == 0


def test_a_killed_rebuild_leaves_the_old_index(address, client, words, passages, run_killed):
    load_index(passages, address)
    run_killed(f"load_index(words({MANY}, 1500), {address!r})")
    assert ElasticsearchRetriever.open(address).manifest.passages == 4
    notices = []
    manifest = load_index(passages[:2], address, notice=notices.append)
    assert "again (its passages or settings are others)" in notices[0]
    assert behind(client, address) == {manifest.data: [name_of(address)]}


@pytest.mark.parametrize("point", ["before", "after"])
def test_killed_around_publishing(address, client, passages, point, run_killed):
    load_index(passages, address)
    run_killed(
        f"""
        publish = lifecycle.Indexes.publish
        def dying(*args):
            if {point!r} == "after":
                publish(*args)
            die()
        lifecycle.Indexes.publish = dying
        load_index(words(10), {address!r})
        """
    )
    assert ElasticsearchRetriever.open(address).manifest.passages == (4 if point == "before" else 10)
    manifest = load_index(passages, address)
    assert behind(client, address) == {manifest.data: [name_of(address)]}


@pytest.fixture
def killed_in_publishing(run_killed, address):
    """Loads 100 passages in a process that ends before the request of publishing that comes after so many."""
    return lambda requests: run_killed(
        f"""
        from elastic_transport import Transport
        publish, perform, left = lifecycle.Indexes.publish, Transport.perform_request, {requests}

        def dying(*args, **kwargs):
            global left
            if left == 0:
                die()
            left -= 1
            return perform(*args, **kwargs)

        def publishing(*args):
            Transport.perform_request = dying
            return publish(*args)

        lifecycle.Indexes.publish = publishing
        load_index(words(100), {address!r})
        """
    )


# The note takes two requests, the settings one, the wait for copies one, the manifest two; then the alias is looked up
# and switched.
@pytest.mark.parametrize("requests", [2, 3, 4, 6, 7])
def test_killed_inside_publishing_nothing_is_sent_again(
    address, client, passages, words, small, altered, requests, killed_in_publishing
):
    old = load_index(passages, address)
    killed_in_publishing(requests)
    assert ElasticsearchRetriever.open(address).manifest == old
    (left,) = set(behind(client, address)) - {old.data}
    sent, notices = [], []

    def watching(method, path, body, forward):
        sent.append(path)
        return forward()

    manifest = load_index(words(100), altered(watching), notice=notices.append)
    assert "was interrupted after about 100 passages: resuming from there" in notices[0]
    assert [path for path in sent if "_bulk" in path] == []
    assert (manifest.data, manifest.passages) == (left, 100)
    assert behind(client, address) == {left: [name_of(address)]}
    assert ElasticsearchRetriever.open(address).manifest == manifest


@pytest.mark.parametrize("requests", [3, 6])
def test_killed_inside_publishing_an_index_takes_the_rest_of_a_corpus_that_grew(
    address, client, words, small, requests, killed_in_publishing
):
    killed_in_publishing(requests)
    with pytest.raises(RetrievalError, match="is not finished"):
        ElasticsearchRetriever.open(address)
    manifest = load_index(words(150), address)
    assert ElasticsearchRetriever.open(address).manifest == manifest
    assert stored(client, address) == sorted(str(n) for n in range(150))
    settings = client.indices.get_settings(index=manifest.data)[manifest.data]["settings"]["index"]
    assert (settings["blocks"], "refresh_interval" in settings) == ({"write": "true"}, False)


def test_a_complete_index_of_other_passages_is_not_adopted(address, client, words, small, killed_in_publishing):
    killed_in_publishing(7)
    given = [*words(99), Passage("99", "", "other")]
    with pytest.raises(InputError, match="have changed since the load"):
        load_index(given, address)
    assert load_index(given, address).passages == 100
    killed_in_publishing(7)
    notices = []
    manifest = load_index(words(100), address, k1=0.9, notice=notices.append)
    assert "again (its passages or settings are others)" in notices[0]
    assert behind(client, address) == {manifest.data: [name_of(address)]}


def test_a_switch_that_fails_keeps_what_was_loaded(address, client, passages, words, altered):
    old = load_index(passages, address)

    def refusing(method, path, body, forward):
        if path.startswith("/_aliases"):
            return 500, {"error": {"type": "boom", "reason": "it broke"}, "status": 500}
        return forward()

    with pytest.raises(RetrievalError, match=r"could not be published: .* answered 500 \(it broke\)"):
        load_index(words(100), altered(refusing))
    assert ElasticsearchRetriever.open(address).manifest == old
    (left,) = set(behind(client, address)) - {old.data}
    assert load_index(words(100), address).data == left


def test_a_switch_whose_answer_got_lost_is_done(address, client, passages, words, altered):
    load_index(passages, address)
    switches = []

    def losing(method, path, body, forward):
        status, reply = forward()
        if path.startswith("/_aliases"):
            switches.append(status)
            if len(switches) == 1:
                return 503, {"error": {"type": "gone", "reason": "the answer got lost"}, "status": 503}
        return status, reply

    manifest = load_index(words(100), altered(losing))
    assert switches == [200, 404]
    assert behind(client, address) == {manifest.data: [name_of(address)]}


def test_a_load_with_other_settings_or_without_resuming_begins_again(address, client, words, run_killed):
    for options, why in (({"k1": 0.9}, "settings are others"), ({"resume": False}, "as asked for")):
        run_killed(f"load_index(words({MANY}, 1500), {address!r})")
        notices = []
        manifest = load_index(words(20), address, notice=notices.append, **options)
        assert why in notices[0]
        assert manifest.passages == 20
        assert behind(client, address) == {manifest.data: [name_of(address)]}


@pytest.mark.parametrize("changed", ["a passage", "the length"])
def test_passages_that_changed_before_the_interruption_are_reported(address, client, words, small, changed, run_killed):
    run_killed(f"load_index(words({MANY}, 2500), {address!r})")
    given = words(MANY) if changed == "a passage" else words(200)
    given[150] = Passage("150", "", "other")
    with pytest.raises(InputError, match=r"have changed since the load .* was interrupted; what was loaded is removed"):
        load_index(given, address)
    assert behind(client, address) == {}
    assert load_index(given, address).passages == len(given)


def test_passages_that_changed_after_the_last_note_are_as_given(address, client, words, small, monkeypatch):
    monkeypatch.setattr(loading, "_NOTE_EVERY", 10_000)

    class StopError(Exception):
        pass

    def interrupted():
        yield from words(800)
        raise StopError

    with pytest.raises(StopError):
        load_index(interrupted(), address)
    assert record_of(client, address)["passages"] == 0
    client.indices.refresh(index=f"{name_of(address)}-*")
    assert client.count(index=f"{name_of(address)}-*")["count"] >= 100
    given = words(900)
    given[70] = Passage("70", "", "other")
    assert load_index(given, address).passages == 900
    assert [hit.passage.id for hit in ElasticsearchRetriever.open(address).search("other")] == ["70"]


def test_only_one_process_resumes_a_load(address, words, small):
    def nested():
        for passage in words(1000):
            if passage.id == "700":
                assert load_index(words(1000), address, notice=lambda text: None).passages == 1000
            yield passage

    with pytest.raises(RetrievalError, match="another process has begun to load"):
        load_index(nested(), address)
    assert ElasticsearchRetriever.open(address).manifest.passages == 1000


def test_a_load_whose_index_was_removed_does_not_bring_it_back(address, client, words, small):
    def removing():
        for passage in words(1000):
            if passage.id == "450":
                for index in behind(client, address):
                    client.indices.delete(index=index)
            yield passage

    with pytest.raises(RetrievalError, match="another process has begun to load"):
        load_index(removing(), address)
    assert behind(client, address) == {}


def test_a_read_only_index_is_reported_and_the_load_resumes_afterwards(address, client, words, small):
    def blocking():
        for passage in words(1000):
            if passage.id == "450":
                ((index, _),) = behind(client, address).items()
                client.indices.add_block(index=index, block="write")
            yield passage

    with pytest.raises(RetrievalError, match=r"is read-only and cannot be written to: .*lift the block"):
        load_index(blocking(), address)
    ((index, _),) = behind(client, address).items()
    client.indices.put_settings(index=index, settings={"index.blocks.write": None})
    notices = []
    assert load_index(words(1000), address, notice=notices.append).passages == 1000
    assert "resuming from there" in notices[0]
    assert behind(client, address) == {index: [name_of(address)]}


def test_rejected_passages_and_requests_are_sent_again(address, client, words, small, altered):
    bulks = []
    rejected = {"type": "es_rejected_execution_exception", "reason": "rejected: queue is full"}

    def busy(method, path, body, forward):
        if "_bulk" not in path:
            return forward()
        bulks.append(path)
        if len(bulks) == 1:
            return 429, {"error": rejected, "status": 429}
        lines = body.splitlines()
        if len(bulks) % 3 or len(lines) == 2:
            return forward()
        # The first half is written, the second rejected.
        items = []
        for at in range(0, len(lines), 2):
            action = json.loads(lines[at])["create"]
            written = at < len(lines) // 2
            if written:
                client.create(index=action["_index"], id=action["_id"], document=json.loads(lines[at + 1]))
            failure = {} if written else {"error": rejected}
            items.append({"create": {"_id": action["_id"], "status": 201 if written else 429, **failure}})
        return 200, {"errors": True, "items": items}

    manifest = load_index(words(500), altered(busy))
    assert manifest.passages == 500
    assert stored(client, address) == sorted(str(n) for n in range(500))
    assert len(bulks) > 6


def test_a_server_that_stays_busy_is_reported(words, small, altered, monkeypatch):
    monkeypatch.setattr(loading, "_RETRIES", 2)
    rejected = {"type": "es_rejected_execution_exception", "reason": "rejected: queue is full"}

    def busy(method, path, body, forward):
        if "_bulk" not in path:
            return forward()
        items = [{"create": {"_id": "0", "status": 429, "error": rejected}} for _ in body.splitlines()[1::2]]
        return 200, {"errors": True, "items": items}

    with pytest.raises(RetrievalError, match=r"passage '0' could not be written: 429 \(rejected: queue is full\)"):
        load_index(words(10), altered(busy))


def test_an_answer_that_got_lost_writes_nothing_twice(address, client, words, small, altered):
    lost = []

    def losing(method, path, body, forward):
        status, reply = forward()
        if "_bulk" in path and len(lost) < 3:
            lost.append(path)
            return 503, {"error": {"type": "gone", "reason": "the answer got lost"}, "status": 503}
        return status, reply

    manifest = load_index(words(1000), altered(losing))
    assert manifest.passages == 1000
    assert deleted(client, manifest) == 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda client, index: client.delete(index=index, id="7"), "1000 passages went into it and 999 are in it"),
        (
            lambda client, index: client.index(index=index, id="8", document={"doc_id": "8", "title": "", "text": "x"}),
            "passage '8' is not in it as it was given",
        ),
    ],
)
def test_what_does_not_pass_verification_is_not_published(address, client, words, small, monkeypatch, spoil, message):
    monkeypatch.setattr(loading, "_SAMPLE", 1000)

    def spoiling():
        yield from words(1000)
        ((index, _),) = behind(client, address).items()
        spoil(client, index)

    with pytest.raises(RetrievalError, match=rf"did not pass its verification: {message}"):
        load_index(spoiling(), address)
    assert behind(client, address) == {}


def spoil_count(reply):
    reply["_shards"].update(failed=1, successful=0)
    reply["count"] = 0


def spoil_refresh(reply):
    reply["_shards"].update(failed=1, total=1)


def spoil_mget(reply):
    error = {"type": "no_shard_available_action_exception", "reason": "No shard available"}
    reply["docs"][1] = {key: reply["docs"][1][key] for key in ("_index", "_id")} | {"error": error}


@pytest.mark.parametrize(
    ("asked", "spoil", "message"),
    [
        ("_count", spoil_count, r"1 of 1 parts of the index .* did not answer"),
        ("_refresh", spoil_refresh, r"1 of 1 parts of the index .* did not answer"),
        ("_mget", spoil_mget, r"could not be read back: passage '1' \(No shard available\)"),
    ],
)
def test_a_part_that_does_not_answer_is_no_verification_and_loses_nothing(
    address, client, words, altered, asked, spoil, message
):
    def partial(method, path, body, forward):
        status, reply = forward()
        if asked in path:
            spoil(reply)
        return status, reply

    with pytest.raises(RetrievalError, match=message):
        load_index(words(3), altered(partial))
    (left,) = behind(client, address)
    assert load_index(words(3), address).data == left


def test_a_load_without_rights_on_the_cluster_is_published(address, words, altered):
    def guarding(method, path, body, forward):
        if path == "/" or path.startswith("/_cluster"):
            return 403, {"error": {"type": "security_exception", "reason": "monitor is unauthorized"}, "status": 403}
        return forward()

    notices = []
    manifest = load_index(words(3), altered(guarding), notice=notices.append)
    assert ["privilege monitor on the cluster" in notice for notice in notices] == [True]
    assert ElasticsearchRetriever.open(address).manifest == manifest
