"""The probability that a language model gave to an answer, from the log probabilities of a reply's tokens."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import dspy

from keqa.errors import ConfigurationError
from keqa.signatures.chat_format import sections

Tokens: TypeAlias = Sequence[tuple[str, float]]
"""The tokens of a reply in their order, each with its log probability."""

LOGPROBS: Mapping[str, Any] = {"logprobs": True}
"""What a request has to say; LMs in this process and LiteLLM's providers understand it alike."""

# Tokenizers that keep spaces within tokens may lose those around a marker when each token is decoded by itself.
_MARKER = r"\[\[\s*##\s*{name}\s*##\s*\]\]"
_NEXT = re.compile(r"\[\[\s*##")
_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"')


class NoProbabilitiesError(ConfigurationError):
    """A language model gives no token probabilities, which a method or gate needs."""


def output_tokens(tokens: Tokens, name: str = "answer") -> list[tuple[str, float]]:
    """The tokens of one output of a reply, cut to it; in other formats than DSPy's chat format, all."""
    reply = "".join(text for text, _ in tokens)
    # As the adapter reads it: a marker begins a line, and of a field named twice the last one counts.
    starts = [section.start for section in sections(reply) if section.name == name]
    if not starts:
        starts = [marker.end() for marker in re.finditer(_MARKER.format(name=re.escape(name)), reply)]
    start = starts[-1] if starts else 0
    closing = _NEXT.search(reply, start)
    end = closing.start() if closing else len(reply)
    found, place = [], 0
    for text, score in tokens:
        begin, place = place, place + len(text)
        # Blank space around the output is the format's; a token that holds a part of the output is the output's.
        part = reply[max(begin, start) : min(place, end)]
        if part.strip():
            found.append((part, score))
    return found


def likelihood(tokens: Tokens, name: str = "answer") -> tuple[float | None, float | None]:
    """The probability of one output of a reply, the geometric mean over its tokens, and that of its first token."""
    return _likelihood([score for _, score in output_tokens(tokens, name)])


def _likelihood(scores: Sequence[float]) -> tuple[float | None, float | None]:
    return (math.exp(math.fsum(scores) / len(scores)), math.exp(scores[0])) if scores else (None, None)


def item_likelihoods(tokens: Tokens, name: str, count: int) -> list[tuple[float | None, float | None]]:
    """As `likelihood`, for each text of an output that is a list of so many; none where they cannot be told apart."""
    found = output_tokens(tokens, name)
    text = "".join(piece for piece, _ in found)
    key = re.search(rf'"{re.escape(name)}"\s*:', text)
    spans = [item.span(1) for item in _ITEM.finditer(text, key.end() if key else 0)]
    if len(spans) != count:
        return [(None, None)] * count
    ends = list(accumulate(len(piece) for piece, _ in found))
    likely: list[tuple[float | None, float | None]] = []
    for start, end in spans:
        of_item = zip([0, *ends], ends, found, strict=False)
        scores = [score for begin, stop, (_, score) in of_item if begin < end and stop > start]
        likely.append(_likelihood(scores))
    return likely


def word_probabilities(text: str, tokens: Tokens) -> list[float]:
    """The probability of each word of a text, which tokens spell: that of its least likely token, or 1 without any."""
    words = text.split()
    owner = [position for position, word in enumerate(words) for _ in word]
    letters, place = "".join(words), 0
    least = [0.0] * len(words)
    for piece, score in tokens:
        bare = "".join(piece.split())
        begin = letters.find(bare, place) if bare else -1
        if begin < 0:
            continue
        place = begin + len(bare)
        for word in set(owner[begin:place]):
            least[word] = min(least[word], score)
    return [math.exp(score) for score in least]


def tells_no_probabilities(error: BaseException) -> bool:
    """Whether an LM gives no token probabilities, which it may say with its reply or by refusing the request."""
    # Servers of Gemini and of OpenAI's reasoning models call the request bad or forbidden, and say why in words alone.
    kinds = (type(error).__name__, type(error.__cause__).__name__, getattr(error, "cause", ""))
    refused = not {"LMUnsupportedFeatureError", "LMInvalidRequestError", "LMAuthError"}.isdisjoint(kinds)
    return (refused and "logprobs" in str(error).lower()) or isinstance(error, NoProbabilitiesError)


def likelihoods_of(prediction: dspy.Prediction, count: int, model: str) -> list[tuple[float | None, float | None]]:
    needed = ("the gate 'token probability'", "a gate that reads answers only")
    return [likelihood(tokens) for tokens in tokens_of(prediction, count, model, *needed)]


def tokens_of(
    prediction: dspy.Prediction, count: int, model: str, who: str, instead: str
) -> list[list[tuple[str, float]]]:
    """The tokens of each completion of a request with `LOGPROBS`, which `who` needs."""
    found = [tokens_in(one) for one in getattr(prediction.completions, "logprobs", ())]
    if len(found) != count or not all(found):
        raise NoProbabilitiesError(
            f"{model} gives no token probabilities, which {who} needs. Models in this process and OpenAI-compatible "
            f"servers such as vLLM give them; with others take {instead}."
        )
    return found


def first_tokens(prediction: dspy.Prediction) -> list[tuple[str, float]]:
    """The tokens of the first reply of a call, as far as it came with their probabilities."""
    given = getattr(prediction.completions, "logprobs", None)
    return tokens_in(given[0]) if given else []


def model_of(predictor: dspy.Predict) -> str:
    return str(getattr(predictor.lm or dspy.settings.lm, "model", "the language model"))


def tokens_in(logprobs: Any) -> list[tuple[str, float]]:
    """Tokens with their log probabilities, from a mapping or an object in OpenAI's layout."""
    content = _field(logprobs, "content") or []
    return [(str(_field(one, "token")), float(_field(one, "logprob"))) for one in content]


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
