import json
import logging
import re

import dspy
import pytest
from servers.openai_server import OpenAIServer, markers

from keqa.errors import ConfigurationError
from keqa.lms import build_lm, build_roles, check_model, supports_n
from keqa.lms.local.weights import fingerprint
from keqa.signatures.chat_format import adapter
from keqa.signatures.keqa import AnswerQuiz


def answering(text):
    return OpenAIServer(lambda messages, n, body: [markers(answer=text)] * n)


def ask(lm, quiz="q", **config):
    with dspy.context(lm=lm, adapter=adapter()):
        return dspy.Predict(AnswerQuiz)(quiz=quiz, config=config)


KEY = "set {} in the environment"
WHOLE = "a whole number of 0 or more"


@pytest.mark.parametrize(
    ("model", "setting", "message"),
    [
        *(
            (model, {}, "openai/gpt-4o-mini")
            for model in ("", "nonsense", "foo/bar", "openai/", "keqa/", "transformers/")
        ),
        (None, {}, "is named by a text, such as openai/gpt-4o-mini"),
        ("Qwen/Qwen3-8B", {"api_base": "http://127.0.0.1:1/v1"}, "write hosted_vllm/Qwen/Qwen3-8B"),
        ("openai/gpt-4o-mini", {}, KEY.format("OPENAI_API_KEY")),
        ("anthropic/claude-haiku-4-5", {}, KEY.format("ANTHROPIC_API_KEY")),
        ("gemini/gemini-2.5-flash", {}, KEY.format("GOOGLE_API_KEY or GEMINI_API_KEY")),
        ("hosted_vllm/some", {}, "needs the server's address"),
        ("keqa/tiny", {"api_base": "http://127.0.0.1:1/v1"}, "takes no api_base"),
        ("openai/m", {"num_retries": "x"}, f"num_retries='x' does not fit: give {WHOLE}"),
        ("openai/m", {"num_retries": None}, f"num_retries=None does not fit: give {WHOLE}"),
        ("openai/m", {"num_retries": -1}, f"num_retries=-1 does not fit: give {WHOLE}"),
        ("openai/m", {"timeout": -1}, "timeout=-1 does not fit: give a number above 0"),
        ("openai/m", {"timeout": 0}, "timeout=0 does not fit: give a number above 0"),
        ("openai/m", {"timeout": float("inf")}, "timeout=inf does not fit: give a number above 0"),
        ("openai/m", {"max_tokens": 0}, "max_tokens=0 does not fit: give a whole number of 1 or more"),
        ("openai/m", {"max_tokens": True}, "max_tokens=True does not fit: give a whole number of 1 or more"),
        ("openai/m", {"temperature": "hot"}, "temperature='hot' does not fit: give a number of 0 or more"),
    ],
)
def test_what_cannot_be_built_is_refused_before_any_call(model, setting, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        build_lm(model, **setting)


def test_a_key_may_be_given_and_a_provider_without_seeds_is_not_sent_one():
    lms = [build_lm(model, api_key="k") for model in ("openai/gpt-4o-mini", "anthropic/claude-haiku-4-5")]
    assert [lm.kwargs.get("additional_drop_params") for lm in lms] == [None, ["seed"]]


@pytest.mark.parametrize("model", ["openai/gpt-4o-mini", "hosted_vllm/some", "keqa/tiny", "transformers/of/mine"])
def test_a_model_string_can_be_checked_without_key_address_and_weights(model):
    check_model(model)


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "ftp://x/v1", "http://me:secret@host/v1"])
def test_a_bad_address_is_reported_without_its_secret(address):
    with pytest.raises(ConfigurationError) as caught:
        build_lm("openai/x", api_base=address)
    assert "secret@" not in str(caught.value)


@pytest.mark.server
def test_a_server_without_a_key_works_and_n_is_one_request():
    with answering("Paris") as server:
        lm = build_lm("hosted_vllm/m", api_base=server.api_base)
        assert supports_n(lm)
        found = ask(lm, n=5, temperature=1.0)
        assert found.completions.answer == ["Paris"] * 5
        assert [call.n for call in server.calls] == [5]
        assert not any("trace" in key or "scope" in key for key in server.calls[0].body)


