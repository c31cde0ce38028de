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

from collections.abc import Iterator, Sequence

from keqa.data.example import Answered
from keqa.data.quiz_references import check, parse
from keqa.metrics.accuracy import agrees
from keqa.metrics.utility import Correctness
from keqa.optimize.alignment import best_gold, settled_quizzes
from keqa.optimize.asking import Trace
from keqa.optimize.demos.candidate import Candidate, complete
from keqa.optimize.demos.from_gold_answers import labelled
from keqa.optimize.demos.from_quizzes import ClosedBook, answers, judgements, tries, triples
from keqa.optimize.failures import Failures
from keqa.programs.keqa import KEQA
from keqa.programs.records import QuestionRecord

JUDGES = frozenset({"examination.same"})
"""Predictors whose demonstrations must show both verdicts equally often."""


def candidates(
    program: KEQA,
    traces: Sequence[Trace],
    *,
    metric: Correctness,
    threshold: float,
    closed_book: ClosedBook,
    failures: Failures | None = None,
) -> dict[str, list[Candidate]]:
    """Find all possible demonstrations.

    Args:
        program: The program that was asked.
        traces: Its records of training questions.
        metric: Correctness of an answer.
        threshold: The final score that decomposition and summary take.
        closed_book: Asked for quizzes that were answered from passages without being examined.
        failures: Where searches that failed are counted.

    Returns:
        Candidates by the name of the predictor; predictors that are switched off have none.

    Raises:
        TooManyFailuresError: Many searches in succession failed.
    """
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
