"""Written answers: prose, a list or a table from passages, each statement checked against the passages it cites."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import dspy

from keqa.data.question import Question, Quiz
from keqa.metrics.answers import is_abstention, same_answer
from keqa.programs.calls.ask import ANSWER, ask, searched
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.predictor import fine_tuned, trained_on_prompts
from keqa.programs.calls.session import Session, context, gather, note, report, run_blocking
from keqa.programs.calls.texts import text_of
from keqa.programs.citations import (
    cited_in,
    cited_sentences,
    cited_with,
    with_citations,
    without_bullets,
    without_citations,
    without_pointers,
)
from keqa.programs.declared import Style, WantedStyle
from keqa.programs.framing import stated
from keqa.programs.prediction import ItemsListed
from keqa.programs.records import PassageVerdict, QuizRecord, Statement, Written
from keqa.programs.sentences import asks_what, names_of, stands_in, words_of
from keqa.programs.stage import RecordBuilder, Stage
from keqa.programs.stages.documents import answers_quiz, missing_quiz
from keqa.programs.stages.passages import AskedQuiz, PassageReading
from keqa.programs.stages.picking import unjudged
from keqa.programs.stages.support import support_of, words_lacking
from keqa.programs.today import dated
from keqa.signatures.baselines import JudgeSupport
from keqa.signatures.written import CompareInTable, ListItems, WriteAnswer

UNSUPPORTED = "(unsupported)"
"""What stands behind a sentence that its passages do not carry, where such are marked."""

_NOTHING = "-"
_IN_SHORT = "answered in short"
# Of one sentence, and of several.
_LONGEST_ITEM, _LONGEST_ITEMS = 400, 120
# They say no more than that there is something, or that a text says so.
_PLAIN_VERBS = frozenset(
    "offer offers offered provide provides provided contain contains contained include includes included describe"
    " describes described explain explains explained mention mentions mentioned bietet enthält beschreibt erklärt offre"
    " contient décrit explique ofrece contiene describe explica".split()
)
_ARTICLES = frozenset("a an the der die das le la les el los las".split())
_BETWEEN = re.compile(r"[,/、]|\b(and|or|und|oder|et|ou|y|o)\b|还是|或|和|与|跟", re.IGNORECASE)
# What a question begins with that plainly asks for a text, a list or a table; first what nobody could mean otherwise,
# then what may begin a question as well: "List prices rose in which year?"
_MANY = r"all|each|every|everyone|everybody|everything"
_SOME = r"\d+|two|three|four|five|six|seven|eight|nine|ten|several|some"
# Words up to a plural, none of which ends a noun before it: "list price of tickets" is no list.
_PLURAL = (
    r"((?!(a|an|and|are|as|at|by|for|from|in|is|of|on|or|than|that|to|was|were|with)\b)[\w'’-]+ ){0,5}"
    r"([\w-]+(?<!s)s|people|children|men|women)(?![\w'’-])"
)
_BEGINNINGS: Mapping[Style, tuple[str, str]] = {
    "report": (
        r"summari[sz]e\b|(give|write)( me)? an? (summary|overview|report)\b|tell me (all |everything |more )?about\b"
        r"|describe\b|fass(e|en sie)?\b.*\bzusammen\b|beschreib(e|en sie)?\b|résume[zr]\b|décri(s|vez)\b(?!-)"
        r"|resum(a|an|ir)\b|descri(ba|ban|bir)\b",
        r"(summary|overview) of\b|résume\b|resume (el|la|los|las)\b|resumen de\b"
        r"|(简[单要]|簡[單要]|详细|詳細)?地?(总结|總結|概[括述]|(介绍|介紹|描述)(?![人信所文]))|.*(を|について)(要約|まとめ|説明|紹介)(して|て)",
    ),
    "list": (
        rf"(list|name|enumerate) ({_MANY}|(the )?({_SOME}))\b(?!['’-])|(list|enumerate)( me| us)? (the|these|those)\b"
        r"|(give|show|make|write)( me| us)? (a|the) (\w+ )?list of\b|(give|show)( me| us)? all\b(?!['’-])"
        r"|(liste|listen sie|zähle?|zählen sie)\b.* auf\W*$"
        r"|(liste|cite|nomme|énum[èé]re)[zr]? (tous|toutes|les)\b|(enumer|list|nombr)(a|en?|ar) (todos|todas|los|las)\b"
        r"|(donne|donnez)[ -]moi (la|une) liste (des?|du)\b|(dame|deme) (la|una) lista de\b",
        rf"list (of|who|which|what|where|{_PLURAL})|liste (der|von|aller|des?)\b|lista de\b"
        r"|(列出|列[举舉]|[罗羅]列)(?!的)|[把将將].*列(出|[举舉]|成)|.*(列挙|リストアップ|一覧に|挙げ)(して|て)"
        r"|(nenne?|nennen sie|liste|listen sie|zähle?|zählen sie)\b.* (alle|sämtliche)\b",
    ),
    "table": (
        r"compare[zr]?\b(?!-| (?:to|with)\b)|vergleich(e|en sie)\b|compar(a|en|ar)\b",
        r"contrast (the|.* (and|to|with))\b|vergleich\b|([比对對][较較比])(?=.*[和与與跟、两兩三各这這])"
        r"|.*を比較して",
    ),
}
_BEFORE = re.compile(
    r"\W*((can|could|would|will) you |(peux-tu|pouvez-vous|pourriez-vous|puedes?|podr[ií]as?)\s+)?"
    r"((please|bitte)\s+|([请請][你您]?)?(([你您]?(可以|能))?([帮幫]我?|[给給]我)(一下)?)?)",
    re.IGNORECASE,
)


def style_asked_for(question: str) -> Style:
    """How a question asks to be answered, where that is plain from how it begins; in short otherwise."""
    before = _BEFORE.match(question)
    start = before.end() if before else 0
    ordered, rest = any(map(str.isalpha, question[:start])), question[start:].strip()
    asks = rest.endswith(("?", "？")) and asks_what(rest) and not ordered
    for style, (plain, doubtful) in _BEGINNINGS.items():
        if re.match(plain, rest, re.IGNORECASE) or (not asks and re.match(doubtful, rest, re.IGNORECASE)):
            return style
    return "short"


class Writing(Stage):
    """Writes from passages that were found, and leaves out, or marks, what these do not carry."""

    roles: ClassVar[Mapping[str, str]] = {"support": "utility"}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {
        "write": WriteAnswer,
        "items": ListItems,
        "compare": CompareInTable,
        "support": JudgeSupport,
    }

    def style_of(self, asked: Question, style: WantedStyle) -> Style:
        """How a question is answered; in short where a language model was fine-tuned: it knows no prompt of writing."""
        style = context().style or style
        if asked.answer_type != "short":
            return "short"
        if style != "auto":
            return style
        return "short" if fine_tuned(self.write.lm or dspy.settings.lm) else style_asked_for(asked.question)

    async def lists(self, asked: Question, story: RecordBuilder, reading: PassageReading) -> bool:
        """List what passages tell, and say whether that settles the question."""
        if reading.retriever is None:
            return False
        try:
            written, seen = await self._gathered(asked.question, reading)
        except CallError as error:
            note("write", error.cause, error.message, _IN_SHORT)
            return False
        story.written = written
        if written.text:
            story.answer, story.answer_source = written.plain, "passages"
        elif reading.documents is not None:
            missing = missing_quiz(0, asked.question, seen, "", [], [asked.question])
            story.conclude(asked.question, QuizRecord(index=0, text=asked.question, missing=missing))
        return bool(written.text) or reading.documents is not None

    async def writes(self, asked: Question, story: RecordBuilder, style: Style, reading: PassageReading) -> None:
        """Write from the passages kept for all quizzes; a report, or where none was, also from the question's own."""
        finding = story.unanswered
        contested = finding is not None and finding.kind == "sources contradict each other"
        if finding is not None and style == "sentence" and (contested or style_asked_for(asked.question) == "short"):
            # It would tell what one of the sources says, or something else than what was asked.
            return
        # What was read together was found for the quizzes.
        fallback = None if story.together else story.fallback
        settled = [one for one in (*story.quizzes, fallback, story.whole) if one is not None]
        # A report or a table tells more than the short answer, which may stand in one of the passages read for it.
        read = style != "sentence"
        found = [one for quiz in settled for one in quiz.passages if one.kept or (read and one.verdict == "not cited")]
        try:
            asked_whole = any(quiz.retrieved for quiz in settled if quiz.resolved == asked.question)
            if not asked_whole and (style == "report" or not found):
                # Quizzes ask for facts, and a report tells more than these.
                whole = AskedQuiz(Quiz(0, asked.question), Question(asked.question), whole=True)
                picked = await reading.picked(whole, await reading.search(whole))
                found += [one for one in picked if one.kept]
            kept = {(one.passage_id, one.title, one.text): one for one in found}
            if not kept:
                return
            known = story.answer if style == "sentence" and finding is None else None
            findings = findings_of(asked.question, story.quizzes, known)
            mark = reading.settings.mark_unsupported
            story.written = await self.acall(asked.question, style, [*kept.values()], findings, mark=mark)
        except CallError as error:
            note("write", error.cause, error.message, _IN_SHORT)
            return
        if story.written.text and finding is not None and not contested:
            # What is no short answer, such as a summary, is none that the documents lack.
            story.unanswered, story.answer_source = None, "passages"
            story.answer = story.written.plain

    async def run(
        self,
        question: str,
        style: Style,
        passages: Sequence[PassageVerdict],
        findings: Sequence[str] = (),
        *,
        mark: bool = False,
    ) -> Written:
        shown = {number: self.shown(passage) for number, passage in enumerate(passages, 1)}
        written = Written(style=style, passages=list(passages), looked_at=len(passages))
        if style == "table":
            statements, table = await self._compared(question, shown, mark)
            return _renumbered(written.model_copy(update={"statements": statements, "table": table}))
        asked: dict[str, Any] = {"findings": list(findings), "style": style}
        asked |= {"question": dated(question, self.write), "streamed": "text", "draft": True}
        reply = await ask(self.write, "write", draws=ANSWER, usable=_has_text, fitting=shown, **asked)
        text = text_of(reply.text)
        # What passages themselves say is no refusal.
        sentences = cited_sentences(text) if answers_quiz(without_pointers(text), question, passages, ()) else []
        statements = await gather([self._checked(question, one, shown, mark) for one in sentences])
        return _renumbered(written.model_copy(update={"statements": statements}))

    async def _gathered(self, question: str, reading: PassageReading) -> tuple[Written, list[PassageVerdict]]:
        """A list, and all that was found for it: as many passages are gone through as bring something new.

        The first search may bring nothing: the passages that rank first may be about what all members have in common.
        """
        settings, query = reading.settings, question
        size = settings.list_step or settings.top_k
        items: list[Statement] = []
        passages: list[PassageVerdict] = []
        more = lost = False
        while not more:
            before, wanted = len(passages), min(len(passages) + settings.top_k, settings.max_passages)
            hits = await searched(reading.retriever, query, wanted)
            if not before and (other := await reading.translated(query, hits)):
                query = other
                hits = await searched(reading.retriever, query, wanted)
            passages += unjudged(hits, "gone through for the list", kept=False)[before:]
            further = [(number, self.shown(one)) for number, one in enumerate(passages[before:], before + 1)]
            steps = [dict(further[at : at + size]) for at in range(0, len(further), size)]
            failed: dict[int, CallError] = {}
            listed = await gather([self._items_in(question, one, settings.mark_unsupported, failed) for one in steps])
            ended, errors = len(failed) == len(further), list(dict.fromkeys(failed.values()))
            if errors and ended and not before:
                raise errors[0]
            for error in errors:
                note("write", error.cause, error.message, "ended the list" if ended else "listed without them")
                lost = True
            brought = _merged(items, [item for step in listed for item in step])
            report(ItemsListed(sum(one.given for one in items), len(passages)))
            if ended or len(passages) < wanted or (before and not brought):
                break
            more = wanted == settings.max_passages
        more = more or lost
        written = Written(style="list", statements=items, passages=passages, looked_at=len(passages))
        return _renumbered(written.model_copy(update={"more": more and bool(items)})), passages

    async def _items_in(
        self, question: str, passages: dict[int, str], mark: bool, failed: dict[int, CallError]
    ) -> list[Statement]:
        """The items that passages tell; where these, or all that they tell, are too long for a call, from several.

        Passages whose call failed are added to `failed`, with the error.
        """
        shown = dict(passages)
        try:
            reply = await ask(self.items, "write", fitting=shown, question=dated(question, self.items))
        except CallError as error:
            if error.cause != "TruncatedReplyError" or len(shown) < 2:
                failed.update(dict.fromkeys(passages, error))
                return []
            shown = dict([*shown.items()][: len(shown) // 2])
            note("write", error.cause, error.message, f"listed from {len(shown)} of them", harmless=True)
            items = await self._items_in(question, shown, mark, failed)
        else:
            lines = [_on_a_line(one) for one in reply["items"] or []]
            texts = [one for one in without_bullets(lines) if _is_item(one, [*shown.values()])]
            items = await gather([self._checked(question, one, shown, mark, named=True) for one in texts])
        rest = {number: text for number, text in passages.items() if number not in shown}
        return items + await self._items_in(question, rest, mark, failed) if rest else items

    def judge(self, question: str) -> Callable[[Sequence[str], str], bool]:
        """Says whether passages carry a sentence, by their words or else by the judge; for measuring, not answering."""

        def entails(passages: Sequence[str], sentence: str) -> bool:
            session = Session(self.bound, blocking=True)
            found, _ = run_blocking(lambda: session.run(support_of(self.support, question, sentence, passages)))
            return found is True

        return entails

    async def _compared(
        self, question: str, shown: dict[int, str], mark: bool
    ) -> tuple[list[Statement], list[list[str]]]:
        reply = await ask(self.compare, "write", fitting=shown, question=dated(question, self.compare))
        subjects = [_on_a_line(one).replace("|", "/") for one in reply.subjects or []]
        read: list[tuple[str, list[str]]] = []
        for row in map(_on_a_line, reply.rows or []):
            aspect, *cells = (cell.strip() for cell in row.strip("| ").split("|"))
            if len(cells) != len(subjects) or len(subjects) < 2 or not _says_something(aspect):
                note("write", "NoRow", f"{row!a:.80} is no row of {len(subjects)} subjects", "left it out")
                continue
            if [without_citations(cell) for cell in cells] != subjects:
                read.append((aspect, cells))
        values = [pair for _, cells in read for pair in zip(subjects, cells, strict=True) if _says_something(pair[1])]
        whose = {who: [who, *(one for one in subjects if one != who)] for who in subjects}
        checks = [self._checked(question, cell, shown, mark, compared=whose[who]) for who, cell in values]
        statements = await gather(checks)
        given = {pair: _marked(one) for pair, one in zip(values, statements, strict=True) if one.given}
        table = [["", *subjects]]
        for aspect, cells in read:
            line = [given.get(pair, _NOTHING) for pair in zip(subjects, cells, strict=True)]
            if {*line} != {_NOTHING}:
                table.append([aspect, *line])
        return statements, table if len(table) > 1 else []

    def shown(self, verdict: PassageVerdict) -> str:
        passage = verdict.passage
        return passage.rendered if trained_on_prompts(self.write.lm or dspy.settings.lm) else passage.headed

    async def _checked(
        self,
        question: str,
        text: str,
        shown: Mapping[int, str],
        mark: bool,
        *,
        named: bool = False,
        compared: Sequence[str] = (),
    ) -> Statement:
        """A statement with what became of its check: what it claims stands in passages that it cites, and these exist.

        A value of a table is that of the first of what is `compared`. Small language models cite little, and often
        by the place of a column: where the passages cited lack words, and another one has them all, that is cited. What
        cites none and lacks a plain verb is for the judge; a number that the passages lack is nobody's to judge, but
        for one in a name, where they name nothing that it is compared with.
        """
        claimed = stated(without_pointers(f"{compared[0]}: {text}" if compared else text))
        citations = [number for number in cited_in(text) if number in shown]
        if words_lacking(claimed, [shown[number] for number in citations]):
            lacking = {number: words_lacking(claimed, [passage]) for number, passage in shown.items()}
            able = [number for number, words in lacking.items() if not words]
            if not citations:
                able += [number for number, words in lacking.items() if _PLAIN_VERBS.issuperset(words)]
            if able:
                citations = able[:1]
                text = cited_with(text, citations)
        cited = [shown[number] for number in citations]
        missing = words_lacking(claimed, cited)
        numbers = [word for word in missing if any(map(str.isdigit, word)) and not any(map(str.isalpha, word))]
        nameless = compared and all(words_lacking(one, cited) for one in compared[1:])
        unnamed = bool(numbers and nameless) and not words_lacking(stated(without_pointers(text)), cited)
        repeats = _repeats(question, without_citations(text))
        supported: bool | None = False
        if not citations:
            why = "it cites no passage that there is"
        elif numbers and not unnamed:
            why = f"the passages lack “{' '.join(numbers)}”"
        elif repeats == "words":
            why = "it says nothing but what was asked"
        else:
            # A name of the question is in every passage about it.
            worded = not repeats and not unnamed
            supported, why = await support_of(self.support, question, claimed, cited, worded=worded, named=named)
        kept = with_citations(text, {number: number for number in citations})
        given = mark or supported is not False
        return Statement(text=kept, citations=citations, supported=supported, why=why, given=given)


def findings_of(question: str, quizzes: Sequence[QuizRecord], answer: str | None) -> list[str]:
    """What the quizzes found, and beside several of them the short answer, so that the sentence says the same."""
    settled = (one for one in quizzes if one.resolved and one.answer and not one.abstained)
    findings = [f"{one.resolved} {one.answer}" for one in settled]
    return [*findings, f"{question} {answer}"] if answer and len(findings) > 1 else findings


def _has_text(prediction: dspy.Prediction) -> None:
    if not _says_something(text_of(prediction.text)):
        raise CallError("EmptyAnswerError", "the text was empty", unusable=True)


def _says_something(text: str) -> bool:
    return any(map(str.isalnum, text))


def _is_item(text: str, passages: Sequence[str]) -> bool:
    """Whether a line of a list is an item: small language models copy whole passages, which carry themselves."""
    if len(text) > (_LONGEST_ITEM if len(cited_sentences(text)) < 2 else _LONGEST_ITEMS):
        note("write", "NoItem", f"{text!a:.80} has {len(text)} characters", "left it out")
        return False
    bare = without_citations(text)
    # "Not included" may be what passages say.
    return _says_something(bare) and not (is_abstention(bare) and words_lacking(bare, passages))


def _repeats(question: str, text: str) -> Literal["", "words", "name"]:
    """What a text consists of that has no word but the question's, where that neither is nor holds the answer.

    What is asked between, as in "Which is older, the Nile or the Thames?", is an answer, and so is the whole of what is
    to be answered by yes or no.
    """
    ordered = style_asked_for(question) != "short"
    if _BETWEEN.search(question) or not (ordered or asks_what(question)):
        return ""
    # Of "List all styles" the first word is no word of what is asked for.
    asked = words_of(_BEFORE.sub("", question, count=1))[ordered:]
    words = [word for word in words_of(text) if word not in _ARTICLES]
    if not words or not all(stands_in(word, asked) for word in words):
        return ""
    return "name" if words in names_of(question) else "words"


def _on_a_line(value: object) -> str:
    return " ".join(text_of(value).split())


def _marked(statement: Statement) -> str:
    return statement.text if statement.supported is not False else f"{statement.text} {UNSUPPORTED}"


def _merged(items: list[Statement], new: Sequence[Statement]) -> bool:
    """Whether items bring one that is not among others yet; of one that is, the citations are added."""
    before = len(items)
    for item in new:
        bare = item.bare
        same = next((at for at, one in enumerate(items) if same_answer(one.bare, bare)), None)
        if same is None:
            items.append(item)
        elif item.supported is not False:
            known = items[same]
            first, citations = (item, []) if known.supported is False else (known, known.citations)
            citations = list(dict.fromkeys([*citations, *item.citations]))
            items[same] = first.model_copy(update={"text": cited_with(first.text, citations), "citations": citations})
    return any(one.given for one in items[before:])


def _renumbered(written: Written) -> Written:
    """A text of what is given, its sources numbered from 1; what nothing cites is none, and comes last, if at all."""
    lists = written.style == "list"
    used = {number for one in written.given for number in one.citations}
    read = range(1, len(written.passages) + 1)
    order = sorted(used) if lists else sorted(read, key=lambda number: number not in used)
    numbers = {old: new for new, old in enumerate(order, 1)}
    statements = [
        one.model_copy(
            update={
                "text": with_citations(one.text, numbers),
                "citations": [numbers[number] for number in one.citations if number in numbers],
            }
        )
        for one in written.statements
    ]
    passages = []
    for number in order:
        kept = number in used
        why = "not cited" if not kept else "tells an item" if lists else "cited"
        passages.append(written.passages[number - 1].model_copy(update={"kept": kept, "why": why}))
    head, rows = written.table[:1], written.table[1:]
    table = [*head, *([aspect, *(with_citations(cell, numbers) for cell in row)] for aspect, *row in rows)]
    texts = [_marked(one) for one in statements if one.given]
    text = "\n".join(f"- {one}" for one in texts) if lists else _in_markdown(table) or " ".join(texts)
    changed = {"text": text, "table": table, "statements": statements, "passages": passages}
    return written.model_copy(update=changed)


def _in_markdown(table: Sequence[Sequence[str]]) -> str:
    if not table:
        return ""
    head, *rows = (f"| {' | '.join(row)} |" for row in table)
    return "\n".join([head, "|" + " --- |" * len(table[0]), *rows])
