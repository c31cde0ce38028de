"""The layer through which every call to a language model or retriever goes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import dspy

from keqa.errors import ConfigurationError
from keqa.lms.adapter import only_blocks
from keqa.lms.outside import Guarded
from keqa.lms.served import ServedLM, as_served
from keqa.programs.predictor_state import learned_demos
from keqa.programs.records import Degradation
from keqa.programs.runtime.concurrency import Branch, CallLimiter, reached
from keqa.programs.runtime.cost import Event, Ledger
from keqa.programs.runtime.errors import CallError, typed_error
from keqa.programs.runtime.forgetting import keeping
from keqa.programs.runtime.listening import Listener, Meter, listened
from keqa.programs.runtime.progress import Progress, QuizAnswered, QuizExamined, listeners
from keqa.programs.runtime.rollouts import drawn_in, rollout_of
from keqa.programs.runtime.streaming import only_wanted
from keqa.retrievers.base import Hit, Retriever
from keqa.retrievers.caching import Kept
from keqa.signatures.markers import without_completed

T = TypeVar("T")

# In the middle of a line it is a part of a sentence.
_ENDED = re.compile(r"\[++[^\S\n]*+#++[^\S\n]*+completed\b[^\S\n]*+#*+[^\S\n]*+\]*+[^\S\n]*+(?=\n|\Z)")
_AGAIN_AT = 0.7
"""The temperature of further attempts: enough to leave a circle, and not so much that the form of replies suffers."""


class Session:
    """The calls of one question: their cost, their order and what went wrong.

    Attributes:
        provisional: Whether the answer to the question may yet be withheld.
    """

    def __init__(self, bound: CallLimiter, *, blocking: bool) -> None:
        """Start counting.

        Args:
            bound: How many calls may be in flight.
            blocking: Whether predictors are called in threads; those of a served language model are awaited anyway.
        """
        self.bound = bound
        self.blocking = blocking
        self.ledger = Ledger()
        self.degradations: list[Degradation] = []
        self.provisional = False
        self._steps: dict[int, str] = {}
        self._hidden: Callable[[Any, type[dspy.Signature]], bool] | None = None
        self._hearing = listeners()

    def report(self, event: Progress) -> None:
        """Let whoever listens hear what happened."""
        if self.provisional and isinstance(event, QuizExamined | QuizAnswered):
            event = replace(event, provisional=True)
        for hears in self._hearing:
            hears(event)

    def tell_apart(self, predictors: Iterable[tuple[str, dspy.Predict]]) -> None:
        """Count the calls of each predictor by itself, under its name; those of others are counted by role only."""
        self._steps = {id(predictor): name for name, predictor in predictors}

    def hide_demos(self, hidden: Callable[[Any, type[dspy.Signature]], bool]) -> None:
        """Call predictors without some of their own demonstrations.

        Args:
            hidden: Whether one, of a predictor with this signature, is left out.
        """
        self._hidden = hidden

    def step_of(self, predictor: dspy.Predict) -> str:
        """The name that calls of a predictor are counted under; empty where it has none."""
        return self._steps.get(id(predictor), "")

    def note(
        self, stage: str, cause: str, message: str, action: str, quiz: int | None = None, *, harmless: bool = False
    ) -> None:
        """Record a degradation; see there for the arguments."""
        self.degradations.append(
            Degradation(stage=stage, quiz=quiz, cause=cause, message=message, action=action, harmless=harmless)
        )

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Run coroutines side by side; where one raises, the others are stopped."""
        return await self.join([Branch(coroutine) for coroutine in coroutines])

    @staticmethod
    async def join(branches: Sequence[Branch[T]]) -> list[T]:
        """Wait for all; where one raises, the others are stopped."""
        try:
            if branches:
                await asyncio.wait([branch.task for branch in branches], return_when=asyncio.FIRST_EXCEPTION)
            for branch in branches:
                if branch.task.done():
                    branch.task.result()
            return [await branch.join() for branch in branches]
        finally:
            for branch in branches:
                branch.cancel()

    async def predict(
        self,
        predictor: dspy.Predict,
        role: str,
        *,
        config: dict[str, Any] | None = None,
        demos: Callable[[], Sequence[Any]] | None = None,
        attempt: int = 0,
        usable: Callable[[dspy.Prediction], object] | None = None,
        **inputs: Any,
    ) -> dspy.Prediction:
        """Call a predictor once; what its inputs and demonstrations hold cannot close or open a field of the prompt.

        A reply that cannot be used is in no cache afterwards, unless its engine would only give it again.

        Args:
            predictor: Which to call.
            role: To whom the cost is charged: ``task``, ``consistency`` or ``utility``.
            config: Settings of this call.
            demos: Finds the demonstrations of this call, which replace the predictor's own; it may take its time.
            attempt: Which attempt at this call it is: each after the first is a draw of its own.
            usable: Looks at the prediction, and raises a `CallError` where it cannot be used.
            **inputs: Every input field, so that a trace holds complete demonstrations.

        Raises:
            CallError: The call failed, or its reply cannot be used.
            ConfigurationError: No question could be answered before the user changes something.
            Exception: The language model, or what finds demonstrations, has a fault.
        """
        lm = predictor.lm or dspy.settings.lm
        if lm is None:
            raise ConfigurationError("No language model is set: pass lms=... or call dspy.configure(lm=...)")
        own, lm = lm, as_served(lm)
        meter, listener = Meter(dspy.settings.usage_tracker), Listener()
        settings = (config or {}) | (_drawn_again(attempt, lm) if attempt else {})
        arguments = {"config": settings | _rollout(settings, lm), **inputs} | ({} if lm is own else {"lm": lm})
        event = Event(self.ledger, role, reached.get(), self.step_of(predictor))
        recorded = partial(_recorded, event, meter, listener)
        if demos is None and self._hidden is not None:
            hidden, signature = self._hidden, predictor.signature
            learned = learned_demos(predictor)
            left = [demo for demo in learned if not hidden(demo, signature)]
            demos = (lambda: left) if len(left) < len(learned) else None
        try:
            with keeping(lm) as kept:
                prediction = await self._called(predictor, lm, arguments, demos, recorded)
                listener.refuse_truncated()
                _refuse_bare(predictor, prediction)
                if usable is not None:
                    usable(prediction)
        except Exception as error:
            event.failed = True
            known = typed_error(error, [lm])
            if isinstance(known, CallError) and known.unusable:
                # An engine that would reply the same is not asked again: what it cannot answer is known from then on.
                for forget in () if getattr(getattr(lm, "_engine_spec", None), "repeats", False) else kept:
                    forget()
                known.served = not runs_in_process(lm)
                known.reply = listener.only
                if len(listener.replies) > 1:
                    known.spoilt = listener.spoilt(predictor.signature)
            if known is error:
                raise
            raise known from error
        finally:
            # A request that failed without a reply reports no usage, yet it was made.
            event.calls = max(meter.calls, int(event.failed and not listener.history))
            event.prompt_tokens, event.completion_tokens = meter.prompt, meter.completion
            # A provider may give fewer replies than it was asked for.
            meter.add_samples(len(listener.replies) or int((config or {}).get("n") or 1))
            event.samples = meter.samples
            reached.set(frozenset({event.number}))
        return prediction

    async def _called(
        self,
        predictor: dspy.Predict,
        lm: Any,
        arguments: dict[str, Any],
        demos: Callable[[], Sequence[Any]] | None,
        recorded: Callable[[], AbstractContextManager[None]],
    ) -> dspy.Prediction:
        """Call a predictor as soon as the bound allows it: awaited where its language model is, or else in a thread."""
        # What the adapter of ``dspy.Refine`` adds to a prompt would be left out of an awaited one.
        awaited = not self.blocking or (isinstance(lm, ServedLM) and not only_blocks(dspy.settings.adapter))

        def found() -> dict[str, Any]:
            return arguments if demos is None else {**arguments, "demos": list(demos())}

        def called() -> dspy.Prediction:
            full = found()
            with recorded(), only_wanted(full["config"]):
                return predictor(**full)

        async with self.bound.semaphore():
            if not awaited:
                return await self.bound.in_thread(called)
            full = found() if demos is None else await self.bound.in_thread(found)
            with recorded(), only_wanted(full["config"]):
                return await predictor.acall(**full)

    async def search(self, retriever: Retriever, query: str, k: int) -> list[Hit]:
        """Search once.

        Raises:
            CallError: The search failed.
            Exception: The retriever has a fault.
            ConfigurationError: There is nothing to search.
        """
        if retriever is None:
            raise ConfigurationError("the method searches and has no retriever: give it one, such as an open index")
        event = Event(self.ledger, "retrieval", reached.get())

        def called() -> list[Hit]:
            with event:
                found = _search(retriever, query, k)
            event.saved = found.seconds if isinstance(found, Kept) else None
            return found

        try:
            async with self.bound.semaphore():
                return await self.bound.in_thread(called)
        except (AttributeError, TypeError):
            # A fault in the retriever, or a wrong use of its client: no outage is of these types.
            event.failed = True
            raise
        except Exception as error:
            event.failed = True
            known = typed_error(error)
            if known is error:
                raise
            raise known from error
        finally:
            reached.set(frozenset({event.number}))


