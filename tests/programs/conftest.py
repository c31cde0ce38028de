"""What tests of programs share."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def programmed(scripted: Any) -> Callable[..., tuple[Any, Any]]:
    """Has a scripted language model answer a program in all roles; gives the program and the model's engine."""

    def bound(program: Any, reply: Any, **settings: Any) -> tuple[Any, Any]:
        lm, engine = scripted(reply, **settings)
        program.set_lm(lm)
        return program, engine

    return bound
