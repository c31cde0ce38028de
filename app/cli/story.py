"""An answer for the terminal: each quiz as it settles, and then the answer, what it rests on, and its story."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from keqa.programs.prediction import Answered, AnswerPart, Progress, QuizAnswered, Source, disagreements_of, sources_of
from keqa.programs.records import Cost, Degradation, PassageVerdict, QuestionRecord, QuizRecord
from keqa.programs.unanswered import answer_text, lines_of, listed
from keqa.retrievers.base import Place
from keqa.storage.redaction import visible_line

QUIZ_SOURCES = {
    "memory": "from memory",
    "passages": "from the passages kept",
    "closed_book": "closed book: nothing retrieved helped",
    "largest_cluster": "the most frequent of its own answers: nothing retrieved helped",
    "unanswered": "not in the documents",
    "blocked": "not asked: a quiz it refers to has no answer",
    "skipped": "not asked",
    "failed": "failed",
}
"""What an answer to a quiz comes from, in words."""

ANSWER_SOURCES = {
    "memory": "from memory",
    "passages": "from passages",
    "closed_book": "closed book",
    "largest_cluster": "the most frequent of its own answers",
    "summary": "summed up from the quizzes",
    "fallback": "from the question itself, with retrieval, after its quizzes",
    "unanswered": "not in the documents",
    "withheld": "withheld: its own answer is too probably wrong for the risk",
    "failed": "failed",
}
"""What an answer comes from, in words."""

WAYS = {"draft": "memory alone", "reading": "one search and its reading", "quizzes": "its quizzes"}
"""What a question is settled by, in words."""

_LONGEST, _LONGEST_MESSAGE = 2000, 160
"""A question or answer, and an error's message, of more characters is cut in the tree; the JSON has all of it."""

_EVIDENCE = "bold cyan"
"""The style of an evidence sentence, by itself and in its passage."""

_INDENT = (0, 0, 0, 4)


def shown_answer(record: QuestionRecord, *, full: bool = False) -> Group:
    """The answer, how it follows, its sources with the sentences that carried it, and the story of the question."""
    parts: list[RenderableType] = [*written_answer(record)] or [head(record)]
    for line, beneath in lines_of(record.unanswered) if record.unanswered is not None else ():
        parts += [plain(line), *(Padding(plain(one, "dim", whole=True), _INDENT, expand=False) for one in beneath)]
    if record.withheld is not None:
        parts.append(_labelled("Withheld", record.withheld, "dim"))
    if record.confidence is not None:
        parts.append(_labelled("Confidence", f"{record.confidence:.2f}"))
    if record.explanation:
        parts.append(_labelled("Explanation", record.explanation))
    if sources := sources_of(record):
        parts.append(Text("Sources:", "bold"))
        for number, source in enumerate(sources, start=1):
            parts += _source(number, source, full)
    parts += [plain(one, "yellow") for one in disagreements_of(record)]
    return Group(*parts, Text(), record_tree(record, full=full))


def written_answer(record: QuestionRecord) -> Iterator[RenderableType]:
    """A written answer line by line, a table as one, and what is said of it; nothing where there is none."""
    written = record.written
    if written is None or not written.text:
        return
    if written.table:
        first, *rows = written.table
        table = Table()
        for cell in first:
            table.add_column(plain(cell))
        for row in rows:
            table.add_row(*(plain(cell, whole=True) for cell in row))
        yield table
    else:
        yield from (plain(line, "green", whole=True) for line in written.text.splitlines())
    if written.style == "list":
        yield plain(listed(written), "dim")
    elif record.answer not in (None, written.plain):
        yield _answer("In short", answer_text(record, short=True))
    left = len(written.statements) - len(written.given)
    if left:
        why = "as no passage that it cites carries it, or it says nothing new"
        yield plain(f"Left out, {why}: {_count(left, 'statement')}", "yellow")


def head(record: QuestionRecord) -> Text:
    """The answer; a guess is marked, and what the documents do not say is no answer."""
    if record.failure is not None:
        failure = record.failure
        what = f"No answer: {failure.stage} failed ({failure.cause}): "
        return Text.assemble((what, "bold"), plain(failure.message, "red"))
    if record.unanswered is not None:
        return plain(record.unanswered.message, "bold yellow", whole=True)
    if record.guessed:
        return _answer("Answer", answer_text(record), "bold yellow")
    return _answer("Answer", record.answer or "", "bold green", f"({ANSWER_SOURCES[record.answer_source]})")