def _search(retriever: Retriever, query: str, k: int) -> list[Hit]:
    """Search, as a call of a tool where there are callbacks of DSPy's, so that traces have a span for it.

    They get the query, how many passages are wanted, and of each that was found `title`, `passage_id`, `text` and
    `score`; or what was raised.
    """
    if not dspy.settings.callbacks:
        return retriever.search(query, k)
    found: list[list[Hit]] = []

    def searched(query: str, k: int) -> list[dict[str, Any]]:
        hits = retriever.search(query, k)
        found.append(hits)
        return [
            {"title": one.passage.title, "passage_id": one.passage.id, "text": one.passage.text, "score": one.score}
            for one in hits
        ]

    dspy.Tool(searched, name="search", desc="Finds passages.")(query=query, k=k)
    return found[0]


@contextmanager
def _recorded(event: Event, meter: Meter, listener: Listener) -> Iterator[None]:
    """Meanwhile all three hear of a call, and the adapter in use writes no text that could pass for structure."""
    adapter = Guarded(dspy.settings.adapter or dspy.ChatAdapter())
    with event, listened(meter, listener), dspy.context(adapter=adapter):
        yield


def text_of(value: object) -> str:
    """A text output as the program uses it: stripped, and up to the marker of its end, however that is written."""
    text = without_completed(str(value or "")).strip()
    before, marker, _ = _ENDED.sub("\0", text, count=1).partition("\0")
    return before.strip() if marker and before.strip() else text


