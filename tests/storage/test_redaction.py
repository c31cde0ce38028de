"""What is taken out of what is written: addresses, with a scheme and without, and keys; all else stays."""

import base64
import os
import time
from urllib.parse import quote

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.programs.records import PassageVerdict, QuestionRecord, QuizRecord, record_without_keys
from keqa.storage.redaction import without_keys, without_secrets


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("refused by http://10.9.8.7:8000/v1 at once", "refused by <address> at once"),
        ("Cannot connect to host 10.0.0.5:8000 ssl:default", "Cannot connect to host <address> ssl:default"),
        ("Cannot connect to host gpu01:8000 ssl:default", "Cannot connect to host <address> ssl:default"),
        ("[Connect call failed ('10.0.0.5', 8000)]", "[Connect call failed ('<address>', 8000)]"),
        ("Pool(host='10.0.0.5', port=9200): Max retries", "Pool(host=<address>, port=9200): Max retries"),
        ('HTTPSConnectionPool(host="gateway", port=443)', "HTTPSConnectionPool(host=<address>, port=443)"),
        ("by gw.internal.corp:8443, localhost:8000 and [::1]:80", "by <address>, <address> and <address>"),
        ("no route to 10.0.0.5.", "no route to <address>."),
    ],
)
def test_an_address_is_taken_out_with_and_without_a_scheme(said, told):
    assert without_secrets({"message": [said]}) == {"message": [told]}


@pytest.mark.parametrize(
    "text",
    [
        "a ratio 3:4, or 2.5:10, or 16:9",
        "at 12:30, at 17:42:10, at 12.30:45",
        "born:1968 in John 3:16; the host of the show: 27",
        "train.jsonl:12 and optimize/compile.py:49 and notes.md:1000",
        "version 8.19.14, section 3.4.1, ollama/qwen2.5-coder:7b, e.g.:12",
        "[1:25] [bool] failed, shard:12",
        "Who is the host: a guest? K* ∪ {K'}: 0.5",
    ],
)
def test_ordinary_text_stays(text):
    assert without_secrets(text) == text


def test_the_server_of_a_language_model_is_known_by_its_name():
    lms = [dspy.LM("openai/x", api_base="http://gw.corp/v1"), dspy.LM("openai/y", api_base="http://box:8000/v1")]
    said = "gw.corp and GW.corp:80 are down, box:8000 too; my.gw.corp.example and the box are not"
    told = "<address> and <address> are down, <address> too; my.gw.corp.example and the box are not"
    assert without_secrets(said, lms) == told
    assert without_secrets(said, [None]) == said.replace("GW.corp:80", "<address>")


KEY = "sk-proj-Abc123DEF456ghi789JKL"


@pytest.fixture
def configured(monkeypatch):
    """The language model whose key a server repeats; none of the environment's."""
    for name in list(os.environ):
        if name.endswith(("KEY", "TOKEN", "SECRET", "PASSWORD")):
            monkeypatch.delenv(name)
    return [dspy.LM("openai/x", api_key=KEY)]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"Incorrect API key provided: {KEY}. See https://x", "Incorrect API key provided: <secret>. See https://x"),
        ("provided: sk-proj-*****************9JKL.", "provided: <secret>."),
        ("provided: sk-p...JKL", "provided: <secret>"),
        ("provided: sk-pr…9JKL", "provided: <secret>"),
        ("provided: ****9JKL", "provided: <secret>"),
        ("the key ending in 9JKL", "the key ending in <secret>"),
        ("the key starting with sk-proj", "the key starting with <secret>"),
        (f"cut off: {KEY[:12]}", "cut off: <secret>"),
        (f"cut off: {KEY[-12:]}", "cut off: <secret>"),
        (f"in capitals: {KEY.upper()}", "in capitals: <secret>"),
        (f"\u0130 {KEY} \u0130 {KEY.lower()}", "\u0130 <secret> \u0130 <secret>"),
        ("?key=" + quote(f"{KEY}", safe=""), "?key=<secret>"),
        (base64.b64encode(KEY.encode()).decode(), "<secret>"),
        ("Basic " + base64.b64encode(f"elastic:{KEY}".encode()).decode(), "Basic <secret>"),
        ("Authorization: Bearer another-key-0815", "Authorization: Bearer <secret>"),
        ("GET https://me:secret@gw.corp:8443/v1 failed", "GET https://<secret>@gw.corp:8443/v1 failed"),
    ],
)
def test_a_key_is_hidden_whole_and_in_part_and_as_it_was_sent(configured, said, told):
    assert without_keys(said, configured) == told


@pytest.mark.parametrize(
    "text",
    [
        "Wait ... and see: xxxx, *****, sk-... or so",
        "Basic knowledge of bearer tokens, ending in tears",
        "https://gw.corp:8443/v1 and git@example.com and ssh://git@example.com/x",
        "a project, abc 123",
    ],
)
def test_what_is_no_key_stays(configured, text):
    assert without_keys(text, configured) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "0815-hidden-4711") for name in ("SOME_API_KEY", "HF_TOKEN", "MY_SECRET", "ELASTICSEARCH_PASSWORD")),
        ("HTTPS_PROXY", "http://me:0815-hidden-4711@proxy:3128"),
    ],
)
def test_keys_and_passwords_in_addresses_of_the_environment_are_known(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert without_keys("sent 0815-hidden-4711") == "sent <secret>"


def test_words_and_paths_of_the_environment_are_hidden_as_a_whole_only(monkeypatch):
    monkeypatch.setenv("A_TOKEN", "documents-of-mine")
    monkeypatch.setenv("TLS_KEY", "/home/me/project1/key.pem")
    assert without_keys("documents in /home/me/project1/x") == "documents in /home/me/project1/x"
    assert without_keys("documents-of-mine") == "<secret>"
    # Of a language model its headers are known.
    lms = [dspy.LM("openai/x", api_key="none", extra_headers={"X-Auth": "ApiKey 0815-hidden-4711"})]
    assert without_keys("no such key: 0815-hidden-4711", lms) == "no such key: <secret>"


@given(st.text(), st.integers(0, len(KEY) - 12), st.text())
def test_no_part_of_a_key_that_tells_something_is_left(before, at, after):
    lms = [dspy.LM("openai/x", api_key=KEY)]
    assert KEY[at : at + 12] not in without_keys(before + KEY[at : at + 12] + after, lms)


def test_a_record_keeps_the_users_own_words_and_no_reply_that_repeats_the_key(configured):
    passage = PassageVerdict(
        passage_id="p", title="", text=f"{KEY} in a document", score=1, verdict="unjudged", kept=True, why=""
    )
    quiz = QuizRecord(index=1, text="Why?", answer=f"as {KEY}", passages=[passage], source="passages")
    record = QuestionRecord(question="Why?", quizzes=[quiz], answer=f"as {KEY}", answer_source="memory")
    told = record_without_keys(record, configured)
    assert (told.answer, told.quizzes[0].answer) == ("as <secret>", "as <secret>")
    assert told.quizzes[0].passages == [passage]
    sound = record.model_copy(update={"quizzes": [], "answer": "so"})
    assert record_without_keys(sound, configured) is sound


@pytest.mark.parametrize("unit", ["::", "a:", "a.", "a-", "1.1.1.1:", "a", "://", "/a", "a.b:1"])
@pytest.mark.parametrize("before", ["", "["])
def test_no_text_takes_more_than_its_length(unit, before):
    begun = time.perf_counter()
    without_secrets(before + unit * (100_000 // len(unit)))
    assert time.perf_counter() - begun < 20
