import pytest


@pytest.fixture
def asked(programmed, retriever):
    """Asks a method a question, with a language model's replies and some passages: its record, engine and searches."""

    def ask(method, reply, *texts, found=None, question=("Who?",), probability=None, **settings):
        searched = retriever(*texts, found=found)
        program, engine = programmed(method(searched, **settings), reply)
        engine.probability = probability
        return program(*question).record, engine, searched.queries

    return ask
