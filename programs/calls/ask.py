"""Further attempts at a call that failed: the same for every stage of every method, so that none is better mended.

A failure is not a verdict. What failed is tried again, first with the very same request, which leaves no mark where it
succeeds; then what replaces it is sound and marked (`Degradation.touches`), or the quiz fails: ``docs/run-files.md``
has a table. No quiz that needs passages is answered from memory because something failed.

Replies of a server that cannot be used are taken out of the cache again. DSPy puts a reply there before anything reads
it, and one that is empty, cut off or in no format would be given again and again, long after the server is mended. A
model of this process would only give it again (`TransformersEngine.repeats`): its failures stay, and cost nothing.

Rollouts are the same language model drawing again, as DSPy's ``BestOfN``, ``Refine`` and SIMBA ask for: they give a
copy of it another ``rollout_id`` and a temperature. A program gives its samples identities of its own, so the rollout
has to be a part of them, or else every rollout would draw the same samples.
"""

import asyncio
import contextvars
import hashlib
import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

import dspy

from keqa.errors import ConfigurationError
from keqa.lms.loops import drafts_to
from keqa.lms.served import ServedLM, as_served, more_tokens
from keqa.programs.calls.errors import CallError, is_transient, typed_error
from keqa.programs.calls.predictor import learned_demos
from keqa.programs.calls.session import CallMeter, context, current, keeping, note, report
from keqa.programs.calls.texts import (
    COPIED,
    NO_VERDICT,
    Copies,
    Draft,
    Guarded,
    first_line,
    only_line,
    refusing_empty,
    sound,
)
from keqa.programs.prediction import AnswerPart, Searching
from keqa.retrievers.adapters import hits_of
from keqa.retrievers.base import Hit, Retriever, SharedRetriever
from keqa.retrievers.caching import KeptHits
from keqa.retrievers.copies import without_copies
from keqa.retrievers.documents import question_asked
from keqa.retrievers.text import shown
from keqa.signatures.chat_format import only_blocks
from keqa.storage.redaction import without_keys
from keqa.storage.replies import chain

T = TypeVar("T")

ANSWER = 4
"""So often an answer is drawn where the reply holds none: nothing replaces it."""
JUDGEMENT = 1
"""So often is drawn what something sound can replace."""
DRAW = 0
"""A draw is drawn no other way than it was asked for."""
_AGAIN_AT = 0.7
"""The temperature of further attempts: enough to leave a circle, and not so much that the form of replies suffers."""
_NOBODY = SimpleNamespace(predict=None)
_OF_A_ROLLOUT = ("rollout_id", "temperature")


