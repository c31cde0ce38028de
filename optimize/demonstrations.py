"""Demonstrations for every predictor, from records of training questions that came out right.

===================  ==========================================================================================
decompose            the final answer is right; where no question of a shape comes out right, gold decompositions
summarize            the final answer is right: it passes the metric's threshold, in whatever form
quiz                 a try agrees with the quiz's gold answer; written in the gold answer's form
answer               with passages the answer is right, and better than the closed-book one (section 3.4's utility)
same                 DESIGN.md, rule 9: both tries right are the same, exactly one right differ, both wrong is dropped
construct            the answer drawn from the evidence that the triples found is right
===================  ==========================================================================================

The utility judge has none here: its demonstrations come from the utility reference alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keqa.data.example import Answered
from keqa.metrics.answers import is_abstention, same_answer
from keqa.metrics.utility import Correctness, gain
from keqa.optimize.alignment import Settled, agrees, best_gold, settled_quizzes
from keqa.optimize.traces import Trace
from keqa.programs.gates import leader
from keqa.programs.keqa import KEQA
from keqa.programs.records import PassageVerdict, QuestionRecord
from keqa.programs.references import check, parse

__all__ = ["JUDGES", "Candidate", "ClosedBook", "candidates", "complete"]

JUDGES = frozenset({"examination.same"})
"""Predictors whose demonstrations must show both verdicts equally often."""

ClosedBook = Callable[[Trace, Settled], float]
"""Correctness of the answer without passages, for a quiz that was not examined."""


@dataclass(frozen=True)
class Candidate:
    """A possible demonstration.

    Attributes:
        demo: Every field of the signature.
        kind: What kind of example it is; a set of demonstrations mixes the kinds.
        root: Identifier of the question it comes from.
    """

    demo: Mapping[str, Any]
    kind: str
    root: str


def candidates(
    program: KEQA,
    traces: Sequence[Trace],
    *,
    metric: Correctness,
    threshold: float,
    closed_book: ClosedBook,
) -> dict[str, list[Candidate]]:
    """Find all possible demonstrations.

    Args:
        program: The program that was asked.
        traces: Its records of training questions.
        metric: Correctness of an answer.
        threshold: The final score that decomposition and summary take.
        closed_book: Asked for quizzes that were answered from passages without being examined.

    Returns:
        Candidates by the name of the predictor; predictors that are switched off have none.
    """
    right = [trace for trace in traces if trace.score >= threshold and _is_right(trace)]
    found: dict[str, list[Candidate]] = {}
    if program.decompose:
        found["decomposition.decompose"] = [*_decompositions(right), *_gold_decompositions(traces, right)]
        found["summarizing.summarize"] = list(_summaries(right))
    settled = [(t, s) for t in traces if t.record is not None for s in settled_quizzes(t.example, t.record)]
    if program.examine:
        found["examination.quiz"] = list(_tries(settled))
        found["examination.same"] = _judgements(settled)
    answers = list(_answers(program, settled, metric, closed_book))
    found["answering.answer"] = answers
    if program.select:
        found["selection.construct"] = list(_triples(settled))
    predictors = dict(program.named_predictors())
    return {
        name: [Candidate(complete(predictors[name].signature, one.demo), one.kind, one.root) for one in some]
        for name, some in found.items()
    }


def complete(signature: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A demonstration with every field of a signature, in its order; DSPy moves incomplete ones apart.

    Raises:
        KeyError: A field without a default is missing.
    """
    demo = {}
    for name, field in signature.fields.items():
        if name not in fields and field.is_required():
            raise KeyError(f"a demonstration of {signature.__name__} needs the field '{name}'")
        demo[name] = fields[name] if name in fields else field.get_default(call_default_factory=True)
    return demo


def _is_right(trace: Trace) -> bool:
    """Whether the final answer says what a gold answer says; half the words of a wrong name may be right as well."""
    example, record = trace.example, trace.record
    if record is None or record.answer is None:
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


