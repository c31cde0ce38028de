"""The story of one question as a tree for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from rich.tree import Tree

from keqa.storage.terminal import visible_line

if TYPE_CHECKING:
    from keqa.programs.records import Cost, Degradation, PassageVerdict, QuestionRecord, QuizRecord

_QUIZ_SOURCES = {
    "memory": "from memory",
    "passages": "from the passages kept",
    "closed_book": "closed book: nothing retrieved helped",
    "largest_cluster": "the most frequent of its own answers: nothing retrieved helped",
    "blocked": "not asked: a quiz it refers to has no answer",
    "skipped": "not asked",
    "failed": "failed",
}
_ANSWER_SOURCES = {
    "memory": "from memory",
    "passages": "from passages",
    "closed_book": "closed book",
    "largest_cluster": "the most frequent of its own answers",
    "summary": "summed up from the quizzes",
    "fallback": "from the question itself, with retrieval: the quizzes did not settle it",
    "failed": "failed",
}
_LONGEST = 2000
"""A question or answer of more characters is cut in the tree; the JSON has all of it."""

_LONGEST_MESSAGE = 160
"""An error's message is cut in the tree: many quote the whole reply of an LM."""


def record_tree(record: QuestionRecord) -> Tree:
    """Draw quizzes, samples and consistency, passages and verdicts, what went wrong, explanation, answer and cost.

    Args:
        record: The story of the question.

    Returns:
        A tree for a rich console. Everything in it is plain text: brackets in a passage are no markup.
    """
    tree = Tree(_text(record.question, "bold"), guide_style="dim")
    for quiz in record.quizzes:
        _add_quiz(tree, quiz, f"Quiz {quiz.index}")
    if record.fallback is not None:
        _add_quiz(tree, record.fallback, "The question itself")
    if record.passages:
        _add_passages(tree, record.passages)
    if record.degradations:
        branch = tree.add(Text("What went wrong, and what was done", "yellow"))
        # A judge that fails on one passage mostly fails on ten: one line for those that were met alike.
        alike: dict[tuple[str, int | None, str, str], list[Degradation]] = {}
        for one in record.degradations:
            alike.setdefault((one.stage, one.quiz, one.cause, one.action), []).append(one)
        for group in alike.values():
            branch.add(_degradation(group))
    if record.explanation:
        tree.add(_labelled("Explanation", record.explanation))
    _add_answer(tree, record)
    tree.add(Text.assemble(("Cost: ", "bold"), cost_line(record.cost)))
    return tree


def cost_line(cost: Cost) -> str:
    """Say in one line what a question cost.

    Args:
        cost: Its cost by role.
    """
    roles = ", ".join(f"{name} {role.calls}" for name, role in cost.by_role.items() if role.calls)
    asked = _count(cost.calls, "LM call")
    if cost.samples > cost.lm_requests:
        asked = f"{_count(cost.samples, 'LM call')} in {_count(cost.lm_requests, 'request')}"
    parts = [asked + (f" ({roles})" if roles else "")]
    cached = sum(role.cached for role in cost.by_role.values())
    if cached:
        parts.append(f"{cached} from the cache")
    failed = sum(role.failed for role in cost.by_role.values())
    if failed:
        parts.append(f"{failed} failed")
    read = sum(role.prompt_tokens for role in cost.by_role.values())
    written = sum(role.completion_tokens for role in cost.by_role.values())
    if read or written:
        parts.append(f"{read:,} tokens read and {written:,} written")
    parts.append(_count(cost.retrievals, "retrieval"))
    parts.append(f"{cost.seconds:.1f} s")
    return ", ".join(parts)


def _add_quiz(tree: Tree, quiz: QuizRecord, label: str) -> None:
    head = _labelled(label, quiz.text)
    if quiz.resolved is not None and quiz.resolved != quiz.text:
        head.append(" → ", "dim")
        head.append_text(_text(quiz.resolved))
    branch = tree.add(head)
    if quiz.samples:
        branch.add(_samples(quiz))
    if quiz.known is not None:
        branch.add(_verdict(quiz))
    if quiz.passages:
        _add_passages(branch, quiz.passages)
    elif quiz.retrieved:
        branch.add(Text("searched: nothing found"))
    for title, sentences in (("triples", quiz.triples), ("evidence", quiz.evidence)):
        if sentences:
            part = branch.add(Text(title))
            for sentence in sentences:
                part.add(_text(sentence, "dim"))
    source = _QUIZ_SOURCES[quiz.source]
    if quiz.answer is None:
        branch.add(Text(f"no answer ({source})", "yellow"))
    else:
        line = _labelled("answer", quiz.answer, "green")
        branch.add(line.append(f" ({source})", "dim"))


