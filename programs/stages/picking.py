"""Knowledge picking: which retrieved passages help to answer a quiz (KEQA, section 3.4, utility evaluation)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain, zip_longest
from operator import attrgetter
from typing import Any, ClassVar

import dspy

from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import typed_error
from keqa.programs.calls.session import CallLimiter, current, gather, in_thread, note, noted
from keqa.programs.records import PassageVerdict, Verdict
from keqa.programs.stage import Stage
from keqa.retrievers.base import Hit, Passage
from keqa.retrievers.copies import without_copies
from keqa.signatures.keqa import JudgeUtilities, JudgeUtility

Reference = Callable[[str, str], Sequence[Any]]
"""The utility reference: from a quiz and a passage as the judge reads it, to demonstrations for judging them."""

_WHY = {
    "helpful": "judged helpful",
    "not helpful": "judged not helpful",
    "failed": "could not be judged",
    "unjudged": "not judged, since more reliable passages help",
}
_MOST_SHOWN = 20
"""So many passages the demonstrations of a listwise call show at most; with those to be judged they have to fit."""


def verdict_on(hit: Hit, verdict: Verdict, kept: bool, why: str) -> PassageVerdict:
    passage = hit.passage
    fields: dict[str, Any] = {"verdict": verdict, "kept": kept, "why": why, **asdict(passage.place)}
    return PassageVerdict(passage_id=passage.id, title=passage.title, text=passage.text, score=hit.score, **fields)


def unjudged(hits: Sequence[Hit], why: str = "picking is off", kept: bool = True) -> list[PassageVerdict]:
    return [verdict_on(hit, "unjudged", kept, why) for hit in hits]


def with_kept(verdicts: Sequence[PassageVerdict], position: int, why: str) -> list[PassageVerdict]:
    kept = list(verdicts)
    kept[position] = kept[position].model_copy(update={"kept": True, "why": why})
    return kept


def with_cited(
    verdicts: Sequence[PassageVerdict], order: Sequence[int], read: int, cited: Collection[int], why: str
) -> list[PassageVerdict]:
    """The verdicts on passages, of which the first so many were read in an order, by the positions that are cited."""
    found = list(verdicts)
    for position, place in enumerate(order):
        kept = position in cited
        update = {"verdict": "cited" if kept else "not cited", "why": why if kept else "not cited for an answer"}
        found[place] = verdicts[place].model_copy(update={"kept": kept, **(update if position < read else {})})
    return found


def merged(searches: Iterable[Sequence[Hit]], most: int | None = None) -> list[Hit]:
    """What several searches found, the first of each before the second of any, and none of it twice."""
    best: dict[str, Hit] = {}
    for hit in chain.from_iterable(zip_longest(*searches)):
        if hit is not None:
            best.setdefault(hit.passage.id, hit)
    return without_copies([*best.values()])[:most]


class Listwise(Stage):
    """Judges passages one beside the other; what its reply says nothing of is left to whoever judges one by one."""

    roles: ClassVar[Mapping[str, str]] = {"judge": "utility"}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"judge": JudgeUtilities}

    judge: dspy.Predict

    async def run(
        self,
        quiz: str,
        passages: Sequence[str],
        number: int | None = None,
        *,
        demos: Callable[[], Iterable[Any]] | None = None,
    ) -> list[Verdict | None]:
        """A verdict for each passage, None where the reply has none; `demos` finds those of single passages."""
        listed = dict(enumerate(passages, 1))
        shown = None if demos is None else lambda: as_lists(demos()) or self.judge.demos
        found: list[Verdict | None] = [None] * len(passages)
        with noted("judge_utility", "judged each passage by itself", number, harmless=True):
            reply = await ask(self.judge, "judge_utility", number, demos=shown, quiz=quiz, passages=listed)
            helpful = {str(key): value for key, value in dict(reply.helpful or {}).items()}
            for place in (place for place in listed if str(place) in helpful):
                found[place - 1] = "helpful" if helpful[str(place)] else "not helpful"
            if missing := found.count(None):
                message = f"the reply says nothing of {missing} of {len(found)} passages"
                note("judge_utility", "NoVerdict", message, "judged these by themselves", number, harmless=True)
        return found


def as_lists(demos: Iterable[Any]) -> list[dspy.Example]:
    """Demonstrations of single passages, each once, as lists: those of one quiz together, the longest lists last."""
    by_quiz: dict[str, dict[str, bool]] = {}
    for demo in demos:
        by_quiz.setdefault(demo["quiz"], {}).setdefault(demo["passage"], bool(demo["helpful"]))
    chosen: list[dspy.Example] = []
    shown = 0
    for quiz, judged in sorted(by_quiz.items(), key=lambda item: -len(item[1])):
        if chosen and shown + len(judged) > _MOST_SHOWN:
            break
        shown += len(judged)
        passages, verdicts = dict(enumerate(judged, 1)), dict(enumerate(judged.values(), 1))
        chosen.append(dspy.Example(quiz=quiz, passages=passages, helpful=verdicts))
    return chosen[::-1]


class Picking(Stage):
    """Judges passages with demonstrations from the utility reference: each by itself, side by side, or all in one call.

    Those that the reference finds (Algorithm 2, line 11) replace the predictor's own. Where reliable ones are
    preferred, a helpful passage of a source that is unreliable by the reference's labels is left out beside helpful
    ones of others; such passages are judged last, and only where no other helped.
    """

    roles: ClassVar[Mapping[str, str]] = {"judge": "utility"}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"judge": JudgeUtility}
    follows = ("listwise", "prefer_reliable")

    together: Listwise | None = None

    def __init__(self, reference: Reference | None = None, bound: CallLimiter | None = None) -> None:
        super().__init__(bound)
        self.reference = reference

    async def run(
        self,
        quiz: str,
        hits: Sequence[Hit],
        number: int | None = None,
        shown: Callable[[Passage], str] = attrgetter("rendered"),
    ) -> list[PassageVerdict]:
        """A verdict for each passage found for a quiz; `shown` is a passage as the judge reads it.

        Where no passage was judged helpful and some could not be judged, the best of the latter is kept.
        """
        await self._prepare(quiz, hits, number)
        known, doubted = [self._known_of(hit) for hit in hits], self.doubted(hits)
        found = await self._judged(quiz, hits, number, shown, doubted)
        others = any(verdict == "helpful" and not doubt for verdict, doubt in zip(found, doubted, strict=True))
        verdicts = []
        for hit, verdict, records, doubt in zip(hits, found, known, doubted, strict=True):
            left = others and doubt and verdict == "helpful"
            why = "; ".join([_WHY[verdict], *map(str, records)]) + (", and others are preferred" if left else "")
            verdicts.append(verdict_on(hit, verdict, verdict == "helpful" and not left, why))
        if "helpful" not in found and "failed" in found:
            best = found.index("failed")
            message = f"no passage was judged helpful, {found.count('failed')} could not be judged"
            note("judge_utility", "NoVerdict", message, "kept the best of those not judged", number)
            return with_kept(verdicts, best, "could not be judged; the best of these, as none was judged helpful")
        return verdicts

    @property
    def listwise(self) -> bool:
        return self.together is not None

    @listwise.setter
    def listwise(self, wanted: bool) -> None:
        self.together = self.listwise_judge() if wanted else None

    def listwise_judge(self) -> Listwise:
        """What judges all in one call: its own, or a new one with the language model of the single judge."""
        if self.together is not None:
            return self.together
        return Listwise(self.bound).like(judge=self.judge)

    async def _judged(
        self,
        quiz: str,
        hits: Sequence[Hit],
        number: int | None,
        shown: Callable[[Passage], str],
        doubted: Sequence[bool],
    ) -> list[Verdict]:
        found: list[Verdict | None] = [None] * len(hits)
        if self.together is not None and len(hits) > 1:
            texts = [hit.passage.rendered for hit in hits]
            reference, demos = self.reference, None
            if reference is not None:
                demos = lambda: [demo for text in texts for demo in reference(quiz, text) or ()]  # noqa: E731
            read = [shown(hit.passage) for hit in hits]
            found = await self.together.acall(quiz, read, number, demos=demos)
        left = [place for place, verdict in enumerate(found) if verdict is None]
        for last in (False, True):
            reliable = (verdict for verdict, doubt in zip(found, doubted, strict=True) if not doubt)
            if last and "helpful" in reliable:
                # The others would be left out whatever the judge said of them.
                break
            places = [place for place in left if doubted[place] is last]
            judged = await gather([self._judge(quiz, hits[place], number, shown) for place in places])
            for place, verdict in zip(places, judged, strict=True):
                found[place] = verdict
        return ["unjudged" if verdict is None else verdict for verdict in found]

    def doubted(self, hits: Sequence[Hit]) -> list[bool]:
        """Which passages are of unreliable sources, where reliable ones are preferred."""
        return [self.prefer_reliable and any(one.unreliable for one in self._known_of(hit)) for hit in hits]

    def _known_of(self, hit: Hit) -> list[Any]:
        asked = {"source_of": hit.passage.rendered, "age_of": hit.passage.place.date}
        found = [getattr(self.reference, name)(value) for name, value in asked.items() if hasattr(self.reference, name)]
        return [one for one in found if one is not None]

    async def _prepare(self, quiz: str, hits: Sequence[Hit], number: int | None) -> None:
        """Let the reference look at all passages together before it is asked about each."""
        prepare = getattr(self.reference, "prepare", None)
        if prepare is None or not hits:
            return
        texts = [hit.passage.rendered for hit in hits]
        # What fails for a passage as well is reported of the passage.
        with noted("judge_utility", "looked for the demonstrations of each passage by itself", number, harmless=True):
            try:
                async with current().bound.semaphore():
                    await in_thread(lambda: prepare(quiz, texts))
            except Exception as error:
                known = typed_error(error)
                if known is error:
                    raise
                raise known from error

    async def _judge(self, quiz: str, hit: Hit, number: int | None, shown: Callable[[Passage], str]) -> Verdict:
        text = hit.passage.rendered
        reference = self.reference
        demos = None if reference is None else lambda: reference(quiz, text) or self.judge.demos
        asked: dict[str, Any] = {"quiz": quiz, "passage": shown(hit.passage)}
        with noted("judge_utility", "left the passage out", number, of=f" (passage {hit.passage.id})"):
            reply = await ask(self.judge, "judge_utility", number, demos=demos, **asked)
            return "helpful" if reply.helpful else "not helpful"
        return "failed"
