"""The prompts: told apart by their instructions, short, with defaults where an input may be absent."""

import hashlib

import dspy
import pytest
from fixtures.prompts import PROMPTS

ALL = [*PROMPTS.values()]


def test_no_two_are_equal():
    # GEPA tells predictors apart by their signatures.
    assert len({signature.instructions for signature in ALL}) == len(ALL)


ADAPTERS = [dspy.ChatAdapter(), dspy.JSONAdapter(), dspy.XMLAdapter()]


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: type(adapter).__name__)
def test_verdicts_on_numbered_passages_read_back_with_every_adapter(adapter):
    judge, outputs = PROMPTS["JudgeUtilities"], {"helpful": {1: True, 2: False, 10: True}}
    assert adapter.parse(judge, adapter.format_assistant_message_content(judge, outputs)) == outputs


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: type(adapter).__name__)
def test_a_conversation_is_in_the_prompt_and_in_its_demonstrations(adapter):
    inputs = {"history": ["Who directed Metropolis? Fritz Lang"], "question": "Where was he born?"}
    demo = {"history": ["Who wrote Faust? Goethe"], "question": "And Egmont?", "standalone": "Who wrote Egmont?"}
    _, shown, _, asked = adapter.format(PROMPTS["RewriteFollowUp"], [demo], inputs)
    assert "Faust? Goethe" in shown["content"]
    assert "Metropolis? Fritz Lang" in asked["content"]


@pytest.mark.parametrize(
    ("letters", "digest"),
    [
        ("A", "9cf24745"),
        ("C", "198aa6c2"),
        ("DE", "540724ab"),
        ("G", "07c72ac5"),
        ("J", "e761d2f7"),
        ("LP", "7fd128d1"),
        ("R", "f5ef91be"),
        ("STW", "a7ce27d5"),
    ],
)
def test_the_prompts_are_those_that_models_learned(letters, digest):
    """What language models are trained and compiled on; other words are other prompts to them."""
    words = []
    for signature in (one for one in ALL if one.__name__.startswith(tuple(letters))):
        fields = [
            f"{name}: {field.annotation} = {field.default!r} {field.json_schema_extra['desc']}"
            for name, field in signature.fields.items()
        ]
        words += [signature.__name__, signature.instructions, *fields]
    assert hashlib.sha256("\n".join(words).encode()).hexdigest()[:8] == digest
