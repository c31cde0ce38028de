"""Prompts that were read: their keys and values, kept while memory allows, and the caches that hold them.

A row of the cache in which texts are drawn holds one request from slot 0 on; rows are ragged and masked at their own
length, so no position depends on padding, a finished row is replaced by the last one, and a new one joins without
moving the others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

KeyValues = list[tuple[torch.Tensor, torch.Tensor]]


@dataclass(slots=True)
class Reading:
    """Keys and values of each layer, (heads, length, size); for a whole prompt also the logits after it."""

    layers: KeyValues
    logits: torch.Tensor | None

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        tensors = [tensor for pair in self.layers for tensor in pair]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def copy(self, logits: torch.Tensor | None) -> Reading:
        """The same in memory of its own, so that the batch it was read in can be let go."""
        return Reading([(keys.clone(), values.clone()) for keys, values in self.layers], logits)


class PrefixCache:
    """The beginnings and prompts read last, by their tokens, within a number of bytes."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._used = 0
        self._kept: OrderedDict[tuple[int, ...], Reading] = OrderedDict()

    def get(self, tokens: tuple[int, ...]) -> Reading | None:
        """What was read of these tokens, where it is still kept."""
        found = self._kept.get(tokens)
        if found is not None:
            self._kept.move_to_end(tokens)
        return found

    def put(self, tokens: tuple[int, ...], reading: Reading) -> None:
        """Keep a reading, and let go of those that were not used for longest."""
        if tokens in self._kept or reading.size > self._budget // 2:
            return
        self._kept[tokens] = reading
        self._used += reading.size
        while self._used > self._budget:
            _, dropped = self._kept.popitem(last=False)
            self._used -= dropped.size

    def clear(self) -> None:
        """Let go of all."""
        self._kept.clear()
        self._used = 0


class _Layer:
    """What transformers asks of a layer of a cache: its ``CacheLayerMixin``, without the time its import takes."""

    is_compileable = False
    is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to set up."""

    def get_max_length(self) -> int:
        """No bound."""
        return -1


class ReadLayer(_Layer):
    """One layer while prompts are read: a shared beginning, the same for all rows, before what is read now."""

    keys: torch.Tensor | None = None
    values: torch.Tensor | None = None

    def __init__(self, beginning: tuple[torch.Tensor, torch.Tensor] | None) -> None:
        self.beginning = beginning

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Put the shared beginning before what was read now."""
        if self.beginning is not None:
            rows = key_states.shape[0]
            keys, values = self.beginning
            key_states = torch.cat([keys.expand(rows, *keys.shape), key_states], dim=2)
            value_states = torch.cat([values.expand(rows, *values.shape), value_states], dim=2)
        self.keys, self.values = key_states, value_states
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length of keys, and where they begin."""
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        """How many tokens are held so far."""
        if self.keys is not None:
            return int(self.keys.shape[2])
        return 0 if self.beginning is None else int(self.beginning[0].shape[1])


class Place:
    """Where the rows of a batch write their next token, the same for all layers."""

    def __init__(self) -> None:
        self.rows = torch.empty(0, dtype=torch.long)
        self.slots = torch.empty(0, dtype=torch.long)
        self.length = 0


class RowsLayer(_Layer):
    """One layer while texts are drawn: a buffer (rows, heads, slots, size), written in place."""

    def __init__(self, place: Place, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.place = place
        self.keys, self.values = keys, values

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new token of each row, and give all that the rows hold."""
        place = self.place
        self.keys[place.rows, :, place.slots] = key_states[:, :, 0]
        self.values[place.rows, :, place.slots] = value_states[:, :, 0]
        count = key_states.shape[0]
        return self.keys[:count, :, : place.length], self.values[:count, :, : place.length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length of keys, and where they begin."""
        return self.place.length, 0

    def get_seq_length(self) -> int:
        """How many tokens are held so far."""
        return self.place.length - 1


class Layers:
    """The layers of a cache, for a model that is not one of transformers, whose ``Cache`` is for its own."""

    def __init__(self, layers: Sequence[ReadLayer] | Sequence[RowsLayer]) -> None:
        self.layers = layers

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Hand over to a layer."""
        return self.layers[layer].update(keys, values)
