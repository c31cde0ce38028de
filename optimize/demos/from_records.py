"""Demonstrations for every predictor, from records of training questions that came out right.

===================  ==========================================================================================
decompose            the final answer is right; where no question of a shape comes out right, gold decompositions
summarize            the final answer is right: it passes the metric's threshold, in whatever form, and follows
                     from answers that are not known to be wrong
quiz                 a try agrees with the quiz's gold answer; written in the gold answer's form
answer               with passages the answer is right, and better than the closed-book one (section 3.4's utility);
                     the gold answer where the passages contain it and another one was taken
same                 DESIGN.md, rule 9: both tries right are the same, exactly one right differ, both wrong is dropped
construct            the answer drawn from the evidence that the triples found is right
===================  ==========================================================================================

Where no quiz, answer or judgement came out right, gold answers alone make them
(`keqa.optimize.demos.from_gold_answers`). The utility judge has none here: its demonstrations come from the utility
reference alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from keqa.data.example import Answered
from keqa.data.quiz_references import check, parse
from keqa.metrics.accuracy import agrees, consistency_label, contains_answer
from keqa.metrics.utility import Correctness, gain
from keqa.optimize.alignment import Settled, best_gold, settled_quizzes
from keqa.optimize.asking import Trace
from keqa.optimize.demos.candidate import Candidate, complete, kind_of
from keqa.optimize.demos.from_gold_answers import labelled
from keqa.optimize.failures import Failures
from keqa.programs.gates import leader
from keqa.programs.keqa import KEQA
from keqa.programs.records import PassageVerdict, QuestionRecord

JUDGES = frozenset({"examination.same"})
"""Predictors whose demonstrations must show both verdicts equally often."""

ClosedBook = Callable[[Trace, Settled], float | None]
"""Correctness of the answer without passages, for a quiz that was not examined; None where the call failed."""


def candidates(
    program: KEQA,
    traces: Sequence[Trace],
    *,
    metric: Correctness,
    threshold: float,
    closed_book: ClosedBook,
    failures: Failures | None = None,
) -> dict[str, list[Candidate]]:
    """Find all possible demonstrations."""
    right = [trace for trace in traces if is_right(trace, threshold)]
    found: dict[str, list[Candidate]] = {}
    if program.decompose:
        found["decomposition.decompose"] = [*_decompositions(right), *_gold_decompositions(traces, right)]
        found["summarizing.summarize"] = list(_summaries(right))
    settled = [(t, s) for t in traces if t.record is not None for s in settled_quizzes(t.example, t.record)]
    if program.examine:
        found["examination.quiz"] = list(tries(settled))
        found["examination.same"] = judgements(settled)
    found["answering.answer"] = list(answers(program, settled, metric, closed_book))
    if program.select:
        found["selection.construct"] = list(triples(settled))
    wanting = {name for name, some in found.items() if not some}
    if any(one.quiz.source == "passages" and one.agrees(one.quiz.answer or "") for _, one in settled):
        # Answers that are right and teach nothing, since memory has them too, are no reason to show gold ones.
        wanting.discard("answering.answer")
    watch = (failures or Failures()).watch("searching for what tells gold answers")
    found |= labelled(program, [trace.example for trace in traces], wanting, watch)
    predictors = dict(program.named_predictors())
    return {
        name: [Candidate(complete(predictors[name].signature, one.demo), one.kind, one.root) for one in some]
        for name, some in found.items()
    }


def is_right(trace: Trace, threshold: float) -> bool:
    """Whether the metric accepts the final answer.

    It has to say what a gold answer says as well: half the words of a wrong name may be right.
    """
    example, record = trace.example, trace.record
    if record is None or record.answer is None or trace.score < threshold:
        return False
    return agrees(record.answer, example.answers, record.answer_type, record.choices)


def _decompositions(right: Sequence[Trace]) -> Iterator[Candidate]:
    for trace in right:
        record, gold = trace.record, trace.example.quizzes
        if record is None or _degraded(record, "decompose", "references"):
            continue
        texts = [quiz.text for quiz in record.quizzes]
        # With a gold decomposition, an answer that is right by luck does not make another number of quizzes right.
        if (gold and len(gold) != len(texts)) or [quiz.index for quiz in record.quizzes] != [*range(1, len(texts) + 1)]:
            continue
        yield _decomposition(trace.example, texts)


def _gold_decompositions(traces: Sequence[Trace], right: Sequence[Trace]) -> Iterator[Candidate]:
    """Gold decompositions of the shapes that the program itself never got right."""
    own = {one.kind for one in _decompositions(right)}
    for trace in traces:
        texts = list(trace.example.quizzes)
        if texts and not any(problem.fatal for problem in check(parse(texts))):
            candidate = _decomposition(trace.example, texts)
            if candidate.kind not in own:
                yield candidate


def _decomposition(example: Answered, texts: list[str]) -> Candidate:
    kind = f"{example.answer_type}, {len(texts)} quizzes, {'chained' if '#' in ''.join(texts) else 'apart'}"
    return Candidate({"question": example.question, "quizzes": texts}, kind, example.id)


def _summaries(right: Sequence[Trace]) -> Iterator[Candidate]:
    for trace in right:
        record, example = trace.record, trace.example
        if record is None or record.answer_source != "summary" or not record.answer or not record.explanation:
            continue
        # Two wrong employers make a right "yes": nobody should learn to conclude so.
        if any(
            one.quiz.answer is not None and not one.agrees(one.quiz.answer) for one in settled_quizzes(example, record)
        ):
            continue
        answered = [f"{q.resolved} {q.answer}" for q in record.quizzes if q.resolved and q.answer and not q.abstained]
        yield Candidate(
            {
                "question": record.question,
                "answered_quizzes": answered,
                "answer_type": record.answer_type,
                "choices": list(record.choices),
                "explanation": record.explanation,
                "answer": best_gold(record.answer, example.answers, record.answer_type, record.choices),
            },
            f"{record.answer_type}, {len(answered)} quizzes",
            example.id,
        )


def _degraded(record: QuestionRecord, *stages: str) -> bool:
    return any(degradation.stage in stages and not degradation.harmless for degradation in record.degradations)


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


def _rendered(passage: PassageVerdict) -> str:
    return f"{passage.title}: {passage.text}" if passage.title else passage.text
