from pathlib import Path

from keqa.cli.paper_runs import Plan
from keqa.cli.running import Models


def plan(models, others):
    return Plan([], {}, models, others, "own", None, None, 8, False, Path("runs"))


def test_another_language_model_takes_the_place_of_the_tasks_alone():
    models = Models("openai/gpt", "hosted_vllm/llama", "openai/judge", "http://a/v1", "http://b/v1")
    made = plan(models, ["openai/larger", "hosted_vllm/llama"])
    assert made.models_of(None) == models
    # The utility LM stays on the server of --lm, whose provider is its own.
    judges = ("hosted_vllm/llama", "openai/judge")
    assert made.models_of(0) == Models("openai/larger", *judges, None, "http://b/v1", "http://a/v1")
    assert made.models_of(1) == Models("hosted_vllm/llama", *judges, "http://b/v1", "http://b/v1", "http://a/v1")


def test_without_discriminators_the_other_language_model_has_all_roles():
    made = plan(Models("openai/gpt", api_base="http://a/v1"), ["hosted_vllm/llama"])
    assert made.models_of(0) == Models("hosted_vllm/llama")
