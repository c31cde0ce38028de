"""The benchmark of recorded outcomes, on a few made-up lines."""

import json
import sys
from functools import partial

import llama_outcomes
import pytest
from fixtures.outcomes import outcomes


def lines(count, start):
    """Made-up lines in AdaRAGUE's form; the router takes every question apart."""
    for one in outcomes(count, start):
        yield {
            "id": f"2hop__{one['id']}_{int(one['id']) + 5000}",
            "question": one["question"],
            "answers": one["answers"],
            "closed_book": {"chain": json.dumps(one["chain"]), "answer": one["draft"]},
            "one_retrieval": {"answer": one["reading"]},
            "ircot": {"answer": one["quizzes"]},
            "t5_router": {"choice": "C", "probabilities": [0.1, 0.2, 0.7], "steps": 3},
            "short_draw": {"answer": one["draft"].lower(), "perplexity": 1.5 + int(one["id"]) % 7},
        }


@pytest.mark.slow
def test_both_tables(tmp_path, monkeypatch, capsys):
    for split, count, start in (("dev", 61, 0), ("test", 30, 60)):
        rows = "".join(f"{json.dumps(line)}\n" for line in lines(count, start))
        (tmp_path / f"towns_{split}.jsonl").write_text(rows)
    monkeypatch.setattr(llama_outcomes, "resampled", partial(llama_outcomes.resampled, resamples=20))
    monkeypatch.setattr(sys, "argv", ["llama_outcomes.py", str(tmp_path), "--cost", "0.02"])
    llama_outcomes.main()
    out = capsys.readouterr().out
    # One dev question shares its parts with a test question.
    assert "30 test questions; learned from 60 of 61 dev questions" in out
    (router,) = [line for line in out.splitlines() if "T5-large router  " in line and "3.500" in line]
    assert "0.667 [" in router
    (cascade,) = [line for line in out.splitlines() if "cascade, 0.02 a retrieval  " in line and "[" in line]
    assert float(cascade.split("│")[2].split()[0]) > 0.9
    assert float(cascade.split("│")[3]) < 2.5
    assert "chooser: question, chain and draft" in out
    assert "perplexity and agreement with the draft" in out
