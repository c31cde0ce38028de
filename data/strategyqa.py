"""StrategyQA (Geva et al., 2021): yes/no questions whose decomposition is implicit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from keqa.data.benchmark import Benchmark, HubSource
from keqa.data.evidence import SupportingFact, one_text
from keqa.data.example import Example
from keqa.data.records import field, make


def _convert(record: Mapping[str, Any]) -> Example:
    """The decomposition becomes quizzes, to which StrategyQA has no answers; its test set has none at all.

    The supporting facts are the sentences of `facts`, then the paragraphs that any annotator named as evidence.
    """
    answer = field(record, "answer", bool)
    facts = record.get("facts") or []
    sentences = [facts] if isinstance(facts, str) else field(record, "facts", (list, tuple)) if facts else []
    decomposition = field(record, "decomposition", (list, tuple)) if record.get("decomposition") else ()
    named = dict.fromkeys(_paragraphs(record.get("evidence")))
    return make(
        {
            "id": field(record, "qid", str),
            "question": record.get("question"),
            "answers": ("yes" if answer else "no",),
            "answer_type": "yes/no",
            "quizzes": [one_text(quiz, "a quiz of the decomposition") for quiz in decomposition],
            "supporting_facts": [
                *(SupportingFact(text=one_text(sentence, "a fact")) for sentence in sentences),
                *(SupportingFact(title, position) for title, position in named),
            ],
        }
    )


def _paragraphs(evidence: Any) -> Iterator[tuple[str, int]]:
    """Title and number of each paragraph in the nested lists of annotators, steps and searches.

    The strings between them, ``operation`` and ``no_evidence``, name none.
    """
    if isinstance(evidence, str):
        title, dash, number = evidence.rpartition("-")
        if dash and number.isdecimal():
            yield one_text(title, "the title of an evidence"), int(number)
    elif isinstance(evidence, list | tuple):
        for part in evidence:
            yield from _paragraphs(part)


BENCHMARKS = (
    Benchmark(
        "strategyqa",
        "StrategyQA",
        files={"train": "strategyqa_train.json"},
        hub=HubSource("ChilleD/StrategyQA", splits=("test", "train")),
        has=("decomposition", "supporting facts"),
        multi_hop=True,
        licence="MIT",
        expected="a JSON list of objects with qid, question, answer (true or false), facts and decomposition",
        convert=_convert,
    ),
)