def _answer(label: str, text: str, style: str = "", source: str = "") -> Text:
    """An answer and what it comes from; one in several lines, such as steps or code, stands below its label."""
    lines = in_lines(text, style)
    between = "\n" if "\n" in lines.plain else " "
    return Text.assemble((f"{label}:", "bold"), between, lines, between if source else "", (source, "dim"))


def _source(number: int, source: Source, full: bool) -> list[RenderableType]:
    label = Text.assemble((f"[{number}] ", "bold"), plain(source.label))
    if source.date:
        label.append_text(plain(f", {source.date}"))
    if source.quizzes:
        label.append(f" · quiz {', '.join(map(str, source.quizzes))}", "dim")
    lines = [plain(source.text, "dim", whole=True)] if full else []
    lines += [plain(f"“{sentence}”") for sentence in source.sentences]
    return [label, *(Padding(line, _INDENT, expand=False) for line in lines)]


def follow(events: Iterable[Progress], update: Callable[[Text], Any]) -> Any:
    """Show what happened so far, beside a spinner, until the answer is there; the finished story takes its place."""
    settled: list[Text] = []
    draft = ""
    for event in events:
        if isinstance(event, Answered):
            return event.prediction
        if isinstance(event, QuizAnswered):
            settled.append(_settled(event))
        if isinstance(event, AnswerPart):
            draft = draft[: event.at] + event.text
        now = {QuizAnswered: "asking…", AnswerPart: "writing…"}.get(type(event), str(event))
        update(Text("\n").join([plain(now), *settled, *([plain(draft, "italic")] if draft else [])]))
    raise AssertionError("a stream of events ends with the answer")


def _settled(event: QuizAnswered) -> Text:
    label = f"Quiz {event.index}: " if event.index else "The question itself: "
    provisional = "; provisional" if event.provisional and event.answer is not None else ""
    before = "; settled before" if event.earlier else ""
    where = f" ({QUIZ_SOURCES.get(event.source, event.source)}{provisional}{before})"
    answer = Text("no answer", "yellow") if event.answer is None else plain(event.answer, "green")
    return Text.assemble((label, "bold"), plain(event.text), " → ", answer, (where, "dim"))


def record_tree(record: QuestionRecord, *, full: bool = False) -> Tree:
    """Draw quizzes, samples and consistency, passages and verdicts, what went wrong, and cost."""
    tree = Tree(plain(record.question, "bold"), guide_style="dim")
    _add_quizzes(tree, record, full)
    if record.passages:
        _add_passages(tree, record.passages, (), full)
    if record.written is not None and record.written.statements:
        branch = tree.add(Text(f"written as a {record.written.style}"))
        for statement in record.written.statements:
            mark, style = ("✓", "green") if statement.supported is not False else ("✗", "yellow")
            branch.add(plain(f"{mark} {statement.text} ({statement.why})", style))
    if record.unanswered is not None and record.unanswered.guess is not None:
        tree.add(_labelled("It would have guessed", record.unanswered.guess, "dim"))
    if record.degradations:
        branch = tree.add(Text("What went wrong, and what was done", "yellow"))
        # A judge that fails on one passage mostly fails on ten: one line for those that were met alike.
        alike: dict[tuple[str, int | None, str, str], list[Degradation]] = {}
        for one in record.degradations:
            alike.setdefault((one.stage, one.quiz, one.cause, one.action), []).append(one)
        for group in alike.values():
            branch.add(_degradation(group))
    tree.add(Text.assemble(("Cost: ", "bold"), cost_line(record.cost)))
    return tree


def cost_line(cost: Cost) -> str:
    roles = ", ".join(f"{name} {role.calls}" for name, role in cost.by_role.items() if role.calls)
    names = ("cached", "failed", "prompt_tokens", "completion_tokens")
    cached, failed, read, written = (sum(getattr(role, name) for role in cost.by_role.values()) for name in names)
    asked = _count(cost.calls, "LM call")
    if cost.samples > cost.lm_requests:
        asked = f"{_count(cost.samples, 'LM call')} in {_count(cost.lm_requests, 'request')}"
    if cached and not cost.calls:
        asked, roles = f"{_count(max(cost.samples, cached), 'LM call')}, all answered from the cache", ""
    parts = [
        asked + (f" ({roles})" if roles else ""),
        f"{cached} more from the cache" if cached and cost.calls else "",
        f"{failed} failed" if failed else "",
        f"{read:,} tokens read and {written:,} written" if read or written else "",
        _count(cost.retrievals, "retrieval"),
        f"{cost.seconds:.1f} s",
    ]
    return ", ".join(filter(None, parts))


