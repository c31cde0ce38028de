"""What is taken out of what is written: addresses, with a scheme and without, and keys; all else stays."""

from __future__ import annotations

import dspy
import pytest

from keqa.redaction import without_secrets


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("refused by http://10.9.8.7:8000/v1 at once", "refused by <address> at once"),
        ("Cannot connect to host 10.0.0.5:8000 ssl:default", "Cannot connect to host <address> ssl:default"),
        ("Cannot connect to host gpu01:8000 ssl:default", "Cannot connect to host <address> ssl:default"),
        ("[Connect call failed ('10.0.0.5', 8000)]", "[Connect call failed ('<address>', 8000)]"),
        (
            "HTTPConnectionPool(host='10.0.0.5', port=9200): Max retries",
            "HTTPConnectionPool(host=<address>, port=9200): Max retries",
        ),
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
    assert (without_secrets(said, lms), without_secrets(said, [None])) == (
        told,
        said.replace("GW.corp:80", "<address>"),
    )
