"""Quiz assessment: does the language model know the answer to a quiz (KEQA, section 3.3, Algorithm 1)."""

import copy
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import chain
from numbers import Integral
from typing import Any, ClassVar, Self

import dspy

from keqa.data.question import Question
from keqa.errors import ConfigurationError
from keqa.metrics.answers import is_abstention, same_answer
from keqa.metrics.refusals import is_marked_guess
from keqa.programs.calls.ask import DRAW, ask, needs_seed, runs_in_process
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.probabilities import NoProbabilitiesError, first_tokens, likelihood, likelihoods_of, model_of
from keqa.programs.calls.session import CallLimiter, NoCopy, current, gather, in_thread, note, within
from keqa.programs.calls.texts import answer_of, says_nothing
from keqa.programs.gate import (
    IF_ANY,
    Draw,
    Draws,
    Gate,
    GateQuestion,
    Verdict,
    VoteGate,
    asks,
    question_of,
    reaches,
    smallest_wave,
)
from keqa.programs.records import fraction_text
from keqa.programs.stage import Stage
from keqa.signatures.keqa import AnswerQuiz, JudgeConsistency

_FAR_FROM_RANDOM = 0.15
_UNDECIDED = Verdict(False)
# "Which city do you mean?" and "Please provide more context."; titles have capitals: "Can You Ever Forgive Me?".
_ASKS_BACK = re.compile(r"(?=[^.!?]*\byou\b)[^.!?]*+\?\W*\Z|Please [a-z]")


@dataclass
class Examined(Draws):
    """A quiz under examination: its number, the gate's verdict, and why no further draw was made."""

    number: int | None = None
    verdict: Verdict = _UNDECIDED
    stopped: str = ""
    # Whether its one draw was written with the quizzes.
    drafted: bool = False
    # Draws, where it is not the examination's own.
    predictor: Any = None
    # What it answers from; from memory where that is nothing.
    passages: Sequence[str] = ()
    # Which answers were compared already, and whether they mean the same.
    same: dict[tuple[str, str], bool] = field(default_factory=dict)
    # Draws that are made already, of which a gate takes some.
    ready: list[Draw] = field(default_factory=list)
    # The tokens read and written for each of these.
    tokens: tuple[int, int] = (0, 0)

    @classmethod
    def begun(cls, asked: Question, tries: int, **fields: Any) -> Self:
        return cls(asked.question, asked.answer_type, tuple(asked.choices), tries, **fields)

    @property
    def known(self) -> bool:
        return self.verdict.known

    def recorded(self, gate: Gate) -> dict[str, Any]:
        threshold = gate.threshold
        return {
            **self.as_record(),
            "complete": self.left == 0,
            "drafted": self.drafted,
            "stopped": self.stopped,
            "consistency": float(self.consistency),
            "consistency_exact": fraction_text(self.consistency),
            "threshold": None if threshold is None else float(threshold),
            "threshold_exact": None if threshold is None else fraction_text(threshold),
            "gate": gate.name,
            "certainty": self.verdict.measure,
            "known": self.known,
        }


def settings_of_draw(
    predictor: dspy.Predict, seed: int, asked: Question, position: int | str, temperature: float
) -> dict[str, Any]:
    """What makes a draw itself: the same program asked the same quiz draws the same samples."""
    key = json.dumps([seed, asked.question, asked.answer_type, list(asked.choices), position])
    identity = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=6).digest(), "big")
    seeded = {"seed": identity & 0x7FFFFFFF} if needs_seed(predictor.lm or dspy.settings.lm) else {}
    return {"temperature": temperature, "rollout_id": identity, **seeded}


async def means_the_same(
    judge: dspy.Predict, asked: Question, first: str, second: str, number: int | None = None
) -> bool:
    """Sim of Algorithm 1: whether two answers are equal after normalisation, or judged to mean the same."""
    if same_answer(first, second, asked.answer_type, asked.choices):
        return True
    compared: dict[str, Any] = {"quiz": asked.question, "first_answer": first, "second_answer": second}
    return bool((await ask(judge, "judge_consistency", number, **compared)).same)


