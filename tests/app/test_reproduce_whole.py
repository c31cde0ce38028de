"""``keqa reproduce paper`` from training questions to tables, against a server that knows half of the questions."""

import itertools
import json
from types import SimpleNamespace

import pytest
from fixtures.command_line import served_by
from fixtures.reader import Reader
from fixtures.run_files import undrawn
from servers.openai_server import OpenAIServer

from keqa.data.benchmarks import load
from keqa.evaluation.reproduction.experiments import DESIGN
from keqa.retrievers import Passage, build_index

__all__ = ["undrawn"]

pytestmark = [pytest.mark.server, pytest.mark.process, pytest.mark.usefixtures("undrawn")]

_FEW = ("cot-few-shot", "rag", "keqa", "keqa-no-reference", "keqa-random-reference", "keqa-key-sentences")
PEOPLE = ("Ann Berg", "Bo Lind", "Cy Moor", "Di Holm", "Ed Fell", "Flo Vik", "Gus Orm", "Hal Tarn")
"""Of whom half of the questions are to learn from."""


@pytest.fixture
def written(write_json, tmp_path):
    """Small files of two data sets in their own layouts, and an index of what they ask for."""
    lines = [{"question": f"who is the mayor of town {n}", "answer": [name]} for n, name in enumerate(PEOPLE)]
    dev, train = write_json("NQ-open.dev.jsonl", lines[:4]), write_json("NQ-open.train.jsonl", lines[4:])
    polar = [
        {"qid": f"s{n}", "question": f"Is the mayor of town {n} called {name}?", "answer": n % 2 == 0}
        for n, name in enumerate(PEOPLE)
    ]
    passages = [
        Passage(f"p{n}", f"Town {n}", f"It is a harbour. The mayor of town {n} is {name}. It is old.")
        for n, name in enumerate(PEOPLE)
    ]
    build_index([*passages, Passage("q", "Town", "A town is a place. A mayor is old.")], tmp_path / "own")
    return [
        *("--index", tmp_path / "own", "--data", f"nq:{dev}", "--train", f"nq:{train}"),
        # As in the paper, test questions are taken from the train file.
        *("--data", f"strategyqa:{write_json('strategyqa_train.json', polar)}"),
    ]


def questions_of(given):
    """Every question that is named, test and training, with its gold answer."""
    sources = [value for flag, value in itertools.pairwise(given) if flag in ("--data", "--train")]
    return {one.question: one.answers[0] for source in sources for one in load(source).examples}


def served(given, knows=40):
    """A server that gives token probabilities and can be asked by two names."""
    reader = Reader(questions_of(given), knows)
    return OpenAIServer(reply=reader, probability=lambda token: 0.9)


def ask(keqa_command, server, given, out, *more):
    labels = ("--labelling-lm", "openai/judge", "--labelling-api-base", server.api_base)
    ended = keqa_command("reproduce", "paper", *served_by(server), *labels, *given, "--out", out, "--json", *more)
    assert ended.code == 0, ended.err
    return SimpleNamespace(
        err=ended.err, **{name.replace("-", "_"): rows for name, rows in json.loads(ended.out).items()}
    )


def test_the_whole_experiment_in_small(keqa_command, written, monkeypatch, tmp_path):
    monkeypatch.setitem(DESIGN, "rows", _FEW)
    more = ["keqa:threshold=0.6", "keqa:top_k=5", "keqa-full:top_k=5", "keqa-full:top_k=10", "gate-probability"]
    monkeypatch.setitem(DESIGN, "more", [{"sets": DESIGN["analysed"], "rows": more}])
    out, how = tmp_path / "runs", ("--sample", "4", "--embedder", "hashing")
    with served(written) as server:
        first = ask(keqa_command, server, written, out, *how)
        asked = server.count
        # What is finished is not asked again, whichever part it is of.
        again = ask(keqa_command, server, written, out, *how)
        assert server.count == asked
        expected = ask(keqa_command, server, written, tmp_path / "other", *how, "--dry-run", "--pilot", out)
        assert server.count == asked
    assert [row["method"] for row in first.table1] == [
        "CoT, few-shot",
        "Always retrieve",
        "Always retrieve (compiled)",
        "Always retrieve, CoT",
        "Always retrieve, CoT (compiled)",
        "KEQA",
        "KEQA w/o R",
        "KEQA w random R'",
        "KEQA w SE",
    ]
    assert again.table1[5]["all F1"] == first.table1[5]["all F1"]
    # Rows that are none of the paper's have no figure of it beside them.
    assert [row["method"] for row in first.paper_table1] == [
        "CoT, few-shot",
        "Always retrieve",
        "KEQA",
        "KEQA w/o R",
        "KEQA w random R'",
        "KEQA w SE",
    ]
    assert [row["judge"] for row in first.paper_table2] == ["D_s", "BERTScore"]
    assert first.paper_table2[0]["strategyqa here"] is not None
    assert first.table6[0]["step"] == "question"
    assert first.paper_table5
    assert {"table1.md", "table6.tex", "paper-table1.csv", "spent.csv", "figure4-points.csv", "figure5-points.csv"} <= {
        path.name for path in (out / "tables").iterdir()
    }
    published = json.loads((out / "questions.json").read_text())
    assert {name: len(ids) for name, ids in published["train"].items()} == {"nq": 4, "strategyqa": 4}
    assert {name: len(ids) for name, ids in published["test"].items()} == {"nq": 4, "strategyqa": 4}
    learned = {one.removeprefix("strategyqa/") for one in published["train"]["strategyqa"]}
    assert not learned & set(published["test"]["strategyqa"])
    reference = json.loads((out / "reference" / "program.json").read_text())
    assert reference["about"]["reference"]["helpful"] > 0
    assert (reference["reference"]["form"], reference["reference"]["least"]) == ("joint", 0)
    assert len(reference["learned"]["train"]) == 8
    # A run of the same size is expected to cost what this one has.
    (total,) = [row for row in expected.estimate if (row["data set"], row["run"]) == ("all", "openai/scripted")]
    spent = first.spent[-1]
    for what in ("LM calls", "tokens read", "tokens written"):
        assert total[f"{what} expected"] == pytest.approx(spent[what], rel=0.2)
        assert total[f"{what} least"] <= total[f"{what} most"]