async def ask(
    predictor: dspy.Predict,
    stage: str,
    number: int | None = None,
    *,
    for_answer: bool = False,
    draws: int | None = None,
    numbered: bool = False,
    fitting: list[str] | dict[int, str] | None = None,
    uncopied: str | None = None,
    streamed: str | None = None,
    draft: bool = False,
    usable: Callable[[dspy.Prediction], object] | None = None,
    shorter: Callable[[CallError], Mapping[str, Any] | None] = lambda error: None,
    **arguments: Any,
) -> dspy.Prediction:
    """Call a predictor, and again where that fails and another attempt may fare better; every attempt is recorded.

    Args:
        predictor: Which to call.
        stage: Which stage it is, for degradations.
        number: The quiz's number, for degradations.
        for_answer: Whether it asks for an answer to a question: one that says nothing is refused, and of a reply that
            cannot be used the first line of its answer counts, where that is complete; the prediction is that alone.
        draws: How often to draw where the reply to the request as it is cannot be used.
        numbered: Whether the prompt numbers anything that an answer could point at; passages are numbered.
        fitting: The input `passages` as the language model reads it, best first. Where they exceed its context window,
            the worse half of them is dropped, from here too.
        uncopied: The output field that is refused where it was copied from a demonstration; then none is shown any
            more. Language models that are asked without any lose the form, so one short line without a marker is an
            answer as well.
        streamed: The output field whose words are reported to whoever hears of the question, while they are written.
        draft: Whether what they say is checked afterwards.
        usable: See `predict`.
        shorter: Told that the prompt exceeds the context window; gives the inputs that are shorter now, if any can be.
        **arguments: As for `predict`.

    Raises:
        CallError: No attempt succeeded. The last one is left to the caller to record.
    """
    if fitting is not None:
        arguments["passages"], shorter = copy(fitting), partial(_halved, fitting, number)
    copies = None if uncopied is None else Copies(predictor, arguments, uncopied)
    tried = _Attempts(stage, number, draws if draws is not None else ANSWER if for_answer else JUDGEMENT)
    while True:
        checks = [] if usable is None else [usable]
        if copies is not None:
            arguments["demos"] = copies.demos(tried.draws)
            checks.insert(0, copies.check)
        if for_answer:
            empty = {"numbered": numbered or bool(fitting), "last": tried.draws == ANSWER}
            choices = arguments.get("choices") or ()
            options = ("yes", "no") if arguments.get("answer_type") == "yes/no" else choices
            # Who is asked a second time and names none has none.
            one_of = options if tried.draws == 0 < tried.most else ()
            checks.insert(0, refusing_empty(choices, **empty, one_of=one_of))
        try:
            caller = context().caller or predict
            known: dict[str, Any] = {} if caller is predict else {"nth": len(tried.failed)}
            check = partial(_all, checks) if checks else None
            with _streaming(streamed, draft):
                prediction = await caller(predictor, attempt=tried.draws, usable=check, **known, **arguments)
        except CallError as error:
            if copies is not None:
                copies.hear(error)
            as_before = tried.lengthen(arguments, error)
            changed = shorter(error) if error.overflow and not as_before else None
            arguments |= changed or {}
            if as_before or changed is not None or tried.alike(error):
                continue
            line = _salvaged(error, stage, number, copies) if for_answer else None
            if line is None and tried.drawn(error):
                continue
            tried.record(harmless=True)
            if line is None:
                raise
            return dspy.Prediction(answer=line)
        tried.record(harmless=tried.draws == 0)
        return prediction


@contextmanager
def _streaming(field: str | None, checked: bool) -> Iterator[None]:
    """Within it the words of a field are reported as they come; an answer that may be withheld is not."""
    heard = bool(context().hears) and not current().provisional
    if field is None or not heard or dspy.settings.send_stream is not None:
        yield
        return
    draft, loop, own = Draft(field), asyncio.get_running_loop(), contextvars.copy_context()

    def tell(words: str | None) -> None:
        for at, text in draft.take(words):
            # Who has left ends the question at its next event.
            with suppress(asyncio.CancelledError):
                report(AnswerPart(at, text, checked or context().drafts))

    def listener(words: str | None) -> None:
        # Words come from the threads of language models, and events happen in the question's loop, if that still runs.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, words, context=own)

    with drafts_to(listener):
        yield


@dataclass
class _Attempts:
    """The attempts at a call that failed, which are recorded once it is known whether one succeeded."""

    stage: str
    number: int | None
    most: int
    draws: int = 0
    failed: list[CallError] = field(default_factory=list)
    before: dict[str, Any] | None = None
    longer: dict[str, Any] | None = None

    def lengthen(self, arguments: dict[str, Any], error: CallError) -> bool:
        """Give what was cut off more tokens from now on; whether they are refused, and it is asked for as before."""
        if error.more_tokens and self.longer is None:
            self.before = arguments.get("config")
            self.longer = arguments["config"] = {**(self.before or {}), "max_tokens": error.more_tokens}
            return False
        refused = not error.unusable and not is_transient(error.cause)
        if self.longer is None or arguments["config"] is not self.longer or not refused:
            return False
        arguments["config"] = self.before
        return True

    def alike(self, error: CallError) -> bool:
        """Whether the same request is made again: once after an outage, and once after a server's unusable reply."""
        outage = is_transient(error.cause)
        again = outage or (error.unusable and error.served and self.draws == 0)
        if not again or any(is_transient(one.cause) == outage for one in self.failed):
            return False
        self.failed.append(error)
        return True

    def drawn(self, error: CallError) -> bool:
        if not error.unusable or self.draws >= self.most:
            return False
        self.draws += 1
        self.failed.append(error)
        return True

    def record(self, *, harmless: bool) -> None:
        """Where the last attempt had to be drawn, only what outages took is mended."""
        for error in self.failed:
            for _ in range(max(1, error.spoilt)):
                mended = harmless or is_transient(error.cause)
                note(self.stage, error.cause, error.message, "asked again", self.number, harmless=mended)


