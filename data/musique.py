"""MuSiQue (Trivedi et al., 2022): questions of two to four hops with their gold decomposition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keqa.data.benchmark import Benchmark, HubSource
from keqa.data.evidence import ContextPassage, SupportingFact, one_text
from keqa.data.records import Converted, LeftOut, field, items, make, usable


def _convert(record: Mapping[str, Any]) -> Converted:
    """A record of MuSiQue-Ans or MuSiQue-Full; the unanswerable ones of the latter are left out.

    `question_decomposition` becomes quizzes and their answers. Its hops refer to each other as #1, #2 already; those
    made from Wikidata read "#1 >> spouse".
    """
    if record.get("answerable") is False:
        return LeftOut("unanswerable")
    hops = items(record, "question_decomposition")
    passages = items(record, "paragraphs") if record.get("paragraphs") is not None else []
    titles = [one_text(passage.get("title"), "the title of a paragraph") for passage in passages]
    texts = [one_text(passage.get("paragraph_text"), "the paragraph_text of a paragraph") for passage in passages]
    facts, context = [], []
    for place, (passage, title, text) in enumerate(zip(passages, titles, texts, strict=True)):
        supporting = passage.get("is_supporting") is True
        context.append(ContextPassage(title, text, "supporting" if supporting else "distractor"))
        if supporting:
            facts.append(SupportingFact(title, place, text))
    return make(
        {
            "id": record.get("id"),
            "question": record.get("question"),
            "answers": usable(field(record, "answer", str), record.get("answer_aliases") or ()),
            "quizzes": [field(hop, "question", str) for hop in hops],
            "quiz_answers": [field(hop, "answer", (str, int, float)) for hop in hops],
            "supporting_facts": facts,
            "context": context,
        }
    )


BENCHMARKS = (
    Benchmark(
        "musique",
        "MuSiQue",
        multi_hop=True,
        files={"dev": "musique_ans_v1.0_dev.jsonl", "train": "musique_ans_v1.0_train.jsonl"},
        hub=HubSource("dgslibisey/MuSiQue"),
        has=("aliases", "decomposition", "quiz answers", "supporting facts", "context"),
        licence="CC BY 4.0",
        expected="lines of JSON objects with id, question, answer, question_decomposition and paragraphs",
        convert=_convert,
    ),
)
