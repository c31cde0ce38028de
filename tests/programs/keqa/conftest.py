"""The program over a scripted language model and three passages."""

from typing import Any

import pytest
from fixtures.director_of_up import QUESTION, World

from keqa.programs import KEQA


@pytest.fixture
def ask(programmed, retriever):
    """Builds a program over a world, asks it, and gives program, prediction and engine."""

    def run(question: str = QUESTION, world: World | None = None, call: dict[str, Any] | None = None, **settings: Any):
        settings.setdefault("retriever", retriever("Pete Docter was born in 1968.", "Up is a film.", "Cars is a film."))
        program, engine = programmed(KEQA(**settings), world or World())
        return program(question=question, **(call or {})), engine

    return run
