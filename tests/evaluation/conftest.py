"""Small methods whose language model is scripted, and questions for them."""

import pytest
from fixtures.run_files import line, towns

from keqa.evaluation.evaluate import evaluate
from keqa.programs.baselines import ClosedBook

__all__ = ["line"]


def governs(name, inputs, config):
    """Knows every mayor but that of a town whose number ends in 3."""
    town = inputs["question"].removeprefix("Who governs Town").rstrip("?")
    return {"answer": "somebody" if town.endswith("3") else f"Mayor{town}"}


@pytest.fixture
def closed_book(scripted):
    """Makes a closed-book method from a function of (signature name, inputs, settings), with the engine behind it."""

    def make(reply=governs, **kwargs):
        lm, engine = scripted(reply, **kwargs)
        lm.model = "scripted/mayors"
        program = ClosedBook()
        program.set_lm(lm)
        return program, engine

    return make


@pytest.fixture
def run(closed_book, tmp_path):
    """Runs closed book on towns and returns the sums with the engine; further arguments are those of `evaluate`."""

    def ask(count=5, reply=governs, *, label="run", **kwargs):
        program, engine = closed_book(reply)
        return evaluate(program, towns(count), out=tmp_path / f"{label}.jsonl", **kwargs), engine

    return ask
