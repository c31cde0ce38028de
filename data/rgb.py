"""RGB (Chen et al., 2024): questions with supporting, distracting and counterfactual documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any

from keqa.data.benchmark import Benchmark
from keqa.data.evidence import ContextPassage, PassageRole, one_text
from keqa.data.example import Example
from keqa.data.records import field, make, usable
from keqa.errors import InputError

_ROLES: dict[str, PassageRole] = {
    "positive": "supporting",
    "negative": "distractor",
    "positive_wrong": "counterfactual",
}
# A question of five parts with six spellings each has 7,776 full answers.
_FULL_ANSWERS = 64


def _convert(record: Mapping[str, Any]) -> Example:
    """A record, of the integration and counterfactual subsets too.

    An answer is a text, or a list of parts that are all asked for; a part is a text or a list of its spellings.
    """
    return make(
        {
            "id": field(record, "id", (str, int)),
            "question": field(record, "query", str),
            "answers": usable(list(_answers(field(record, "answer", (str, list, tuple))))),
            "context": [
                ContextPassage("", text, role)
                for name, role in _ROLES.items()
                if record.get(name) is not None
                for text in _documents(field(record, name, (list, tuple)), name)
            ],
        }
    )


def _answers(value: Any) -> Iterator[str]:
    parts = [value] if isinstance(value, str) else value
    spellings = [usable(part) for part in parts]
    if not spellings:
        raise InputError("there is no answer")
    yield from (", ".join(chosen) for chosen in islice(product(*spellings), _FULL_ANSWERS))


def _documents(value: Any, name: str) -> Iterator[str]:
    """Documents, which the integration subset groups by the part of the answer that they state."""
    for document in value:
        if isinstance(document, list | tuple):
            yield from _documents(document, name)
        else:
            yield one_text(document, f"a document of {name}")


_ENGLISH = Benchmark(
    "rgb-en",
    "RGB (English)",
    files={"test": "en_fact.json"},
    has=("aliases", "context"),
    licence="CC BY-NC-SA 4.0 (no commercial use)",
    expected="lines of JSON objects with id, query, answer, positive and negative",
    convert=_convert,
)
_CHINESE = _ENGLISH.peer("rgb-zh", "RGB (Chinese)", language="zh", files={"test": "zh_fact.json"})
BENCHMARKS = (_ENGLISH, _CHINESE)