def _all(checks: Sequence[Callable[[dspy.Prediction], object]], prediction: dspy.Prediction) -> None:
    for check in checks:
        check(prediction)


def _halved(passages: list[str] | dict[int, str], number: int | None, error: CallError) -> dict[str, Any] | None:
    """The better half of passages that exceed the context window; None where none can be left out."""
    half = len(passages) // 2
    if not half:
        return None
    # The window is the language model's, and no call failed.
    action = f"tried the best {half} of {len(passages)} passages"
    note("answer", error.cause, error.message, action, number, harmless=True)
    if isinstance(passages, list):
        del passages[half:]
    else:
        for place in list(passages)[half:]:
            del passages[place]
    return {"passages": copy(passages)}


def _salvaged(error: CallError, stage: str, number: int | None, copies: Copies | None) -> str | None:
    """The first line of an answer, which is noted; None where there is none, or where no reply was the trouble."""
    if not error.unusable or error.cause in (COPIED, NO_VERDICT) or error.reply is None:
        return None
    reply = sound(error.reply)
    line = first_line(reply, "answer")
    if copies is not None:
        bare = None if line else only_line(reply)
        line = bare if bare is not None and copies.touched_by(bare) else line
        line = None if line is None or copies.found_in(line) else line
    if line is not None:
        note(stage, error.cause, error.message, "took the first line of the answer", number)
    return line


def _without_lm(predictor: dspy.Predict, own: Any, lms: Any) -> ConfigurationError:
    """What is wrong with a predictor that nothing answers: a program with language models gives each role one."""
    if own is not None:
        return ConfigurationError(f"a language model must be made by keqa.build_lm or dspy.LM, and not {shown(own)}")
    if lms is None:
        return ConfigurationError("No language model is set: pass lms=... or call dspy.configure(lm=...)")
    prompt = predictor.signature.__name__
    return ConfigurationError(f"the predictor of {prompt} has no role: name it in the roles of its class")


