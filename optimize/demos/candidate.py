"""Possible demonstrations, and draws of a few of them with mixed kinds."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_LONGEST = 6000
"""Characters of one demonstration; longer ones would leave a small context window no room for the question."""


@dataclass(frozen=True)
class Candidate:
    """A possible demonstration.

    Attributes:
        demo: Every field of the signature.
        kind: What kind of example it is; a set of demonstrations mixes the kinds.
        root: Identifier of the question it comes from.
    """

    demo: Mapping[str, Any]
    kind: str
    root: str


def complete(signature: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A demonstration with every field of a signature, in its order; DSPy moves incomplete ones apart.

    Raises:
        KeyError: A field without a default is missing.
    """
    demo = {}
    for name, field in signature.fields.items():
        if name not in fields and field.is_required():
            raise KeyError(f"a demonstration of {signature.__name__} needs the field '{name}'")
        demo[name] = fields[name] if name in fields else field.get_default(call_default_factory=True)
    return demo


def choose(pool: Sequence[Candidate], count: int, rng: random.Random, *, balanced: bool = False) -> list[Candidate]:
    """Draw demonstrations of mixed kinds, and from as many questions as there are.

    Args:
        pool: What there is.
        count: How many at most.
        rng: Draws.
        balanced: Whether all kinds must be there equally often, as the verdicts of a judge must: where only one is
            there, none is drawn, since a judge shown one verdict alone would give no other.

    Returns:
        The demonstrations, in random order.
    """
    kinds: dict[str, list[Candidate]] = {}
    for one in pool:
        if sum(len(str(value)) for value in one.demo.values()) <= _LONGEST:
            kinds.setdefault(one.kind, []).append(one)
    groups = [kinds[kind] for kind in sorted(kinds)]
    for group in groups:
        rng.shuffle(group)
    rng.shuffle(groups)
    if balanced:
        if len(groups) < 2:
            return []
        count = min(count // len(groups), *map(len, groups)) * len(groups)
    chosen: list[Candidate] = []
    while len(chosen) < count and any(groups):
        for group in groups:
            if group and len(chosen) < count:
                roots = {one.root for one in chosen}
                fresh = next((place for place, one in enumerate(group) if one.root not in roots), 0)
                chosen.append(group.pop(fresh))
    rng.shuffle(chosen)
    return chosen
