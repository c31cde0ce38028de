"""Draws that several gates share: all N_c tries at a resolved quiz are made once, and each gate decides on them.

A comparison of gates on draws of their own compares luck as well. Here gates that agree on the earlier quizzes of a
question ask the same later ones, and so read the same draws. Every gate is charged what its verdict takes, all N_c
draws or none: what another gate has asked before counts as answered by a cache.

Settings of one program share draws likewise. Those of a smaller N_c are the first of the largest N_c, and so are their
clusters, since Algorithm 1 compares each draw with earlier ones only.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from typing import Any, Protocol

import dspy
from pydantic import TypeAdapter, ValidationError

from keqa.errors import ConfigurationError
from keqa.programs.fingerprint import lm_spec
from keqa.programs.gates import Gate, asks
from keqa.programs.keqa import KEQA
from keqa.programs.prompts import whole_prompt
from keqa.programs.records import Degradation
from keqa.programs.runtime.concurrency import NoCopy
from keqa.programs.runtime.cost import Event
from keqa.programs.runtime.listening import Meter
from keqa.programs.runtime.rollouts import rollout_of
from keqa.programs.runtime.session import Session
from keqa.programs.stages.examination import Assessment, Draw, Examination
from keqa.storage.redaction import without_secrets


class DrawStore(Protocol):
    """Keeps draws beyond a process, such as `keqa.storage.journal.Journal`."""

    def get(self, key: str) -> dict[str, Any] | None:
        """What was put under a key."""

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Keep a JSON value under a key."""