async def predict(
    predictor: dspy.Predict,
    *,
    config: dict[str, Any] | None = None,
    demos: Callable[[], Sequence[Any]] | None = None,
    attempt: int = 0,
    usable: Callable[[dspy.Prediction], object] | None = None,
    **inputs: Any,
) -> dspy.Prediction:
    """Call a predictor once; what its inputs and demonstrations hold cannot close or open a field of the prompt.

    `config` are settings of this call; `demos` finds demonstrations that replace the predictor's own, and may take its
    time; each `attempt` after the first is a draw of its own; `usable` raises a `CallError` where a prediction cannot
    be used. `inputs` are all fields, so that a trace holds complete demonstrations.
    """
    session = current()
    own = predictor.lm or dspy.settings.lm
    if not isinstance(own, dspy.BaseLM):
        raise _without_lm(predictor, own, session.lms)
    lm, meter = own if runs_in_process(own) else as_served(own), session.meter(predictor)
    arguments = {"config": _settings(config or {}, attempt, lm), **inputs} | ({} if lm is own else {"lm": lm})
    if demos is None and (hides := session.hides) is not None:
        learned = learned_demos(predictor)
        left = [demo for demo in learned if not hides(demo, predictor.signature)]
        demos = (lambda: left) if len(left) < len(learned) else None
    try:
        with keeping(lm) as kept:
            prediction = await _called(predictor, lm, arguments, demos, meter)
            meter.refuse_truncated()
            if not any(name in prediction for name in predictor.signature.output_fields):
                raise CallError("AdapterParseError", "the reply holds no output field", unusable=True)
            if usable is not None:
                usable(prediction)
    except Exception as error:
        meter.failed = True
        known = typed_error(error, [lm])
        if isinstance(known, CallError) and known.unusable:
            # What was cut off, maybe in its thoughts, is not reported as a reply of another form.
            cut = meter.truncated
            known = cut or known
            # An engine that would reply the same is not asked again: what it cannot answer is known from then on.
            for forget in () if getattr(getattr(lm, "_engine_spec", None), "repeats", False) else kept:
                forget()
            known.served = not runs_in_process(lm)
            known.more_tokens = more_tokens(lm) if cut else None
            known.reply = meter.only
            if len(meter.replies) > 1:
                known.spoilt = meter.spoilt(predictor.signature)
        if known is error:
            raise
        # A traceback shows what an error came from, with a key that the server repeats there.
        reasons = "\n".join(map(str, chain(error)))
        raise known from None if without_keys(reasons, [lm]) != reasons else error
    finally:
        # A provider may give fewer replies than it was asked for.
        meter.add_samples(len(meter.replies) or int((config or {}).get("n") or 1))
    return prediction


async def _called(
    predictor: dspy.Predict,
    lm: Any,
    arguments: dict[str, Any],
    demos: Callable[[], Sequence[Any]] | None,
    meter: CallMeter,
) -> dspy.Prediction:
    """Call a predictor as soon as the bound allows it: awaited where its language model is, or else in a thread."""
    session = current()
    # What the adapter of ``dspy.Refine`` adds to a prompt would be left out of an awaited one.
    awaited = not session.blocking or (isinstance(lm, ServedLM) and not only_blocks(dspy.settings.adapter))

    def found() -> dict[str, Any]:
        return arguments if demos is None else {**arguments, "demos": list(demos())}

    def recorded() -> AbstractContextManager[None]:
        """While all is told to the meter, the adapter in use writes no text that could pass for structure."""
        settings, adapter = dspy.settings, Guarded(dspy.settings.adapter or dspy.ChatAdapter())
        if settings.send_stream is None or (settings.stream_listeners and (arguments["config"].get("n") or 1) == 1):
            return meter.heard(adapter=adapter)
        # Without a listener DSPy streams the raw reply of every call; of a program that is dozens at once.
        return meter.heard(adapter=adapter, stream_listeners=[_NOBODY])

    def called() -> dspy.Prediction:
        full = found()
        with recorded():
            return predictor(**full)

    async with session.bound.semaphore():
        if not awaited:
            return await session.bound.in_thread(called)
        full = found() if demos is None else await session.bound.in_thread(found)
        with recorded():
            return await predictor.acall(**full)


def runs_in_process(lm: Any) -> bool:
    """Whether an engine object generates here."""
    return not isinstance(getattr(lm, "_engine_spec", "none"), str)


def needs_seed(lm: Any) -> bool:
    """Whether to sample again takes another seed: in an engine here, and where a server is sent one with each call."""
    return runs_in_process(lm) or (getattr(lm, "kwargs", None) or {}).get("seed") is not None


def rollout_of(lm: Any) -> Any:
    return (getattr(lm, "kwargs", None) or {}).get("rollout_id")


def is_rollout(lm: Any, own: Any) -> bool:
    """Whether a language model with a rollout is another one drawing again: the same model with the same settings."""
    if type(lm) is not type(own) or getattr(lm, "model", None) != getattr(own, "model", None):
        return False
    first, second = (
        {name: value for name, value in one.kwargs.items() if name not in _OF_A_ROLLOUT} for one in (lm, own)
    )
    return first == second


