"""Calls that several programs share: each is made once, whoever asks, and counts for the others as read from a cache.

A comparison of gates on draws of their own compares luck as well. Here gates that agree on the earlier quizzes of a
question ask the same later ones, and so read the same draws. Every gate is charged what its verdict takes, all N_c
draws or none. Settings of one program share draws likewise: those of a smaller N_c are the first of the largest N_c.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Literal, Protocol

import dspy
from pydantic import NonNegativeInt, ValidationError

from keqa.errors import ConfigurationError
from keqa.programs.calls.ask import predict, predicted_by, rollout_of
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import CallMeter, NoCopy, context, current
from keqa.programs.fingerprint import digest, lm_spec
from keqa.programs.gates import Gate, asks
from keqa.programs.keqa import KEQA
from keqa.programs.predictor import whole_prompt
from keqa.programs.records import Record
from keqa.programs.stages.probabilities import LOGPROBS, tokens_in


class DrawStore(Protocol):
    """Keeps calls beyond a process, such as `keqa.storage.journal.Journal`."""

    def get(self, key: str) -> dict[str, Any] | None:
        """What was put under a key."""

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Keep a JSON value under a key."""


class _Made(Record):
    """A call that was made: its outputs, one list a field, and what it took."""

    completions: dict[str, list[Any]]
    tokens: tuple[NonNegativeInt, NonNegativeInt]
    samples: NonNegativeInt


class SharedDraws:
    """Calls by what is asked, for any number of programs and threads on the same language models.

    A call that failed is remembered as well, so that all gates read the same draws; it is in no store, so that the
    next process makes it again.

    Attributes:
        probabilities: Whether draws are made with the probabilities of their tokens, which `ProbabilityGate` needs, or
            (`keqa.programs.gates.IF_ANY`) where the language model gives them.
        largest: Where not 0, so many draws are made at least, and a gate is given of them, and charged for, what the
            program itself would draw, wave by wave; otherwise it is given and charged all.
    """

    def __init__(
        self,
        *,
        probabilities: bool | Literal["probabilities, if any"] = False,
        largest: int = 0,
        store: DrawStore | None = None,
    ) -> None:
        """Start with what a store holds, and keep there what is made."""
        self.probabilities, self.largest, self._store = probabilities, largest, store
        self._made: dict[str, _Made] = {}
        self._failed: dict[str, tuple[CallError, tuple[int, int], int]] = {}
        self._making: dict[str, Future[None]] = {}
        self._lock = threading.Lock()

    def sharing(self, program: KEQA, gate: Gate | None = None) -> KEQA:
        """A copy of a program, with another gate where one is given, that reads its tries from here."""
        twin: KEQA = program.deepcopy()
        if gate is not None:
            twin.change(gate=gate)
        if asks(twin.gate) == "probabilities" and not self.probabilities:
            raise ConfigurationError(f"the gate '{twin.gate.name}' needs SharedDraws(probabilities=True)")
        twin.examination.shared = NoCopy(self)
        return twin

    def forget_failed(self) -> None:
        """Have the calls made again that failed; all others stay as they are."""
        with self._lock:
            self._failed.clear()

    async def predict(
        self, predictor: dspy.Predict, *, nth: int = 0, shown: str = "", **arguments: Any
    ) -> dspy.Prediction:
        """Make a call as `keqa.programs.calls.ask.predict` does, unless it was made before as the `nth` attempt.

        What the demonstrations that the call finds depend on besides its inputs is `shown`.
        """
        key = f"draws:{digest(self._asked(predictor, nth, shown, arguments))}"
        while True:
            with self._lock:
                making = self._making.get(key)
                made, failed = self._kept(key), self._failed.get(key)
                mine: Future[None] = Future()
                if made is None and failed is None and making is None:
                    self._making[key] = mine
            if failed is not None:
                _charge(predictor, failed[1], failed[2])
                raise failed[0].again()
            if made is not None:
                _charge(predictor, made.tokens, made.samples)
                return dspy.Prediction.from_completions(dict(made.completions))
            if making is None:
                break
            # Another program, maybe in another thread's loop, is at it. If it is stopped, this one tries for itself.
            await asyncio.shield(asyncio.wrap_future(making))
        try:
            return await self._make(key, predictor, arguments)
        finally:
            with self._lock:
                del self._making[key]
            mine.set_result(None)

    def _kept(self, key: str) -> _Made | None:
        if key not in self._made and self._store is not None:
            checked = getattr(self._store, "get_as", None)
            with suppress(ValidationError):
                # A journal names the line of a call that is damaged; a cache has it made again.
                value = self._store.get(key) if checked is None else checked(key, _Made.model_validate)
                if value is not None:
                    self._made[key] = _Made.model_validate(value)
        return self._made.get(key)

    async def _make(self, key: str, predictor: dspy.Predict, arguments: dict[str, Any]) -> dspy.Prediction:
        meter = CallMeter(dspy.settings.usage_tracker)
        try:
            with dspy.context(usage_tracker=meter):
                prediction = await predict(predictor, **arguments)
        except CallError as error:
            self._failed[key] = error, (meter.prompt, meter.completion), meter.samples
            raise
        completions = {name: list(values) for name, values in prediction.completions.items()}
        if "logprobs" in completions:
            completions["logprobs"] = [
                {"content": [{"token": token, "logprob": score} for token, score in tokens_in(one)]}
                for one in completions["logprobs"]
            ]
        made = _Made(completions=completions, tokens=(meter.prompt, meter.completion), samples=meter.samples)
        self._made[key] = made
        if self._store is not None:
            self._store.put(key, made.model_dump(mode="json"))
        return prediction

    def _asked(self, predictor: dspy.Predict, nth: int, shown: str, arguments: dict[str, Any]) -> list[Any]:
        """What a reply depends on; no address and no secret is in it."""
        lm = predictor.lm or dspy.settings.lm
        inputs = {name: value for name, value in arguments.items() if name not in ("config", "demos", "usable")}
        # A language model that gives no probabilities is found out on the way, and draws the same without them.
        config = {name: value for name, value in (arguments.get("config") or {}).items() if name not in LOGPROBS}
        hidden = context().asked if current().hides is not None else ""
        found = shown if arguments.get("demos") is not None else ""
        drawn = [config, bool(self.probabilities), nth]
        return [lm_spec(lm), rollout_of(lm), whole_prompt(predictor), inputs, drawn, hidden, found]


def _charge(predictor: dspy.Predict, tokens: tuple[int, int], samples: int) -> None:
    """Count a call as answered by a cache, with all that it took."""
    with predicted_by(predictor) as event:
        event.prompt_tokens, event.completion_tokens = tokens
        event.samples = samples
