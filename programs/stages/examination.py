"""Quiz assessment: does the language model know the answer to a quiz (KEQA, section 3.3, Algorithm 1)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import Any, ClassVar

import dspy

from keqa.data.question import AnswerType
from keqa.errors import ConfigurationError
from keqa.metrics.answers import is_abstention, same_answer
from keqa.programs.calls.ask import DRAW, ask, predicted_by, runs_in_process
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.replies import says_nothing, text_of
from keqa.programs.calls.session import CallLimiter, Ledger, NoCopy, current, gather, note, within
from keqa.programs.gates import (
    IF_ANY,
    Gate,
    NamedGate,
    VoteGate,
    Votes,
    asks,
    leader,
    leader_is_fixed,
    question_of,
    smallest_wave,
)
from keqa.programs.predictor import Predictor
from keqa.programs.stages.assessment import Assessment, Draw, draw_identity
from keqa.programs.stages.gate_question import GateQuestion
from keqa.programs.stages.probabilities import LOGPROBS, NoProbabilitiesError, likelihoods_of, tells_no_probabilities
from keqa.programs.stages.stage import Stage
from keqa.signatures import AnswerQuiz, JudgeConsistency

__all__ = ["Assessment", "Draw", "Examination", "draw_identity", "means_the_same"]

_FAR_FROM_RANDOM = 0.15


async def means_the_same(
    judge: dspy.Predict,
    quiz: str,
    first: str,
    second: str,
    answer_type: str = "short",
    choices: Sequence[str] = (),
    number: int | None = None,
) -> bool:
    """Sim of Algorithm 1: whether two answers are equal after normalisation, or judged to mean the same.

    Args:
        judge: Predicts `JudgeConsistency`.
        quiz: What they answer.
        first: An answer.
        second: Another.
        answer_type: What kind of answer the quiz wants.
        choices: The options of a choice.
        number: The quiz's number, for degradations.

    Raises:
        CallError: The judge could not be asked.
    """
    if same_answer(first, second, answer_type, choices):
        return True
    asked: dict[str, Any] = {"quiz": quiz, "first_answer": first, "second_answer": second}
    return bool((await ask(judge, "judge_consistency", number, **asked)).same)


class Examination(Stage):
    """Samples closed-book answers, clusters them by meaning and lets a gate decide.

    The draws come in waves: first the smallest number that can decide for known, more only while the gate is undecided.
    Verdict and answer are those of Algorithm 1 on all N_c draws.

    Attributes:
        shared: The draws that it reads with others (`keqa.programs.shared_draws.SharedDraws`), where it does.
    """

    roles: ClassVar[Mapping[str, str]] = {"quiz": "task", "same": "consistency"}
    follows = ("tries", "temperature", "top_p", "seed")

    shared: NoCopy[Any] = NoCopy(None)
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
        """Set up sampling.

        Args:
            tries: N_c.
            gate: Decides whether a quiz is known; KEQA's vote gate with α = .8 where None.
            temperature: Of the draws.
            top_p: Of the draws, where set.
            seed: Another seed draws other samples.
            bound: How many calls may be in flight.
        """
        super().__init__(bound)
        self.quiz = Predictor(AnswerQuiz)
        self.same = Predictor(JudgeConsistency)
        self.tries, self.temperature, self.top_p, self.seed = tries, temperature, top_p, seed
        # The LM that was found to give no probabilities, where the gate decides without them as well.
        self._gives_none: str | None = None
        self._decide_by(gate or VoteGate())

    @property
    def gate(self) -> Gate:
        """The gate that decides; another brings what it asks, on the language model that draws the samples."""
        return self._gate.value

    @gate.setter
    def gate(self, gate: Gate | None) -> None:
        chosen, asked = gate or VoteGate(), self.question
        if asked is not None and type(asked) is question_of(chosen):
            self._gate = NoCopy(chosen)
            return
        # A gate that asks what cannot be held is refused before anything is changed.
        Examination(gate=chosen, bound=self.bound)
        if asked is not None:
            delattr(self, asked.attribute)
        self._decide_by(chosen)
        lms = {role: getattr(self, name).lm for name, role in self.roles.items()}
        for predictor in () if self.question is None else self.question.predictors():
            predictor.lm, predictor.fixed = lms.get(getattr(predictor, "role", "task")), self.quiz.fixed

    def _decide_by(self, gate: Gate) -> None:
        kind = question_of(gate)
        if kind is not None:
            if hasattr(self, kind.attribute):
                raise ConfigurationError(f"{kind.__name__}.attribute is {kind.attribute!r}, which an examination has")
            setattr(self, kind.attribute, kind(self.bound))
        self._gate = NoCopy(gate)

    @property
    def probabilities(self) -> bool:
        """Whether draws are made with the probabilities of their tokens."""
        shared = self.shared.value
        return asks(self.gate) in ("probabilities", IF_ANY) if shared is None else shared.probabilities

    @property
    def _does_without(self) -> bool:
        """Whether draws are made without probabilities where the language model gives none."""
        wanted, shared = asks(self.gate), self.shared.value
        return wanted == IF_ANY or (wanted != "probabilities" and shared is not None and shared.by_wave)

    @property
    def question(self) -> GateQuestion | None:
        """What the gate asks the LM in a call of its own; None where it asks nothing."""
        kind = question_of(self.gate)
        return None if kind is None else getattr(self, kind.attribute)

    async def run(
        self,
        quiz: str,
        answer_type: AnswerType = "short",
        choices: Sequence[str] = (),
        number: int | None = None,
        place: str = "",
        predictor: dspy.Predict | None = None,
    ) -> Assessment:
        """Examine a quiz.

        Args:
            quiz: Resolved text.
            answer_type: What kind of answer it wants.
            choices: The options of a choice.
            number: The quiz's number, for degradations.
            place: Which quiz of which question it is, for gates that want to know.
            predictor: Draws; the examination's own where None.
        """
        found = Assessment(quiz, number, answer_type, list(choices), self.tries, place=place, predictor=predictor)
        if self.question is not None and self.question.before_samples:
            await self._ask(self.question, found)
        while True:
            wave = self._wave(found.votes)
            await self._draw(found, wave)
            if self.question is not None and found.answer is not None and leader_is_fixed(found.votes):
                await self._ask(self.question, found)
            found.known = self._verdict(found.votes)
            if found.known is not None:
                found.certainty = self._measure(found.votes)
                found.stopped = self._why_stopped(found)
                for one in self.gate.notes(found.votes) if isinstance(self.gate, NamedGate) else ():
                    note(**vars(one), quiz=found.number)
                self._mark(found)
                return found
            if not found.votes.left:
                raise ConfigurationError(f"the gate '{self.gate.name}' has no verdict after all {self.tries} draws")
            if not wave:
                raise ConfigurationError(
                    f"the gate '{self.gate.name}' has no verdict and wants no more draws: where decide returns None, "
                    f"wave must be 1 or more, with {found.votes.left} draws left"
                )

    def _wave(self, votes: Votes) -> int:
        """How many draws the gate wants next, of those that are left."""
        wave: object = self.gate.wave(votes) if votes.left else 0
        if not isinstance(wave, int) or wave < 0:
            raise ConfigurationError(
                f"the gate '{self.gate.name}' must return a number of draws from wave, not {wave!r:.80}"
            )
        return min(wave, votes.left)

    def _verdict(self, votes: Votes) -> bool | None:
        """What the gate decides; numpy's True and False are as good as Python's."""
        verdict: object = self.gate.decide(votes)
        if verdict not in (True, False, None):
            raise ConfigurationError(
                f"the gate '{self.gate.name}' must return True, False or None from decide, not {verdict!r:.80}"
            )
        return None if verdict is None else bool(verdict)

    def _measure(self, votes: Votes) -> float | None:
        """The gate's own measure."""
        measure: object = self.gate.measure(votes)
        if measure is None or (isinstance(measure, Real) and isfinite(measure)):
            return measure  # type: ignore[return-value]
        raise ConfigurationError(
            f"the gate '{self.gate.name}' must return a finite number or None from measure, not {measure!r:.80}"
        )

    async def complete(self, found: Assessment) -> None:
        """Make the draws that can change the largest cluster, which is then that of Algorithm 1; the verdict stands."""
        before = len(found.draws)
        while not leader_is_fixed(found.votes):
            await self._draw(found, smallest_wave(found.votes, leader_is_fixed))
        more = len(found.draws) - before
        if more:
            found.stopped = f"{found.stopped}; {more} more for the largest cluster"
        if lost := found.lost:
            self._note_lost(found, lost, "took the largest cluster of the draws that were made")

    def _why_stopped(self, found: Assessment) -> str:
        """Why no further draw is made, once the gate has decided."""
        votes = found.votes
        own = self.gate.why_stopped(votes) if isinstance(self.gate, NamedGate) else None
        if own is not None:
            return own
        if not votes.left:
            return f"all {votes.tries} draws were made" if votes.tries > 1 else "the one draw was made"
        if not votes.drawn:
            return "the gate decides without a draw"
        what = "verdict or answer" if found.known else "the verdict"
        left = f"the {votes.left} draws" if votes.left > 1 else "the draw"
        return f"{left} left could not change {what}"

    def _mark(self, found: Assessment) -> None:
        """Record where draws that failed could have changed the verdict, or the answer of a known quiz.

        They could not where the gate decides the same with these draws still to be made; and a cluster is that of
        Algorithm 1 where none before its first member is missing.
        """
        lost = found.lost
        if not lost:
            return
        position = leader([len(members) for members in found.clusters])
        late = position is None or lost[0] > found.clusters[position][0]
        try:
            settled = self._verdict(found.votes_without(lost)) is found.known
        except ConfigurationError:
            # A gate that needs all draws decides nothing without these.
            settled = False
        if not settled or (found.known and not late):
            self._note_lost(found, lost, "took the verdict of the draws that were made")

    @staticmethod
    def _note_lost(found: Assessment, lost: Sequence[int], action: str) -> None:
        cause = str(found.draws[lost[0]].error)
        message = f"{len(lost)} of {len(found.draws)} draws failed, with which it could have come out otherwise"
        note("examine", cause, message, action, found.number)

    def spec(self) -> dict[str, Any]:
        """What a verdict depends on besides the settings of the program; see `keqa.programs.fingerprint`."""
        shared = self.shared.value
        drawn = {} if shared is None else {"probabilities": shared.probabilities, "largest": shared.largest}
        return {"examination": type(self).__name__, **({"draws": drawn} if drawn else {})}

    async def recall(self, quiz: str, answer_type: AnswerType = "short", choices: Sequence[str] = ()) -> str:
        """Answer a quiz closed-book, at temperature 0; where the reply holds no answer, drawn again a few times.

        Raises:
            CallError: There is no answer.
        """
        asked: dict[str, Any] = {"quiz": quiz, "answer_type": answer_type, "choices": list(choices)}
        return text_of((await ask(self.quiz, "answer", for_answer=True, **asked)).answer)

    @staticmethod
    async def _ask(question: GateQuestion, found: Assessment) -> None:
        """Ask what the gate wants to know, once a quiz."""
        if found.reply is None:
            inputs = question.inputs(found.votes)
            found.reply = await question.acall(**inputs, number=found.number)

    async def _draw(self, found: Assessment, count: int) -> None:
        """Make some draws side by side, then cluster them in their order; shared ones all at once."""
        if not count:
            return
        start, shared = len(found.draws), self.shared.value
        if shared is None:
            found.draws += await self._drawn(found, start, count)
        elif shared.by_wave:
            found.draws += await self._taken(found, start, count)
        else:
            with within(caller=shared.predict):
                found.draws += (await self._drawn(found, start, max(found.tries, shared.largest)))[: found.tries]
                await self._place(found, start)
            return
        await self._place(found, start)

    async def _taken(self, found: Assessment, start: int, count: int) -> list[Draw]:
        """Some of the draws that are shared, charged by themselves."""
        session = current()
        if not found.ready:
            # In a ledger of its own: what all draws take is not what these take.
            making = copy.copy(session)
            making.ledger, making.degradations = Ledger(), []
            shared = self.shared.value
            with within(caller=shared.predict):
                found.ready = await making.run(self._drawn(found, 0, max(found.tries, shared.largest)))
            session.degradations += making.degradations
        for _ in range(count):
            with predicted_by(found.predictor or self.quiz):
                pass
        return found.ready[start : start + count]

    async def _drawn(self, found: Assessment, start: int, count: int) -> list[Draw]:
        drawn = await self._draw_at_once(found, start, count) if count > 1 and self._takes_many() else []
        # A server may give fewer replies than it was asked for, or one alone.
        missing = range(start + len(drawn), start + count)
        return drawn + await gather([self._draw_one(found, place) for place in missing])

    def _takes_many(self) -> bool:
        """Whether one request can carry several samples. DSPy changes a low temperature in such requests."""
        from keqa.lms.served import as_served, supports_n

        return self.temperature > _FAR_FROM_RANDOM and supports_n(as_served(self.quiz.lm or dspy.settings.lm))

    async def _draw_at_once(self, found: Assessment, start: int, count: int) -> list[Draw]:
        """Draw with one request; none where a reply could not be used, and each has to be drawn by itself.

        There are fewer draws than were asked for where the server gives fewer.
        """
        config = self._config(found, f"{start}+{count}") | {"n": count}
        try:
            prediction = await self._sampled(found, config)
        except CallError as error:
            if error.unusable:
                for _ in range(error.spoilt):
                    action = f"all {count} samples drawn again, one by one"
                    note("examine", error.cause, error.message, action, found.number)
                return []
            self._note_failed(found, error, f"counted as {count} samples without a vote")
            return [Draw(error=error.cause) for _ in range(count)]
        texts = [text_of(answer) for answer in prediction.completions.answer[:count]]
        first_tokens = self._keep_probabilities(found, prediction, start, len(texts))
        return [Draw(text, first_token=first) for text, first in zip(texts, first_tokens, strict=True)]

    async def _draw_one(self, found: Assessment, position: int) -> Draw:
        config = self._config(found, position)
        if runs_in_process(self.quiz.lm or dspy.settings.lm):
            config["seed"] = config["rollout_id"] & 0x7FFFFFFF
        try:
            prediction = await self._sampled(found, config)
        except CallError as error:
            self._note_failed(found, error, "counted as a sample without a vote")
            return Draw(error=error.cause)
        (first,) = self._keep_probabilities(found, prediction, position, 1)
        return Draw(text_of(prediction.answer), first_token=first)

    async def _sampled(self, found: Assessment, config: dict[str, Any]) -> dspy.Prediction:
        """Make a request for samples, and the same again where it fails: each draw keeps its identity."""

        async def sampled(config: dict[str, Any]) -> dspy.Prediction:
            asked: dict[str, Any] = {"quiz": found.quiz, "answer_type": found.answer_type, "choices": found.choices}
            drawing = found.predictor or self.quiz
            return await ask(drawing, "examine", found.number, draws=DRAW, config=config, **asked)

        try:
            return await sampled(config)
        except ConfigurationError as error:
            if not (self._does_without and tells_no_probabilities(error)):
                raise
            self._gives_none = self._model_asked()
            return await sampled({name: value for name, value in config.items() if name not in LOGPROBS})

    def _keep_probabilities(
        self, found: Assessment, prediction: dspy.Prediction, start: int, count: int
    ) -> list[float | None]:
        """Keep the probabilities of draws that come with them, and give those of their first tokens."""
        if not self._asks_probabilities():
            return [None] * count
        try:
            likelihoods = likelihoods_of(prediction, count, self._model_asked())
        except NoProbabilitiesError:
            if not self._does_without:
                raise
            self._gives_none = self._model_asked()
            return [None] * count
        found.probabilities.update(enumerate((whole for whole, _ in likelihoods), start))
        return [first for _, first in likelihoods]

    def _model_asked(self) -> str:
        return str(getattr(self.quiz.lm or dspy.settings.lm, "model", "the language model"))

    def _asks_probabilities(self) -> bool:
        return self.probabilities and self._gives_none != self._model_asked()

    def _config(self, found: Assessment, position: int | str) -> dict[str, Any]:
        identity = draw_identity(self.seed, found.quiz, found.answer_type, found.choices, position)
        config: dict[str, Any] = {"temperature": self.temperature, "rollout_id": identity}
        config |= LOGPROBS if self._asks_probabilities() else {}
        return config if self.top_p is None else config | {"top_p": self.top_p}

    @staticmethod
    def _note_failed(found: Assessment, error: CallError, action: str) -> None:
        # Whether something hangs on it is known when the gate has decided.
        note("examine", error.cause, error.message, action, found.number, harmless=True)

    async def _place(self, found: Assessment, start: int) -> None:
        """Lines 4 to 13 of Algorithm 1 for the draws from a position on.

        Every draw is compared with the clusters in their order until one takes it, so all can be compared with the
        first cluster side by side; the earliest that it leaves over begins the next. These are the comparisons of the
        algorithm and no others, in as many turns as there are clusters.
        """
        waiting = []
        for position in range(start, len(found.draws)):
            draw = found.draws[position]
            if draw.text is None:
                continue
            draw.abstained = is_abstention(draw.text, found.choices) or says_nothing(draw.text, brackets=False)
            if not draw.abstained:
                waiting.append(position)
        cluster = 0
        while waiting:
            if cluster == len(found.clusters):
                found.clusters.append([])
                self._join(found, waiting.pop(0), cluster)
            first = found.first(cluster)
            texts = list(dict.fromkeys(str(found.draws[position].text) for position in waiting))
            same = await gather([self._means_the_same(found, text, first) for text in texts])
            taken = {text for text, is_same in zip(texts, same, strict=True) if is_same}
            for position in waiting:
                if found.draws[position].text in taken:
                    self._join(found, position, cluster)
            waiting = [position for position in waiting if found.draws[position].text not in taken]
            cluster += 1

    @staticmethod
    def _join(found: Assessment, position: int, cluster: int) -> None:
        found.clusters[cluster].append(position)
        found.draws[position].cluster = cluster

    async def _means_the_same(self, found: Assessment, text: str, first: str) -> bool:
        """Whether a draw joins a cluster, asked once; a judge that fails separates."""
        if (text, first) not in found.judged:
            kind = (found.answer_type, found.choices, found.number)
            try:
                same = await means_the_same(self.same, found.quiz, text, first, *kind)
            except CallError as error:
                message = f"{error.message} ({text!r} against {first!r})"
                action = "taken for different answers"
                note("judge_consistency", error.cause, message, action, found.number)
                same = False
            found.judged[text, first] = same
        return found.judged[text, first]
