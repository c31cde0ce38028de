"""Calls, tokens and price of experiments: from a rehearsal of a few questions, or of runs that were made."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import dspy

from keqa.data.example import as_example
from keqa.errors import KeqaError, StageError
from keqa.evaluation.compare import run_path
from keqa.evaluation.reports.grid import EMPTY, Cell, Column, Grid, Named, count, table, text
from keqa.evaluation.reports.questions import ROLES
from keqa.evaluation.reproduction.rehearsal import Spent, StandIn, known_answer
from keqa.evaluation.run_file import iter_lines
from keqa.lms.factory import Roles
from keqa.metrics.answers import f1
from keqa.optimize.boundary.collect import quizzes_of
from keqa.optimize.boundary.train import FEWEST_QUIZZES
from keqa.optimize.compile import compile_program
from keqa.optimize.options import Options, Split, held_out
from keqa.optimize.reference import Labeller
from keqa.optimize.settling import too_few
from keqa.optimize.tuning import SETTLE, values_to_try
from keqa.programs.build import Parts, make
from keqa.programs.calls.session import run_blocking
from keqa.programs.keqa import KEQA
from keqa.programs.registry import Spec, parse_spec
from keqa.programs.saving import about
from keqa.programs.settings import as_asked
from keqa.programs.shared_draws import SharedDraws
from keqa.retrievers import Retriever
from keqa.signatures.chat_format import adapter
from keqa.storage.replies import quiet_litellm

# So many training questions a compilation is rehearsed with, and questions of a data set a method; their prompts differ
# by the length of passages only.
_REHEARSED_PAIRS, _REHEARSED = 4, 3
_QUANTITIES = ("LM calls", "tokens read", "tokens written", "US dollars")


class CostBounds(NamedTuple):
    """What it costs where the language model knows everything, and where it knows nothing."""

    known: Spent
    unknown: Spent

    @property
    def least(self) -> Spent:
        return Spent(*map(min, *self))

    @property
    def most(self) -> Spent:
        return Spent(*map(max, *self))


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one method will spend on one data set, by language model; expected where a smaller run said so."""

    dataset: str
    label: str
    questions: int
    bounds: Mapping[str, CostBounds]
    expected: Mapping[str, Spent] | None = None

    @property
    def total(self) -> CostBounds:
        return CostBounds(*map(total, zip(*self.bounds.values(), strict=True)))

    def of(self, model: str) -> "Estimate":
        """That of one language model alone."""
        spent = None if self.expected is None else {model: self.expected.get(model, Spent())}
        return replace(self, bounds={model: self.bounds[model]}, expected=spent)


def _bounds(
    models: Mapping[str, str],
    rehearse: Callable[[bool, Roles], Any],
    factor: float,
    tokens: Callable[[str], int] | None = None,
) -> dict[str, CostBounds]:
    """What each language model is asked for where all of them know everything, and where they know nothing."""
    found = []
    for knows in (True, False):
        made = {model: StandIn(model, knows, tokens or counter(model)) for model in dict.fromkeys(models.values())}
        rehearse(knows, Roles(**{role: made[model].lm for role, model in models.items()}))
        found.append([(model, one.spent.times(factor)) for model, one in made.items()])
    return {model: CostBounds(known, unknown) for (model, known), (_, unknown) in zip(*found, strict=True)}


def estimate(dataset: str, spec: Spec, questions: Sequence[Any], parts: Parts, models: Mapping[str, str]) -> Estimate:
    """Rehearse a method on a few questions of a data set, with stand-ins for the language models of each role."""
    rehearsed = list(map(as_example, questions[:_REHEARSED]))

    def rehearse(_: bool, lms: Roles) -> None:
        # What a method costs does not depend on the gold answers that it is given.
        own = replace(parts, lms=lms, golds=parts.golds or (lambda quiz: ()))
        for one in rehearsed:
            # Who knows everything decomposes all questions alike, and real questions have no draws in common.
            program = make(spec, replace(own, draws=SharedDraws(probabilities=True)))
            with suppress(StageError):
                program(question=one.question, answer_type=one.answer_type, choices=list(one.choices))

    return Estimate(dataset, spec.label, len(questions), _bounds(models, rehearse, len(questions) / len(rehearsed)))


