from pathlib import Path

from keqa.cli.options import LanguageModels, PaperOptions
from keqa.cli.paper import Plan


def plan(models, others):
    return Plan([], {}, models, PaperOptions(other_lm=others), Path("runs"))


def test_another_language_model_takes_the_place_of_the_tasks_alone():
    judges = {"consistency_lm": "hosted_vllm/llama", "utility_lm": "openai/judge"}
    models = LanguageModels("openai/gpt", "http://a/v1", **judges, consistency_api_base="http://b/v1")
    made = plan(models, ["openai/larger", "hosted_vllm/llama"])
    assert made.models_of(None) == models
    # The utility LM stays on the server of --lm, whose provider is its own.
    addresses = {"consistency_api_base": "http://b/v1", "utility_api_base": "http://a/v1"}
    assert made.models_of(0) == LanguageModels("openai/larger", None, **judges, **addresses)
    assert made.models_of(1) == LanguageModels("hosted_vllm/llama", "http://b/v1", **judges, **addresses)


def test_without_discriminators_the_other_language_model_has_all_roles():
    made = plan(LanguageModels("openai/gpt", api_base="http://a/v1"), ["hosted_vllm/llama"])
    assert made.models_of(0) == LanguageModels("hosted_vllm/llama")
