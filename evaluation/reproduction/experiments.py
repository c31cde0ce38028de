"""The papers' own experiments, as the runs that they take: their YAML files in `reports/papers` say which."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keqa.data.benchmarks import BENCHMARKS
from keqa.errors import InputError
from keqa.evaluation.reports.published import datasets, paper
from keqa.programs.registry import METHODS, Method, Spec, compilable, parse_spec, takes

DESIGN: dict[str, Any] = paper("keqa")["experiments"]
"""The KEQA paper's (section 4.1)."""

SETTINGS: dict[str, Any] = DESIGN["settings"]
"""N_c, \u03b1 and top-k; the 8 demonstrations are the default of a utility reference."""

DENSE = "dense"
"""Ends the labels of runs with a dense retriever."""

COMPILED = "compiled"
"""Ends the labels of baselines that learned from the training questions."""

FEW_SHOT = "cot-few-shot"
"""The row of Table 1 that takes demonstrations of reasoning: fixed ones, or those of a compiled program."""

OF_REFERENCE = ("keqa-no-reference", "keqa-random-reference")
"""The rows of Table 1 that change what a utility reference shows; without one KEQA itself is the former."""

_COMPARED = ("keqa", "rag")
# Beside vanilla RAG on sets of several hops, where every other method reasons as well; the paper has no such row.
_REASONING = "rag-cot"
_UNUSUAL = re.compile(r"[^\w.+=@-]+")


def rows_of(design: dict[str, Any], dataset: str, place: int) -> list[str]:
    """What is run on a data set, the so many-th from 0: the rows of all sets, and those of some or of the first."""
    rows = list(design["rows"])
    for more in design["more"]:
        if dataset in more.get("sets", [dataset]) and place < more.get("first", place + 1):
            rows += more["rows"]
    return rows


@dataclass(frozen=True)
class Experiment:
    """Runs on one data set; ``lm`` is the place among other language models, ``compiled`` baselines learn first."""

    dataset: str
    specs: tuple[Spec, ...]
    dense: bool = False
    lm: int | None = None
    compiled: bool = False


def experiments(
    named: Sequence[str],
    *,
    dense: bool,
    left_out: Collection[str] = (),
    others: Sequence[str] = (),
    compiled: bool = False,
) -> Iterator[Experiment]:
    """The runs of Table 1 on every data set, and those of the other tables and figures on NQ and StrategyQA."""
    known = datasets("keqa")
    for dataset in named:
        if dataset not in known:
            raise InputError(f"{dataset} is none of the paper's data sets, which are {', '.join(known)}")
    endings = _endings(others)
    for place, dataset in enumerate(named):
        names = [name for name in rows_of(DESIGN, dataset, place) if name not in left_out]
        if "rag" in names and BENCHMARKS[dataset].multi_hop:
            names.insert(names.index("rag") + 1, _REASONING)
        yield Experiment(dataset, tuple(map(parse_spec, names)))
        if compiled:
            learning = [name for name in names if name in compiled_names()]
            yield Experiment(dataset, _called(learning, COMPILED), compiled=True)
        if analysed(dataset) and dense:
            yield Experiment(dataset, _called(_COMPARED, DENSE), dense=True)
        for number, ending in enumerate(endings if analysed(dataset) else ()):
            yield Experiment(dataset, _called(_COMPARED, ending), lm=number)


def analysed(dataset: str) -> bool:
    """Whether Tables 2 to 5 and Figures 3 to 5 have a data set."""
    return dataset in DESIGN["analysed"]


def compiled_names() -> tuple[str, ...]:
    """The baselines that have a row that learned beside their own; zero-shot CoT would be few-shot then."""
    baselines = (METHODS[name] for name in (*DESIGN["rows"], _REASONING) if METHODS[name].kind == "baseline")
    return tuple(one.name for one in baselines if compilable(one) and one.name != "cot")


def in_table_order(label: str) -> tuple[int, bool]:
    """Sorts runs of a data set: a row that learned stands beside the one that did not."""
    name = label.removesuffix(f"-{COMPILED}")
    order = [row for rag in DESIGN["rows"] for row in ([rag, _REASONING] if rag == "rag" else [rag])]
    return order.index(name) if name in order else len(order), name != label


def settings_for(method: Method, dataset: str, **of_all: Any) -> dict[str, Any]:
    """What of section 4.1 a method is set up with on a data set, and `of_all`; top-k are what KEQA picks from."""
    settings = SETTINGS | ({} if BENCHMARKS[dataset].multi_hop else DESIGN["one_hop"])
    settings |= DESIGN["row_settings"].get(method.name, {}) | of_all
    known = takes(method) - (set() if method.kind != "baseline" or method.name in DESIGN["top_k_too"] else {"top_k"})
    return {name: value for name, value in settings.items() if name in known}


def _endings(models: Sequence[str]) -> list[str]:
    """What distinguishes the labels of language models: the last part of the name, or all of it where that is taken."""
    found: list[str] = []
    # An ending must not make the name of another method, such as keqa-full.
    taken = {DENSE, COMPILED, *(name.partition("-")[2] for name in METHODS)}
    for model in models:
        whole = _UNUSUAL.sub("-", model)
        numbered = (f"{whole}-{number}" for number in range(2, len(models) + 2))
        candidates = [_UNUSUAL.sub("-", model.rpartition("/")[2]), whole, *numbered]
        ending = next(one for one in candidates if one and one.casefold() not in taken)
        taken.add(ending.casefold())
        found.append(ending)
    return found


def _called(names: Sequence[str], ending: str) -> tuple[Spec, ...]:
    return tuple(replace(parse_spec(name), label=f"{name}-{ending}") for name in names)