def _samples(quiz: QuizRecord) -> Text:
    line = Text(f"asked {_count(len(quiz.samples), 'time')}")
    if not quiz.complete:
        line.append(f" of {quiz.tries}, which settled it")
    line.append(": ")
    parts = [_text(f"“{cluster.answer}” ×{cluster.size}") for cluster in quiz.clusters]
    abstained = sum(sample.abstained for sample in quiz.samples)
    if abstained:
        parts.append(Text(f"does not know ×{abstained}"))
    failed = sum(sample.error is not None for sample in quiz.samples)
    if failed:
        parts.append(Text(f"failed ×{failed}", "yellow"))
    return line.append_text(Text(", ").join(parts))


def _verdict(quiz: QuizRecord) -> Text:
    words = ("known", "green") if quiz.known else ("unknown, so search", "magenta")
    parts = []
    if quiz.certainty is not None and quiz.stopped and not quiz.complete:
        # What the draws agree on is not what decided.
        return _text(f"{quiz.stopped}: ").append(*words)
    if quiz.consistency_exact is not None:
        parts.append(_consistency(quiz))
    if quiz.certainty is not None:
        parts.append(f"certainty {quiz.certainty:.2f}")
    line = Text(", ".join(parts))
    return (line.append(": ") if parts else line).append(*words)


def _consistency(quiz: QuizRecord) -> str:
    """T_c against α; where sampling ended early it is that of the samples drawn until then."""
    if quiz.threshold_exact is None:
        return f"consistency {quiz.consistency_exact}"
    if quiz.complete:
        return f"consistency {quiz.consistency_exact} {'≥' if quiz.known else '<'} {quiz.threshold_exact}"
    if quiz.known:
        return f"consistency already {quiz.consistency_exact} ≥ {quiz.threshold_exact}"
    return f"consistency {quiz.consistency_exact} so far, {quiz.threshold_exact} out of reach"


def _add_passages(tree: Tree, passages: list[PassageVerdict]) -> None:
    kept = sum(passage.kept for passage in passages)
    branch = tree.add(Text(f"retrieved {_count(len(passages), 'passage')}, kept {kept}"))
    for passage in passages:
        mark, style = ("✓", "green") if passage.kept else ("✗", "dim")
        head = Text.assemble((f"{mark} ", style), _text(passage.title or passage.passage_id, style))
        if passage.why:
            head.append_text(_text(f" ({passage.why})", "yellow" if passage.verdict == "failed" else style))
        text = _text(passage.text, "dim")
        text.no_wrap, text.overflow = True, "ellipsis"
        branch.add(head).add(text)


def _add_answer(tree: Tree, record: QuestionRecord) -> None:
    if record.failure is not None:
        failure = record.failure
        tree.add(_labelled(f"No answer: {failure.stage} failed ({failure.cause})", failure.message, "red"))
    elif record.answer is not None:
        line = _labelled("Answer", record.answer, "bold green")
        tree.add(line.append(f" ({_ANSWER_SOURCES[record.answer_source]})", "dim"))


def _degradation(alike: list[Degradation]) -> Text:
    first = alike[0]
    where = first.stage.replace("_", " ")
    if first.quiz is not None:
        where += f", quiz {first.quiz}"
    if len(alike) > 1:
        where += f", {len(alike)} times"
    message = " ".join(first.message.split())
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}…"
    line = _labelled(where, f"{message} ({first.cause})", "yellow")
    return line.append_text(_text(f" → {first.action}"))


def _labelled(label: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"{label}: ", "bold"), _text(text, style))


def _text(text: str, style: str = "") -> Text:
    cut = f"{text[:_LONGEST]}… ({len(text):,} characters)" if len(text) > _LONGEST else text
    return Text(visible_line(cut), style)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
