"""Runs made by hand, small enough that every figure of a table can be worked out on paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from keqa.errors import MissingExtraError
from keqa.programs.records import (
    ClusterRecord,
    Cost,
    Degradation,
    Failure,
    QuestionRecord,
    QuizRecord,
    RoleCost,
    SampleRecord,
)
from keqa.runs.lines import Run, RunHeader, RunLine


def make_quiz(
    text: str,
    answers: Sequence[str | None],
    clusters: Sequence[Sequence[int]],
    *,
    probabilities: Sequence[float | None] = (),
    **others: Any,
) -> QuizRecord:
    """A quiz with its draws; None abstains."""
    place = {member: number for number, members in enumerate(clusters) for member in members}
    samples = [
        SampleRecord(
            text=answer or "unknown",
            abstained=answer is None,
            cluster=place.get(number),
            probability=probabilities[number] if probabilities else None,
        )
        for number, answer in enumerate(answers)
    ]
    largest = max(map(len, clusters), default=0)
    settings = {"index": 1, "text": text, "resolved": text, "tries": len(answers), "threshold": 0.8} | others
    return QuizRecord(
        samples=samples,
        clusters=[
            ClusterRecord(answer=str(answers[members[0]]), size=len(members), members=list(members))
            for members in clusters
        ],
        consistency=largest / len(answers),
        **settings,
    )


def make_line(
    number: int,
    em: float,
    f1: float | None = None,
    *,
    kind: str = "one hop",
    retrievals: int = 1,
    calls: int = 2,
    cached: int = 0,
    unreadable: int = 0,
    failed: bool = False,
    answers: Sequence[str] = ("gold",),
    quizzes: Sequence[QuizRecord] = (),
) -> RunLine:
    """A question; one of the kind yes/no has an accuracy."""
    polar = kind == "yes/no"
    scores = {"em": em, "f1": em if f1 is None else f1, "contains": em} | ({"accuracy": em} if polar else {})
    failure = Failure(stage="answer", cause="TimeoutError", message="too slow") if failed else None
    note = Degradation(stage="examine", cause="AdapterParseError", message="", action="counted")
    record = QuestionRecord(
        question=f"Question {number}?",
        answer_type="yes/no" if polar else "short",
        quizzes=list(quizzes),
        degradations=[note] * unreadable,
        answer=None if failed else "an answer",
        failure=failure,
        cost=Cost(
            by_role={"task": RoleCost(calls=calls, cached=cached, prompt_tokens=90, completion_tokens=10)},
            retrievals=retrievals,
        ),
    )
    return RunLine(
        id=f"q{number}",
        question=f"Question {number}?",
        answers=list(answers),
        answer_type="yes/no" if polar else "short",
        kind=kind,
        answer=record.answer,
        scores=scores,
        record=record,
        error=failure,
        seconds=0.5,
    )


def make_run(
    method: str,
    lines: Sequence[RunLine],
    *,
    label: str | None = None,
    dataset: str = "mine",
    split: str = "",
    ids: Sequence[str] | None = None,
    program: str | None = None,
    index: str | None = None,
    model: str | None = None,
    prompts: str = "p",
    command: str = "",
    demonstrations: dict[str, int] | None = None,
    reference: dict[str, Any] | None = None,
    **settings: Any,
) -> Run:
    """A run whose configuration is written as `keqa.runs.configuration.describe` writes it."""
    configuration: dict[str, Any] = {
        "program": program or ("KEQA" if method.startswith(("keqa", "gate")) else "Other"),
        "settings": settings,
        "prompts": prompts,
        "models": {"task": {"model": model}} if model else {},
        "index": {"kind": index} if index else None,
    }
    if reference is not None:
        configuration["reference"] = reference
    header = RunHeader(
        method=method,
        label=label or method,
        dataset=dataset,
        split=split,
        ids=list(ids or [line.id for line in lines]),
        configuration=configuration,
        fingerprint="0",
        command=command,
        demonstrations=demonstrations,
    )
    return Run(header, list(lines))


@pytest.fixture(autouse=True)
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are the same wherever tests run, whether an encoder is installed or not."""

    def missing(name: str) -> None:
        raise MissingExtraError("dense", name)

    monkeypatch.setattr("keqa.retrievers.dense.models.open_model", missing)


@pytest.fixture
def quiz() -> Callable[..., QuizRecord]:
    """Makes a quiz."""
    return make_quiz


@pytest.fixture
def line() -> Callable[..., RunLine]:
    """Makes a line."""
    return make_line


@pytest.fixture
def run() -> Callable[..., Run]:
    """Makes a run."""
    return make_run


@pytest.fixture
def scored() -> Callable[..., Run]:
    """Makes a run of one kind of question from exact matches, one a question."""

    def make(method: str, right: Sequence[int], kind: str = "one hop", **others: Any) -> Run:
        return make_run(method, [make_line(number, float(em), kind=kind) for number, em in enumerate(right)], **others)

    return make
