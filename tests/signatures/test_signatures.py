"""The prompts: told apart by their instructions, short, with defaults where an input may be absent."""

from __future__ import annotations

import dspy
import pytest

from keqa import signatures

ALL = [getattr(signatures, name) for name in signatures.__all__]


def test_no_two_are_equal():
    # GEPA tells predictors apart by their signatures.
    assert len({signature.instructions for signature in ALL}) == len(ALL)


# What dspy.ReAct writes is as long as it is.
@pytest.mark.parametrize("signature", [one for one in ALL if one is not signatures.ChooseAction])
def test_instructions_are_short(signature):
    assert 20 < len(signature.instructions) < 400


@pytest.mark.parametrize(
    "name",
    [
        "AnswerQuestion",
        "AnswerQuiz",
        "AnswerWithEvidence",
        "AnswerWithKnowledge",
        "JudgeKnowledge",
        "ReasonFromMemory",
        "ReasonWithKnowledge",
        "Summarize",
    ],
)
def test_the_kind_of_answer_is_an_input_where_it_matters(name):
    inputs = getattr(signatures, name).input_fields
    assert (inputs["answer_type"].default, inputs["choices"].default) == ("short", [])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("JudgeConsistency", [bool]),
        ("JudgeUtility", [bool]),
        ("JudgeKnowledge", [bool, bool]),
        ("JudgeUtilities", [dict[int, bool]]),
    ],
)
def test_judges_answer_with_truth_values(name, values):
    assert [field.annotation for field in getattr(signatures, name).output_fields.values()] == values


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