def _refuse_bare(predictor: dspy.Predict, prediction: dspy.Prediction) -> None:
    """Raise where a reply without any choice left nothing to read."""
    if not any(name in prediction for name in predictor.signature.output_fields):
        raise CallError("AdapterParseError", "the reply holds no output field", unusable=True)


def _drawn_again(attempt: int, lm: Any) -> dict[str, Any]:
    seed = {"seed": attempt} if runs_in_process(lm) else {}
    return {"temperature": _AGAIN_AT, "rollout_id": attempt} | seed


def _rollout(config: dict[str, Any], lm: Any) -> dict[str, Any]:
    """What makes a call one of its language model's rollout: each draws samples of its own, and the same ones again."""
    rollout = rollout_of(lm)
    if rollout is None:
        return {}
    identity = drawn_in(rollout, config.get("rollout_id"))
    found: dict[str, Any] = {"rollout_id": identity} if "rollout_id" in config else {}
    if runs_in_process(lm) and ("seed" in config or "seed" not in lm.kwargs):
        found["seed"] = identity & 0x7FFFFFFF
    return found


def runs_in_process(lm: Any) -> bool:
    """Whether an engine object generates here; such an engine needs a seed to sample again."""
    return not isinstance(getattr(lm, "_engine_spec", "none"), str)