def _tries(settled: Sequence[tuple[Trace, Settled]]) -> Iterator[Candidate]:
    for trace, one in settled:
        texts = [sample.text for sample in one.quiz.samples if sample.text and not sample.abstained]
        agreeing = [text for text in texts if one.agrees(text)]
        if agreeing:
            answer = best_gold(agreeing[0], one.golds, one.answer_type, one.choices)
            yield Candidate(_asked(one, "quiz") | {"answer": answer}, _kind(one, answer), trace.example.id)


def _answers(
    program: KEQA, settled: Sequence[tuple[Trace, Settled]], metric: Correctness, closed_book: ClosedBook
) -> Iterator[Candidate]:
    for trace, one in settled:
        quiz = one.quiz
        if quiz.source != "passages" or quiz.answer is None or not one.agrees(quiz.answer):
            continue
        score = metric(quiz.answer, one.golds, one.answer_type, one.choices)
        if gain(score, _without_passages(trace, one, metric, closed_book)) <= 0:
            continue
        answer = best_gold(quiz.answer, one.golds, one.answer_type, one.choices)
        kept = [_rendered(passage) for passage in quiz.passages if passage.kept]
        demo = {
            "passages": [] if quiz.evidence and program.select == "instead" else kept,
            "evidence": list(quiz.evidence),
            "triples": list(quiz.triples),
            **_asked(one, "question"),
            "answer": answer,
        }
        yield Candidate(demo, _kind(one, answer), trace.example.id)


def _without_passages(trace: Trace, one: Settled, metric: Correctness, closed_book: ClosedBook) -> float:
    """Correctness of A_c of Algorithm 1, from the draws that were made; asked for where there are none."""
    if not one.quiz.tries:
        return closed_book(trace, one)
    first = leader([cluster.size for cluster in one.quiz.clusters])
    if first is None:
        return 0.0
    return metric(one.quiz.clusters[first].answer, one.golds, one.answer_type, one.choices)


def _judgements(settled: Sequence[tuple[Trace, Settled]]) -> list[Candidate]:
    """At most one pair of each verdict from a quiz, none where two tries are equal after normalisation.

    Where tries alone leave a verdict without a pair, the gold answer stands in for a try that is right.
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
                verdict = _verdict(one, first, second)
                if verdict is not None and verdict not in seen:
                    seen.add(verdict)
                    # The program compares a later answer with the first of a cluster, in this order.
                    demo = {"quiz": one.quiz.resolved, "first_answer": second, "second_answer": first, "same": verdict}
                    found.append(Candidate(demo, str(verdict), trace.example.id))
    verdicts = {one.kind for one in own}
    return own + [one for one in with_gold if one.kind not in verdicts]


def _verdict(one: Settled, first: str, second: str) -> bool | None:
    """Rule 9; None where both are wrong or no judge would be asked."""
    if same_answer(first, second, one.answer_type, one.choices) or is_abstention(first, one.choices):
        return None
    right = one.agrees(first) + one.agrees(second)
    return None if right == 0 else right == 2


def _triples(settled: Sequence[tuple[Trace, Settled]]) -> Iterator[Candidate]:
    for trace, one in settled:
        if one.quiz.triples and one.quiz.evidence and one.quiz.answer and one.agrees(one.quiz.answer):
            demo = {"question": one.quiz.resolved, "triples": list(one.quiz.triples)}
            yield Candidate(demo, _kind(one, one.golds[0]), trace.example.id)


def _asked(one: Settled, name: str) -> dict[str, Any]:
    return {name: one.quiz.resolved, "answer_type": one.answer_type, "choices": list(one.choices)}


def _kind(one: Settled, answer: str) -> str:
    """The kind of an answer: demonstrations of dates alone would not teach how people are named."""
    if one.answer_type != "short":
        return f"{one.answer_type} {answer.lower()}" if one.answer_type == "yes/no" else one.answer_type
    words = answer.split()
    form = "number" if any(char.isdigit() for char in answer) else "text"
    return f"{form}, {'one word' if len(words) == 1 else 'words'}"


def _rendered(passage: PassageVerdict) -> str:
    return f"{passage.title}: {passage.text}" if passage.title else passage.text


def _degraded(record: QuestionRecord, *stages: str) -> bool:
    return any(degradation.stage in stages for degradation in record.degradations)
