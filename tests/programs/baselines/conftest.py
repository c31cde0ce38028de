import pytest


@pytest.fixture
def asked(scripted, retriever):
    """Asks a method a question, with a language model's replies and some passages: its record, engine and searches."""

    def ask(method, reply, *texts, found=None, question=("Who?",), probability=None, **settings):
        lm, engine = scripted(reply)
        engine.probability = probability
        searched = retriever(*texts, found=found)
        program = method(searched, **settings)
        program.set_lm(lm)
        return program(*question).record, engine, searched.queries

    return ask