def _add_quizzes(tree: Tree, record: QuestionRecord, full: bool) -> None:
    """By what it was settled, the quizzes, and the question itself where that was answered."""
    whole = record.settled_by in ("draft", "reading") and record.fallback is None
    if record.settled_by is not None and (whole or record.chances):
        chances = ", ".join(f"{way} {chance:.2f}" for way, chance in record.chances.items())
        right = f" (probably right: {chances})" if chances else ""
        tree.add(_labelled("settled by", f"{WAYS[record.settled_by]}{right}"))
    if record.whole is not None:
        _add_quiz(tree, record.whole, "The question itself", full)
    for quiz in record.quizzes:
        _add_quiz(tree, quiz, "The question itself" if whole else f"Quiz {quiz.index}", full)
    if record.fallback is not None:
        _add_quiz(tree, record.fallback, "The question itself", full)


def _add_quiz(tree: Tree, quiz: QuizRecord, label: str, full: bool) -> None:
    head = _labelled(label, quiz.text)
    if quiz.resolved is not None and quiz.resolved != quiz.text:
        head.append(" → ", "dim").append_text(plain(quiz.resolved))
    branch = tree.add(head)
    if quiz.earlier:
        branch.add(_labelled("settled before, and not asked again, by", quiz.earlier, "dim"))
    if quiz.samples:
        branch.add(_samples(quiz))
    if quiz.known is not None:
        branch.add(_verdict(quiz))
    elif quiz.stopped:
        branch.add(plain(quiz.stopped))
    if quiz.passages:
        _add_passages(branch, quiz.passages, quiz.evidence, full)
    elif quiz.retrieved:
        branch.add(Text("searched: nothing found"))
    for title, lines in (("triples", [plain(one, "dim") for one in quiz.triples]), ("evidence", _evidence(quiz))):
        part = branch.add(Text(title)) if lines else branch
        for line in lines:
            part.add(line)
    _add_answer(branch, quiz)


def _add_answer(branch: Tree, quiz: QuizRecord) -> None:
    if quiz.support:
        drawn = f"“{quiz.guess}”: " if quiz.supported is False and quiz.guess is not None else ""
        branch.add(plain(f"checked: {drawn}{quiz.support}", "dim"))
    if quiz.weighed is not None:
        branch.add(plain(str(quiz.weighed)))
    source = QUIZ_SOURCES[quiz.source]
    if quiz.answer is None:
        branch.add(Text(f"no answer ({source})", "yellow"))
    else:
        line = _labelled("answer", quiz.answer, "green")
        branch.add(line.append(f" ({source})", "dim"))


def _evidence(quiz: QuizRecord) -> list[Text]:
    """Each sentence, with what selected it where that is known."""
    if not quiz.selected:
        return [plain(sentence, _EVIDENCE) for sentence in quiz.evidence]
    return [
        plain(one.text, _EVIDENCE).append_text(plain(f" (distance {one.distance:.2f} from {one.nearest_to})", "dim"))
        for one in quiz.selected
    ]


def _samples(quiz: QuizRecord) -> Text:
    if quiz.drafted:
        return plain(f"drafted with the quizzes: “{quiz.samples[0].text}”")
    settled = "" if quiz.complete else f" of {quiz.tries}, which settled it"
    parts = [plain(f"“{cluster.answer}” ×{cluster.size}") for cluster in quiz.clusters]
    if abstained := sum(sample.abstained for sample in quiz.samples):
        parts.append(Text(f"does not know ×{abstained}"))
    if failed := sum(sample.error is not None for sample in quiz.samples):
        parts.append(Text(f"failed ×{failed}", "yellow"))
    return Text(f"asked {_count(len(quiz.samples), 'time')}{settled}: ").append_text(Text(", ").join(parts))


