"""Knowledge picking: which retrieved passages help to answer a quiz (KEQA, section 3.4, utility evaluation)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Any, ClassVar

from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError, typed_error
from keqa.programs.calls.session import CallLimiter, current, gather, in_thread, note
from keqa.programs.predictor import Predictor
from keqa.programs.records import PassageVerdict, Verdict
from keqa.programs.stages.listwise import Listwise
from keqa.programs.stages.stage import Stage
from keqa.retrievers.base import Hit, Passage
from keqa.signatures import JudgeUtility

Reference = Callable[[str, str], Sequence[Any]]
"""The utility reference: from a quiz and a passage as the judge reads it, to demonstrations for judging them."""

_WHY = {
    "helpful": "judged helpful",
    "not helpful": "judged not helpful",
    "failed": "could not be judged",
    "unjudged": "not judged, since more reliable passages help",
}


def _verdict(hit: Hit, verdict: Verdict, kept: bool, why: str) -> PassageVerdict:
    passage = hit.passage
    return PassageVerdict(
        passage_id=passage.id,
        title=passage.title,
        text=passage.text,
        score=hit.score,
        verdict=verdict,
        kept=kept,
        why=why,
        **asdict(passage.place),
    )


def unjudged(hits: Sequence[Hit], why: str = "picking is off") -> list[PassageVerdict]:
    """Verdicts that keep every passage."""
    return [_verdict(hit, "unjudged", True, why) for hit in hits]


def with_kept(verdicts: Sequence[PassageVerdict], position: int, why: str) -> list[PassageVerdict]:
    """The same verdicts with one more passage kept."""
    kept = list(verdicts)
    kept[position] = kept[position].model_copy(update={"kept": True, "why": why})
    return kept


class Picking(Stage):
    """Judges passages with demonstrations from the utility reference: each by itself, side by side, or all in one call.

    Attributes:
        reference: Finds the demonstrations for a quiz and a passage, per call (Algorithm 2, line 11). They replace
            those of the predictor; where it is None or finds none, the predictor's own are used. A reference that is a
            DSPy ``Parameter`` is saved and loaded with the program. One with a method ``prepare(quiz, passages)`` is
            given first what it will be asked, so that it can embed all in one batch; one with a method
            ``source_of(passage)`` says how reliable the source of a passage is, and one with ``age_of(date)`` how
            reliable passages as old as that are.
        together: Judges all passages in one call; those that its reply says nothing of are judged by themselves. None
            where each is.
        prefer_reliable: Whether a passage that was judged helpful is left out where its source is unreliable by the
            reference's labels, and one of another source was judged helpful as well. Such passages are judged last,
            and only where no other helped.
    """

    roles: ClassVar[Mapping[str, str]] = {"judge": "utility"}
    follows = ("listwise", "prefer_reliable")

    def __init__(
        self, reference: Reference | None = None, bound: CallLimiter | None = None, listwise: bool = False
    ) -> None:
        """Set up.

        Args:
            reference: See above.
            bound: How many calls may be in flight.
            listwise: Whether all are judged in one call.
        """
        super().__init__(bound)
        self.judge = Predictor(JudgeUtility)
        self.together: Listwise | None = Listwise(bound) if listwise else None
        self.reference = reference
        self.prefer_reliable = False

    async def run(
        self,
        quiz: str,
        hits: Sequence[Hit],
        number: int | None = None,
        shown: Callable[[Passage], str] = attrgetter("rendered"),
    ) -> list[PassageVerdict]:
        """Judge the passages found for a quiz.

        Args:
            quiz: Resolved text.
            hits: Passages, best first.
            number: The quiz's number, for degradations.
            shown: A passage as the judge reads it; the reference knows them as rendered.

        Returns:
            A verdict for each, in their order. Where no passage was judged helpful and some could not be judged, the
            best of the latter is kept; where all were judged not helpful, none is.
        """
        await self._prepare(quiz, hits, number)
        found = await self._judged(quiz, hits, number, shown)
        judged = zip(hits, found, strict=True)
        verdicts = [_verdict(hit, verdict, verdict == "helpful", _WHY[verdict]) for hit, verdict in judged]
        verdicts = self._by_source(hits, verdicts)
        if "helpful" not in found and "failed" in found:
            best = found.index("failed")
            message = f"no passage was judged helpful, {found.count('failed')} could not be judged"
            note("judge_utility", "NoVerdict", message, "kept the best of those not judged", number)
            return with_kept(verdicts, best, "could not be judged; the best of these, as none was judged helpful")
        return verdicts

    @property
    def listwise(self) -> bool:
        """Whether all passages are judged in one call."""
        return self.together is not None

    @listwise.setter
    def listwise(self, wanted: bool) -> None:
        self.together = self.listwise_judge() if wanted else None

    def listwise_judge(self) -> Listwise:
        """What judges all in one call: its own, or a new one with the language model of the single judge."""
        if self.together is not None:
            return self.together
        made = Listwise(self.bound)
        made.judge.lm, made.judge.fixed = self.judge.lm, self.judge.fixed
        return made

    async def _judged(
        self, quiz: str, hits: Sequence[Hit], number: int | None, shown: Callable[[Passage], str]
    ) -> list[Verdict]:
        """A verdict for each passage, in one call where that is wanted and there are several."""
        found: list[Verdict | None] = [None] * len(hits)
        if self.together is not None and len(hits) > 1:
            texts = [hit.passage.rendered for hit in hits]
            reference = self.reference
            demos = None
            if reference is not None:
                demos = lambda: [demo for text in texts for demo in reference(quiz, text) or ()]  # noqa: E731
            read = [shown(hit.passage) for hit in hits]
            found = await self.together.acall(quiz, read, number, demos=demos)
        places = [place for place, verdict in enumerate(found) if verdict is None]
        for some in self._in_turn(hits, places):
            if self._has_reliable(hits, found) and all(self._is_doubted(hits[place]) for place in some):
                # They would be left out whatever the judge said of them.
                break
            asked = [self._judge(quiz, hits[place], number, shown) for place in some]
            judged = await gather(asked)
            for place, verdict in zip(some, judged, strict=True):
                found[place] = verdict
        return ["unjudged" if verdict is None else verdict for verdict in found]

    def _has_reliable(self, hits: Sequence[Hit], found: Sequence[Verdict | None]) -> bool:
        """Whether a passage that makes those of unreliable sources needless was judged helpful."""
        pairs = zip(hits, found, strict=True)
        helpful = (hit for hit, verdict in pairs if verdict == "helpful")
        return self.prefer_reliable and any(not self._is_doubted(hit) for hit in helpful)

    def _in_turn(self, hits: Sequence[Hit], places: list[int]) -> list[list[int]]:
        """The places of passages to judge at once; where sources matter, those of unreliable ones come last."""
        if not self.prefer_reliable:
            return [places]
        last = [place for place in places if self._is_doubted(hits[place])]
        return [some for some in ([place for place in places if place not in last], last) if some]

    def _by_source(self, hits: Sequence[Hit], verdicts: list[PassageVerdict]) -> list[PassageVerdict]:
        """The verdicts with what is known of the sources, and without unreliable ones where others are preferred."""
        known = [self._known_of(hit) for hit in hits]
        doubted = [self._is_doubted(hit) for hit in hits]
        pairs = zip(verdicts, doubted, strict=True)
        others = self.prefer_reliable and any(verdict.kept and not doubt for verdict, doubt in pairs)

        def noted(verdict: PassageVerdict, records: list[Any], doubt: bool) -> PassageVerdict:
            if not records:
                return verdict
            left = others and doubt and verdict.kept
            said = [verdict.why, *map(str, records)]
            why = f"{'; '.join(said)}{', and others are preferred' if left else ''}"
            return verdict.model_copy(update={"why": why, "kept": verdict.kept and not left})

        return [noted(*one) for one in zip(verdicts, known, doubted, strict=True)]

    def _is_doubted(self, hit: Hit) -> bool:
        """Whether a passage is of a source or an age that seldom helped."""
        return any(one.unreliable for one in self._known_of(hit))

    def _known_of(self, hit: Hit) -> list[Any]:
        """What the reference knows of a passage's source and of its age."""
        source_of, age_of = (getattr(self.reference, name, None) for name in ("source_of", "age_of"))
        found = [
            None if source_of is None else source_of(hit.passage.rendered),
            None if age_of is None else age_of(hit.passage.place.date),
        ]
        return [one for one in found if one is not None]

    async def _prepare(self, quiz: str, hits: Sequence[Hit], number: int | None) -> None:
        """Let the reference look at all passages together before it is asked about each."""
        prepare = getattr(self.reference, "prepare", None)
        if prepare is None or not hits:
            return
        texts = [hit.passage.rendered for hit in hits]
        try:
            async with current().bound.semaphore():
                await in_thread(lambda: prepare(quiz, texts))
        except Exception as error:
            known = typed_error(error)
            if not isinstance(known, CallError):
                if known is error:
                    raise
                raise known from error
            # What fails for a passage as well is reported of the passage.
            action = "looked for the demonstrations of each passage by itself"
            note("judge_utility", known.cause, known.message, action, number, harmless=True)

    async def _judge(self, quiz: str, hit: Hit, number: int | None, shown: Callable[[Passage], str]) -> Verdict:
        text = hit.passage.rendered
        reference = self.reference
        demos = None if reference is None else lambda: reference(quiz, text) or self.judge.demos
        try:
            asked: dict[str, Any] = {"quiz": quiz, "passage": shown(hit.passage)}
            prediction = await ask(self.judge, "judge_utility", number, demos=demos, **asked)
        except CallError as error:
            message = f"{error.message} (passage {hit.passage.id})"
            note("judge_utility", error.cause, message, "left the passage out", number)
            return "failed"
        return "helpful" if prediction.helpful else "not helpful"
