"""One quiz from its resolved text to its answer (KEQA, Algorithm 2, lines 4 to 18)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from keqa.data.question import AnswerType, Question, Quiz
from keqa.metrics.answers import is_abstention, same_answer
from keqa.programs.calls.ask import searched
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.progress import PassagesKept, QuizAnswered, QuizExamined
from keqa.programs.calls.session import note, report
from keqa.programs.declared import WaysOut
from keqa.programs.examination import Examination, Examined
from keqa.programs.gate import VoteGate
from keqa.programs.prediction import source_of
from keqa.programs.program import Program
from keqa.programs.records import (
    ClusterRecord,
    MissingQuiz,
    PassageVerdict,
    QuizRecord,
    QuizSource,
    SampleRecord,
    UnansweredKind,
    fraction_text,
)
from keqa.programs.sentences import OTHER_WORDS, disagreements, newer, spoken_of, without_older
from keqa.programs.settings import KeqaSettings
from keqa.programs.stages.documents import UNREADABLE, OwnDocuments, words_lacking
from keqa.programs.stages.picking import Picking, unjudged, with_kept
from keqa.programs.stages.selection import Selection, with_key_sentences
from keqa.programs.stages.stage import Answering
from keqa.retrievers.base import Hit, Passage

_NO_REPLY = "no reply could be used"
_REREAD = 3


class _SearchError(CallError):
    """A search failed, which does not mean that nothing was found."""


@dataclass
class _Asked:
    """A quiz while it is answered, resolved: whether it is the question itself, its examination, and its record."""

    quiz: Quiz
    text: str
    answer_type: AnswerType
    choices: list[str]
    whole: bool
    found: Examined | None = None
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def passages(self) -> list[PassageVerdict]:
        """As they were judged."""
        found: list[PassageVerdict] = self.fields["passages"]
        return found

    def told_by(self, answer: str) -> bool:
        """Whether an answer from passages is one: it does not refuse, or says in their words more than was asked."""
        if not is_abstention(answer, self.choices):
            return True
        kept = [_told_by(one) for one in self.passages if one.kept]
        more = words_lacking(answer, [self.text])
        return bool(kept) and not same_answer(answer, "unknown") and bool(more) and not words_lacking(answer, kept)


class QuizProgram(Program):
    """A program with the stages that a quiz passes, where its settings have them on."""

    settings: KeqaSettings
    examination: Examination
    picking: Picking
    selection: Selection
    answering: Answering
    documents: OwnDocuments | None

    @property
    def way_out(self) -> WaysOut:
        """What is done where the documents do not say what was asked; where that is not set, by the retriever."""
        way: WaysOut | None = self.settings.unanswered
        if way is not None:
            return way
        retriever = self._retriever.value
        return "guess" if retriever is None or not getattr(retriever, "own_documents", True) else "say"

    @property
    def declines(self) -> bool:
        """Whether nothing is answered that neither the language model knows nor the documents say."""
        return self.way_out != "guess"

    async def answer_quiz(
        self,
        question: Question,
        quiz: Quiz,
        text: str,
        answer_type: AnswerType = "short",
        choices: Sequence[str] = (),
        *,
        examine: bool,
    ) -> QuizRecord:
        """Answer a quiz by its resolved text; where it cannot be, its source is ``failed``, and a degradation says why.

        One that is not known is answered from passages. Where finding or reading them failed it is not answered at all:
        from memory it would be as if it had been known. See `keqa.programs.calls.ask`.
        """
        asked = _Asked(quiz, text, answer_type, list(choices), text == question.question)
        answer: str | None = None
        source: QuizSource = "failed"
        declines = self.declines
        try:
            answer, source = await self._answered(asked, examine)
        except CallError as error:
            stage = "retrieve" if isinstance(error, _SearchError) else "answer"
            note(stage, error.cause, error.message, "left the quiz unanswered", quiz.index)
        report(QuizAnswered(quiz.index, text, answer, source))
        checked = declines and source == "passages"
        return QuizRecord(
            index=quiz.index,
            text=quiz.text,
            resolved=text,
            depends_on=list(quiz.depends_on),
            answer=answer,
            abstained=answer is not None and not checked and is_abstention(answer, choices),
            source=source,
            **({} if asked.found is None else self._recorded(asked.found)),
            **asked.fields,
        )

    async def _answered(self, asked: _Asked, examine: bool) -> tuple[str | None, QuizSource]:
        declines, gate = self.declines, self.examination.gate
        # Documents of one's own may be searched before anything is drawn.
        looks = examine and declines and self.settings.look_first and isinstance(gate, VoteGate)
        hits = await self._search(asked) if looks else None
        about = spoken_of(asked.text, [_told_by(hit.passage) for hit in hits]) if hits else []
        if about:
            asked.fields["stopped"] = f"not asked from memory: the documents speak of {', '.join(about)}"
        elif examine:
            found = await self.examination.acall(
                asked.text, asked.answer_type, asked.choices, number=asked.quiz.index, predictor=self._own("quiz")
            )
            asked.found = found
            consistency = float(found.consistency)
            report(QuizExamined(asked.quiz.index, asked.text, found.known, found.leading, consistency))
            if found.known:
                recalled, source = await self._from_memory(asked)
                return recalled, "memory" if source == "largest_cluster" else source
        hits = await self._search(asked) if hits is None else hits
        answer, source = await self._from_passages(asked, hits)
        return self._checked(asked, answer) if declines else (answer, source)

    async def _search(self, asked: _Asked) -> list[Hit]:
        retriever = self._retriever.value
        if retriever is None:
            return []
        try:
            return await searched(retriever, asked.text, self.settings.top_k, asked.quiz.index)
        except CallError as error:
            raise _SearchError(error.cause, error.message) from error

    async def _from_passages(self, asked: _Asked, hits: list[Hit]) -> tuple[str | None, QuizSource]:
        """Lines 8 to 16; without an answer where no passage helps and nothing is to be guessed."""
        settings, documents, declines = self.settings, self.documents, self.declines
        text, number = asked.text, asked.quiz.index
        hits, verdicts = await self._picked(asked, hits)
        asked.fields |= {"retrieved": self._retriever.value is not None, "passages": verdicts}
        kept = tuple(verdict.passage_id for verdict in verdicts if verdict.kept)
        report(PassagesKept(number, text, len(verdicts), kept))
        picked = [hit.passage for hit, verdict in zip(hits, verdicts, strict=True) if verdict.kept]
        passages = [one.rendered for one in picked]
        if not passages:
            return (None, "unanswered") if declines else await self._from_memory(asked)
        triples, evidence = await self.selection.acall(text, passages, number) if settings.select else ([], [])
        if settings.select:
            asked.fields |= {"triples": triples, "evidence": evidence}
        if documents is not None:
            passages = [documents.shown(one) for one in picked]
        try:
            answer = await self.answering.acall(
                text,
                [] if evidence and settings.select == "instead" else passages,
                asked.answer_type,
                asked.choices,
                evidence=evidence,
                triples=triples,
                number=number,
                predictor=self._own("answer"),
            )
        except CallError as error:
            self._unread(error, asked)
            return None, "passages"
        if documents is not None and asked.told_by(str(answer)):
            asked.fields["supported"], asked.fields["support"] = await documents.acall(
                text, answer, passages, asked.answer_type, asked.choices, number
            )
        return str(answer), "passages"

    async def _picked(self, asked: _Asked, hits: list[Hit]) -> tuple[list[Hit], list[PassageVerdict]]:
        """The passages that were found, and which of them are read."""
        settings, text = self.settings, asked.text
        verdicts = unjudged(hits)
        if settings.pick:
            judging = {} if self.documents is None else {"shown": self.documents.shown}
            verdicts = await self.picking.acall(text, hits, asked.quiz.index, **judging)
        top = settings.on_nothing_helpful == "top_passage" and not self.declines
        if hits and top and not any(verdict.kept for verdict in verdicts):
            verdicts = with_kept(verdicts, 0, "the top passage, as none was judged helpful")
        if self.declines:
            verdicts = without_older(text, self._reread(text, verdicts))
        if settings.extract_sentences is None:
            return hits, verdicts
        return with_key_sentences(text, hits, verdicts, settings.extract_sentences, self.selection.similarity)

    def _unread(self, error: CallError, asked: _Asked) -> None:
        """Record that no reply to passages could be used; an LM that is down, or mute, says nothing of them."""
        mute = error.reply is not None and not error.reply.strip()
        judged = any(one.verdict in ("helpful", "not helpful") for one in asked.passages)
        if not (self.declines and error.unusable) or (mute and not judged):
            raise error
        note("answer", error.cause, error.message, "found no answer in the passages", asked.quiz.index)
        asked.fields["support"] = _NO_REPLY

    def _reread(self, text: str, verdicts: list[PassageVerdict]) -> list[PassageVerdict]:
        """Have the best passages read where none was judged helpful, although they speak of what a quiz asks.

        The prompt may answer that they do not tell, and the answer is checked: so a judge's error costs a call
        instead of the answer.
        """
        best = [one for one in verdicts if one.verdict == "not helpful"][:_REREAD]
        judged = self._own("answer") is not None and not any(one.kept for one in verdicts)
        if judged and spoken_of(text, [_told_by(one) for one in best]):
            for one in best:
                why = "read all the same: none was judged helpful, and they speak of what is asked"
                verdicts = with_kept(verdicts, verdicts.index(one), why)
        return verdicts

    def _own(self, name: str) -> Any:
        """The predictor of that name for one's own documents; None where the paper's is asked."""
        documents = self.documents
        return getattr(documents, name) if documents is not None and documents.own_prompts else None

    def _checked(self, asked: _Asked, answer: str | None) -> tuple[str | None, QuizSource]:
        """An answer that the passages carry, or why there is none."""
        told = answer is not None and asked.told_by(answer)
        supported = told and asked.fields.get("supported") is not False
        contested = _contradicting(asked.text, asked.passages, answer if supported else None)
        if supported and not contested:
            return answer, "passages"
        memory = None if asked.found is None else asked.found.leading
        asked.fields |= {"missing": self._missing(asked, contested), "guess": answer if told else memory}
        return None, "unanswered"

    def _missing(self, asked: _Asked, contested: list[str]) -> MissingQuiz:
        text, passages = asked.text, asked.passages
        about = spoken_of(text, [_told_by(one) for one in passages], least=0.5)
        kept = sum(one.kept for one in passages)
        if kept:
            why = f"the passages kept ({kept}) {_carried(asked.fields.get('support', ''))}"
        elif passages:
            why = f"none of the {len(passages)} passages found {'was judged to help' if about else 'is about it'}"
        else:
            why = "no passage was found"
        kind: UnansweredKind = "nothing supports an answer" if about or kept else "nothing found"
        if contested:
            kind, why = "sources contradict each other", "they say different things, and neither of them is newer"
        return MissingQuiz(
            # A question that was not taken apart, or is asked once more as a whole, is no part of anything.
            quiz=0 if asked.whole else asked.quiz.index,
            asked=text,
            kind=kind,
            searched=[] if self._retriever.value is None else [text],
            read=[source_of(one).label for one in passages],
            why=why,
            answers=contested,
        )

    async def _from_memory(self, asked: _Asked) -> tuple[str, QuizSource]:
        """The largest cluster of all draws, or a closed-book answer where there is none or that is wanted."""
        found = asked.found
        if found is not None and (found.known or self.settings.on_nothing_helpful != "closed_book"):
            if not found.known:
                await self.examination.complete(found)
            if found.leading is not None:
                return found.leading, "largest_cluster"
        return await self.examination.recall(asked.text, asked.answer_type, asked.choices), "closed_book"

    def _recorded(self, found: Examined) -> dict[str, Any]:
        gate = self.examination.gate
        names = ("text", "abstained", "cluster", "error", "probability")
        threshold = gate.threshold
        return {
            "samples": [SampleRecord(**{name: getattr(draw, name) for name in names}) for draw in found.made],
            "clusters": [
                ClusterRecord(answer=str(found.made[members[0]].text), size=len(members), members=members)
                for members in found.clusters
            ],
            "tries": found.tries,
            "complete": found.left == 0,
            "stopped": found.stopped,
            "consistency": float(found.consistency),
            "consistency_exact": fraction_text(found.consistency),
            "threshold": None if threshold is None else float(threshold),
            "threshold_exact": None if threshold is None else fraction_text(threshold),
            "gate": gate.name,
            "certainty": found.verdict.measure,
            "known": found.known,
        }


def _contradicting(quiz: str, passages: Sequence[PassageVerdict], answer: str | None) -> list[str]:
    """What two passages say otherwise of a quiz, each with its place, where no date decides between them.

    One of them at least was kept. Where there is an answer, it is what one of them says and the other does not, and
    they differ in nothing else: a rule for managers contradicts none.
    """
    other_words = OTHER_WORDS if answer is None else 0
    for first, second in combinations([one for one in passages if not one.older_than], 2):
        if not (first.kept or second.kept) or newer(first.date, second.date) is not None:
            continue
        for found in disagreements(first, second, quiz, other_words):
            said = [answer is None or not words_lacking(answer, [one]) for one in (found.first, found.second)]
            if answer is None or said[0] != said[1]:
                return [f"“{found.first}” ({source_of(first).label})", f"“{found.second}” ({source_of(second).label})"]
    return []


def _carried(support: str) -> str:
    """What came of reading passages in vain; not what was drawn from them, which nobody shall take for an answer."""
    if support == _NO_REPLY:
        return f"were read, but {_NO_REPLY}"
    if support.endswith(UNREADABLE):
        return "lack words of what was drawn from them, and the judge’s reply could not be read"
    return "do not support what was drawn from them" if support else "do not tell it, by the reply"


def _told_by(passage: Passage | PassageVerdict) -> str:
    """All that a passage says of what it is about."""
    return " ".join((passage.title, passage.place.heading, passage.text))