@dataclass(frozen=True)
class _Kept:
    """All draws of one resolved quiz, and what they took."""

    draws: list[dict[str, Any]]
    clusters: list[list[int]]
    probabilities: list[float | None]
    requests: dict[str, int]
    notes: list[dict[str, Any]]
    tokens: dict[str, list[int]] = field(default_factory=dict)
    samples: dict[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether a draw, or a judgement of two, is not what it would have been without a failure."""
        lost = any(draw.get("error") is not None for draw in self.draws)
        return lost or any(Degradation(**note).touches for note in self.notes)

    def give(self, found: Assessment) -> None:
        """Write the draws into an assessment, as many as it has tries."""
        found.draws = [Draw(**draw) for draw in self.draws[: found.tries]]
        clusters = ([place for place in members if place < found.tries] for members in self.clusters)
        found.clusters = [members for members in clusters if members]
        found.probabilities = dict(enumerate(self.probabilities[: found.tries]))

    def charge(self, session: Session, number: int | None, steps: Mapping[str, str]) -> None:
        """Count the requests as answered by a cache, with all that they took, and report what went wrong in them.

        Args:
            session: The calls of the question.
            number: The quiz's number.
            steps: By role, the predictor that they were for.
        """
        for role, count in self.requests.items():
            for request in range(count):
                with Event(session.ledger, role, frozenset(), steps.get(role, "")) as event:
                    if request == 0:
                        event.prompt_tokens, event.completion_tokens = self.tokens.get(role, (0, 0))
                        event.samples = self.samples.get(role, count) - (count - 1)
        session.degradations += [Degradation(**{**note, "quiz": number}) for note in self.notes]


def _read(value: Any) -> _Kept | None:
    """What a store holds; None where it is damaged, so that the draws are made again."""
    try:
        kept = TypeAdapter(_Kept).validate_python(value)
        TypeAdapter(list[Draw]).validate_python(kept.draws)
        TypeAdapter(list[Degradation]).validate_python(kept.notes)
    except ValidationError:
        return None
    places = range(len(kept.draws))
    members = {place for cluster in kept.clusters for place in cluster}
    clusters = {draw.get("cluster") for draw in kept.draws} - {None}
    known = all(draw.keys() <= Draw.__dataclass_fields__.keys() for draw in kept.draws)
    sound = known and members <= set(places) and clusters <= set(range(len(kept.clusters))) and all(kept.clusters)
    return kept if sound and all(len(counts) == 2 for counts in kept.tokens.values()) else None


class SharedDraws:
    """Draws by resolved quiz, for any number of programs and threads on the same language models.

    Attributes:
        probabilities: Whether draws are made with the probabilities of their tokens; `ProbabilityGate` needs them.
        largest: So many draws are made at least, and a smaller N_c reads the first of them. With 0 each N_c has draws
            of its own.
    """

    def __init__(self, *, probabilities: bool = False, store: DrawStore | None = None, largest: int = 0) -> None:
        """Start with what a store holds.

        Args:
            probabilities: See above. The LM has to give them.
            store: Keeps draws beyond this process. A set in which a call failed is kept for this process only, so that
                all gates read the same draws and the next process makes them again.
            largest: See above. Where fewer draws are read, the requests for all of them are charged.
        """
        self.probabilities, self.largest = probabilities, largest
        self._store = store
        self._made: dict[str, _Kept] = {}
        self._making: dict[str, list[Future[None]]] = {}
        self._lock = threading.Lock()

    def sharing(self, program: KEQA, gate: Gate | None = None) -> KEQA:
        """A copy of a program that reads its tries from here.

        Args:
            program: It stays as it is.
            gate: Instead of the program's own.

        Raises:
            ConfigurationError: The gate wants probabilities, which are not drawn.
        """
        twin: KEQA = program.deepcopy()
        if gate is not None:
            twin.change(gate=gate)
        twin.examination = SharedExamination(twin.examination, twin.gate, self)
        return twin

    def forget_failed(self) -> None:
        """Have the sets made again in which a call failed; all others stay as they are."""
        with self._lock:
            self._made = {key: kept for key, kept in self._made.items() if not kept.failed}

    async def fill(self, session: Session, found: Assessment, examination: SharedExamination) -> None:
        """Write all draws of a quiz into an assessment; they are made where that was not done before."""
        key = examination.key(found)
        while True:
            waiting: Future[None] | None = None
            with self._lock:
                kept = self._made.get(key) or self._stored(key)
                if kept is None and key in self._making:
                    waiting = Future()
                    self._making[key].append(waiting)
                elif kept is None:
                    self._making[key] = []
            if kept is not None:
                kept.give(found)
                kept.charge(session, found.number, examination.steps(session))
                return
            if waiting is None:
                await self._make(session, found, examination, key)
                return
            # Another program, maybe in another thread's loop, is at it. If it fails, this one tries for itself.
            await asyncio.wrap_future(waiting)

    def _stored(self, key: str) -> _Kept | None:
        value = None if self._store is None else self._store.get(f"draws:{key}")
        kept = None if value is None else _read(value)
        # Earlier versions stored sets with replies that could not be used.
        return None if kept is None or kept.failed else kept

    async def _make(self, session: Session, found: Assessment, examination: SharedExamination, key: str) -> None:
        counted = _Counted(session)
        tries = max(found.tries, self.largest)
        kind = found.answer_type, found.choices
        whole = Assessment(found.quiz, found.number, *kind, tries, predictor=found.predictor)
        try:
            await examination.draw_all(counted, whole)
            drawn = range(tries if whole.probabilities else 0)
            kept = _Kept(
                draws=[asdict(draw) for draw in whole.draws],
                clusters=[list(members) for members in whole.clusters],
                probabilities=[whole.probabilities.get(place) for place in drawn],
                requests=dict(counted.requests),
                tokens=counted.tokens,
                samples=dict(counted.samples),
                notes=[note.model_dump() for note in counted.degradations],
            )
            if self._store is None or kept.failed:
                self._made[key] = kept
            else:
                self._store.put(f"draws:{key}", asdict(replace(kept, notes=_clean(kept.notes, examination))))
            kept.give(found)
        finally:
            session.degradations += counted.degradations
            with self._lock:
                others = self._making.pop(key)
            for other in others:
                with suppress(InvalidStateError):
                    other.set_result(None)


class SharedExamination(Examination):
    """An examination that reads its tries from shared draws, all N_c as soon as its gate wants one."""

    def __init__(self, like: Examination, gate: Gate, draws: SharedDraws) -> None:
        """Set up.

        Args:
            like: An examination whose settings and predictors are taken.
            gate: The gate that decides.
            draws: Where the tries are read from.

        Raises:
            ConfigurationError: The gate wants probabilities, which are not drawn.
        """
        super().__init__(like.tries, gate, like.temperature, like.top_p, like.seed, like.bound)
        if asks(gate) == "probabilities" and not draws.probabilities:
            raise ConfigurationError(f"the gate '{gate.name}' needs SharedDraws(probabilities=True)")
        self.quiz, self.same, self.probabilities = like.quiz, like.same, draws.probabilities
        own = self.question
        if own is not None and type(own) is type(like.question):
            setattr(self, own.attribute, like.question)
        elif own is not None:
            lms = {role: getattr(like, name).lm for name, role in like.roles.items()}
            for name, role in own.roles.items():
                asked = getattr(own, name)
                asked.lm, asked.fixed = lms.get(role, like.quiz.lm), like.quiz.fixed
        self._draws = NoCopy(draws)

    def _decide_by(self, gate: Gate) -> None:
        super()._decide_by(gate)
        if "_draws" in vars(self):
            self.probabilities = self._draws.value.probabilities

    @property
    def largest(self) -> int:
        """So many draws are made at least; see `SharedDraws`."""
        return self._draws.value.largest

    def spec(self) -> dict[str, Any]:
        """What a verdict depends on: which draws it reads as well."""
        return {**super().spec(), "draws": {"probabilities": self.probabilities, "largest": self.largest}}

    def steps(self, session: Session) -> dict[str, str]:
        """By role, the name of the predictor that drawing and clustering ask."""
        return {role: session.step_of(getattr(self, name)) for name, role in self.roles.items()}

    async def draw_all(self, session: Session, found: Assessment) -> None:
        """Make all draws and cluster them."""
        await super()._draw(session, found, found.tries)

    async def _draw(self, session: Session, found: Assessment, count: int) -> None:
        if count:
            await self._draws.value.fill(session, found, self)

    def key(self, found: Assessment) -> str:
        """What the draws of a quiz depend on; no address and no secret is in it."""
        asked = [found.quiz, found.answer_type, found.choices, max(found.tries, self.largest)]
        drawn = [self.temperature, self.top_p, self.seed, self.probabilities]
        written = json.dumps(
            [asked, drawn, _prompt(found.predictor or self.quiz), _prompt(self.same)], sort_keys=True, default=str
        )
        return blake2b(written.encode(), digest_size=16).hexdigest()


class _Counted(Session):
    """Another session's calls, counted by role, with what goes wrong in them apart from the rest."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.bound, blocking=session.blocking)
        self.ledger = session.ledger
        self.requests: Counter[str] = Counter()
        self.samples: Counter[str] = Counter()
        self.tokens: dict[str, list[int]] = {}
        self._session = session

    async def predict(self, predictor: dspy.Predict, role: str, **arguments: Any) -> dspy.Prediction:
        self.requests[role] += 1
        meter, sums = Meter(dspy.settings.usage_tracker), self.tokens.setdefault(role, [0, 0])
        try:
            with dspy.context(usage_tracker=meter):
                return await self._session.predict(predictor, role, **arguments)
        finally:
            sums[0] += meter.prompt
            sums[1] += meter.completion
            self.samples[role] += meter.samples


def _clean(notes: list[dict[str, Any]], examination: Examination) -> list[dict[str, Any]]:
    """Notes as they may be stored: a server's error may have brought an address or a key into a message."""
    lms = [predictor.lm or dspy.settings.lm for predictor in examination.predictors()]
    return [{**note, "message": without_secrets(note["message"], lms)} for note in notes]


def _prompt(predictor: dspy.Predict) -> Mapping[str, Any]:
    """What a prompt is made of, and who reads it."""
    lm = predictor.lm or dspy.settings.lm
    rollout = rollout_of(lm)
    drawn = {} if rollout is None else {"rollout": rollout}
    return {"lm": lm_spec(lm), **drawn, **whole_prompt(predictor)}
