"""Retrievers of DSPy's, of other makes and of one's own."""

import dspy

import keqa
from dspy_uses.checks import Spans, expect, refuses
from dspy_uses.scripted import QUESTION, TEXTS, language_model, program, search


def wrong_retrievers_are_refused() -> None:
    """Wrong retrievers are refused."""
    for wrong in ("index", dspy.LM("openai/none"), lambda: [], [], dspy.Predict("question -> answer")):
        refuses(keqa.KEQA, wrong)


def retrievers_of_other_makes() -> None:
    """Retrievers of DSPy's and of other makes, functions."""

    def module(query: str, k: int) -> list[dspy.Prediction]:
        return [dspy.Prediction(long_text=one["text"]) for one in search(query, k)]

    class LangChain:
        def invoke(self, query: str) -> list[object]:
            return [type("Document", (), {"page_content": one["text"], "metadata": {}})() for one in search(query, 9)]

    with dspy.context(rm=module):
        for retriever in (dspy.Retrieve(k=2), LangChain()):
            asked = keqa.KEQA(retriever, unanswered="guess")
            asked.set_lm(language_model())
            expect(asked(question=QUESTION).sources[0]["text"], TEXTS["Bergen"])


def faults_in_a_retriever_surface() -> None:
    """Faults in a retriever surface."""
    asked = keqa.KEQA(lambda query: [].nothing)
    asked.set_lm(language_model())
    try:
        asked(question=QUESTION)
    except AttributeError:
        return
    raise AssertionError("taken for an outage")


def searches_in_traces() -> None:
    """Searches in traces."""
    spans = Spans()
    with dspy.context(callbacks=[spans]):
        program()(question=QUESTION)
    expect(spans.tools, ["search"])
