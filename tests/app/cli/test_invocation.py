"""What a saved program and a run file tell of the command that made them."""

import sys

import pytest

from keqa.cli.invocation import invocation


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["compare", "keqa", "rag:top_k=5", "--testbed"], "keqa compare keqa rag:top_k=5 --testbed"),
        (["compile", "/home/me/train.jsonl", "--out=~/mine/p"], "keqa compile train.jsonl --out=p"),
        (["evaluate", "keqa", "-q", "nq", "--data", "sets/nq"], "keqa evaluate keqa -q nq --data nq"),
        (
            ["ask", "Who?", "--api-base", "10.0.0.7:8000", "--lm", "hosted_vllm/m"],
            "keqa ask 'Who?' --api-base --lm hosted_vllm/m",
        ),
        (["ask", "Who?", "--utility-api-base=10.0.0.7:8000"], "keqa ask 'Who?' --utility-api-base"),
        (["ask", "Who?", "--lm", "transformers//srv/models/m"], "keqa ask 'Who?' --lm transformers/m"),
        (["evaluate", "keqa", "--index", "mine/wiki", "-i", "."], "keqa evaluate keqa --index wiki -i ."),
        (
            ["compile", "t.jsonl", "--index", "elasticsearch://10.0.0.7:9200/wiki"],
            "keqa compile t.jsonl --index 'elasticsearch://<address>/wiki'",
        ),
        (
            ["reproduce", "paper", "--dense-index=/srv/a,elasticsearch+https://one:1,two:2/in/wiki"],
            "keqa reproduce paper '--dense-index=a,elasticsearch+https://<address>/wiki'",
        ),
        (
            ["evaluate", "keqa", "-ielasticsearch://10.0.0.7:9200/wiki"],
            "keqa evaluate keqa '-ielasticsearch://<address>/wiki'",
        ),
        (["evaluate", "rag", "-qnq:/data/nq/dev.jsonl", "-o/tmp/a"], "keqa evaluate rag -qnq:dev.jsonl -oa"),
        (
            ["evaluate", "rag", "--questions", "nq:/data/nq/NQ-open.dev.jsonl"],
            "keqa evaluate rag --questions nq:NQ-open.dev.jsonl",
        ),
        (
            ["reproduce", "paper", "--data=NQ:~/in//a.jsonl", "--data", "strategyqa", "--data", "hotpotqa://in/b"],
            "keqa reproduce paper --data=NQ:a.jsonl --data strategyqa --data hotpotqa:b",
        ),
        (["compile", "musique:/data/train.jsonl"], "keqa compile musique:train.jsonl"),
    ],
)
def test_no_address_and_no_folder_of_this_machine_is_told(monkeypatch, typed, told):
    monkeypatch.setattr(sys, "argv", ["keqa", *typed])
    assert invocation() == told