class Examination(Stage):
    """Samples closed-book answers, clusters them by meaning and lets a gate decide.

    The draws come in waves: first the smallest number that can decide for known, more only while the gate is undecided.
    Verdict and answer are those of Algorithm 1 on all N_c draws.
    """

    roles: ClassVar[Mapping[str, str]] = {"same": "consistency"}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"quiz": AnswerQuiz, "same": JudgeConsistency}
    follows = ("tries", "temperature", "top_p", "seed")

    shared: NoCopy[Any] = NoCopy(None)
    # Whether an arbiter sees the draws: it was taught by probabilities, where the LM gives any.
    weighed = False
    _gate: NoCopy[Gate]

    def __init__(
        self,
        tries: int = 5,
        gate: Gate | None = None,
        temperature: float = 1.0,
        top_p: float | None = None,
        seed: int = 0,
        bound: CallLimiter | None = None,
    ) -> None:
        """Set up N_c tries by a gate, KEQA's vote with α = .8 where None; another seed draws other samples."""
        super().__init__(bound)
        self.tries, self.temperature, self.top_p, self.seed = tries, temperature, top_p, seed
        self._gate = NoCopy(VoteGate())
        self.gate = gate

    @property
    def gate(self) -> Gate:
        """The gate that decides; another brings what it asks, on the language model that draws the samples."""
        return self._gate.value

    @gate.setter
    def gate(self, gate: Gate | None) -> None:
        chosen, asked = gate or VoteGate(), self.question
        kind, held = question_of(chosen), None if asked is None else asked.attribute
        if kind is not (None if asked is None else type(asked)):
            if kind is not None and kind.attribute != held and hasattr(self, kind.attribute):
                raise ConfigurationError(f"{kind.__name__}.attribute is {kind.attribute!r}, which an examination has")
            if held is not None:
                delattr(self, held)
            if kind is not None:
                setattr(self, kind.attribute, kind(self.bound))
                lms = {role: getattr(self, name).lm for name, role in self.roles.items()}
                for predictor in getattr(self, kind.attribute).predictors():
                    predictor.lm, predictor.fixed = lms.get(getattr(predictor, "role", "task")), self.quiz.fixed
        self._gate = NoCopy(chosen)

    @property
    def question(self) -> GateQuestion | None:
        """What the gate asks the LM in a call of its own; None where it asks nothing."""
        kind = question_of(self.gate)
        return None if kind is None else getattr(self, kind.attribute)

    @property
    def probabilities(self) -> Any:
        """Whether draws are made with the probabilities of their tokens, or (`IF_ANY`) where the LM gives them."""
        shared = self.shared.value
        wanted = asks(self.gate) if shared is None else shared.probabilities
        if wanted in ("probabilities", True):
            return True
        return IF_ANY if wanted == IF_ANY or (shared is None and self.weighed) else False

    async def run(self, asked: Question, number: int | None = None, predictor: dspy.Predict | None = None) -> Examined:
        """Examine a resolved quiz; another predictor may draw than the examination's own."""
        found = Examined.begun(asked, self.tries, number=number, predictor=predictor)
        question = self.question
        if question is not None and question.before_samples:
            await self._ask_for_gate(found)
        while not isinstance(decided := await self._decided(found), Verdict):
            await self._draw(found, decided)
            if found.reply is None and found.leading is not None and found.leader_is_fixed:
                await self._ask_for_gate(found)
        self._conclude(found, decided, self._why_stopped(found, decided))
        await self._mark(found)
        return found

    async def of_draft(
        self, draft: Draw, asked: Question, number: int | None = None, *, outdated: str = ""
    ) -> Examined:
        """Examine a quiz by the draft that was written with it: without a call, but for what a gate asks.

        An `outdated` one was written with other answers to earlier quizzes, as this says, and is none.
        """
        found = Examined.begun(asked, 1, made=[draft], number=number, drafted=True)
        _mark_abstention(draft, asked.question, asked.choices)
        if outdated or draft.abstained:
            found.stopped = "the draft says that it does not know" if draft.abstained else outdated
            return found
        draft.cluster = 0
        await self._ask_for_gate(found)
        gate = self.gate
        verdict = _by_probability(draft, gate.threshold) if isinstance(gate, VoteGate) else await self._decided(found)
        assert isinstance(verdict, Verdict), "a gate has a verdict where no draw is left"
        self._conclude(found, verdict, "the gate decides by the draft")
        return found

    async def _ask_for_gate(self, found: Examined) -> None:
        if (question := self.question) is not None:
            found.reply = await question.acall(**question.inputs(found), number=found.number)

    @staticmethod
    def _conclude(found: Examined, verdict: Verdict, why: str) -> None:
        found.verdict, found.stopped = verdict, verdict.why or why
        if verdict.note is not None:
            current().degradations.append(verdict.note.model_copy(update={"quiz": found.number}))

    async def every_draw(
        self, asked: Question, *, passages: Sequence[str] = (), reader: dspy.Predict | None = None
    ) -> Draws:
        """All draws of a quiz, which nobody compares or decides on; with passages a reader makes them."""
        found = Examined.begun(asked, self.tries, predictor=reader, passages=passages)
        with self._sharing():
            await self._make(found, self.tries)
        return found

    async def complete(self, found: Examined) -> None:
        """Make the draws that can change the largest cluster, which is then that of Algorithm 1; the verdict stands."""
        before = found.drawn
        while not found.leader_is_fixed:
            await self._draw(found, smallest_wave(found))
        if more := found.drawn - before:
            found.stopped = f"{found.stopped}; {more} more for the largest cluster"
        self._note_lost(found, "took the largest cluster of the draws that were made")

    async def recall(self, asked: Question) -> str:
        """Answer a quiz closed-book, at temperature 0; a `CallError` says that there is no answer."""
        reply = await ask(self.quiz, "answer", for_answer=True, quiz=asked.question, **asked.kind)
        return answer_of(reply.answer, asked.question, asked.choices)

    async def draft(self, asked: Question) -> Draw:
        """The same with the probability of its tokens, where the language model gives that."""
        asking = partial(ask, self.quiz, "answer", for_answer=True, quiz=asked.question, **asked.kind)
        found = await self.likely(asking, self.quiz)
        whole, first = likelihood(first_tokens(found))
        draft = Draw(answer_of(found.answer, asked.question, asked.choices), probability=whole, first_token=first)
        _mark_abstention(draft, asked.question, asked.choices)
        draft.cluster = None if draft.abstained else 0
        return draft

    def spec(self) -> dict[str, Any]:
        """What a verdict depends on besides the settings of the program; see `keqa.programs.fingerprint`."""
        shared, found = self.shared.value, {"examination": type(self).__name__}
        if shared is None:
            return found
        return {**found, "draws": {"probabilities": bool(shared.probabilities), "largest": shared.largest}}

    async def _decided(self, found: Examined) -> Verdict | int:
        """See `_decision`; a gate that waits does so in a thread of the question's."""
        if getattr(self.gate, "waits", False):
            return await in_thread(partial(self._decision, found))
        return self._decision(found)

    def _decision(self, found: Examined) -> Verdict | int:
        """What the gate says, which may be anybody's: a verdict, or how many of the draws that are left it wants."""
        decision: Any = self.gate.decide(found)
        if isinstance(decision, Verdict):
            return decision
        if not isinstance(decision, Integral) or isinstance(decision, bool):
            wrong = f"must return a Verdict or a number of draws from decide, not {decision!r:.80}"
        elif not found.left:
            wrong = f"has no verdict after all {self.tries} draws"
        elif decision < 1:
            wrong = f"has no verdict and wants {decision} draws more: that is 1 or more, with {found.left} draws left"
        else:
            return min(int(decision), found.left)
        raise ConfigurationError(f"the gate '{self.gate.name}' {wrong}")

    def _why_stopped(self, found: Examined, verdict: Verdict) -> str:
        if not found.left:
            return f"all {found.tries} draws were made" if found.tries > 1 else "the one draw was made"
        if not found.drawn:
            return "the gate decides without a draw"
        what = "verdict or answer" if verdict.known else "the verdict"
        left = f"the {found.left} draws" if found.left > 1 else "the draw"
        return f"{left} left could not change {what}"

    async def _mark(self, found: Examined) -> None:
        """Record where draws that failed could have changed the verdict, or the answer of a known quiz."""
        kept = [draw for draw in found.made if draw.error is None]
        if len(kept) == found.drawn:
            return
        first = next((place for place, draw in enumerate(found.made) if draw.error is not None), 0)
        leading = max(found.clusters, key=len, default=[-1])
        decision = await self._decided(replace(found, made=kept))
        settled = isinstance(decision, Verdict) and decision.known is found.known
        if not settled or (found.known and first < leading[0]):
            self._note_lost(found, "took the verdict of the draws that were made")

    @staticmethod
    def _note_lost(found: Examined, action: str) -> None:
        lost = [str(draw.error) for draw in found.made if draw.error is not None]
        if lost:
            message = f"{len(lost)} of {found.drawn} draws failed, with which it could have come out otherwise"
            note("examine", lost[0], message, action, found.number)

    def _sharing(self) -> AbstractContextManager[None]:
        shared = self.shared.value
        return nullcontext() if shared is None or shared.largest else within(caller=shared.predict)

    async def _draw(self, found: Examined, count: int) -> None:
        """Make some draws side by side, then cluster them in their order; shared ones all at once."""
        shared, start = self.shared.value, found.drawn
        with self._sharing():
            await self._make(found, count if shared is None or shared.largest else found.left)
            await self._place(found, start)

    async def _make(self, found: Examined, count: int) -> None:
        shared, start = self.shared.value, found.drawn
        drawn = self._drawn if shared is None or not shared.largest else self._taken
        made = await drawn(found, start, count)
        for draw in made:
            _mark_abstention(draw, found.quiz, found.choices)
        found.made += made

    async def _taken(self, found: Examined, start: int, count: int) -> list[Draw]:
        session, shared = current(), self.shared.value
        if not found.ready:
            # What all draws take is not what these take.
            making = copy.copy(session)
            making.calls, making.degradations = [], []
            with within(caller=shared.predict):
                found.ready = await making.run(self._drawn(found, 0, max(found.tries, shared.largest)))
            session.degradations += making.degradations
            costs, each = [one.cost for one in making.calls], max(1, len(found.ready))
            read, written = (sum(getattr(one, f"{kind}_tokens") for one in costs) for kind in ("prompt", "completion"))
            found.tokens = round(read / each), round(written / each)
        for _ in range(count):
            with session.meter(found.predictor or self.quiz) as meter:
                meter.prompt, meter.completion = found.tokens
        return found.ready[start : start + count]

    async def _drawn(self, found: Examined, start: int, count: int) -> list[Draw]:
        from keqa.lms.served import as_served, supports_n

        lm = self.quiz.lm or dspy.settings.lm
        # DSPy changes a low temperature in requests for several samples.
        several = count > 1 and self.temperature > _FAR_FROM_RANDOM and not runs_in_process(lm)
        together = several and supports_n(as_served(lm))
        drawn = await self._requested(found, f"{start}+{count}", count) if together else []
        # A server may give fewer replies than it was asked for, or one alone.
        missing = range(start + len(drawn), start + count)
        singly = await gather([self._requested(found, place) for place in missing])
        return [*drawn, *chain.from_iterable(singly)]

    async def _requested(self, found: Examined, position: int | str, count: int = 1) -> list[Draw]:
        """Draw with one request: fewer where the server gives fewer, none where each has to be drawn alone."""
        config = settings_of_draw(self.quiz, self.seed, found.asked, position, self.temperature)
        if self.top_p is not None:
            config["top_p"] = self.top_p
        if count > 1:
            config["n"] = count
        try:
            prediction = await self._sampled(found, config)
        except CallError as error:
            if count > 1 and error.unusable:
                for _ in range(error.spoilt):
                    action = f"all {count} samples drawn again, one by one"
                    note("examine", error.cause, error.message, action, found.number)
                return []
            samples = f"{count} samples" if count > 1 else "a sample"
            # Whether something hangs on it is known when the gate has decided.
            action = f"counted as {samples} without a vote"
            note("examine", error.cause, error.message, action, found.number, harmless=True)
            return [Draw(error=error.cause) for _ in range(count)]
        texts = [answer_of(answer, found.quiz, found.choices) for answer in prediction.completions.answer[:count]]
        likelihoods = self._likelihoods(prediction, len(texts))
        return [
            Draw(text, probability=whole, first_token=first)
            for text, (whole, first) in zip(texts, likelihoods, strict=True)
        ]

    async def _sampled(self, found: Examined, config: dict[str, Any]) -> dspy.Prediction:
        """Make a request for samples, and the same again where it fails: each draw keeps its identity."""
        asked: dict[str, Any] = {"quiz": found.quiz, **found.asked.kind}
        if found.passages:
            beside = {"evidence": [], "triples": [], **found.asked.kind, "fitting": [*found.passages]}
            asked = {"question": found.quiz, **beside}
        sampled = partial(ask, found.predictor or self.quiz, "examine", found.number, draws=DRAW, **asked)
        if not self.probabilities:
            return await sampled(config=config)
        return await self.likely(sampled, self.quiz, config, needed=self.probabilities != IF_ANY)

    def _likelihoods(self, prediction: dspy.Prediction, count: int) -> list[tuple[float | None, float | None]]:
        if self.probabilities and self._gives_none != model_of(self.quiz):
            try:
                return likelihoods_of(prediction, count, model_of(self.quiz))
            except NoProbabilitiesError:
                if self.probabilities != IF_ANY:
                    raise
                self._gives_none = model_of(self.quiz)
        return [(None, None)] * count

    async def _place(self, found: Examined, start: int) -> None:
        """Lines 4 to 13 of Algorithm 1 for the draws from a position on.

        Every draw is compared with the clusters in their order until one takes it, so all can be compared with the
        first cluster side by side; the earliest that it leaves over begins the next.
        """
        waiting = [draw for draw in found.made[start:] if draw.answer is not None]
        begun = [found.made[members[0]] for members in found.clusters]
        cluster = 0
        while waiting:
            if cluster == len(begun):
                begun.append(waiting.pop(0))
                begun[cluster].cluster = cluster
            first = str(begun[cluster].text)
            texts = list(dict.fromkeys(str(draw.text) for draw in waiting))
            same = await gather([self._means_the_same(found, text, first) for text in texts])
            taken = {text for text, is_same in zip(texts, same, strict=True) if is_same}
            for draw in waiting:
                draw.cluster = cluster if draw.text in taken else None
            waiting = [draw for draw in waiting if draw.cluster is None]
            cluster += 1

    async def _means_the_same(self, found: Examined, text: str, first: str) -> bool:
        """Whether a draw joins a cluster, asked once; a judge that fails separates."""
        if (text, first) not in found.same:
            try:
                same = await means_the_same(self.same, found.asked, text, first, found.number)
            except CallError as error:
                message = f"{error.message} ({text!r} against {first!r})"
                action = "taken for different answers"
                note("judge_consistency", error.cause, message, action, found.number)
                same = False
            found.same[text, first] = same
        return found.same[text, first]


def _mark_abstention(draw: Draw, quiz: str, choices: Sequence[str]) -> None:
    """An abstention is a refusal, nothing, the quiz once more, a question back, or a guess that is marked as one."""
    text = draw.text
    if text is not None:
        empty = says_nothing(text, brackets=False) or same_answer(text, quiz)
        unsure = not choices and (_ASKS_BACK.match(text) is not None or is_marked_guess(text))
        draw.abstained = is_abstention(text, choices) or empty or unsure


def _by_probability(draft: Draw, threshold: Fraction) -> Verdict:
    """KEQA's vote takes several draws; of one draft its probability is compared, where that is known."""
    if draft.probability is None:
        return Verdict(True, why="the draft is an answer, and no probability says how sure")
    known = reaches(draft.probability, threshold)
    than = "reaches" if known else "is below"
    why = f"the draft's probability {draft.probability:.2f} {than} {fraction_text(threshold)}"
    return Verdict(known, draft.probability, why)