def estimate_reference(
    label: str, questions: Sequence[Any], retriever: Retriever, settings: Mapping[str, Any], model: str
) -> Estimate:
    """Rehearse the labelling of passages for a few training questions of each kind, one hop and several."""

    def rehearse(few: Sequence[Any], _: bool, lms: Roles) -> None:
        labeller = Labeller(KEQA(retriever, lms=lms, **settings))
        with dspy.context(lm=lms.task, adapter=adapter()):
            for one in few:
                run_blocking(partial(labeller.label, one))

    found = []
    for hops in dict.fromkeys(one.one_hop for one in questions):
        alike = [one for one in questions if one.one_hop == hops]
        few = alike[:_REHEARSED]
        found.append(_bounds(dict.fromkeys(ROLES, model), partial(rehearse, few), len(alike) / len(few)))
    bounds = CostBounds(*map(total, zip(*(one[model] for one in found), strict=True)))
    return Estimate("training", label, len(questions), {model: bounds})


def estimate_compiling(plain: Estimate, label: str, predictors: int) -> Estimate:
    """What it costs that a baseline learns, by what it costs to ask it its training questions."""
    learned, held = _split(plain.questions)
    least = (learned + held) / plain.questions
    most = (learned + held * (1 + Options.sets + predictors)) / plain.questions
    scaled = {model: CostBounds(of.least.times(least), of.most.times(most)) for model, of in plain.bounds.items()}
    return Estimate("training", label, plain.questions, scaled)


