"""Rollouts: the same language model drawing again, as DSPy's ``BestOfN``, ``Refine`` and SIMBA ask for.

They give a copy of a language model another ``rollout_id`` and a temperature. A program gives its samples identities of
its own, so the rollout has to be a part of them, or else every rollout would draw the same samples.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

_OF_A_ROLLOUT = ("rollout_id", "temperature")


def rollout_of(lm: Any) -> Any:
    """The rollout that a language model draws; None where it draws none in particular."""
    return (getattr(lm, "kwargs", None) or {}).get("rollout_id")


def is_rollout(lm: Any, own: Any) -> bool:
    """Whether a language model is another one drawing again: the same model with the same settings.

    Args:
        lm: With a rollout of its own.
        own: The one that it may be a copy of.
    """
    if type(lm) is not type(own) or getattr(lm, "model", None) != getattr(own, "model", None):
        return False
    first, second = (
        {name: value for name, value in one.kwargs.items() if name not in _OF_A_ROLLOUT} for one in (lm, own)
    )
    return first == second


def drawn_in(rollout: Any, identity: Any) -> int:
    """The identity of a draw within a rollout.

    Args:
        rollout: The language model's.
        identity: The draw's own; None where it has none.
    """
    key = json.dumps([rollout, identity], default=str)
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=6).digest(), "big")
