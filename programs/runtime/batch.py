"""Many questions side by side, each ending in an answer or a typed failure."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import Any

from keqa.data.question import Question
from keqa.errors import ConfigurationError, InputError, KeqaError, MissingExtraError
from keqa.programs.arguments import InFlight, check, shown
from keqa.programs.records import QuestionRecord

__all__ = ["Outcome", "answer_many"]


@dataclass(frozen=True)
class Outcome:
    """How one question of a batch ended.

    Attributes:
        position: Its place in the batch, from 0.
        item: What was given as the question.
        record: Its story; None where it could not be asked at all.
        error: Why it has no answer; None where it has one.
    """

    position: int
    item: Any
    record: QuestionRecord | None
    error: KeqaError | None = None

    @property
    def answer(self) -> str | None:
        """The answer; None exactly where there is an error."""
        return self.record.answer if self.record is not None else None


def answer_many(program: Callable[..., Any], questions: Iterable[Any], in_flight: InFlight) -> Iterator[Outcome]:
    """Answer questions side by side; see `keqa.programs.program.Program.answer_many`.

    What is wrong with the arguments themselves is reported at once, and not when the first outcome is asked for.
    """
    check(answer_many, {"in_flight": in_flight}, "answer_many")
    if isinstance(questions, str | bytes | bytearray | Mapping) or not isinstance(questions, Iterable):
        raise InputError(
            f"answer_many takes a list of questions, not {shown(questions)}; one question alone is asked as "
            "program(question)"
        )
    return _outcomes(program, enumerate(questions), in_flight)


def _outcomes(program: Callable[..., Any], waiting: Iterator[tuple[int, Any]], in_flight: int) -> Iterator[Outcome]:
    # These threads only wait for their question; its calls run in the program's own bounded pool.
    with ThreadPoolExecutor(in_flight, thread_name_prefix="keqa-question") as pool:
        running: set[Future[Outcome]] = set()
        try:
            while True:
                for position, item in islice(waiting, in_flight - len(running)):
                    context = contextvars.copy_context()
                    running.add(pool.submit(context.run, _outcome, program, position, item))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in running:
                future.cancel()


def _outcome(program: Callable[..., Any], position: int, item: Any) -> Outcome:
    try:
        return Outcome(position, item, program(**Question.arguments(item)).record)
    except (ConfigurationError, MissingExtraError):
        raise
    except KeqaError as error:
        return Outcome(position, item, getattr(error, "record", None), error)
    except Exception as fault:
        # It says nothing about the question, and other questions would meet it too.
        fault.add_note(f"This was raised while question {position + 1} of the batch was asked.")
        raise
