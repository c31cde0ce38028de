"""Possible demonstrations for every predictor, and draws of a few of them with mixed kinds.

KEQA's come from records of training questions, and say which calls there should have been:

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

The utility judge has none here: its demonstrations come from the utility reference alone. Where no quiz, answer or
judgement came out right, gold answers alone make demonstrations: what such a language model lacks is the form of a
reply, and gold answers show it as well as its own right ones would. Of other programs those calls are demonstrations
from which `keqa.optimize.judged` says that one may learn.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_origin

from keqa.data.example import Answered
from keqa.data.question import broken_references, numbered_quizzes
from keqa.errors import RetrievalError
from keqa.metrics.accuracy import agrees, contains_answer
from keqa.metrics.answers import same_answer
from keqa.metrics.utility import Correctness, gain
from keqa.optimize.alignment import GoldQuiz, Settled, settled_quizzes
from keqa.optimize.asking import Trace
from keqa.optimize.failures import FailureMonitor, Failures
from keqa.optimize.judged import judged, teaching
from keqa.programs.build import complete
from keqa.programs.fingerprint import digest
from keqa.programs.gate import leader
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program

_LONGEST = 6000
"""Characters of one demonstration; longer ones would leave a small context window no room for the question."""
_ENOUGH = 32
"""Gold quizzes that are searched for: each costs a search, and a set of demonstrations holds a handful."""
_SO_FAR = ("thoughts", "verified")
"""Inputs that grow from call to call; a set of demonstrations shows beginnings and ends."""

ClosedBook = Callable[[Settled], float | None]
"""Correctness of the answer without passages, for a quiz that was not examined; None where the call failed."""


@dataclass(frozen=True)
class Candidate:
    """A possible demonstration: its fields, what kind of example it is, and the id of the question it comes from."""

    demo: Mapping[str, Any]
    kind: str
    root: str


def choose(pool: Sequence[Candidate], count: int, rng: random.Random, *, balanced: bool = False) -> list[Candidate]:
    """Draw demonstrations of mixed kinds, and from as many questions as there are, in random order.

    Balanced are the verdicts of a judge: all kinds are there equally often. Where only one is there, none is drawn,
    since a judge shown one verdict alone would give no other.
    """
    kinds: dict[str, list[Candidate]] = {}
    for one in pool:
        if sum(len(str(value)) for value in one.demo.values()) <= _LONGEST:
            kinds.setdefault(one.kind, []).append(one)
    groups = [kinds[kind] for kind in sorted(kinds)]
    for group in groups:
        rng.shuffle(group)
    rng.shuffle(groups)
    if balanced:
        if len(groups) < 2:
            return []
        count = min(count // len(groups), *map(len, groups)) * len(groups)
    chosen: list[Candidate] = []
    while len(chosen) < count and any(groups):
        for group in groups:
            if group and len(chosen) < count:
                roots = {one.root for one in chosen}
                fresh = next((place for place, one in enumerate(group) if one.root not in roots), 0)
                chosen.append(group.pop(fresh))
    rng.shuffle(chosen)
    return chosen


def kind_of(answer: str, answer_type: str) -> str:
    """The kind of an answer: demonstrations of dates alone would not teach how people are named."""
    if answer_type != "short":
        return f"{answer_type} {answer.lower()}" if answer_type == "yes/no" else answer_type
    form = "number" if any(char.isdigit() for char in answer) else "text"
    return f"{form}, {'one word' if len(answer.split()) == 1 else 'words'}"


def judges(program: Program) -> frozenset[str]:
    """The predictors that say a verdict and nothing else, of which demonstrations must show each equally often."""
    outputs = {name: predictor.signature.output_fields for name, predictor in program.named_predictors()}
    return frozenset(name for name, fields in outputs.items() if all(map(_is_verdict, fields.values())))


def from_calls(program: Program, traces: Sequence[Trace], *, threshold: float) -> dict[str, list[Candidate]]:
    """All possible demonstrations of a program of whose parts nothing is known, by the name of the predictor."""
    calls = dict(program.named_predictors())
    found: dict[str, list[Candidate]] = {name: [] for name in calls}
    names = {id(predictor): name for name, predictor in calls.items()}
    for trace in traces:
        if not is_right(trace, threshold):
            continue
        made = [(calls[name], inputs, outputs) for name, inputs, outputs in trace.steps if _says_something(outputs)]
        seen: set[tuple[str, str]] = set()
        for one in teaching(judged(made, trace.example, trace.record)):
            name = names[id(one.call[0])]
            key = name, digest(dict(one.fields))
            if key not in seen:
                seen.add(key)
                found[name].append(Candidate(one.fields, _kind(calls[name].signature, one.fields), trace.example.id))
    return found


def from_records(
    program: KEQA,
    traces: Sequence[Trace],
    *,
    metric: Correctness,
    threshold: float,
    closed_book: ClosedBook,
    failures: Failures | None = None,
) -> dict[str, list[Candidate]]:
    """All possible demonstrations of a KEQA, by the name of the predictor; those switched off have none."""
    right = [trace for trace in traces if is_right(trace, threshold)]
    found: dict[str, list[Candidate]] = {}
    if program.decompose:
        found["decomposition.decompose"] = [*_decompositions(right), *_gold_decompositions(traces, right)]
        found["summarizing.summarize"] = list(_summaries(right))
    settled = [(t, s) for t in traces if t.record is not None for s in settled_quizzes(t.example, t.record)]
    if program.examine:
        found["examination.quiz"] = list(_tries(settled))
        found["examination.same"] = _judgements(settled)
    found["answering.answer"] = list(_answers(program, settled, metric, closed_book))
    if program.select:
        found["selection.construct"] = list(_triples(settled))
    wanting = {name for name, some in found.items() if not some}
    if any(one.quiz.source == "passages" and one.agrees(one.quiz.answer or "") for _, one in settled):
        # Answers that are right and teach nothing, since memory has them too, are no reason to show gold ones.
        wanting.discard("answering.answer")
    watch = (failures or Failures()).watch("searching for what tells gold answers")
    found |= _from_gold_answers(program, [trace.example for trace in traces], wanting, watch)
    predictors = dict(program.named_predictors())
    return {
        name: [Candidate(complete(predictors[name].signature, one.demo), one.kind, one.root) for one in some]
        for name, some in found.items()
    }


def is_right(trace: Trace, threshold: float) -> bool:
    """Whether the metric accepts the final answer, and it says what a gold answer says as well.

    Half the words of a wrong name may be right.
    """
    record = trace.record
    if record is None or record.answer is None or trace.score < threshold:
        return False
    return agrees(record.answer, trace.example.answers, record.answer_type, record.choices)


def _decompositions(right: Sequence[Trace]) -> Iterator[Candidate]:
    for trace in right:
        record, gold = trace.record, trace.example.quizzes
        assert record is not None, "a question that came out right has a record"
        harmed = any(one.stage in ("decompose", "references") and not one.harmless for one in record.degradations)
        texts = [quiz.text for quiz in record.quizzes]
        in_order = [quiz.index for quiz in record.quizzes] == [*range(1, len(texts) + 1)]
        # With a gold decomposition, an answer that is right by luck does not make another number of quizzes right.
        if in_order and not harmed and len(gold or texts) == len(texts):
            yield _decomposition(trace.example, texts)


def _gold_decompositions(traces: Sequence[Trace], right: Sequence[Trace]) -> Iterator[Candidate]:
    """Gold decompositions of the shapes that the program itself never got right."""
    own = {one.kind for one in _decompositions(right)}
    for trace in traces:
        texts = list(trace.example.quizzes)
        if texts and not any(problem.fatal for problem in broken_references(numbered_quizzes(texts))):
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
        settled = [one for one in settled_quizzes(example, record) if one.quiz.answer is not None]
        if not all(one.agrees(str(one.quiz.answer)) for one in settled):
            continue
        answered = [f"{q.resolved} {q.answer}" for q in record.quizzes if q.resolved and q.answer and not q.abstained]
        demo = {
            "question": record.question,
            "answered_quizzes": answered,
            "answer_type": record.answer_type,
            "choices": list(record.choices),
            "explanation": record.explanation,
            "answer": Settled.whole(example).in_form(record.answer),
        }
        yield Candidate(demo, f"{record.answer_type}, {len(answered)} quizzes", example.id)


def _tries(settled: Sequence[tuple[Trace, Settled]]) -> Iterator[Candidate]:
    """Closed-book answers that say what the gold answer says, written as it is, so that its form is learned."""
    for trace, one in settled:
        texts = (sample.text for sample in one.quiz.samples if sample.text and not sample.abstained)
        said = next((text for text in texts if one.agrees(text)), None)
        if said is not None:
            demo = _asked(one, "quiz") | {"answer": one.in_form(said)}
            yield Candidate(demo, kind_of(demo["answer"], one.answer_type), trace.example.id)


def _answers(
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
        answer = one.in_form(stated)
        without = _without_passages(one, metric, closed_book)
        if without is None or gain(metric(stated, one.golds, one.answer_type, one.choices), without) <= 0:
            continue
        demo = {
            "passages": [f"{passage.title}: {passage.text}" if passage.title else passage.text for passage in shown],
            "evidence": list(quiz.evidence),
            "triples": list(quiz.triples),
            **_asked(one, "question"),
            "answer": answer,
        }
        kind = kind_of(answer, one.answer_type)
        yield Candidate(demo, kind if right else f"{kind}, corrected", trace.example.id)


def _stated(texts: Sequence[str], one: Settled) -> str | None:
    """The first of the gold answers that one of the texts states; nearly every text holds a yes or a no."""
    golds = one.golds if one.answer_type == "short" else ()
    return next((gold for gold in golds if any(contains_answer(text, [gold]) for text in texts)), None)


def _without_passages(one: Settled, metric: Correctness, closed_book: ClosedBook) -> float | None:
    """Correctness of A_c of Algorithm 1, from the draws that were made; asked for where there are none.

    None where no draw or call came to an end: a failure says nothing about what the language model knows.
    """
    if not one.quiz.tries:
        return closed_book(one)
    first = leader([cluster.size for cluster in one.quiz.clusters])
    if first is None:
        return None if one.quiz.samples and all(sample.error for sample in one.quiz.samples) else 0.0
    return metric(one.quiz.clusters[first].answer, one.golds, one.answer_type, one.choices)


def _judgements(settled: Sequence[tuple[Trace, Settled]]) -> list[Candidate]:
    """At most one pair of each verdict from a quiz, none where two tries are equal after normalisation.

    Where tries alone leave a verdict without a pair, the gold answer replaces a try that is right.
    """
    own: list[Candidate] = []
    with_gold: list[Candidate] = []
    for trace, one in settled:
        texts = list(dict.fromkeys(str(s.text) for s in one.quiz.samples if s.text and not s.abstained))
        golden = ((one.golds[0], text) for text in texts)
        for found, pairs in ((own, itertools.combinations(texts, 2)), (with_gold, golden)):
            seen: set[bool] = set()
            for first, second in pairs:
                verdict = one.same(first, second)
                if verdict is not None and verdict not in seen:
                    seen.add(verdict)
                    # The program compares a later answer with the first of a cluster, in this order.
                    demo = {"quiz": one.quiz.resolved, "first_answer": second, "second_answer": first, "same": verdict}
                    found.append(Candidate(demo, str(verdict), trace.example.id))
    verdicts = {one.kind for one in own}
    return own + [one for one in with_gold if one.kind not in verdicts]


def _triples(settled: Sequence[tuple[Trace, Settled]]) -> Iterator[Candidate]:
    """Triples whose evidence led to a right answer."""
    for trace, one in settled:
        if one.quiz.triples and one.quiz.evidence and one.quiz.answer and one.agrees(one.quiz.answer):
            demo = {"question": one.quiz.resolved, "triples": list(one.quiz.triples)}
            yield Candidate(demo, kind_of(one.golds[0], one.answer_type), trace.example.id)


def _asked(one: Settled, name: str) -> dict[str, Any]:
    return {name: one.quiz.resolved, "answer_type": one.answer_type, "choices": list(one.choices)}


def _from_gold_answers(
    program: KEQA, examples: Sequence[Answered], wanting: Collection[str], watch: FailureMonitor
) -> dict[str, list[Candidate]]:
    """Demonstrations that gold answers alone make, for the predictors in want of any that these can serve.

    A quiz with its gold answer; the same with the first passage found for it whose text states that; and the gold
    answer beside an alias of it, and beside the gold answer of another quiz.
    """
    parts = GoldQuiz.parts if program.decompose else lambda example: [GoldQuiz.whole(example)]
    known = [one for example in examples for one in parts(example)]
    # Each is made where it is wanted: one of them searches.
    makers: dict[str, Iterator[Candidate]] = {
        "answering.answer": _told(program, known, watch),
        "examination.quiz": (_golden(one, quiz=one.quiz) for one in known),
        "examination.same": _gold_pairs(known),
    }
    return {name: list(made) for name, made in makers.items() if name in wanting}


def _golden(one: GoldQuiz, **asked: object) -> Candidate:
    kind = {"answer_type": one.answer_type, "choices": list(one.choices)}
    return Candidate({**asked, **kind, "answer": one.golds[0]}, kind_of(one.golds[0], one.answer_type), one.root)


def _told(program: KEQA, known: Sequence[GoldQuiz], watch: FailureMonitor) -> Iterator[Candidate]:
    retriever = program._retriever.value
    if retriever is None:
        return
    for one in [one for one in known if one.answer_type == "short"][:_ENOUGH]:
        try:
            passages = [hit.passage for hit in retriever.search(one.quiz, program.top_k)]
        except RetrievalError as error:
            watch.outcome(type(error).__name__, str(error))
            continue
        watch.outcome(None, None)
        # A title names what a passage is about; its text says something about it.
        telling = next((passage for passage in passages if contains_answer(passage.text, list(one.golds))), None)
        if telling is not None:
            yield _golden(one, passages=[telling.rendered], question=one.quiz)


def _gold_pairs(known: Sequence[GoldQuiz]) -> Iterator[Candidate]:
    short = [one for one in known if one.answer_type == "short"]
    for place, one in enumerate(short):
        gold, other = one.golds[0], short[place - 1].golds[0]
        alias = next((alias for alias in one.golds[1:] if not same_answer(gold, alias)), None)
        pairs = [(alias, True)] if alias is not None else []
        if not agrees(other, one.golds):
            pairs.append((other, False))
        for answer, same in pairs:
            demo = {"quiz": one.quiz, "first_answer": gold, "second_answer": answer, "same": same}
            yield Candidate(demo, str(same), one.root)


def _says_something(outputs: Mapping[str, Any]) -> bool:
    texts = [value for value in outputs.values() if isinstance(value, str)]
    return not texts or any(text.strip() for text in texts)


def _kind(signature: Any, demo: Mapping[str, Any]) -> str:
    parts = [str(demo[name]) for name, field in signature.output_fields.items() if _is_verdict(field)]
    parts += [f"{len(demo[name])} {name}" for name in _SO_FAR if name in demo]
    if "answer" in signature.output_fields:
        parts.append(kind_of(str(demo["answer"]), str(demo.get("answer_type", "short"))))
    return ", ".join(parts)


def _is_verdict(field: Any) -> bool:
    return field.annotation is bool or get_origin(field.annotation) is Literal