def estimate_compilation(
    spec: Spec, parts: Parts, questions: Split, models: Mapping[str, str], options: Mapping[str, Any]
) -> Estimate:
    """Rehearse a whole compilation on a few of its questions; what is spent grows with their number."""
    train = questions.train[:_REHEARSED_PAIRS]
    shared = questions.val[0] in questions.train
    share = round(len(train) * len(questions.val) / len(questions.train))
    val = [] if shared else questions.val[: min(max(share, 1), _REHEARSED_PAIRS)]
    factor = (len(questions.train) + len(questions.val) * (not shared)) / len([*train, *val])
    wants_draws = options["boundary"] and options["tuning"] and spec.method.name == "keqa"
    quizzes = sum(1 for _ in quizzes_of(questions.train)) if wants_draws else 0
    drawn = quizzes * options["boundary_tries"] if quizzes >= FEWEST_QUIZZES else 0
    both = [*questions.train, *([] if shared else questions.val)]
    # The whole may have enough questions to choose how they are settled where its rehearsal has few.
    grid = {} if too_few(both) else {SETTLE: ()}
    options = {**options, "boundary": False, "embedder": None, "training": {}, "budget": "light", "grid": grid}
    if options["optimizer"] not in ("bootstrap", "none"):
        options["optimizer"] = "none"

    def rehearse(knows: bool, lms: Roles) -> None:
        # Where everything is right demonstrations are found, and then tried.
        metric = (lambda *_, **__: 1.0) if knows else f1
        gold = [[known_answer(one) if knows else one for one in some] for some in (train, val)]
        compile_program(make(spec, replace(parts, lms=lms)), gold[0], gold[1] or None, metric=metric, **options)

    # About as many tokens as a text has, in Chinese, too.
    bounds = _bounds(models, rehearse, factor, lambda words: len(words.encode("utf-8", "replace")) // 4)
    task = bounds[models["task"]]
    bounds[models["task"]] = CostBounds(*(one.times(1 + (drawn / one.calls if one.calls else 0.0)) for one in task))
    if options["optimizer"] == "bootstrap":
        # Who knows little is right now and then, and the sets of demonstrations are tried as well.
        tried = estimate("", spec, questions.val, parts, models)
        for model, one in tried.bounds.items():
            known, unknown = bounds[model]
            bounds[model] = CostBounds(known, total([unknown, one.unknown.times(options["sets"])]))
    # Each way to settle a question is asked all of them, and the few of the rehearsal choose none.
    program = make(spec, parts)
    for way in _ways(program) if isinstance(program, KEQA) and options["tuning"] and not too_few(both) else ():
        asked = estimate("", replace(spec, arguments={**spec.arguments, **way}), both, parts, models)
        for model, more in asked.bounds.items():
            bounds[model] = CostBounds(*map(total, zip(bounds[model], more, strict=True)))
    return Estimate("training", spec.label, len(questions.train), bounds)


def _ways(program: KEQA) -> list[dict[str, Any]]:
    """What a compilation asks all questions: each way to settle them, and of one reading each form."""
    tried = values_to_try(program, {})
    if len(tried[SETTLE]) == 1:
        return []
    found: list[dict[str, Any]] = [{SETTLE: way} for way in tried[SETTLE] if way in ("draft", "quizzes")]
    forms = product(tried["reason"], tried["expand"]) if "reading" in tried[SETTLE] else ()
    found += [{SETTLE: "reading", "reason": reason, "expand": expand} for reason, expand in forms]
    # Over documents of one's own what is asked without compiling is tried as well.
    return [*found, as_asked(cites=program.cite or program.listwise)] if program.declines else found


def _split(questions: int) -> tuple[int, int]:
    """How many training questions a baseline learns from, and how many it chooses by; of few all of them."""
    held = held_out(questions)
    return (questions - held, held) if held else (questions, questions)


def estimate_labels(
    dataset: str, questions: Sequence[Any], parts: Parts, models: Mapping[str, str], lm: str
) -> Estimate:
    """What it costs that a language model labels the pairs of answers that KEQA's judge compared (Table 2)."""
    judge = f"{models['consistency']} as the judge"
    compared = estimate(dataset, parse_spec("keqa"), questions, parts, {**models, "consistency": judge})
    return Estimate(dataset, f"labels of Table 2 by {lm}", len(questions), {lm: compared.bounds[judge]})


def counter(model: str) -> Callable[[str], int]:
    """Counts tokens as a model does, as far as LiteLLM brings its tokenizer; otherwise as gpt-3.5-turbo does."""
    litellm = quiet_litellm()
    # That of Llama it would fetch from the hub, and without a network try that again for every text.
    litellm.disable_hf_tokenizer_download = True
    return lambda words: int(litellm.token_counter(model=model, text=words))


def price(model: str, spent: Spent) -> float | None:
    """US dollars by the price map that comes with LiteLLM; None where it does not know the model."""
    try:
        known = quiet_litellm().get_model_info(model)
    # LiteLLM raises a plain Exception for a model that it has no entry for.
    except Exception:
        return None
    read, written = known.get("input_cost_per_token"), known.get("output_cost_per_token")
    return None if read is None or written is None else spent.read * read + spent.written * written


def estimates(found: Sequence[Estimate]) -> Grid:
    """A row a method and data set, and their sum; the sum of each language model, where there are several."""
    measured = any(one.expected is not None for one in found)
    rows = [_row(one.dataset, one.label, [one], measured=measured) for one in found]
    rows.append(_row("all", "", found, measured=measured))
    models = list(dict.fromkeys(model for one in found for model in one.bounds))
    for model in models if len(models) > 1 else ():
        rows.append(_row("all", model, [one.of(model) for one in found if model in one.bounds], measured=measured))
    notes = [
        "From a rehearsal without the language model: least and most are of one that knows everything and of one that "
        "knows nothing. What runs share is counted for each, and a request that brings several samples as several."
    ]
    unknown = [model for model in models if price(model, Spent()) is None]
    if unknown:
        named = ", ".join(unknown)
        why = "LiteLLM's price map does not have it, and no sum of dollars includes it"
        notes.append(f"The price of {named} is unknown: {why}.")
    if measured:
        lacking = ", ".join(f"{one.dataset} {one.label}" for one in found if one.expected is None)
        without = f" Not in the smaller run, and in no sum of what is expected: {lacking}." if lacking else ""
        notes.append(f"Expected: what a question cost in the smaller run, times the questions of this one.{without}")
    return table("estimate", "What it will cost", rows, *notes, ruled={len(found)})


def _row(dataset: str, run: str, found: Sequence[Estimate], *, measured: bool) -> list[Named]:
    by_model = [pair for one in found for pair in one.bounds.items()]
    expected = [pair for one in found for pair in (one.expected or {}).items()]
    # What is spent in all, and what that costs by language model.
    ends = {
        "least": (total(one.total.least for one in found), _dollars((model, of.least) for model, of in by_model)),
        "expected": (total(spent for _, spent in expected), _dollars(expected)),
        "most": (total(one.total.most for one in found), _dollars((model, of.most) for model, of in by_model)),
    }
    shown = {name: [*map(_count, spent), dollars] for name, (spent, dollars) in ends.items()}
    if not measured:
        del shown["expected"]
    elif not expected:
        shown["expected"] = [EMPTY] * len(_QUANTITIES)
    cells: list[Named] = [("data set", text(dataset)), ("run", text(run))]
    cells.append(("questions", _count(sum(one.questions for one in found))))
    for place, quantity in enumerate(_QUANTITIES):
        cells += [((name, quantity), end[place]) for name, end in shown.items()]
    return cells


def total(parts: Iterable[Spent]) -> Spent:
    return Spent(*map(sum, zip(Spent(), *parts, strict=True)))


def _count(value: float) -> Cell:
    return Cell(round(value), f"{round(value):,}")


def _dollars(spent: Iterable[tuple[str, Spent]]) -> Cell:
    prices = [paid for model, some in spent if (paid := price(model, some)) is not None]
    return Cell(sum(prices), f"{sum(prices):,.2f}") if prices else Cell(None, "unknown")


SpentOn = tuple[int, Mapping[str, Spent]]
"""How many questions were asked, and what they cost by language model."""


def spent_by_run(folder: Path, label: str, models: Mapping[str, str]) -> SpentOn | None:
    """What a run has cost; None where there is no such run."""
    path = run_path(folder, label)
    lines = list(iter_lines(path)) if path.exists() else []
    roles = [pair for line in lines if line.record is not None for pair in line.record.cost.by_role.items()]
    # A boundary model without a language model of its own asks that of the task.
    charged = [(models.get(name, models["task"]), one) for name, one in roles]
    spent = [(model, Spent(one.samples, one.prompt_tokens, one.completion_tokens)) for model, one in charged]
    found = {model: total(one for of, one in spent if of == model) for model in models.values()}
    return (len(lines), found) if lines else None


class TrainingCost(NamedTuple):
    """What it has cost to make a program that learned, and chose among candidates by questions held out."""

    by_model: Mapping[str, Spent]
    learned: int
    held: int
    rounds: int

    @property
    def asked(self) -> int:
        return self.learned + self.held * self.rounds

    def asks(self, questions: int) -> int:
        """How often one will be asked where there are so many, and as many candidates."""
        learned, held = _split(questions)
        return learned + held * self.rounds


def spent_on_training(folder: Path, model: str) -> TrainingCost | None:
    """What it has cost to make a saved program; None where there is none, or it does not say."""
    try:
        compiled = about(folder)
        counted = ("calls", "prompt_tokens", "completion_tokens")
        sent = (compiled["spent"], compiled.get("spent_earlier") or {})
        spent = total(Spent(*(float(part.get(name, 0)) for name in counted)) for part in sent)
        learned, held = compiled["questions"]["train"], compiled["questions"]["validation"]
        return TrainingCost({model: spent}, learned, held, len(compiled.get("trials") or []))
    except (KeqaError, LookupError, TypeError, ValueError, AttributeError):
        return None


def expected(estimate: Estimate, found: SpentOn | None, asked: int | None = None) -> Estimate:
    """An estimate with what is expected by a smaller run."""
    if found is None:
        return estimate
    factor = (estimate.questions if asked is None else asked) / found[0]
    return replace(estimate, expected={model: spent.times(factor) for model, spent in found[1].items()})


def spent_table(rows: Sequence[tuple[str, str, SpentOn]]) -> Grid:
    shown = [(dataset, label, list(spent.items())) for dataset, label, (_, spent) in rows]
    shown.append(("all", "", [pair for _, _, pairs in shown for pair in pairs]))
    lines: list[list[Named]] = []
    for dataset, label, pairs in shown:
        counts = zip(_QUANTITIES, (count(round(value)) for value in total(part for _, part in pairs)), strict=False)
        dollars = (Column(_QUANTITIES[-1]), text(_dollars(pairs).text))
        lines.append([("data set", text(dataset)), ("run", text(label)), *counts, dollars])
    note = (
        "As the estimate counts it: what runs share is counted for each, and what a cache answered as if it had been "
        "asked. Of what was learned before, the requests that were sent."
    )
    return table("spent", "What it has cost", lines, note, ruled={len(rows)})
