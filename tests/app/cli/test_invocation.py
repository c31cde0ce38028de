"""The command that a saved program or a run file was made by, as they hold it."""

import sys

import pytest

from keqa.cli.invocation import invocation


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (["compare", "keqa", "rag:top_k=5", "--testbed"], "keqa compare keqa rag:top_k=5 --testbed"),
        (["ask", "Was it red and/or blue, at 10:30?"], "keqa ask 'Was it red and/or blue, at 10:30?'"),
        (["compile", "/home/me/train.jsonl", "--out=~/mine/p"], "keqa compile train.jsonl --out=p"),
        (["compile", "/train.jsonl", "-p", "/srv/mine/"], "keqa compile train.jsonl -p mine/"),
        (["compile", "C:\\Users\\me\\train.jsonl", "-o", "../p"], "keqa compile train.jsonl -o ../p"),
        (["evaluate", "keqa", "-q", "nq", "--data", "sets/nq"], "keqa evaluate keqa -q nq --data sets/nq"),
        (
            ["ask", "Who?", "--api-base", "gpu:8000", "--lm", "hosted_vllm/m"],
            "keqa ask 'Who?' --api-base '<address>' --lm hosted_vllm/m",
        ),
        (["ask", "Who?", "--utility-api-base=gpu"], "keqa ask 'Who?' '--utility-api-base=<address>'"),
        (["ask", "Who?", "--lm", "transformers//srv/models/m"], "keqa ask 'Who?' --lm transformers/m"),
        (
            ["ask", "Who?", "--lm=transformers/~/m", "-m", "transformers/org/m"],
            "keqa ask 'Who?' --lm=transformers/m -m transformers/org/m",
        ),
        (["evaluate", "keqa", "--index", "mine/wiki", "-i", "."], "keqa evaluate keqa --index mine/wiki -i ."),
        (
            ["compile", "t.jsonl", "--index", "elasticsearch://10.0.0.7:9200/wiki"],
            "keqa compile t.jsonl --index '<address>'",
        ),
        (
            ["reproduce", "paper", "--dense-index=/srv/a,/srv/b,elasticsearch+https://one:1,two:2/in/wiki"],
            "keqa reproduce paper '--dense-index=a,b,<address>'",
        ),
        (["evaluate", "keqa", "-ielasticsearch://10.0.0.7:9200/wiki"], "keqa evaluate keqa '-i<address>'"),
        (["evaluate", "rag", "-qnq:/data/nq/dev.jsonl", "-o/tmp/a"], "keqa evaluate rag -qnq:dev.jsonl -oa"),
        (
            ["evaluate", "rag", "--questions", "nq:/data/nq/NQ-open.dev.jsonl"],
            "keqa evaluate rag --questions nq:NQ-open.dev.jsonl",
        ),
        (
            ["reproduce", "paper", "--data=NQ:~/in//a.jsonl", "--data", "strategyqa"],
            "keqa reproduce paper --data=NQ:a.jsonl --data strategyqa",
        ),
        (["compile", "musique:/data/train.jsonl"], "keqa compile musique:train.jsonl"),
    ],
)
def test_no_address_and_no_folder_of_this_machine_is_kept(monkeypatch, typed, kept):
    monkeypatch.setattr(sys, "argv", ["keqa", *typed])
    assert invocation() == kept
