"""How a quiz is answered from passages: found, picked or cited, read, and checked (Algorithm 2, lines 8 to 16)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from keqa.data.question import Question, Quiz
from keqa.metrics.answers import is_abstention, same_answer
from keqa.programs.boundary.chooser import Seen
from keqa.programs.calls.ask import searched
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import note, report
from keqa.programs.citations import without_citations
from keqa.programs.examination import Examined
from keqa.programs.gate import Draw, Gate
from keqa.programs.prediction import PassagesKept, source_of
from keqa.programs.records import PassageVerdict, QuizRecord, QuizSource, Weighed
from keqa.programs.sentences import language_of, without_older
from keqa.programs.settings import KeqaSettings
from keqa.programs.stage import Answering
from keqa.programs.stages.documents import (
    NO_REPLY,
    OwnDocuments,
    answers_quiz,
    carrying,
    contradicting,
    languages_in,
    missing_quiz,
    speaking,
    spoken_in,
)
from keqa.programs.stages.joined import Citing
from keqa.programs.stages.picking import Picking, merged, unjudged, with_cited, with_kept
from keqa.programs.stages.selection import Selection, with_key_sentences
from keqa.programs.stages.support import carried_part, support_of
from keqa.programs.today import months_asked
from keqa.retrievers.base import Hit, Passage, Retriever
from keqa.retrievers.text import one_line

_REREAD = 3
_EXPANSION = 200
"""So many characters of a passage expand a query: of a longer piece what it says beside the point is searched, too."""
_BOLD = re.compile(r"(?<![\w*])\*\*(?=\S)([^*\n]+)(?<=\S)\*\*(?![\w*])")
_MUTE = re.compile(r"\s*(?:<think>(?!.*</think>).*)?", re.DOTALL)


class SearchError(CallError):
    """A search failed, which does not mean that nothing was found."""


@dataclass
class AskedQuiz:
    """A quiz while it is answered, or the `whole` question: resolved, with what is known of it.

    Its draft, where there is one, is `outdated` where an earlier quiz has another answer than it was written with.
    `reworded` is whether it was searched for in other words than its own.
    """

    quiz: Quiz
    what: Question
    whole: bool
    draft: Draw | None = None
    outdated: str = ""
    found: Examined | None = None
    passages: list[PassageVerdict] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)
    reworded: bool = False

    @property
    def text(self) -> str:
        return self.what.question

    @property
    def query(self) -> str:
        """The quiz as it was searched for, in the language of the documents."""
        return self.queries[-1] if self.queries else self.text

    @property
    def place(self) -> dict[str, Any]:
        quiz = self.quiz
        return {"index": quiz.index, "text": quiz.text, "resolved": self.text, "depends_on": list(quiz.depends_on)}

    def is_answered_by(self, answer: str) -> bool:
        return answers_quiz(answer, self.text, self.passages, self.what.choices)

    def record(self, answer: str | None, source: QuizSource, gate: Gate, *, checked: bool) -> QuizRecord:
        """What became of it; an answer that is `checked` against passages is no refusal, whatever its words."""
        return QuizRecord(
            **self.place,
            passages=self.passages,
            answer=answer,
            abstained=answer is not None and not checked and is_abstention(answer, self.what.choices),
            source=source,
            **({} if self.found is None else self.found.recorded(gate)),
            **self.fields,
        )


@dataclass(frozen=True)
class PassageReading:
    """Answers quizzes from passages with the stages of a program; those of its settings may be None."""

    settings: KeqaSettings
    retriever: Retriever | None
    picking: Picking
    selection: Selection
    answering: Answering
    citing: Citing | None
    documents: OwnDocuments | None

    async def search(self, asked: AskedQuiz) -> list[Hit]:
        """The passages found for a quiz; behind those for a whole question what the best of them and the day bring."""
        if self.retriever is None:
            return []
        number, further = asked.quiz.index, self.settings.expand if asked.whole else 0
        query, most = asked.text, self.settings.top_k
        asked.queries = [query]
        try:
            found = await searched(self.retriever, query, most, number)
            # What is in its own language may be found by other words than its own, which are searched later.
            later = further and not found and language_of(query) in languages_in(self.retriever)
            if not later and (other := await self.translated(query, found, number)):
                query = other
                asked.queries.append(query)
                found = merged([await searched(self.retriever, query, most, number), found], most)
        except CallError as error:
            raise SearchError(error.cause, error.message) from error
        if not further or not found:
            return found
        read, own = found, self.documents is not None and self.documents.own_prompts
        try:
            led_to = await searched(self.retriever, expanded(query, found), len(found) + further, number)
            read = merged([[*found, *led_to]], len(found) + further)
            months = months_asked(query, asked.text) if own else []
            brought = merged([await searched(self.retriever, one, further, number) for one in months])
        except CallError as error:
            note("retrieve", error.cause, error.message, "read what was found before", number)
            return read
        return merged([[*read, *brought]], len(read) + further)

    async def translated(self, query: str, found: Sequence[Hit], number: int | None = None) -> str | None:
        """A query in the language of documents of one's own, where what it found is in another one than it is."""
        if self.documents is None:
            return None
        return await self.documents.translated(query, [hit.passage for hit in found], number)

    async def find(self, asked: AskedQuiz, hits: list[Hit]) -> tuple[str | None, QuizSource] | None:
        """As `answer`; where further passages are wanted, and none speaks of the question, also by other queries.

        These are the question in other languages of the index, and in other words.
        """
        found, number = await self.answer(asked, hits), asked.quiz.index
        if self.documents is None or self.retriever is None or not (asked.whole and self.settings.expand):
            return found
        if (missing := asked.fields.get("missing")) is None or missing.answers:
            return found
        passages, text = [hit.passage for hit in hits], asked.text
        # What was translated before was in the language of the passages found.
        languages = [] if len(asked.queries) > 1 else languages_in(self.retriever)
        for language in self.documents.further_languages(text, passages, languages):
            query = await self.documents.in_language(text, language, number)
            if query and query != text and (again := await self._also(asked, query, translated=True)):
                return again
        query = await self.documents.reworded(asked.query, passages, number)
        return (query and await self._also(asked, query)) or found

    async def _also(
        self, asked: AskedQuiz, query: str, *, translated: bool = False
    ) -> tuple[str | None, QuizSource] | None:
        """As `answer`, from what a query in other words finds, or one that is `translated`; None where that is nothing.

        What was read in vain stands in the record, and nothing else that came of it.
        """
        passages, fields, queries, number = asked.passages, asked.fields, asked.queries, asked.quiz.index
        asked.passages, asked.fields, asked.reworded = [], {"stopped": fields.get("stopped")}, not translated
        asked.queries = [*queries, query] if translated else queries
        again, read = None, {one.passage_id for one in passages}
        try:
            others = await searched(self.retriever, query, self.settings.top_k, number)
            if others := [hit for hit in others if hit.passage.id not in read]:
                again = await self.answer(asked, others)
        except CallError as error:
            found_nothing = f"found nothing {'in another language' if translated else 'by other words'}"
            note("retrieve", error.cause, error.message, found_nothing, number)
            asked.passages = []
        if again is not None and again[1] != "unanswered":
            asked.passages += _in_vain(passages)
            asked.fields["support"] = f"found by “{query}”; {asked.fields['support']}"
            return again
        missing, read_too = fields["missing"], [source_of(one).label for one in asked.passages]
        changes = {"searched": [*missing.searched, query], "read": [*missing.read, *read_too]}
        asked.passages, asked.queries = [*passages, *_in_vain(asked.passages)], queries
        asked.fields = fields | {"missing": missing.model_copy(update=changes)}
        return None

    async def answer(self, asked: AskedQuiz, hits: list[Hit]) -> tuple[str | None, QuizSource] | None:
        """An answer from passages, and None where none helps; where nothing is to be guessed, one that they carry."""
        text, number = asked.text, asked.quiz.index
        cited = None if self.citing is None or not hits else await self._cited(asked, hits, self.citing)
        if self.citing is None:
            asked.passages = await self.picked(asked, hits)
        asked.fields["retrieved"] = self.retriever is not None
        self._report_kept(asked)
        picked = [one.passage for one in asked.passages if one.kept]
        answer = cited if cited is not None or not picked else await self._read(asked, picked)
        if self.documents is None:
            return self._weighed(asked, answer) if picked else None
        answered = answer is not None and asked.is_answered_by(answer)
        if answered and self.citing is None and not self.settings.pick:
            asked.passages = _with_words_of(str(answer), asked, picked)
            self._report_kept(asked)
        supported = answered and asked.fields.get("supported") is not False
        contested = contradicting(asked.query, asked.passages, answer if supported else None)
        if supported and not contested:
            return answer, "passages"
        memory = None if asked.found is None else asked.found.leading
        # A question that was not taken apart, or is asked once more as a whole, is no part of anything.
        place, support = 0 if asked.whole else number, asked.fields.get("support", "")
        missing = missing_quiz(place, text, asked.passages, support, contested, asked.queries)
        asked.fields |= {"missing": missing, "guess": answer if answered else memory}
        return None, "unanswered"

    @staticmethod
    def _report_kept(asked: AskedQuiz) -> None:
        kept = tuple(one.passage_id for one in asked.passages if one.kept)
        report(PassagesKept(asked.quiz.index, asked.text, len(asked.passages), kept))

    def _weighed(self, asked: AskedQuiz, answer: str | None) -> tuple[str | None, QuizSource]:
        """The answer from passages, or another one from memory that the arbiter finds more probably right."""
        text, draws, arbiter = asked.text, asked.found, self.settings.arbiter
        memory = None if draws is None else draws.leading
        if arbiter is None or draws is None or not memory or not answer:
            return answer, "passages"
        if same_answer(memory, answer, asked.what.answer_type, asked.what.choices):
            return answer, "passages"
        first, *others = sorted((one for one in draws.made if one.answer), key=lambda one: one.text != memory)
        further = tuple(str(one.text) for one in others)
        remembered, read = arbiter.choose(Seen(text, "", (memory, answer), first.probability, further)).right
        keeps = remembered > read
        asked.fields["weighed"] = Weighed(
            memory=memory,
            evidence=answer,
            memory_right=remembered,
            evidence_right=read,
            kept="memory over evidence" if keeps else "evidence over memory",
        )
        if keeps:
            asked.fields.pop("reasoning", None)
        return (memory, "memory") if keeps else (answer, "passages")

    async def picked(self, asked: AskedQuiz, hits: list[Hit]) -> list[PassageVerdict]:
        settings, text = self.settings, asked.text
        verdicts = unjudged(hits)
        if settings.pick:
            judging = {} if self.documents is None else {"shown": self.documents.shown}
            verdicts = await self.picking.acall(text, hits, asked.quiz.index, **judging)
        verdicts = self._with_top(verdicts)
        if self.documents is not None:
            verdicts = without_older(asked.query, self._reread(asked.query, verdicts, self.documents))
        if settings.extract_sentences is None:
            return verdicts
        return with_key_sentences(text, verdicts, settings.extract_sentences, self.selection.similarity)

    def _with_top(self, verdicts: list[PassageVerdict]) -> list[PassageVerdict]:
        """Have the top passage read where none helps and that is wanted."""
        top = self.settings.on_nothing_helpful == "top_passage" and self.documents is None
        if not top or not verdicts or any(one.kept for one in verdicts):
            return verdicts
        return with_kept(verdicts, 0, "the top passage, as none was found to help")

    @staticmethod
    def _reread(text: str, verdicts: list[PassageVerdict], documents: OwnDocuments) -> list[PassageVerdict]:
        """Have the best passages read where none helps and they speak of what is asked: the answer is checked."""
        best = [one for one in verdicts if one.verdict == "not helpful"][:_REREAD]
        judged = documents.own_prompts and not any(one.kept for one in verdicts)
        if judged and spoken_in(best, text):
            for one in best:
                why = "read all the same: none was judged helpful, and they speak of what is asked"
                verdicts = with_kept(verdicts, verdicts.index(one), why)
        return verdicts

    async def _cited(self, asked: AskedQuiz, hits: list[Hit], citing: Citing) -> str | None:
        """Read the passages found in one call, and keep those that its answer cites; None where that is no answer.

        Those of unreliable sources are read by themselves, and only where the others do not tell.
        """
        verdicts = unjudged(hits, "not read: of too many, the first were")
        if self.documents is not None:
            verdicts = without_older(asked.query, verdicts)
        doubted = self.picking.doubted(hits)
        places = [place for place, one in enumerate(verdicts) if one.kept]
        asked.passages = with_cited(verdicts, places, 0, (), "")
        for place in (place for place in places if doubted[place]):
            why = "not read, since more reliable passages tell the answer"
            asked.passages[place] = asked.passages[place].model_copy(update={"why": why})
        for order in ([place for place in places if doubted[place] is doubt] for doubt in (False, True)):
            answer = await self._cited_among(asked, order, citing) if order else None
            if answer is not None:
                return answer
        asked.passages = self._with_top(asked.passages)
        return None

    async def _cited_among(self, asked: AskedQuiz, order: Sequence[int], citing: Citing) -> str | None:
        """The answer that one call gives of the passages at some places; None where they do not tell."""
        number, documents = asked.quiz.index, self.documents
        passages = [asked.passages[place].passage for place in order]
        shown = [self._shown(one) for one in passages]
        try:
            own = documents is not None
            answer, cited, read = await citing.acall(asked.what, shown, number, own=own)
            answer = self._bare(asked, answer, shown)
        except CallError as error:
            failed = {"verdict": "failed", "kept": False, "why": "no reply to it could be used"}
            for place in order:
                asked.passages[place] = asked.passages[place].model_copy(update=failed)
            self._take_for_none(asked, error)
            return None
        why = "cited for an answer"
        if documents is not None and asked.what.answer_type == "short" and not is_abstention(answer):
            found = carrying(answer, asked.query, passages[:read], cited)
            if found is not None:
                cited, why = found, "has the words of the answer, which does not cite it"
        asked.passages = with_cited(asked.passages, order, read, cited, why)
        if cited and asked.is_answered_by(answer):
            await self._check(asked, answer, [shown[position] for position in cited])
            return str(answer)
        if not cited and not is_abstention(answer, asked.what.choices):
            note("answer", "NoCitation", f"{answer!r} cites no passage", "took it for no answer", number)
        asked.passages = with_cited(asked.passages, order, read, (), why)
        return None

    async def _read(self, asked: AskedQuiz, picked: Sequence[Passage]) -> str | None:
        """An answer from passages; None where nothing is to be guessed and no reply to them could be used."""
        select, documents, number = self.settings.select, self.documents, asked.quiz.index
        text = asked.text
        passages = [one.rendered for one in picked]
        triples, evidence = await self.selection.acall(text, passages, number) if select else ([], [])
        if select:
            asked.fields |= {"triples": triples, "evidence": evidence}
        passages = [self._shown(one) for one in picked]
        knowledge = {"evidence": evidence, "triples": triples}
        try:
            read = [] if evidence and select == "instead" else passages
            own = None if documents is None else documents.own("answer")
            # What is checked yet, or weighed against memory, is no answer.
            weighed = self.settings.arbiter is not None and asked.found is not None
            streamed = asked.whole and documents is None and not weighed
            asking = {"number": number, "predictor": own, "streamed": streamed}
            reply = await self.answering.acall(asked.what, read, **knowledge, **asking)
        except CallError as error:
            judged = any(one.verdict in ("helpful", "not helpful") for one in asked.passages)
            self._take_for_none(asked, error, even_if_mute=judged)
            return None
        answer = self._bare(asked, reply.answer, passages)
        if reply.reasoning:
            asked.fields["reasoning"] = reply.reasoning
        if asked.is_answered_by(answer):
            await self._check(asked, answer, passages)
        return answer

    def _bare(self, asked: AskedQuiz, answer: str, passages: Sequence[str]) -> str:
        """An answer without citations, as its sources stand beside it, without marks and remarks."""
        if self.documents is None:
            return answer
        bare = _BOLD.sub(r"\1", without_citations(answer)) or answer
        return carried_part(asked.text, bare, passages) if asked.what.answer_type == "short" else bare

    def _shown(self, passage: Passage) -> str:
        return passage.rendered if self.documents is None else self.documents.shown(passage)

    def _take_for_none(self, asked: AskedQuiz, error: CallError, *, even_if_mute: bool = False) -> None:
        """Take replies that were of no use for no answer, where nothing is to be guessed; raise the error otherwise."""
        # An LM that is down, or mute, says nothing of the passages, nor does one that was cut off in its thoughts.
        mute = error.reply is not None and _MUTE.fullmatch(error.reply) is not None
        even_if_mute = even_if_mute and error.cause != "TruncatedReplyError"
        if self.documents is None or not error.unusable or (mute and not even_if_mute):
            raise error
        note("answer", error.cause, error.message, "found no answer in the passages", asked.quiz.index)
        asked.fields["support"] = NO_REPLY

    async def _check(self, asked: AskedQuiz, answer: str, passages: Sequence[str]) -> None:
        if self.documents is not None:
            worded = asked.what.answer_type == "short" and not asked.what.choices
            how: dict[str, Any] = {"worded": worded, "named": True, "doubted": asked.reworded}
            how["translated"] = len(asked.queries) > 1
            support = await support_of(self.documents.support, asked.text, answer, passages, asked.quiz.index, **how)
            asked.fields["supported"], asked.fields["support"] = support


def _in_vain(passages: Sequence[PassageVerdict]) -> list[PassageVerdict]:
    return [one.model_copy(update={"kept": False, "why": "read in vain"}) if one.kept else one for one in passages]


def _with_words_of(answer: str, asked: AskedQuiz, read: Sequence[Passage]) -> list[PassageVerdict]:
    """The passages found, kept where they have the words of an answer: nobody judged them, nor cited any."""
    found, why = carrying(answer, asked.query, read, ()) if asked.what.answer_type == "short" else None, "has its words"
    if found is None:
        found, why = speaking(answer, asked.query, read), "speaks of it"
    order = [place for place, one in enumerate(asked.passages) if one.kept]
    return asked.passages if found is None else with_cited(asked.passages, order, len(order), found, why)


def expanded(question: str, found: Sequence[Hit]) -> str:
    return f"{question} {one_line(found[0].passage.rendered[:_EXPANSION])}"
