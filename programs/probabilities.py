"""The probability that a language model gave to an answer, from the log probabilities of a reply's tokens."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from keqa.errors import ConfigurationError

__all__ = ["LOGPROBS", "answer_probability", "probabilities_of"]

LOGPROBS: Mapping[str, Any] = {"logprobs": True}
"""What a request has to say; LMs in this process and LiteLLM's providers understand it alike."""

# Tokenizers that keep spaces within tokens may lose those of a marker when each token is decoded by itself.
_MARKER = r"\[\[\s*##\s*{name}\s*##\s*\]\]"
_NEXT = re.compile(r"\[\[\s*##")


def answer_probability(tokens: Sequence[tuple[str, float]], name: str = "answer") -> float | None:
    """The probability of one output of a reply, normalised by its length: the geometric mean over its tokens.

    Args:
        tokens: The tokens of the reply in their order, each with its log probability.
        name: The output. Where the reply has no section of that name, as in other formats than DSPy's chat format, all
            of it counts.

    Returns:
        From 0 to 1; None where no token belongs to the output.
    """
    texts = [text for text, _ in tokens]
    reply = "".join(texts)
    opening = re.search(_MARKER.format(name=re.escape(name)), reply)
    start = opening.end() if opening else 0
    closing = _NEXT.search(reply, start)
    end = closing.start() if closing else len(reply)
    scores, place = [], 0
    for text, score in tokens:
        begin, place = place, place + len(text)
        # Blank space around the output is the format's; a token that holds a part of the output is the output's.
        if reply[max(begin, start) : min(place, end)].strip():
            scores.append(score)
    return math.exp(math.fsum(scores) / len(scores)) if scores else None


def probabilities_of(prediction: dspy.Prediction, count: int, model: str) -> list[float | None]:
    """The probability of the answer in each of a prediction's completions.

    Args:
        prediction: Of a request with `LOGPROBS`.
        count: How many completions it has.
        model: For the message.

    Raises:
        ConfigurationError: The LM gave no log probabilities.
    """
    found = [_tokens(one) for one in getattr(prediction.completions, "logprobs", ())]
    if len(found) != count or not all(found):
        raise ConfigurationError(
            f"{model} gives no token probabilities, which the gate 'token probability' needs. Models in this process "
            "and OpenAI-compatible servers such as vLLM give them; with others take a gate that reads answers only."
        )
    return [answer_probability(tokens) for tokens in found]


def _tokens(logprobs: Any) -> list[tuple[str, float]]:
    """Tokens with their log probabilities, from a mapping or an object in OpenAI's layout."""
    content = _field(logprobs, "content") or []
    return [(str(_field(one, "token")), float(_field(one, "logprob"))) for one in content]


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