@pytest.mark.server
def test_two_servers_never_share_cached_answers():
    with answering("from one") as one, answering("from two") as two:
        lms = [build_lm("openai/same", api_base=server.api_base) for server in (one, two)]
        first = [ask(lm, "a quiz that only this test asks").answer for lm in lms]
        again = [ask(lm, "a quiz that only this test asks").answer for lm in lms]
    assert first == again == ["from one", "from two"]
    assert lms[0].kwargs["litellm_trace_id"] != lms[1].kwargs["litellm_trace_id"]


@pytest.mark.server
def test_secrets_are_in_no_repr_state_or_log(caplog, tmp_path):
    with answering("x") as server, caplog.at_level(logging.INFO):
        lm = build_lm(
            "openai/m",
            api_base=server.api_base,
            api_key="sk-secret",
            extra_headers={"Authorization": "Bearer sk-secret"},
            cache=False,
        )
        program = dspy.Predict(AnswerQuiz)
        program.set_lm(lm)
        with dspy.context(adapter=adapter()):
            program(quiz="q")
        program.save(tmp_path / "program.json")
    saved = (tmp_path / "program.json").read_text()
    for text in (saved, repr(lm), repr(program), caplog.text):
        assert "sk-secret" not in text
    assert server.calls[0].authorization == "Bearer sk-secret"
    other = dspy.Predict(AnswerQuiz)
    other.load(tmp_path / "program.json")
    assert type(other.lm) is dspy.LM
    assert other.lm.model == "openai/m"
    assert json.loads(saved)["lm"]["model"] == "openai/m"


def test_a_role_that_there_is_not_or_whose_language_model_is_none_is_refused():
    for lm in (5, None, ["openai/gpt-4o-mini"]):
        with pytest.raises(ConfigurationError, match=r"is no language model\. Give a dspy\.LM, or one of: openai/"):
            build_roles(lm)
    with pytest.raises(ConfigurationError, match="no role judge_lm; there are lm, consistency_lm, utility_lm"):
        build_roles("keqa/tiny", judge_lm="openai/gpt-4o-mini")
    with pytest.raises(ConfigurationError, match="An empty string is not a model"):
        build_roles("hosted_vllm/m", boundary_lm="", api_base="http://127.0.0.1:1/v1")


def test_roles_of_one_string_are_one_lm_and_an_address_serves_those_of_its_provider(tiny_folder):
    own, base = f"transformers/{tiny_folder}", "http://127.0.0.1:1/v1"
    roles = build_roles(own, utility_lm="openai/judge", utility_api_base=base, temperature=0.3)
    assert roles.task is roles.consistency
    assert (roles.utility.model, roles.utility.kwargs["api_base"]) == ("openai/judge", base)
    assert roles.task.kwargs["temperature"] == 0.3
    roles = build_roles("hosted_vllm/a", "hosted_vllm/b", own, api_base=base)
    assert [lm.kwargs.get("api_base") for lm in (roles.consistency, roles.utility)] == [base, None]
    given = build_roles(roles.task, roles.utility)
    assert (given.task, given.consistency, given.utility) == (roles.task, roles.utility, roles.task)


def test_n_is_for_providers_that_have_it(tiny_folder):
    assert supports_n(build_lm("openai/gpt-4o-mini", api_key="k"))
    assert not supports_n(build_lm("anthropic/claude-haiku-4-5", api_key="k"))
    assert not supports_n(build_lm("ollama_chat/qwen3"))
    assert not supports_n(build_lm(f"transformers/{tiny_folder}"))


def test_a_changed_checkpoint_has_another_name(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"old")
    before = fingerprint(str(tmp_path))
    (tmp_path / "notes.log").write_text("no part of the model")
    assert fingerprint(str(tmp_path)) == before
    (tmp_path / "model.safetensors").write_bytes(b"new")
    assert fingerprint(str(tmp_path)) != before


def test_the_model_string_carries_name_and_checkpoint_and_no_folder(tiny_folder):
    assert build_lm(f"transformers/{tiny_folder}").model == f"transformers/tiny-random@{fingerprint(str(tiny_folder))}"
