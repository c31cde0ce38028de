"""Drawing tokens: what one text asks for, and how its random numbers become tokens.

How a draw stays independent of its batch. Every request takes one uniform number per token from a generator of its
own, seeded by its seed and its prompt, and turns it into a token through the cumulative distribution of its own
logits, in 64 bits and in the order of the vocabulary. Nothing of that knows the neighbours. What remains is that
matrix products of different shapes differ in the last bits of a float, which moves a draw only where its number falls
within that distance of a border between two tokens.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch


class DrawSettings(NamedTuple):
    """How one text is drawn; temperature 0 takes the likeliest token each time."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256
    seed: int = 0
    logprobs: int | None = None
    stops: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class Job:
    """One text to draw."""

    tokens: tuple[int, ...]
    shared: tuple[int, ...]
    settings: DrawSettings
    ended: Callable[[list[int]], bool]
    finish: Callable[[str | Exception], None]
    wanted: Callable[[], bool] = lambda: True
    told: Callable[[list[int]], None] | None = None
    drawn: list[int] = field(default_factory=list)
    scores: list[tuple[float, list[tuple[int, float]]]] = field(default_factory=list)
    uniforms: list[float] = field(default_factory=list)

    def prepare(self) -> None:
        """Take all random numbers of this draw from its own generator."""
        if self.settings.temperature <= 0:
            return
        digest = hashlib.sha256(f"{self.settings.seed}|{self.tokens}".encode()).digest()
        generator = torch.Generator()
        generator.manual_seed(int.from_bytes(digest[:7], "big"))
        self.uniforms = torch.rand(self.settings.max_tokens, generator=generator, dtype=torch.float64).tolist()

    def uniform(self) -> float:
        """The random number of the next token; 0 where none is needed."""
        return self.uniforms[len(self.drawn)] if self.uniforms else 0.0


def scored(logits: torch.Tensor, token: int, alternatives: int) -> tuple[float, list[tuple[int, float]]]:
    """The log probability of a token, and of the likeliest ones, at temperature 1."""
    logs = torch.log_softmax(logits, dim=-1)
    best = torch.topk(logs, min(alternatives, logs.shape[0])) if alternatives else None
    top = list(zip(best.indices.tolist(), best.values.tolist(), strict=True)) if best is not None else []
    return float(logs[token]), top


def draw(logits: torch.Tensor, settings: Sequence[DrawSettings], uniforms: Sequence[float]) -> torch.Tensor:
    """One token for each row: the likeliest at temperature 0, else by the row's own uniform number."""
    chosen = logits.argmax(dim=-1)
    sampled = [row for row, one in enumerate(settings) if one.temperature > 0]
    if not sampled:
        return chosen
    device = logits.device
    temperatures = torch.tensor([settings[row].temperature for row in sampled], device=device)
    rows = torch.tensor(sampled, device=device)
    weights = torch.softmax(logits[rows] / temperatures[:, None], dim=-1)
    narrowed = [at for at, row in enumerate(sampled) if settings[row].top_p < 1 or settings[row].top_k > 0]
    if narrowed:
        at = torch.tensor(narrowed, device=device)
        ordered, order = weights[at].sort(dim=-1, descending=True, stable=True)
        before = ordered.cumsum(dim=-1) - ordered
        top_p = torch.tensor([settings[sampled[i]].top_p for i in narrowed], device=device)
        top_k = torch.tensor([settings[sampled[i]].top_k or logits.shape[1] for i in narrowed], device=device)
        ranks = torch.arange(logits.shape[1], device=device)
        keep = (before < top_p[:, None]) & (ranks[None] < top_k[:, None])
        keep[:, 0] = True
        weights[at] = torch.zeros_like(ordered).scatter_(1, order, ordered * keep)
    cumulative = weights.double().cumsum(dim=-1)
    points = torch.tensor([uniforms[row] for row in sampled], device=device, dtype=torch.float64)[:, None]
    picks = torch.searchsorted(cumulative, points * cumulative[:, -1:], right=True)
    chosen[rows] = picks[:, 0].clamp_max(logits.shape[1] - 1)
    return chosen
