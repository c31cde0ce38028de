"""The prompts: told apart by their instructions, short, with defaults where an input may be absent."""

import hashlib

import dspy
import pytest

from keqa import signatures

ALL = [getattr(signatures, name) for name in signatures.__all__]


def test_no_two_are_equal():
    # GEPA tells predictors apart by their signatures.
    assert len({signature.instructions for signature in ALL}) == len(ALL)


ADAPTERS = [dspy.ChatAdapter(), dspy.JSONAdapter(), dspy.XMLAdapter()]


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: type(adapter).__name__)
def test_verdicts_on_numbered_passages_read_back_with_every_adapter(adapter):
    judge, outputs = signatures.JudgeUtilities, {"helpful": {1: True, 2: False, 10: True}}
    assert adapter.parse(judge, adapter.format_assistant_message_content(judge, outputs)) == outputs


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: type(adapter).__name__)
def test_a_conversation_is_in_the_prompt_and_in_its_demonstrations(adapter):
    inputs = {"history": ["Who directed Metropolis? Fritz Lang"], "question": "Where was he born?"}
    demo = {"history": ["Who wrote Faust? Goethe"], "question": "And Egmont?", "standalone": "Who wrote Egmont?"}
    _, shown, _, asked = adapter.format(signatures.RewriteFollowUp, [demo], inputs)
    assert "Faust? Goethe" in shown["content"]
    assert "Metropolis? Fritz Lang" in asked["content"]


@pytest.mark.parametrize("signature", ALL)
def test_every_prompt_renders_and_asks_for_its_outputs(signature):
    inputs = {name: "x" if field.annotation is str else field.default for name, field in signature.input_fields.items()}
    inputs |= {name: [] for name in ("passages", "answered_quizzes", "history") if name in signature.input_fields}
    messages = dspy.ChatAdapter().format(signature, [], inputs)
    for name in signature.output_fields:
        assert f"[[ ## {name} ## ]]" in messages[0]["content"]
    assert signature.instructions.split("\n")[0] in messages[0]["content"]


PROMPTS = {
    "AnswerAndCite": "749f74eb",
    "AnswerFromDocuments": "10546677",
    "AnswerFromTrajectory": "175641f6",
    "AnswerQuestion": "74c751b0",
    "AnswerQuiz": "593bcaaa",
    "AnswerQuizIfSure": "de62603b",
    "AnswerWithEvidence": "d071cada",
    "AnswerWithKnowledge": "db0fb95a",
    "ChooseAction": "1c9a493a",
    "CompareInTable": "c52a35d8",
    "ConstructTriples": "619d804e",
    "DecideRetrieval": "54f882db",
    "DecomposeQuestion": "a908e292",
    "DraftQuizzes": "43c5c39f",
    "ExpandSubject": "7d51a4c5",
    "ExtendReasoning": "da6c82c3",
    "GenerateDocument": "07c72ac5",
    "JudgeConsistency": "3b516c4b",
    "JudgeHeuristicAnswer": "b9ae0229",
    "JudgeKnowledge": "e7743cf9",
    "JudgeRelevance": "e25d05b4",
    "JudgeSupport": "1f7e809c",
    "JudgeUtilities": "cb71097a",
    "JudgeUtility": "edd7e771",
    "ListItems": "8b312475",
    "PlanQueryChain": "cc836ed5",
    "RateUsefulness": "3f71ebbe",
    "ReasonFromMemory": "9c763534",
    "ReasonWithKnowledge": "772eaebc",
    "RephraseQuestion": "d3feb263",
    "RewriteFollowUp": "2805d6e5",
    "RewriteQueries": "7cbfa36f",
    "StateConfidence": "6e622fb5",
    "Summarize": "8f0bae79",
    "TranslateQuestion": "b6852e8f",
    "WriteAnswer": "e8dff47e",
}
"""What language models are trained and compiled on; other words are other prompts to them."""


@pytest.mark.parametrize("signature", ALL, ids=lambda one: one.__name__)
def test_the_prompts_are_those_that_models_learned(signature):
    fields = [
        f"{name}: {field.annotation} = {field.default!r} {field.json_schema_extra['desc']}"
        for name, field in signature.fields.items()
    ]
    words = "\n".join([signature.__name__, signature.instructions, *fields])
    assert hashlib.sha256(words.encode()).hexdigest()[:8] == PROMPTS[signature.__name__]