def _verdict(quiz: QuizRecord) -> Text:
    words = ("known", "green") if quiz.known else ("unknown, so search", "magenta")
    if quiz.stopped and (quiz.drafted or quiz.gate == "chooser" or (quiz.certainty is not None and not quiz.complete)):
        # What the draws agree on is not what decided.
        return plain(f"{quiz.stopped}: ").append(*words)
    parts = [] if quiz.consistency_exact is None else [_consistency(quiz)]
    parts += [] if quiz.certainty is None else [_certainty(quiz, quiz.certainty)]
    return Text(f"{', '.join(parts)}: " if parts else "").append(*words)


def _consistency(quiz: QuizRecord) -> str:
    """T_c against α; where sampling ended early it is that of the samples drawn until then.

    Alone where the gate compares something else, and without a sign where that would be false: any gate may decide.
    """
    share, least, shown = quiz.consistency, quiz.threshold, f"consistency {quiz.consistency_exact}"
    if quiz.certainty is not None or share is None or least is None or quiz.threshold_exact is None:
        return shown
    reached = share >= least
    if quiz.complete and reached == quiz.known:
        return f"{shown} {'≥' if reached else '<'} {quiz.threshold_exact}"
    if quiz.known and reached:
        return f"consistency already {quiz.consistency_exact} ≥ {quiz.threshold_exact}"
    left = quiz.tries - len(quiz.samples)
    if not (quiz.known or quiz.complete) and round(share + left / max(quiz.tries, 1), 9) < least:
        return f"{shown} so far, {quiz.threshold_exact} out of reach"
    return f"{shown} (threshold {quiz.threshold_exact})"


def _certainty(quiz: QuizRecord, measure: float) -> str:
    """The gate's measure against its threshold, in as many digits as make it true; without a sign where it is not."""
    least, shown = quiz.threshold, f"certainty {measure:.2f}"
    if least is None or quiz.threshold_exact is None:
        return shown
    reached = round(measure, 12) >= least
    if reached != quiz.known:
        return f"{shown} (threshold {quiz.threshold_exact})"
    written = (f"{measure:.{digits}f}" for digits in range(2, 13))
    exact = next(one for one in written if (float(one) >= least) == reached)
    return f"certainty {exact} {'≥' if reached else '<'} {quiz.threshold_exact}"


def _add_passages(tree: Tree, passages: list[PassageVerdict], evidence: Sequence[str], full: bool) -> None:
    """Each passage with what became of it, the evidence sentences in it highlighted."""
    kept = sum(passage.kept for passage in passages)
    branch = tree.add(Text(f"retrieved {_count(len(passages), 'passage')}, kept {kept}"))
    for passage in passages:
        mark, style = ("✓", "green") if passage.kept else ("✗", "dim")
        head = Text.assemble((f"{mark} ", style), plain(passage.title or passage.passage_id, style))
        if passage.file:
            head.append_text(plain(f" [{Place(passage.file, passage.page, passage.heading)}]", "dim"))
        if passage.why:
            head.append_text(plain(f" ({passage.why})", "yellow" if passage.verdict == "failed" else style))
        if full:
            branch.add(head).add(_highlighted(plain(passage.text, "dim", whole=True), evidence))
            continue
        text = _highlighted(plain(" … ".join(passage.sentences) or passage.text, "dim"), evidence)
        text.no_wrap, text.overflow = True, "ellipsis"
        branch.add(head).add(text)


def _highlighted(text: Text, evidence: Sequence[str]) -> Text:
    text.highlight_words([visible_line(sentence) for sentence in evidence], _EVIDENCE)
    return text


def _degradation(alike: list[Degradation]) -> Text:
    first, times = alike[0], len(alike)
    quiz = "" if first.quiz is None else f", quiz {first.quiz}"
    where = first.stage.replace("_", " ") + quiz + (f", {times} times" if times > 1 else "")
    message = " ".join(first.message.split())
    message = f"{message[:_LONGEST_MESSAGE]}…" if len(message) > _LONGEST_MESSAGE else message
    return _labelled(where, f"{message} ({first.cause})", "yellow").append_text(plain(f" → {first.action}"))


def _labelled(label: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"{label}: ", "bold"), plain(text, style))


def plain(text: str, style: str = "", *, whole: bool = False) -> Text:
    """Text from outside as one line that acts on no terminal."""
    cut = text if whole or len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
    return Text(visible_line(cut), style)


def in_lines(text: str, style: str = "") -> Text:
    """Text from outside in its own lines, that acts on no terminal."""
    return Text("\n").join(plain(line.expandtabs(4), style, whole=True) for line in text.splitlines())


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
