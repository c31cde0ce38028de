"""Demonstrations for any program: the calls that it made for training questions that came out right.

DSPy's way: what led to an answer that the metric accepts is an example to follow. But methods get there by detours, and
an answer from memory that passages had to repair should teach nobody. So, as far as gold answers show:

* an answer to the question, or to a quiz that a gold quiz asks as well, is right, and is written as the gold answer is;
* a verdict on two answers is that of DESIGN.md's rule 9, and teaches nothing where no gold answer is known;
* of calls about which nothing is known, those teach whose predictor is not known to be wrong in the same question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_origin

from keqa.data.quiz_references import plain
from keqa.optimize.alignment import Settled, best_gold, settled_quizzes
from keqa.optimize.asking import Trace
from keqa.optimize.demos.candidate import Candidate, complete, kind_of
from keqa.optimize.demos.from_records import is_right, verdict_on
from keqa.programs.fingerprint import digest
from keqa.programs.program import Program
from keqa.programs.records import QuestionRecord, QuizRecord

_SO_FAR = ("thoughts", "verified")
"""Inputs that grow from call to call; a set of demonstrations shows beginnings and ends."""


def judges(program: Program) -> frozenset[str]:
    """The predictors that say a verdict and nothing else, of which demonstrations must show each equally often."""
    outputs = {name: predictor.signature.output_fields for name, predictor in program.named_predictors()}
    return frozenset(name for name, fields in outputs.items() if all(map(_is_verdict, fields.values())))


def demos_from_traces(program: Program, traces: Sequence[Trace], *, threshold: float) -> dict[str, list[Candidate]]:
    """Find all possible demonstrations."""
    signatures = {name: predictor.signature for name, predictor in program.named_predictors()}
    found: dict[str, list[Candidate]] = {name: [] for name in signatures}
    for trace in traces:
        if trace.record is None or not is_right(trace, threshold):
            continue
        known = _known(trace, trace.record)
        for name, signature in signatures.items():
            made = [(inputs, outputs) for called, inputs, outputs in trace.steps if called == name]
            demos = {digest(demo): demo for demo in _teaching(signature, made, known)}
            found[name] += [Candidate(demo, _kind(signature, demo), trace.example.id) for demo in demos.values()]
    return found


def _known(trace: Trace, record: QuestionRecord) -> dict[str, Settled]:
    """The question and the quizzes whose gold answers are known, by their text."""
    example = trace.example
    whole = QuizRecord(index=1, text=example.question, resolved=example.question)
    found = {plain(str(one.quiz.resolved)): one for one in settled_quizzes(example, record)}
    found[plain(example.question)] = Settled(whole, tuple(example.answers), record.answer_type, tuple(example.choices))
    return found


def _teaching(
    signature: Any, made: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], known: Mapping[str, Settled]
) -> Iterator[dict[str, Any]]:
    """The calls of one predictor for one question that may be shown to others."""
    full = [complete(signature, {**inputs, **outputs}) for inputs, outputs in made if _says_something(outputs)]
    judged = [(demo, checked(signature, demo, known)) for demo in full]
    right = [found for _, found in judged if found]
    if right or any(found is False for _, found in judged):
        yield from right
    else:
        yield from (demo for demo, _ in judged)


def _says_something(outputs: Mapping[str, Any]) -> bool:
    texts = [value for value in outputs.values() if isinstance(value, str)]
    return not texts or any(text.strip() for text in texts)


def checked(
    signature: Any, demo: Mapping[str, Any], known: Mapping[str, Settled]
) -> dict[str, Any] | Literal[False] | None:
    """A right call in the gold answer's form; False for one that is wrong, None where gold answers do not show it."""
    one = known.get(plain(str(demo.get("question") or demo.get("quiz"))))
    if "same" in signature.output_fields:
        verdict = None if one is None else verdict_on(one, demo["first_answer"], demo["second_answer"])
        return dict(demo) if verdict is not None and verdict == demo["same"] else False
    if one is None or "answer" not in signature.output_fields:
        return None
    if not one.agrees(demo["answer"]):
        return False
    return {**demo, "answer": best_gold(demo["answer"], one.golds, one.answer_type, one.choices)}


def _kind(signature: Any, demo: Mapping[str, Any]) -> str:
    parts = [str(demo[name]) for name, field in signature.output_fields.items() if _is_verdict(field)]
    parts += [f"{len(demo[name])} {name}" for name in _SO_FAR if name in demo]
    if "answer" in signature.output_fields:
        parts.append(kind_of(str(demo["answer"]), str(demo.get("answer_type", "short"))))
    return ", ".join(parts)


def _is_verdict(field: Any) -> bool:
    return field.annotation is bool or get_origin(field.annotation) is Literal
