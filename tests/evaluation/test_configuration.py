"""What a run says of the index that it searches."""

from __future__ import annotations

import pytest

from keqa.evaluation.evaluate import demonstrations_of
from keqa.evaluation.records import RunHeader
from keqa.programs.baselines import AlwaysRetrieve
from keqa.programs.keqa import KEQA
from keqa.programs.reference.utility_reference import UtilityEntry, UtilityReference


@pytest.mark.parametrize(
    ("kind", "described"),
    [("TantivyRetriever", "BM25"), ("DenseRetriever", "dense"), ("HybridRetriever", "hybrid"), ("Own", "Own")],
)
def test_tables_name_the_kind_of_retriever(kind, described):
    header = RunHeader(
        method="rag",
        label="rag",
        dataset="d",
        split="",
        seed=0,
        ids=[],
        fingerprint="",
        command="",
        configuration={"index": {"kind": kind, "name": "numbers"}},
    )
    assert header.configuration.retriever == described


@pytest.mark.parametrize(("variant", "judge"), [("similar", 2), ("random", 2), ("none", 1)])
def test_demonstrations_are_counted_by_predictor(variant, judge):
    entries = [UtilityEntry(str(number), f"quiz {number}", f"passage {number}", True) for number in range(3)]
    program = KEQA(None, reference=UtilityReference(k=2, variant=variant).fit(entries))
    program.summarizing.summarize.demos = [{"question": "Who?"}] * 3
    program.picking.judge.demos = [{"quiz": "Who?"}]
    found = demonstrations_of(program)
    assert found.keys() == dict(program.named_predictors()).keys()
    assert {name: count for name, count in found.items() if count} == {
        "picking.judge": judge,
        "summarizing.summarize": 3,
    }
    assert demonstrations_of(AlwaysRetrieve(None)) == {"answer": 0}
