"""Batched reading and drawing for a causal LM: many requests with different settings share one forward pass.

Imported only once a local model is wanted, for it imports torch and transformers.

How a draw stays independent of its batch. Every request takes one uniform number per token from a generator of its
own, seeded by its seed and its prompt, and turns it into a token through the cumulative distribution of its own
logits, in 64 bits and in the order of the vocabulary. Nothing of that knows the neighbours. What remains is that
matrix products of different shapes differ in the last bits of a float, which moves a draw only where its number falls
within that distance of a border between two tokens.

Layout. A row of the cache holds one request from slot 0 on; rows are ragged and masked at their own length, so no
position depends on padding, a finished row is replaced by the last one, and a new one joins without moving the others.
Prompts are read padded on the right, where a causal mask hides the padding. A prompt drawn from several times is read
once; the beginnings that prompts share (system message, demonstrations) are read once as well and kept while memory
allows.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

SHORTEST_SHARED = 16
LENGTH_STEP = 128
KeyValues = list[tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True, slots=True)
class Settings:
    """How one text is drawn; temperature 0 takes the likeliest token each time."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256
    seed: int = 0
    logprobs: int | None = None


@dataclass(eq=False, slots=True)
class Job:
    """One text to draw.

    Attributes:
        tokens: The prompt.
        shared: Lengths of the prompt's beginnings that other prompts may share, shortest first.
        settings: How to draw.
        ended: Called with the tokens so far after each one; True ends the text (a stop string was met).
        finish: Called once, with "stop" or "length", or with the exception that ended the job.
        wanted: False once nobody waits for the text any more.
        drawn: The tokens so far, without the one that ends the text.
        scores: For each drawn token its log probability and the likeliest alternatives, where asked for.
    """

    tokens: tuple[int, ...]
    shared: tuple[int, ...]
    settings: Settings
    ended: Callable[[list[int]], bool]
    finish: Callable[[str | Exception], None]
    wanted: Callable[[], bool] = lambda: True
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


@dataclass(slots=True)
class _Reading:
    """Keys and values of each layer, (heads, length, size); for a whole prompt also the logits after it."""

    layers: KeyValues
    logits: torch.Tensor | None

    @property
    def size(self) -> int:
        tensors = [tensor for pair in self.layers for tensor in pair]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def copy(self, logits: torch.Tensor | None) -> _Reading:
        """The same in memory of its own, so that the batch it was read in can be let go."""
        return _Reading([(keys.clone(), values.clone()) for keys, values in self.layers], logits)


