"""Loads into a real server: finished, interrupted, killed, repeated, refused."""

import json

import pytest

from keqa.errors import RetrievalError
from keqa.retrievers import Passage
from keqa.retrievers.elasticsearch import generation, writing
from keqa.retrievers.elasticsearch.retriever import ElasticsearchRetriever
from keqa.retrievers.elasticsearch.writing import load_index

MANY = 3000
GONE = {"error": {"type": "gone", "reason": "the answer got lost"}, "status": 503}


@pytest.fixture
def small(monkeypatch):
    """Small steps, so that few passages show what happens to many."""
    monkeypatch.setattr("keqa.retrievers.intake.HEAD", 50)
    monkeypatch.setattr(writing, "BATCH", 100)
    monkeypatch.setattr(generation, "BATCH", 100)
    monkeypatch.setattr(generation, "_FIRST_PAUSE", 0.01)


@pytest.fixture
def run_killed(killed):
    """Loads in another process until it kills itself."""
    preamble = """
        from keqa.retrievers import intake
        from keqa.retrievers.elasticsearch import generation, writing
        from keqa.retrievers.elasticsearch.writing import load_index
        intake.HEAD, writing.BATCH, generation.BATCH = 50, 100, 100
        """
    return lambda body: killed(preamble, body)


def name_of(address):
    return address.rpartition("/")[2]


def behind(client, address):
    """The indexes of an address in the cluster, with their aliases."""
    found = client.indices.get(index=f"{name_of(address)}*")
    return {index: sorted(state["aliases"]) for index, state in found.items()}


def stored(client, address):
    hits = client.search(index=name_of(address), size=10_000, source=["doc_id"])["hits"]["hits"]
    return sorted(hit["_source"]["doc_id"] for hit in hits)


def numbers(count):
    return sorted(str(n) for n in range(count))


def deleted(client, manifest):
    """How many passages were written twice: what is deleted still counts in the ranking."""
    return client.indices.stats(index=manifest.data)["_all"]["primaries"]["docs"]["deleted"]


def settings_of(client, data):
    return client.indices.get_settings(index=data)[data]["settings"]["index"]


def test_a_killed_load_is_never_opened_and_resumes_where_it_was(
    address, client, words, passages, small, altered, run_killed
):
    run_killed(f"load_index(words({MANY}, 2500), {address!r})")
    with pytest.raises(RetrievalError, match="is not finished"):
        ElasticsearchRetriever(address)
    (left,) = behind(client, address)
    sent = []

    def counting(method, path, body, forward):
        if "_bulk" in path:
            sent.extend(json.loads(line)["doc_id"] for line in body.splitlines()[1::2])
        return forward()

    notices = []
    manifest = load_index(words(MANY), altered(counting), notice=notices.append)
    assert "was interrupted after about 2" in notices[0]
    assert "resuming from there" in notices[0]
    assert 500 <= len(sent) == len(set(sent)) <= 700
    assert (manifest.data, manifest.passages) == (left, MANY)
    assert stored(client, address) == numbers(MANY)
    assert behind(client, address) == {left: [name_of(address)]}
    assert deleted(client, manifest) == 0
    # A killed load that would take its place leaves it as it was, and is in nobody's way.
    run_killed(f"load_index(words({MANY // 2}, 1000), {address!r})")
    assert ElasticsearchRetriever(address).manifest == manifest
    manifest = load_index(passages[:2], address, notice=notices.append)
    assert "again (its passages or settings are others)" in notices[1]
    assert behind(client, address) == {manifest.data: [name_of(address)]}


# The settings, the wait for copies, the manifest; then the alias is looked up and switched.
@pytest.mark.parametrize("requests", [0, 1, 2, 3, 4, 5])
def test_killed_inside_publishing_nothing_is_sent_again(
    address, client, passages, words, small, altered, requests, run_killed
):
    old = load_index(passages, address)
    run_killed(
        f"""
        from elastic_transport import Transport
        publish, perform, left = generation.Generations.publish, Transport.perform_request, {requests}

        def dying(*args, **kwargs):
            global left
            if left == 0:
                die()
            left -= 1
            return perform(*args, **kwargs)

        def publishing(*args):
            Transport.perform_request = dying
            publish(*args)
            die()

        generation.Generations.publish = publishing
        load_index(words(100), {address!r})
        """
    )
    if requests == 5:
        assert ElasticsearchRetriever(address).manifest.passages == 100
        assert load_index(passages, address).passages == 4
        return
    assert ElasticsearchRetriever(address).manifest == old
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
    assert "refresh_interval" not in settings_of(client, left)
    # Of a corpus that grew, the rest.
    assert load_index(words(150), address).passages == 150


def test_a_switch_that_fails_keeps_what_was_loaded(address, client, passages, words, altered):
    old = load_index(passages, address)

    def refusing(method, path, body, forward):
        if path.startswith("/_aliases"):
            return 500, {"error": {"type": "boom", "reason": "it broke"}, "status": 500}
        return forward()

    with pytest.raises(RetrievalError, match=r"could not be published: .* answered 500 \(it broke\)"):
        load_index(words(100), altered(refusing))
    assert ElasticsearchRetriever(address).manifest == old
    (left,) = set(behind(client, address)) - {old.data}
    assert load_index(words(100), address).data == left


def test_an_answer_that_got_lost_does_nothing_twice(address, client, passages, words, small, altered):
    load_index(passages, address)
    answered = []

    def losing(method, path, body, forward):
        status, reply = forward()
        if "_bulk" in path:
            answered.append(status)
            if len(answered) <= 3:
                return 503, GONE
        return status, reply

    manifest = load_index(words(1000), altered(losing))
    assert len(answered) > 3
    assert manifest.passages == 1000
    assert behind(client, address) == {manifest.data: [name_of(address)]}
    assert deleted(client, manifest) == 0


def test_a_passage_that_changed_meanwhile_is_as_given(address, words, small):
    def interrupted():
        yield from words(800)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_index(interrupted(), address)
    given = words(900)
    given[70] = Passage("70", "", "other")
    assert load_index(given, address).passages == 900
    assert [hit.passage.id for hit in ElasticsearchRetriever(address).search("other")] == ["70"]


@pytest.mark.parametrize("done", ["loaded", "removed"])
def test_a_load_whose_generation_another_process_took_ends(address, client, words, small, done):
    def nested():
        for passage in words(1000):
            if passage.id == "700" and done == "loaded":
                assert load_index(words(1000), address, notice=lambda text: None).passages == 1000
            elif passage.id == "700":
                client.indices.delete(index=list(behind(client, address)))
            yield passage

    with pytest.raises(RetrievalError, match="another process has begun to load"):
        load_index(nested(), address)
    assert list(behind(client, address).values()) == ([[name_of(address)]] if done == "loaded" else [])
