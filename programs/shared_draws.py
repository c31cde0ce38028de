"""Calls that several programs share: each is made once, whoever asks, and counts for the others as read from a cache.

A comparison of gates on draws of their own compares luck as well. Here gates that agree on the earlier quizzes of a
question ask the same later ones, and so read the same draws. Every gate is charged what its verdict takes, all N_c
draws or none. Settings of one program share draws likewise: those of a smaller N_c are the first of the largest N_c.
"""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

import dspy
from pydantic import Field, NonNegativeInt, ValidationError

from keqa.data.question import question_digest
from keqa.errors import ConfigurationError
from keqa.programs.calls.ask import predict, rollout_of
from keqa.programs.calls.errors import CallError, is_transient
from keqa.programs.calls.predictor import whole_prompt
from keqa.programs.calls.probabilities import LOGPROBS, tokens_in
from keqa.programs.calls.session import CallMeter, NoCopy, context, current
from keqa.programs.fingerprint import digest, lm_spec
from keqa.programs.gate import asks
from keqa.programs.gates import Gate
from keqa.programs.keqa import KEQA
from keqa.programs.records import Record
from keqa.storage.journal import SqliteStore
from keqa.storage.redaction import without_secrets


class _Failed(Record):
    """A `CallError`."""

    cause: str
    message: str
    overflow: bool
    unusable: bool
    spoilt: NonNegativeInt
    reply: str | None
    served: bool
    more_tokens: NonNegativeInt | None = None


class _Made(Record):
    """A call that was made: its outputs, one list a field, or how it failed; and what it took."""

    completions: dict[str, list[Any]] = Field(default_factory=dict)
    failed: _Failed | None = None
    tokens: tuple[NonNegativeInt, NonNegativeInt]
    samples: NonNegativeInt

    def again(self, predictor: dspy.Predict) -> dspy.Prediction:
        """What it came to, counted as answered by a cache, with all that it took."""
        with current().meter(predictor) as meter:
            meter.prompt, meter.completion = self.tokens
            meter.samples = self.samples
        if self.failed is not None:
            raise CallError(**dict(self.failed))
        return dspy.Prediction.from_completions(dict(self.completions))


class SharedDraws:
    """Calls by what is asked, for any number of programs and threads on the same language models.

    A call that failed is remembered as well, so that all gates read the same draws; it is in no store, so that the
    next process makes it again. `probabilities` are those of tokens, always or ``IF_ANY``. Where `largest` is not 0, so
    many draws are made at least, and a gate is given and charged wave by wave what the program itself would draw;
    otherwise all.
    """

    keeps_failures: ClassVar[bool] = False
    """Whether a store keeps failures, too, that would not pass, so that they are not paid again."""

    def __init__(
        self,
        *,
        probabilities: bool | Literal["probabilities, if any"] = False,
        largest: int = 0,
        store: SqliteStore | None = None,
    ) -> None:
        self.probabilities, self.largest, self._store = probabilities, largest, store
        self._calls: dict[str, Future[_Made | None]] = {}
        self._lock = threading.Lock()
        self._specs: WeakKeyDictionary[Any, tuple[str, dict[str, Any], dict[str, Any]]] = WeakKeyDictionary()

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
            done = {key: call.result() for key, call in self._calls.items() if call.done()}
            for key in (key for key, made in done.items() if made is None or made.failed is not None):
                del self._calls[key]

    async def predict(
        self, predictor: dspy.Predict, *, nth: int = 0, shown: str = "", **arguments: Any
    ) -> dspy.Prediction:
        """Make a call, once as the `nth` attempt; `shown` is what demonstrations depend on besides."""
        key = f"draws:{digest(self._asked(predictor, nth, shown, arguments))}"
        while True:
            mine: Future[_Made | None] = Future()
            with self._lock:
                call = self._calls.setdefault(key, mine)
            if call is mine:
                return await self._make(key, mine, predictor, arguments)
            # Another program, maybe in another thread's loop, is at it. If it is stopped, this one tries for itself.
            made = call.result() if call.done() else await asyncio.shield(asyncio.wrap_future(call))
            if made is not None:
                return made.again(predictor)

    async def _make(
        self, key: str, mine: Future[_Made | None], predictor: dspy.Predict, arguments: dict[str, Any]
    ) -> dspy.Prediction:
        made = None
        try:
            if (made := self._kept(key)) is not None:
                return made.again(predictor)
            meter, outcome = CallMeter(dspy.settings.usage_tracker), dict[str, Any]()
            try:
                with dspy.context(usage_tracker=meter):
                    prediction = await predict(predictor, **arguments)
                outcome["completions"] = _plain(prediction)
            except CallError as error:
                outcome["failed"] = {name: getattr(error, name) for name in _Failed.model_fields}
                raise
            finally:
                if outcome:
                    made = _Made(tokens=(meter.prompt, meter.completion), samples=meter.samples, **outcome)
                    self._keep(key, made, predictor)
            return prediction
        finally:
            if made is None:
                with self._lock:
                    self._calls.pop(key, None)
            mine.set_result(made)

    def _kept(self, key: str) -> _Made | None:
        if self._store is None:
            return None
        checked = getattr(self._store, "get_as", None)
        with suppress(ValidationError):
            # A journal names the line of a call that is damaged; a cache has it made again.
            value = self._store.get(key) if checked is None else checked(key, _Made.model_validate)
            return None if value is None else _Made.model_validate(value)
        return None

    def _keep(self, key: str, made: _Made, predictor: dspy.Predict) -> None:
        value, failed = made.model_dump(mode="json"), made.failed
        if failed is not None:
            if not self.keeps_failures or is_transient(failed.cause):
                return
            value["failed"]["message"] = without_secrets(failed.message, [predictor.lm or dspy.settings.lm])
        if self._store is not None:
            self._store.put(key, value)

    def _asked(self, predictor: dspy.Predict, nth: int, shown: str, arguments: dict[str, Any]) -> list[Any]:
        """What a reply depends on; no address and no secret is in it."""
        lm = predictor.lm or dspy.settings.lm
        inputs = {name: value for name, value in arguments.items() if name not in ("config", "demos", "usable")}
        # A language model that gives no probabilities is found out on the way, and draws the same without them.
        config = {name: value for name, value in (arguments.get("config") or {}).items() if name not in LOGPROBS}
        hidden = question_digest(*context().asked) if current().hides is not None else ""
        found = shown if arguments.get("demos") is not None else ""
        drawn = [config, bool(self.probabilities), nth]
        return [self._spec(lm), rollout_of(lm), whole_prompt(predictor), inputs, drawn, hidden, found]

    def _spec(self, lm: Any) -> dict[str, Any]:
        """As `lm_spec`, which takes longer than all else of a call already made; weights in this process may change."""
        if lm is None or hasattr(getattr(lm, "engine", None), "path"):
            return lm_spec(lm)
        kind, settings = [getattr(lm, name, None) for name in ("model", "model_type")], dict(lm.kwargs)
        written, _, spec = self._specs.get(lm, ("", {}, {}))
        if written != repr([kind, settings]):
            spec = lm_spec(lm)
            # The settings are kept: nothing else comes to be at the place that one of them is shown by.
            self._specs[lm] = repr([kind, settings]), settings, spec
        return spec


def _plain(prediction: dspy.Prediction) -> dict[str, list[Any]]:
    completions = {name: list(values) for name, values in prediction.completions.items()}
    if "logprobs" in completions:
        completions["logprobs"] = [
            {"content": [{"token": token, "logprob": score} for token, score in tokens_in(one)]}
            for one in completions["logprobs"]
        ]
    return completions
