"""Measuring gates against each other: the verdict and the score of each, on the same draws of the same quizzes."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import dspy

from keqa.errors import ConfigurationError
from keqa.programs.calls import Session
from keqa.programs.concurrency import run_blocking
from keqa.programs.draws import SharedDraws, SharedExamination
from keqa.programs.examination import Examination
from keqa.programs.gates import AlwaysRetrieveGate, Gate, PromptGate, Votes, asks, score_of
from keqa.programs.inputs import Asked
from keqa.programs.records import Cost, Degradation

__all__ = ["Measured", "Verdict", "measure_gates"]

_LONGEST = 8000


@dataclass(frozen=True)
class Verdict:
    """What a gate says of a quiz.

    Attributes:
        known: Whether it takes it for known.
        score: By what it ranks quizzes, higher for better known, as `keqa.metrics.gates.auroc` wants it; None for a
            gate that measures nothing.
    """

    known: bool
    score: float | None


@dataclass(frozen=True)
class Measured:
    """A quiz under several gates.

    Attributes:
        votes: All N_c draws; `Votes.leading` is the answer from memory.
        verdicts: By the name of the gate, in the order given.
        degradations: What went wrong on the way.
        cost: What it took for all gates together.
    """

    votes: Votes
    verdicts: Mapping[str, Verdict]
    degradations: Sequence[Degradation]
    cost: Cost


def measure_gates(
    like: Examination,
    gates: Sequence[Gate],
    quizzes: Iterable[Any],
    *,
    draws: SharedDraws | None = None,
    in_flight: int = 8,
) -> Iterator[Measured]:
    """Let several gates decide on quizzes of one hop, each with its own text as its question.

    Args:
        like: An examination whose settings, predictors and language models are taken, such as ``program.examination``.
        gates: Each with a name of its own.
        quizzes: Texts, mappings or objects with `question` and, where wanted, `answer_type` and `choices`.
        draws: Where tries are shared with other measurements and programs; by default they are shared here only.
        in_flight: How many quizzes are in work at once.

    Yields:
        The quizzes in their order.

    Raises:
        ConfigurationError: Two gates have one name, a gate lacks what it needs, or the LM does not give it.
        InputError: A quiz cannot be asked.
    """
    names = [gate.name for gate in gates]
    if len(set(names)) < len(names) or not names or in_flight < 1:
        raise ConfigurationError(f"gates need names of their own, and in_flight to be at least 1; they are {names}")
    if draws is None:
        draws = SharedDraws(probabilities=any(asks(gate) == "probabilities" for gate in gates))
    elif not draws.probabilities and any(asks(gate) == "probabilities" for gate in gates):
        raise ConfigurationError("a gate wants token probabilities: share SharedDraws(probabilities=True)")
    # One that asks makes the examination ask; which gate it is does not matter, for all decide on what it finds.
    asking = next((gate for gate in gates if asks(gate) == "confidence"), AlwaysRetrieveGate())
    examination = SharedExamination(like, asking, draws)
    if any(asks(gate) == "retrieval" for gate in gates):
        examination.decision = SharedExamination(like, PromptGate(), draws).decision

    def measure(item: Any) -> Measured:
        from keqa.lms.adapter import adapter

        asked = Asked.check(**{"answer_type": "short", "choices": (), **Asked.arguments(item)}, max_chars=_LONGEST)
        with dspy.context(adapter=dspy.settings.adapter or adapter()):
            return run_blocking(lambda: _measure(examination, gates, asked))

    waiting = iter(quizzes)
    # These threads only wait for their quiz; its calls run in the examination's own bounded pool.
    with ThreadPoolExecutor(in_flight, thread_name_prefix="keqa-gates") as pool:
        while some := list(islice(waiting, 4 * in_flight)):
            futures = [pool.submit(contextvars.copy_context().run, measure, item) for item in some]
            yield from [future.result() for future in futures]


async def _measure(examination: SharedExamination, gates: Sequence[Gate], asked: Asked) -> Measured:
    session = Session(examination.bound, blocking=True)
    found = await examination.run(session, asked.question, asked.answer_type, asked.choices)
    await examination.complete(session, found)
    verdicts = {}
    for gate in gates:
        known = gate.decide(found.votes)
        if known is None:
            raise ConfigurationError(f"the gate '{gate.name}' has no verdict after all {found.tries} draws")
        verdicts[gate.name] = Verdict(known, score_of(gate, found.votes))
    return Measured(found.votes, verdicts, list(session.degradations), session.ledger.cost())
