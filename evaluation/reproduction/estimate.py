"""Calls, tokens and price of an experiment, from a rehearsal of a few questions, and the table of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

from keqa.data.example import as_example
from keqa.errors import StageError
from keqa.evaluation.build import Parts, make
from keqa.evaluation.reports.grid import Cell, Column, Grid, Row, text
from keqa.evaluation.reproduction.rehearsal import stand_in
from keqa.lms.factory import Roles
from keqa.programs.records import Cost
from keqa.programs.registry import Spec

REHEARSED = 3
"""Questions of a data set that are rehearsed; their prompts differ by the length of passages only."""

_COLUMNS = (
    Column("data set", right=False),
    Column("run", right=False),
    Column("questions"),
    *(
        Column(name, group)
        for group in ("LM calls", "tokens read", "tokens written", "US dollars")
        for name in ("least", "most")
    ),
)


class Spent(NamedTuple):
    """What is spent.

    Attributes:
        calls: To language models.
        read: Tokens of prompts.
        written: Tokens of replies.
    """

    calls: float = 0.0
    read: float = 0.0
    written: float = 0.0


class Bounds(NamedTuple):
    """What it costs where the language model knows everything, and where it knows nothing."""

    known: Spent
    unknown: Spent

    @property
    def least(self) -> Spent:
        """Of both, the lesser."""
        return Spent(*map(min, *self))

    @property
    def most(self) -> Spent:
        """Of both, the greater."""
        return Spent(*map(max, *self))


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
        return Bounds(_sum(one.known for one in every), _sum(one.unknown for one in every))


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
        lms = Roles(**{role: made[model] for role, model in models.items()})
        asked = make(
            spec, replace(parts, lms=lms, draws=SharedDraws(probabilities=True), golds=parts.golds or _no_golds)
        )
        costs = [_cost(asked, question) for question in rehearsed]
        factor = len(questions) / len(rehearsed)
        spent.append(
            {
                model: Spent(*(factor * part for part in _sum(_spent(cost, model, models) for cost in costs)))
                for model in made
            }
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


def estimates(found: Sequence[Estimate]) -> Grid:
    """A row a method and data set, and their sum; the sum of each language model, where there are several.

    Args:
        found: What was rehearsed.
    """
    rows = [_row(one.dataset, one.label, [one]) for one in found]
    rows.append(_row("all", "", found, ruled=True))
    models = list(dict.fromkeys(model for one in found for model in one.bounds))
    for model in models if len(models) > 1 else ():
        of_it = [replace(one, bounds={model: one.bounds[model]}) for one in found if model in one.bounds]
        rows.append(_row("all", model, of_it))
    notes = [
        "From a rehearsal without the language model: least and most are of one that knows everything and of one that "
        "knows nothing. What runs share is counted for each, and a request that brings several samples as several.",
    ]
    unknown = [model for model in models if price(model, Spent()) is None]
    if unknown:
        notes.append(
            f"The price of {', '.join(unknown)} is unknown: LiteLLM's price map does not have it, and no sum of "
            "dollars includes it."
        )
    return Grid("estimate", "What it will cost", _COLUMNS, tuple(rows), tuple(notes))


def _no_golds(question: str) -> Sequence[str]:
    """What a method costs does not depend on the gold answers that it is given."""
    return ()


def _sum(parts: Iterable[Spent]) -> Spent:
    return Spent(*map(sum, zip(*parts, strict=True)))


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


def _row(dataset: str, run: str, found: Sequence[Estimate], *, ruled: bool = False) -> Row:
    bounds = [one.total for one in found]
    ends = [_sum(one.least for one in bounds), _sum(one.most for one in bounds)]
    counts = [_count(value) for values in zip(*ends, strict=True) for value in values]
    paid = [_dollars(_price(found, which)) for which in (attrgetter("least"), attrgetter("most"))]
    return Row((text(dataset), text(run), _count(sum(one.questions for one in found)), *counts, *paid), ruled=ruled)


def _price(found: Sequence[Estimate], end: Callable[[Bounds], Spent]) -> float | None:
    """What the language models cost whose price is known; none where there is no such one."""
    prices = [price(model, end(bounds)) for one in found for model, bounds in one.bounds.items()]
    known = [one for one in prices if one is not None]
    return sum(known) if known else None


def _count(value: float) -> Cell:
    return Cell(round(value), f"{round(value):,}")


def _dollars(amount: float | None) -> Cell:
    return Cell(amount, "unknown" if amount is None else f"{amount:,.2f}")
