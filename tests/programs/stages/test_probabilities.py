"""From the tokens of a reply to the probability of its answer, and LMs that give none."""

import math
from types import SimpleNamespace

import dspy
import pytest
from servers.openai_server import HTTPFault, OpenAIServer, markers

from keqa.errors import ConfigurationError
from keqa.lms.factory import build_lm
from keqa.programs import KEQA
from keqa.programs.calls.probabilities import likelihood, likelihoods_of
from keqa.programs.gate import as_fraction
from keqa.programs.gates import ProbabilityGate


def logs(*pairs):
    return [(text, math.log(probability)) for text, probability in pairs]


MARKED, DONE = [("[[ ## answer ## ]]", 0.1)], [("[[ ## completed ## ]]", 0.1)]


@pytest.mark.parametrize(
    ("tokens", "name", "probability"),
    [
        (
            [("[[ ##", 0.1), (" answer ## ]]", 0.1), ("\n", 0.1), ("Os", 0.9), ("lo", 0.4), ("\n\n", 0.1), *DONE],
            "answer",
            0.6,
        ),
        # A token that holds a part of the answer is the answer's.
        ([("[[ ## answer ## ]]\nOs", 0.5), ("lo\n\n[[", 0.5), (" ##", 0.1)], "answer", 0.5),
        # Markers without their spaces.
        ([("[[##answer##]]", 0.1), ("Oslo", 0.7), ("[[##", 0.1)], "answer", 0.7),
        ([("[[ ## reasoning ## ]]", 1), ("so", 0.2), *MARKED, ("Oslo", 0.8)], "reasoning", 0.2),
        ([("[[ ## reasoning ## ]]", 1), ("so", 0.2), *MARKED, ("Oslo", 0.8)], "answer", 0.8),
        # A reply in another format counts whole, and an answer without tokens has no probability.
        ([("{", 0.5), ("Oslo", 0.5)], "answer", 0.5),
        ([*MARKED, ("\n\n", 0.5), *DONE], "answer", None),
        ([], "answer", None),
    ],
)
def test_only_the_tokens_of_the_output_count(tokens, name, probability):
    assert likelihood(logs(*tokens), name)[0] == (None if probability is None else pytest.approx(probability))


def openai(*probabilities):
    """One completion's log probabilities in OpenAI's layout, as objects."""
    content = [SimpleNamespace(token=f"w{i} ", logprob=math.log(p)) for i, p in enumerate(probabilities)]
    return SimpleNamespace(content=content)


def test_mappings_and_objects_are_read_alike():
    mapping = {"content": [{"token": "Oslo", "logprob": math.log(0.3)}]}
    several = dspy.Prediction.from_completions({"answer": ["a", "b"], "logprobs": [openai(0.5), mapping]})
    assert [whole for whole, _ in likelihoods_of(several, 2, "m")] == pytest.approx([0.5, 0.3])


@pytest.mark.parametrize("given", [{}, {"logprobs": [None]}, {"logprobs": [{"content": []}]}, {"logprobs": [openai()]}])
def test_an_lm_that_gives_none(given):
    prediction = dspy.Prediction.from_completions({"answer": ["a"], **given})
    with pytest.raises(ConfigurationError, match=r"openai/x gives no token probabilities"):
        likelihoods_of(prediction, 1, "openai/x")


def test_a_program_on_an_lm_that_gives_none(scripted, programmed):
    program, _ = programmed(
        KEQA(None, decompose=False, gate=ProbabilityGate()), lambda name, inputs, config: {"answer": "Oslo"}
    )
    with pytest.raises(ConfigurationError, match=r"scripted/\d+ gives no token probabilities"):
        program("Capital of Norway?")


@pytest.mark.server
def test_one_request_for_all_draws_has_the_probabilities_of_each():
    texts = ["Oslo", "Bergen"]
    likely = {"\nOslo": 0.9, "\nBergen": 0.5}
    with OpenAIServer(
        reply=lambda messages, n, body: [markers(answer=text) for text in texts] if n > 1 else [markers(same=False)],
        probability=lambda token: likely.get(token, 0.01),
    ) as server:
        program = KEQA(None, decompose=False, tries=2, gate=ProbabilityGate(as_fraction("0.7")))
        program.set_lm(build_lm("openai/scripted", api_base=server.api_base, api_key="any", cache=False))
        (quiz,) = program("Capital of Norway?").record.quizzes
    assert [(call.n, call.body.get("logprobs")) for call in server.calls] == [(2, True), (1, None)]
    assert [sample.probability for sample in quiz.samples] == pytest.approx([0.9, 0.5])
    assert (quiz.certainty, quiz.known) == (pytest.approx(0.7), True)


@pytest.mark.server
@pytest.mark.parametrize(("status", "said"), [(400, "Logprobs is not enabled"), (403, "may not request logprobs")])
def test_a_question_is_taken_apart_where_a_server_refuses_probabilities(status, said):
    def reply(messages, n, body):
        if body.get("logprobs"):
            raise HTTPFault(status, said)
        fields = {"quizzes": '["Who?", "Where?"]', "drafts": '["Ann", "Kiel"]'}
        return [markers(**(fields if "drafts" in str(messages) else {"explanation": "So.", "answer": "Ann"}))]

    with OpenAIServer(reply=reply) as server:
        program = KEQA(None, draft=True)
        program.set_lm(build_lm("openai/scripted", api_base=server.api_base, api_key="any", cache=False))
        assert [quiz.answer for quiz in program("Who is where?").record.quizzes] == ["Ann", "Kiel"]
        gated = KEQA(None, gate=ProbabilityGate(as_fraction("0.7")))
        gated.set_lm(program.decomposition.decompose.lm)
        with pytest.raises(ConfigurationError, match=said):
            gated("Who is where?")
