"""Demonstrations from single quizzes whose gold answer is known: their tries, judgements and answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from keqa.metrics.accuracy import consistency_label, contains_answer
from keqa.metrics.utility import Correctness, gain
from keqa.optimize.alignment import Settled, best_gold
from keqa.optimize.asking import Trace
from keqa.optimize.demos.candidate import Candidate
from keqa.programs.gates import leader
from keqa.programs.keqa import KEQA
from keqa.programs.records import PassageVerdict

ClosedBook = Callable[[Trace, Settled], float | None]
"""Correctness of the answer without passages, for a quiz that was not examined; None where the call failed."""


def tries(settled: Sequence[tuple[Trace, Settled]]) -> Iterator[Candidate]:
    """Closed-book answers that say what the gold answer says, written as it is, so that its form is learned."""
    for trace, one in settled:
        texts = [sample.text for sample in one.quiz.samples if sample.text and not sample.abstained]
        agreeing = [text for text in texts if one.agrees(text)]
        if agreeing:
            answer = best_gold(agreeing[0], one.golds, one.answer_type, one.choices)
            demo = _asked(one, "quiz") | {"answer": answer}
            yield Candidate(demo, kind_of(answer, one.answer_type), trace.example.id)


def answers(
    program: KEQA, settled: Sequence[tuple[Trace, Settled]], metric: Correctness, closed_book: ClosedBook
) -> Iterator[Candidate]:
    """Answers from passages that are right, and better than the closed-book ones.

    Where passages contain the gold answer and another one was taken from them, the demonstration is that of the gold
    answer: what the program gets right by itself cannot show it which of two sources to believe.
    """
    for trace, one in settled:
        quiz = one.quiz
        if quiz.source != "passages" or quiz.answer is None:
            continue
        kept = [passage for passage in quiz.passages if passage.kept]
        shown = [] if quiz.evidence and program.select == "instead" else kept
        right = one.agrees(quiz.answer)
        # A title names what a passage is about; its text says something about it.
        stated = quiz.answer if right else _stated([*(passage.text for passage in shown), *quiz.evidence], one)
        if stated is None:
            continue
        answer = best_gold(stated, one.golds, one.answer_type, one.choices)
        score = metric(stated, one.golds, one.answer_type, one.choices)
        without = _without_passages(trace, one, metric, closed_book)
        if without is None or gain(score, without) <= 0:
            continue
        demo = {
            "passages": [_rendered(passage) for passage in shown],
            "evidence": list(quiz.evidence),
            "triples": list(quiz.triples),
            **_asked(one, "question"),
            "answer": answer,
        }
        kind = kind_of(answer, one.answer_type) if right else f"{kind_of(answer, one.answer_type)}, corrected"
        yield Candidate(demo, kind, trace.example.id)


def _stated(texts: Sequence[str], one: Settled) -> str | None:
    """The first of the gold answers that one of the texts states; nearly every text holds a yes or a no."""
    if one.answer_type != "short":
        return None
    return next((gold for gold in one.golds if any(contains_answer(text, [gold]) for text in texts)), None)


def _without_passages(trace: Trace, one: Settled, metric: Correctness, closed_book: ClosedBook) -> float | None:
    """Correctness of A_c of Algorithm 1, from the draws that were made; asked for where there are none.

    None where no draw or call came to an end: a failure says nothing about what the language model knows.
    """
    if not one.quiz.tries:
        return closed_book(trace, one)
    first = leader([cluster.size for cluster in one.quiz.clusters])
    if first is None:
        return None if one.quiz.samples and all(sample.error for sample in one.quiz.samples) else 0.0
    return metric(one.quiz.clusters[first].answer, one.golds, one.answer_type, one.choices)


def judgements(settled: Sequence[tuple[Trace, Settled]]) -> list[Candidate]:
    """At most one pair of each verdict from a quiz, none where two tries are equal after normalisation.

    Where tries alone leave a verdict without a pair, the gold answer replaces a try that is right.
    """
    own: list[Candidate] = []
    with_gold: list[Candidate] = []
    for trace, one in settled:
        texts = list(dict.fromkeys(str(s.text) for s in one.quiz.samples if s.text and not s.abstained))
        for found, pairs in (
            (own, itertools.combinations(texts, 2)),
            (with_gold, ((one.golds[0], text) for text in texts)),
        ):
            seen: set[bool] = set()
            for first, second in pairs:
                verdict = verdict_on(one, first, second)
                if verdict is not None and verdict not in seen:
                    seen.add(verdict)
                    # The program compares a later answer with the first of a cluster, in this order.
                    demo = {"quiz": one.quiz.resolved, "first_answer": second, "second_answer": first, "same": verdict}
                    found.append(Candidate(demo, str(verdict), trace.example.id))
    verdicts = {one.kind for one in own}
    return own + [one for one in with_gold if one.kind not in verdicts]


def verdict_on(one: Settled, first: str, second: str) -> bool | None:
    """Whether two answers are the same by DESIGN.md's rule 9; None where both are wrong or no judge would be asked."""
    return consistency_label(first, second, one.golds, one.answer_type, one.choices)


def triples(settled: Sequence[tuple[Trace, Settled]]) -> Iterator[Candidate]:
    """Triples whose evidence led to a right answer."""
    for trace, one in settled:
        if one.quiz.triples and one.quiz.evidence and one.quiz.answer and one.agrees(one.quiz.answer):
            demo = {"question": one.quiz.resolved, "triples": list(one.quiz.triples)}
            yield Candidate(demo, kind_of(one.golds[0], one.answer_type), trace.example.id)


def _asked(one: Settled, name: str) -> dict[str, Any]:
    return {name: one.quiz.resolved, "answer_type": one.answer_type, "choices": list(one.choices)}


def kind_of(answer: str, answer_type: str) -> str:
    """The kind of an answer: demonstrations of dates alone would not teach how people are named."""
    if answer_type != "short":
        return f"{answer_type} {answer.lower()}" if answer_type == "yes/no" else answer_type
    words = answer.split()
    form = "number" if any(char.isdigit() for char in answer) else "text"
    return f"{form}, {'one word' if len(words) == 1 else 'words'}"


def _rendered(passage: PassageVerdict) -> str:
    return f"{passage.title}: {passage.text}" if passage.title else passage.text