def _settings(config: dict[str, Any], attempt: int, lm: Any) -> dict[str, Any]:
    """The settings of a call: further attempts draw; each rollout draws samples of its own, and the same ones again."""
    found, seeded = dict(config), needs_seed(lm)
    if attempt:
        found |= {"temperature": _AGAIN_AT, "rollout_id": attempt} | ({"seed": attempt} if seeded else {})
    if (rollout := rollout_of(lm)) is not None:
        key = json.dumps([rollout, found.get("rollout_id")], default=str)
        identity = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=6).digest(), "big")
        if "rollout_id" in found:
            found["rollout_id"] = identity
        if seeded and ("seed" in found or "seed" not in lm.kwargs):
            found["seed"] = identity & 0x7FFFFFFF
    return found


async def searched(retriever: Retriever | None, query: str, k: int, number: int | None = None) -> list[Hit]:
    report(Searching(number, query))
    try:
        return await search(retriever, query, k)
    except CallError as error:
        if not is_transient(error.cause):
            raise
        note("retrieve", error.cause, error.message, "searched again", number, harmless=True)
    return await search(retriever, query, k)


async def search(retriever: Retriever | None, query: str, k: int) -> list[Hit]:
    if retriever is None:
        raise ConfigurationError("the method searches and has no retriever: give it one, such as an open index")
    session, meter = current(), CallMeter(None, "retrieval")

    def called() -> list[Hit]:
        with meter, question_asked(context().given):
            found = _search(retriever, query, k)
        meter.saved = found.seconds if isinstance(found, KeptHits) else None
        return found

    try:
        async with session.bound.semaphore():
            return await session.bound.in_thread(called)
    except Exception as error:
        meter.failed = True
        # A fault in the retriever, or a wrong use of its client: no outage is of these types.
        known = error if isinstance(error, AttributeError | TypeError) else typed_error(error)
        if known is error:
            raise
        raise known from error


def _search(retriever: Retriever, query: str, k: int) -> list[Hit]:
    """Search, as a call of a tool where there are callbacks of DSPy's, so that traces have a span for it."""
    if not dspy.settings.callbacks:
        return _found_once(retriever, query, k)
    found: list[list[Hit]] = []

    def searched(query: str, k: int) -> list[dict[str, Any]]:
        hits = _found_once(retriever, query, k)
        found.append(hits)
        return [
            {"title": one.passage.title, "passage_id": one.passage.id, "text": one.passage.text, "score": one.score}
            for one in hits
        ]

    dspy.Tool(searched, name="search", desc="Finds passages.")(query=query, k=k)
    return found[0]


def _found_once(retriever: Retriever, query: str, k: int) -> list[Hit]:
    """What is found, without copies: where there are some, further down is searched as well."""
    hits = _found(retriever, query, k)
    return hits if len(without_copies(hits)) == len(hits) else without_copies(_found(retriever, query, 4 * k))[:k]


def _found(retriever: Retriever, query: str, k: int) -> list[Hit]:
    """What a retriever finds; that of one of a user's own is read as a function's is, and is at most `k` as well."""
    found = retriever.search(query, k)
    return found if isinstance(retriever, SharedRetriever) else hits_of(found, f"{type(retriever).__name__}.search")[:k]


def lm_of_role(role: str, *, own: bool = False) -> Any:
    """The language model of a role that programs need not have; where it need not be its `own`, else the task's."""
    lms = getattr(context().session, "lms", None)
    found = getattr(lms, role, None)
    return found if own else found or getattr(lms, "task", None) or dspy.settings.lm


def counted(role: str, key: Hashable, call: Callable[[], T]) -> T:
    """Make a call that a part of the program makes by itself: once a question by its key, charged to a role."""
    session = context().session
    if session is None:
        return call()
    if (role, key) in session.made:
        found: T = session.made[role, key]
        return found
    meter = CallMeter(dspy.settings.usage_tracker, role)
    try:
        with meter.heard():
            found = call()
    except BaseException:
        meter.failed = True
        raise
    session.made[role, key] = found
    return found
