"""A program that uses KEQA, as a type checker of its author sees it; `check_types` reads it, and nothing runs it."""

from typing import assert_type

import keqa
from keqa.programs.gates import CertaintyGate


def search(query: str, k: int) -> list[str]:
    """Find the query itself."""
    return [query][:k]


async def use() -> None:
    """Ask, read what comes back, and change settings."""
    program = keqa.KEQA(search, lms=keqa.build_roles("keqa/tiny"), tries=3)
    assert_type(program("Who?"), keqa.AnswerPrediction)
    prediction = await program.acall(question="Who?", answer_type="short")
    assert_type(prediction.record, keqa.QuestionRecord)
    assert_type(prediction.answer, str | None)
    program.threshold, program.tries, program.retriever = "2/3", 5, search
    program.gate = CertaintyGate()
    assert_type(keqa.load("my-program", search, method="keqa"), keqa.KEQA)
