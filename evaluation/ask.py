"""One question: asked, scored, and written as a line, however it ends."""

from __future__ import annotations

from keqa.data.example import Example
from keqa.errors import KeqaError, NotInDocumentsError, StageError
from keqa.evaluation.gold_quizzes import golds_within, oracle_log
from keqa.evaluation.records import RunLine
from keqa.metrics import hotpotqa
from keqa.metrics.accuracy import accuracy, contains_answer
from keqa.metrics.answers import exact_match, f1
from keqa.programs.abstention import abstained
from keqa.programs.calls.batch import ask as ask_program
from keqa.programs.program import Program
from keqa.programs.records import Failure, QuestionRecord, record_without_secrets
from keqa.storage.redaction import without_secrets


def ask(program: Program, example: Example, kind: str = "") -> RunLine:
    """Ask a method a question; a question that failed has its line as well."""
    with oracle_log(example) as log:
        outcome = ask_program(program, 0, example)
    # That the documents do not say it is a finding, also where the program was to raise it.
    error = None if isinstance(outcome.error, NotInDocumentsError) else outcome.error
    record = outcome.record and record_without_secrets(outcome.record, program.lms_asked())
    answer = record.answer if record is not None and error is None else None
    return RunLine(
        id=example.id,
        question=example.question,
        answers=list(example.answers),
        answer_type=example.answer_type,
        kind=kind,
        answer=answer,
        scores=scores_of(answer, example, declined=answer is not None and _declines(record, example)),
        record=record,
        error=None if error is None else _failure(error, record, program),
        seconds=outcome.seconds if record is None else record.cost.seconds,
        choices=list(example.choices),
        golds=log.answers,
        quiz_golds=golds_within(example, record),
    )


def scores_of(answer: str | None, example: Example, *, declined: bool = False) -> dict[str, float]:
    """Every score that an answer has, from 0 to 1; None, of a failed question, scores 0.

    They are ``em``, ``f1`` and ``contains``, and for yes/no questions and choices ``accuracy``; by the benchmark's own
    rule where the example says so. To decline is right exactly where the question is unanswerable, as in SQuAD 2.0,
    whatever words the answer shares with a gold one.
    """
    answer_type = example.scored_as or example.answer_type
    if example.unanswerable or declined:
        right = float(declined and example.unanswerable)
        judged = answer_type not in ("short", "hotpotqa")
        return dict.fromkeys(("em", "f1", "contains", *(["accuracy"] if judged else [])), right)
    if example.scored_as == "hotpotqa":
        kind = "yes/no" if hotpotqa.is_verdict(example.answers) else "short"
        return {
            "em": hotpotqa.exact_match(answer, example.answers),
            "f1": hotpotqa.f1(answer, example.answers),
            "contains": float(contains_answer(answer, example.answers, kind)),
        }
    asked = (example.answers, answer_type, example.choices)
    scores = {
        "em": float(exact_match(answer, *asked)),
        "f1": f1(answer, *asked),
        "contains": float(contains_answer(answer, *asked)),
    }
    return scores if answer_type == "short" else {**scores, "accuracy": accuracy(answer, *asked)}


def _declines(record: QuestionRecord | None, example: Example) -> bool:
    """Whether the answer counts as none: by its type, and where no other one is right by its words, too."""
    return record is not None and (abstained(record) if example.unanswerable else record.unanswered is not None)


def _failure(error: KeqaError, record: QuestionRecord | None, program: Program) -> Failure:
    if record is not None and record.failure is not None:
        return record.failure
    stage, cause, message = "ask", type(error).__name__, str(error)
    if isinstance(error, StageError):
        stage, cause, message = error.stage, error.cause, error.message
    return Failure(stage=stage, cause=cause, message=without_secrets(message, program.lms_asked()))
