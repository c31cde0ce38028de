"""KBM: a model of the knowledge boundary says of the whole question whether to search (Zhang et al., 2025)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from keqa.data.question import Question
from keqa.errors import ConfigurationError
from keqa.programs.arguments import Share, Temperature, Tries
from keqa.programs.baselines.base import ExaminingBaseline, asked_inputs, unanswered, unread, verdicts
from keqa.programs.boundary.light import LightModel
from keqa.programs.boundary.model import BoundaryError, Judgement
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import note
from keqa.programs.examination import Examination
from keqa.programs.gate import Draws, reaches
from keqa.programs.gates.boundary import MODEL, BoundaryGate
from keqa.programs.predictor import Predictor
from keqa.programs.program import RecordBuilder
from keqa.programs.records import AnswerSource
from keqa.retrievers.base import Hit
from keqa.signatures import JudgeKnowledge

_UNSETTLED = "judged again with them: they do not settle it"


class KBM(ExaminingBaseline):
    """Answers from memory what a boundary model says is known, and searches for the rest (KBM, section 2.4).

    Any `keqa.programs.boundary.BoundaryModel` judges; one that reads draws is given draws of its own, made as KEQA's
    are. Without one a language model is asked (`JudgeKnowledge`), that of role ``consistency``: another one than the
    one that answers, where that is set up, as the paper's plug-in is. The question is never decomposed, and every
    passage found is read.

    Attributes:
        model: A boundary model, or its file; None asks the language model of role ``consistency``.
        of: Which of the two judgements counts: ``mastery`` is KBM-Acc, ``certainty`` KBM-Cer.
        threshold: What that is compared with; the paper's model says True or False, which a half divides.
        rejudge: Whether a question that is searched for is judged again with the passages as Reference (double
            judgement): where they do not settle it, it is answered from memory.
        tries: Draws, at the temperature, for a model that reads them all.
    """

    method: ClassVar[str] = "kbm"
    roles: ClassVar[Mapping[str, str]] = {"judge": "consistency", "recall": "task", "read": "task"}

    class Settings(ExaminingBaseline.Settings):
        """Those that it adds."""

        model: Annotated[Any, MODEL] | None = None
        of: Literal["mastery", "certainty"] = "mastery"
        threshold: Annotated[Fraction, Share] = Fraction(1, 2)
        rejudge: bool = False
        reason: bool = False
        tries: Tries = 5
        temperature: Temperature = 1.0

    def set_up(self) -> None:
        """See `Baseline.set_up`; a model that is to judge again with passages has to read them."""
        super().set_up()
        self.judge = Predictor(JudgeKnowledge)
        if self.rejudge and isinstance(self.model, LightModel):
            raise ConfigurationError(
                "rejudge judges again with the passages, and a light boundary model reads none: leave it out, or the "
                "model, and the language model of role consistency is asked"
            )
        if self.model is not None:
            gate = BoundaryGate(self.model, self.of, self.threshold)
            self.examination = Examination(self.tries, gate, self.temperature, bound=self.bound)

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Judge, then answer from memory or from passages; see `Program.solve`."""
        known, measure, signals = await self._examined(asked)
        hits: list[Hit] = []
        passages = []
        if not known:
            hits = await self.search(asked.question, 1)
            passages = unread(hits)
            if hits and self.rejudge and not await self._settles(asked, signals, hits):
                passages = [one.model_copy(update={"why": _UNSETTLED}) for one in passages]
                hits = []
        reply = await self.answered(asked, hits)
        source: AnswerSource = "passages" if hits else "memory" if known else "closed_book"
        found = {"passages": verdicts(hits, reply.read) if hits else passages, "certainty": measure}
        self.conclude(story, asked, reply, source, known=known, threshold=self.threshold, **found)

    async def _examined(self, asked: Question) -> tuple[bool, float | None, Draws]:
        """Whether the question is known, the judgement that counts, and the draws that the model read."""
        if self.model is None:
            signals = Draws(answer_type=asked.answer_type, choices=tuple(asked.choices))
            measure = await self._measured(asked, signals, ())
            return measure is not None and reaches(measure, self.threshold), measure, signals
        with unanswered("examine"):
            place = (asked.question, asked.answer_type, list(asked.choices))
            found = await self.examination.acall(*place, number=1)
        return found.known, found.verdict.measure, found

    async def _settles(self, asked: Question, signals: Draws, hits: Sequence[Hit]) -> bool:
        """Whether the question is known with passages; they are read where that cannot be judged."""
        again = await self._measured(asked, signals, [hit.passage.rendered for hit in hits])
        return again is None or reaches(again, self.threshold)

    async def _measured(self, asked: Question, signals: Draws, reference: Sequence[str]) -> float | None:
        """The judgement that counts; None, with a note, where there is none."""
        try:
            if self.model is not None:
                judged: Judgement = self.model.judge(asked.question, signals, "\n\n".join(reference) or None)
            else:
                inputs = asked_inputs(asked)
                inputs = {"quiz": inputs.pop("question"), **inputs, "reference": list(reference)}
                said = await ask(self.judge, "boundary", 1, **inputs)
                judged = Judgement(float(bool(said.mastery)), float(bool(said.certainty)))
        except (CallError, BoundaryError) as error:
            cause = error.cause if isinstance(error, CallError) else "BoundaryError"
            action = "read the passages" if reference else "taken for unknown"
            note("boundary", cause, str(error), action, 1)
            return None
        return float(getattr(judged, self.of))
