"""Calls, tokens and price of an experiment, from a rehearsal of a few questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keqa.data.example import as_example
from keqa.errors import StageError
from keqa.evaluation.build import Parts, make
from keqa.evaluation.reproduction.rehearsal import stand_in
from keqa.programs.records import Cost
from keqa.programs.registry import Spec

__all__ = ["Bounds", "Estimate", "Spent", "counter", "estimate", "price"]

REHEARSED = 3
"""Questions of a data set that are rehearsed; their prompts differ by the length of passages only."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What is spent.

    Attributes:
        calls: To language models.
        read: Tokens of prompts.
        written: Tokens of replies.
    """

    calls: float = 0.0
    read: float = 0.0
    written: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.calls + other.calls, self.read + other.read, self.written + other.written)

    def times(self, factor: float) -> Spent:
        """So many times as much."""
        return Spent(self.calls * factor, self.read * factor, self.written * factor)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What it costs where the language model knows everything, and where it knows nothing."""

    known: Spent
    unknown: Spent

    @property
    def least(self) -> Spent:
        """Of both, the lesser."""
        return _pick(min, self)

    @property
    def most(self) -> Spent:
        """Of both, the greater."""
        return _pick(max, self)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one method will spend on one data set.

    Attributes:
        dataset: The data set.
        label: The run's name.
        questions: How many there are to ask.
        bounds: For all of them, by language model.
    """

    dataset: str
    label: str
    questions: int
    bounds: Mapping[str, Bounds]

    @property
    def total(self) -> Bounds:
        """Over all language models."""
        every = self.bounds.values()
        return Bounds(sum((one.known for one in every), Spent()), sum((one.unknown for one in every), Spent()))


@dataclass(frozen=True)
class _Roles:
    task: Any
    consistency: Any
    utility: Any


def estimate(
    dataset: str,
    spec: Spec,
    questions: Sequence[Any],
    parts: Parts,
    models: Mapping[str, str],
) -> Estimate:
    """Rehearse a method on a few questions of a data set.

    Args:
        dataset: Its name.
        spec: The method.
        questions: All that there are to ask.
        parts: What it is made from; stand-ins are put in the place of its language models.
        models: By role, the language models whose tokens are counted; they are not asked.

    Raises:
        ConfigurationError: The method cannot be made.
    """
    from keqa.programs.runtime.shared_samples import SharedDraws

    rehearsed = questions[:REHEARSED]
    spent = []
    for knows in (True, False):
        made = {model: stand_in(knows, counter(model)) for model in dict.fromkeys(models.values())}
        lms = _Roles(**{role: made[model] for role, model in models.items()})
        asked = make(spec, replace(parts, lms=lms, draws=SharedDraws(probabilities=True)))
        costs = [_cost(asked, question) for question in rehearsed]
        factor = len(questions) / len(rehearsed)
        spent.append(
            {model: sum((_spent(cost, model, models) for cost in costs), Spent()).times(factor) for model in made}
        )
    known, unknown = spent
    return Estimate(
        dataset, spec.label, len(questions), {model: Bounds(known[model], unknown[model]) for model in known}
    )


def counter(model: str) -> Callable[[str], int]:
    """Counts tokens as a model does, as far as LiteLLM brings its tokenizer; otherwise as gpt-3.5-turbo does."""
    from keqa.lms.served import quiet_litellm

    litellm = quiet_litellm()
    # That of Llama it would fetch from the hub, and without a network try that again for every text.
    litellm.disable_hf_tokenizer_download = True
    return lambda words: int(litellm.token_counter(model=model, text=words))


def price(model: str, spent: Spent) -> float | None:
    """US dollars by the price map that comes with LiteLLM; None where it does not know the model."""
    from keqa.lms.served import quiet_litellm

    try:
        known = quiet_litellm().get_model_info(model)
    # LiteLLM raises a plain Exception for a model that it has no entry for.
    except Exception:
        return None
    read, written = known.get("input_cost_per_token"), known.get("output_cost_per_token")
    return None if read is None or written is None else spent.read * read + spent.written * written


def _pick(which: Callable[[float, float], float], bounds: Bounds) -> Spent:
    a, b = bounds.known, bounds.unknown
    return Spent(which(a.calls, b.calls), which(a.read, b.read), which(a.written, b.written))


def _cost(program: Any, question: Any) -> Cost:
    """What a question costs, with an answer or without."""
    example = as_example(question)
    try:
        asked = {"answer_type": example.answer_type, "choices": list(example.choices)}
        cost: Cost = program(question=example.question, **asked).record.cost
    except StageError as error:
        record = getattr(error, "record", None)
        cost = Cost() if record is None else record.cost
    return cost


def _spent(cost: Cost, model: str, models: Mapping[str, str]) -> Spent:
    """What a question costs of one language model, in all roles that it has."""
    roles = [role for name, role in cost.by_role.items() if models[name] == model]
    return Spent(
        sum(role.samples for role in roles),
        sum(role.prompt_tokens for role in roles),
        sum(role.completion_tokens for role in roles),
    )