class _Readings:
    """The beginnings and prompts read last, by their tokens, within a number of bytes."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._used = 0
        self._kept: OrderedDict[tuple[int, ...], _Reading] = OrderedDict()

    def get(self, tokens: tuple[int, ...]) -> _Reading | None:
        found = self._kept.get(tokens)
        if found is not None:
            self._kept.move_to_end(tokens)
        return found

    def put(self, tokens: tuple[int, ...], reading: _Reading) -> None:
        if tokens in self._kept or reading.size > self._budget // 2:
            return
        self._kept[tokens] = reading
        self._used += reading.size
        while self._used > self._budget:
            _, dropped = self._kept.popitem(last=False)
            self._used -= dropped.size

    def clear(self) -> None:
        self._kept.clear()
        self._used = 0


class _ReadLayer(CacheLayerMixin):
    """One layer while prompts are read: a shared beginning, the same for all rows, before what is read now."""

    def __init__(self, beginning: tuple[torch.Tensor, torch.Tensor] | None) -> None:
        super().__init__()
        self.beginning = beginning

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.beginning is not None:
            rows = key_states.shape[0]
            keys, values = self.beginning
            key_states = torch.cat([keys.expand(rows, *keys.shape), key_states], dim=2)
            value_states = torch.cat([values.expand(rows, *values.shape), value_states], dim=2)
        self.keys, self.values, self.is_initialized = key_states, value_states, True
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        if self.keys is not None:
            return int(self.keys.shape[2])
        return 0 if self.beginning is None else int(self.beginning[0].shape[1])

    def get_max_length(self) -> int:
        return -1


class _Place:
    """Where the rows of a batch write their next token, the same for all layers."""

    def __init__(self) -> None:
        self.rows = torch.empty(0, dtype=torch.long)
        self.slots = torch.empty(0, dtype=torch.long)
        self.length = 0


class _RowsLayer(CacheLayerMixin):
    """One layer while texts are drawn: a buffer (rows, heads, slots, size), written in place."""

    def __init__(self, place: _Place, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.place = place
        self.keys, self.values, self.is_initialized = keys, values, True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        place = self.place
        self.keys[place.rows, :, place.slots] = key_states[:, :, 0]
        self.values[place.rows, :, place.slots] = value_states[:, :, 0]
        count = key_states.shape[0]
        return self.keys[:count, :, : place.length], self.values[:count, :, : place.length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.place.length, 0

    def get_seq_length(self) -> int:
        return self.place.length - 1

    def get_max_length(self) -> int:
        return -1


class Decoder:
    """Reads prompts and draws texts with one model, for one thread.

    Attributes:
        read_tokens: Prompt tokens that went through the model so far, each shared one once.
        drawn_tokens: Tokens drawn so far.
    """

    def __init__(
        self,
        model: Any,
        stop_tokens: Iterable[int],
        *,
        max_rows: int,
        row_bytes: int,
        kept_bytes: int,
        chunk_tokens: int,
    ) -> None:
        """Take over a model.

        Args:
            model: A causal LM of transformers, in evaluation mode.
            stop_tokens: Tokens that end a text.
            max_rows: How many texts are drawn at once.
            row_bytes: How much memory the rows may take.
            kept_bytes: How much memory the readings kept for later may take.
            chunk_tokens: How many prompt tokens go through the model at once.
        """
        self.model = model
        self.stop_tokens = frozenset(stop_tokens)
        self.max_rows = max_rows
        self.read_tokens = 0
        self.drawn_tokens = 0
        self._row_bytes = row_bytes
        self._chunk = chunk_tokens
        self._device = next(model.parameters()).device
        self._dtype = next(model.parameters()).dtype
        config = model.config.get_text_config(decoder=True)
        self._window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
        self._kinds = set(getattr(config, "layer_types", None) or ())
        self._layers = int(config.num_hidden_layers)
        heads = int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
        size = int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
        self._token_bytes = 2 * self._layers * heads * size * self._dtype.itemsize
        self._seen: Counter[int] = Counter()
        self._readings = _Readings(kept_bytes)
        self._jobs: list[Job] = []
        self._firsts: list[torch.Tensor] = []
        self._place = _Place()
        self._cache: Cache | None = None
        self._lengths = torch.zeros(max_rows, dtype=torch.long, device=self._device)
        self._last = torch.zeros(max_rows, dtype=torch.long, device=self._device)
        self._keep: torch.Tensor | None = None
        model.get_output_embeddings().register_forward_pre_hook(self._only_last)

    @property
    def busy(self) -> bool:
        """Whether texts are being drawn."""
        return bool(self._jobs)

    def room(self, job: Job, waiting: Sequence[Job] = ()) -> bool:
        """Whether a job fits beside the running ones and those about to join; a lone one always does."""
        others = [*self._jobs, *waiting]
        if not others:
            return True
        if len(others) >= self.max_rows:
            return False
        longest = max(len(one.tokens) + one.settings.max_tokens for one in [*others, job])
        return bool((len(others) + 1) * longest * self._token_bytes <= self._row_bytes)

    @torch.inference_mode()
    def admit(self, jobs: Sequence[Job]) -> None:
        """Read the prompts of some jobs and draw the first token of each."""
        groups: dict[tuple[int, ...], list[Job]] = {}
        for job in jobs:
            job.prepare()
            groups.setdefault(job.tokens, []).append(job)
        known = {tokens: reading for tokens in groups if (reading := self._recall(tokens)) is not None}
        unread = [tokens for tokens in groups if tokens not in known]
        fresh: dict[tuple[int, ...], _Reading] = {}
        for beginning, chunk in self._chunks(unread, {tokens: group[0].shared for tokens, group in groups.items()}):
            fresh.update(self._read(beginning, chunk))
        start = len(self._jobs)
        longest = max(len(tokens) for tokens in groups) + 1
        for tokens, group in groups.items():
            reading = known.get(tokens) or fresh[tokens]
            if tokens in fresh and any(job.settings.temperature > 0 for job in group):
                # What is drawn from once may be drawn from again, in a later wave.
                self._readings.put(tokens, reading.copy(reading.logits))
            for job in group:
                self._place_row(job, reading, longest)
        self._choose(torch.stack(self._firsts[start:]), start)

    @torch.inference_mode()
    def step(self) -> None:
        """Draw the next token of every text."""
        for row in range(len(self._jobs) - 1, -1, -1):
            if not self._jobs[row].wanted():
                self._drop(row)
        count = len(self._jobs)
        if not count:
            return
        lengths = self._lengths[:count]
        longest = int(lengths.max()) + 1
        self._reserve(count, longest)
        place = self._place
        place.rows, place.slots, place.length = torch.arange(count, device=self._device), lengths.clone(), longest
        slots = torch.arange(longest, device=self._device)
        visible = slots[None, :] <= lengths[:, None]
        distance = lengths[:, None] - slots[None, :]
        logits = self.model(
            input_ids=self._last[:count, None],
            attention_mask=self._masks(visible[:, None, None], distance[:, None, None]),
            position_ids=lengths[:, None],
            past_key_values=self._cache,
            use_cache=True,
        ).logits[:, -1]
        lengths += 1
        self._choose(logits.float(), 0)

    def fail(self, error: Exception) -> None:
        """End every running job with an error, and let go of all memory."""
        jobs, self._jobs, self._firsts = self._jobs, [], []
        self._cache = None
        self._readings.clear()
        for job in jobs:
            job.finish(error)

    def _only_last(self, module: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Before the output layer: keep, of each row, only the place whose logits are wanted."""
        if self._keep is None:
            return None
        hidden = arguments[0]
        rows = torch.arange(hidden.shape[0], device=hidden.device)
        return (hidden[rows, self._keep][:, None], *arguments[1:])

    def _masks(self, visible: torch.Tensor, distance: torch.Tensor) -> Any:
        """The attention mask, or one for each kind of layer where some see only a window."""

        def shape(mask: torch.Tensor) -> torch.Tensor:
            if getattr(self.model.config, "_attn_implementation", "sdpa") == "sdpa":
                return mask
            smallest = torch.finfo(self._dtype).min
            return torch.zeros(mask.shape, dtype=self._dtype, device=mask.device).masked_fill_(~mask, smallest)

        if self._window is None:
            full = shape(visible)
            return {kind: full for kind in self._kinds} if self._kinds - {"full_attention"} else full
        near = shape(visible & (distance < self._window))
        if not self._kinds:
            return near
        full = shape(visible)
        if self._kinds == {"full_attention"}:
            return full
        return {kind: full if kind == "full_attention" else near for kind in self._kinds | {"full_attention"}}

    def _recall(self, tokens: tuple[int, ...]) -> _Reading | None:
        """A whole prompt that a running job or an earlier one has read."""
        for row, job in enumerate(self._jobs):
            if job.tokens == tokens:
                return _Reading(self._row(row, len(tokens)), self._firsts[row])
        reading = self._readings.get(tokens)
        return reading if reading is not None and reading.logits is not None else None

    def _row(self, row: int, length: int) -> KeyValues:
        assert self._cache is not None
        return [(layer.keys[row, :, :length], layer.values[row, :, :length]) for layer in self._cache.layers]

    def _chunks(
        self, prompts: list[tuple[int, ...]], shared: dict[tuple[int, ...], tuple[int, ...]]
    ) -> list[tuple[_Reading | None, list[tuple[int, ...]]]]:
        """Prompts that are read together: the same beginning, similar lengths, not too many tokens."""
        for tokens in prompts:
            self._seen.update({hash(tokens[:length]) for length in shared[tokens]})
        if len(self._seen) > 10_000:
            self._seen = Counter(dict(self._seen.most_common(1_000)))
        groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for tokens in prompts:
            groups.setdefault(self._beginning(tokens, shared[tokens]), []).append(tokens)
        chunks: list[tuple[_Reading | None, list[tuple[int, ...]]]] = []
        for beginning, group in groups.items():
            reading = self._readings.get(beginning) if beginning else None
            done = len(beginning) if reading else 0
            chunk: list[tuple[int, ...]] = []
            for tokens in sorted(group, key=len):
                length = len(tokens) - done
                if chunk and (
                    (len(chunk) + 1) * length > self._chunk or length > 1.25 * (len(chunk[0]) - done) + SHORTEST_SHARED
                ):
                    chunks.append((reading, chunk))
                    chunk = []
                chunk.append(tokens)
            chunks.append((reading, chunk))
        return chunks

    def _beginning(self, tokens: tuple[int, ...], lengths: tuple[int, ...]) -> tuple[int, ...]:
        """The longest beginning that was read before, or has come twice and is therefore read and kept now."""
        for length in reversed(lengths):
            if not SHORTEST_SHARED <= length < len(tokens):
                continue
            beginning = tokens[:length]
            if self._readings.get(beginning) is not None:
                return beginning
            if self._seen[hash(beginning)] > 1:
                reading = self._read(None, [beginning])[beginning]
                self._readings.put(beginning, reading.copy(None))
                return beginning
        return ()

    def _read(self, beginning: _Reading | None, prompts: list[tuple[int, ...]]) -> dict[tuple[int, ...], _Reading]:
        """Put prompts through the model, after a beginning that was read before."""
        done = int(beginning.layers[0][0].shape[1]) if beginning else 0
        rests = [tokens[done:] for tokens in prompts]
        width = max(len(rest) for rest in rests)
        ids = torch.tensor([[*rest, *[0] * (width - len(rest))] for rest in rests], device=self._device)
        positions = torch.arange(done, done + width, device=self._device)
        distance = positions[:, None] - torch.arange(done + width, device=self._device)[None]
        cache = Cache(layers=[_ReadLayer(beginning.layers[i] if beginning else None) for i in range(self._layers)])
        self._keep = torch.tensor([len(rest) - 1 for rest in rests], device=self._device)
        try:
            logits = (
                self.model(
                    input_ids=ids,
                    attention_mask=self._masks((distance >= 0)[None, None], distance[None, None]),
                    position_ids=positions[None].expand(len(rests), -1),
                    past_key_values=cache,
                    use_cache=True,
                )
                .logits[:, 0]
                .float()
            )
        finally:
            self._keep = None
        self.read_tokens += sum(len(rest) for rest in rests)
        readings = {}
        for row, tokens in enumerate(prompts):
            layers = [
                (layer.keys[row, :, : len(tokens)], layer.values[row, :, : len(tokens)]) for layer in cache.layers
            ]
            readings[tokens] = _Reading(layers, logits[row])
        return readings

    def _place_row(self, job: Job, reading: _Reading, longest: int) -> None:
        """Copy a reading into a row of its own."""
        row, length = len(self._jobs), len(job.tokens)
        self._reserve(row + 1, longest, like=reading.layers)
        assert self._cache is not None
        for layer, (keys, values) in zip(self._cache.layers, reading.layers, strict=True):
            layer.keys[row, :, :length] = keys
            layer.values[row, :, :length] = values
        assert reading.logits is not None
        self._lengths[row] = length
        self._jobs.append(job)
        self._firsts.append(reading.logits)

    def _reserve(self, rows: int, length: int, like: KeyValues | None = None) -> None:
        """Make the buffers large enough, keeping what they hold."""
        old = self._cache.layers if self._cache is not None else None
        if old is not None and old[0].keys.shape[0] >= rows and old[0].keys.shape[2] >= length:
            if self._jobs or old[0].keys.shape[2] <= max(4 * length, 1024):
                return
            old = None
        if old is not None and self._jobs:
            rows, length = max(rows, old[0].keys.shape[0]), max(length, old[0].keys.shape[2])
        rows = min(self.max_rows, max(rows, 1 << (rows - 1).bit_length()))
        length = -(-length // LENGTH_STEP) * LENGTH_STEP
        used = len(self._jobs)
        layers = []
        for i in range(self._layers):
            # Without running jobs there is nothing to keep, and a reading tells the shapes.
            keys, values = (old[i].keys, old[i].values) if old is not None and used else (None, None)
            if keys is None or values is None:
                source = like[i] if like is not None else (old[i].keys[0], old[i].values[0]) if old else None
                assert source is not None
                new_keys, new_values = (one.new_zeros(rows, one.shape[0], length, one.shape[2]) for one in source)
            else:
                new_keys, new_values = (
                    one.new_zeros(rows, one.shape[1], length, one.shape[3]) for one in (keys, values)
                )
                new_keys[:used, :, : keys.shape[2]] = keys[:used]
                new_values[:used, :, : values.shape[2]] = values[:used]
            layers.append(_RowsLayer(self._place, new_keys, new_values))
        self._cache = Cache(layers=layers)

    def _choose(self, logits: torch.Tensor, start: int) -> None:
        """Draw one token for each row from `start` on, and let finished texts leave."""
        jobs = self._jobs[start : start + logits.shape[0]]
        chosen = draw(logits, [job.settings for job in jobs], [_uniform(job) for job in jobs])
        self._last[start : start + len(jobs)] = chosen
        tokens: list[int] = chosen.tolist()
        self.drawn_tokens += len(tokens)
        finished: list[tuple[int, str]] = []
        for offset, (job, token) in enumerate(zip(jobs, tokens, strict=True)):
            if token in self.stop_tokens:
                finished.append((start + offset, "stop"))
                continue
            if job.settings.logprobs is not None:
                job.scores.append(_scores(logits[offset], token, job.settings.logprobs))
            job.drawn.append(token)
            if job.ended(job.drawn):
                finished.append((start + offset, "stop"))
            elif len(job.drawn) >= job.settings.max_tokens:
                finished.append((start + offset, "length"))
        for row, reason in reversed(finished):
            job = self._jobs[row]
            self._drop(row)
            job.finish(reason)

    def _drop(self, row: int) -> None:
        """Take a row out; the last one moves into its place."""
        last = len(self._jobs) - 1
        if row != last:
            length = int(self._lengths[last])
            assert self._cache is not None
            for layer in self._cache.layers:
                layer.keys[row, :, :length] = layer.keys[last, :, :length]
                layer.values[row, :, :length] = layer.values[last, :, :length]
            self._lengths[row] = self._lengths[last]
            self._last[row] = self._last[last]
            self._jobs[row] = self._jobs[last]
            self._firsts[row] = self._firsts[last]
        self._jobs.pop()
        self._firsts.pop()


def _uniform(job: Job) -> float:
    return job.uniforms[len(job.drawn)] if job.uniforms else 0.0


def _scores(logits: torch.Tensor, token: int, alternatives: int) -> tuple[float, list[tuple[int, float]]]:
    """The log probability of the token, and of the likeliest ones, at temperature 1."""
    logs = torch.log_softmax(logits, dim=-1)
    best = torch.topk(logs, min(alternatives, logs.shape[0])) if alternatives else None
    top = list(zip(best.indices.tolist(), best.values.tolist(), strict=True)) if best is not None else []
    return float(logs[token]), top


def draw(logits: torch.Tensor, settings: Sequence[Settings], uniforms: Sequence[float]) -> torch.Tensor:
    """One token for each row: the likeliest at temperature 0, else by the row's own uniform number.

    Args:
        logits: (rows, vocabulary), 32-bit floats.
        settings: Those of each row.
        uniforms: For each row a number in [0, 1).

    Returns:
        The token of each row.
    """
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
