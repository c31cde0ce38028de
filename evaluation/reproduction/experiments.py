"""The KEQA paper's own experiments (section 4), as the runs that they take."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keqa.data.benchmarks import BENCHMARKS
from keqa.errors import InputError
from keqa.evaluation.compare import run_path
from keqa.evaluation.reports.published import DATASETS, published
from keqa.evaluation.reproduction.compare_with_paper import DENSE
from keqa.programs.registry import METHODS, Method, Spec, compilable, parse_spec, takes

SAMPLE = 500
"""Questions of each data set (section 4.1)."""

SETTINGS: dict[str, Any] = {"tries": 5, "threshold": "0.8", "top_k": 10}
"""N_c, \u03b1 and top-k (section 4.1); the 8 demonstrations are the default of a utility reference."""

_ONE_HOP = {"decompose": False}
"""A question of one hop is its own quiz: the paper counts 5.08 LM calls for one of NQ, N_c of them draws (Table 5)."""

# Those that search once, or read at the end, as KEQA does; each of the others searches step by step for a few passages,
# as many as its own paper says.
_TOP_K_TOO = ("rag", "rag-cot", "rowen", "slimplm")

_ANALYSED = ("nq", "strategyqa")
"""The data sets of Tables 2 to 5 and Figures 3 to 5."""

# With five samples these are all the thresholds from 0.4 to 1 that differ.
_THRESHOLDS = ("0.4", "0.6", "1.0")
_TOP_K = (5, 10, 15, 20)
_COMPARED = ("keqa", "rag")
_OVERALL = tuple(dict.fromkeys(method for method, _, _ in published("keqa", "table1")))
FEW_SHOT = "cot-few-shot"
"""The row of Table 1 that takes demonstrations of reasoning: fixed ones, or those of a compiled program."""

OF_REFERENCE = ("keqa-no-reference", "keqa-random-reference")
"""The rows of Table 1 that change what a utility reference shows; without one KEQA itself is the former."""

_REASONING = "rag-cot"
"""Beside vanilla RAG on sets of several hops, where every other method reasons as well; the paper has no such row."""

COMPILED = "compiled"
"""Ends the labels of baselines that learned from the training questions."""

_UNUSUAL = re.compile(r"[^\w.+=@-]+")


@dataclass(frozen=True)
class Experiment:
    """Runs on one data set; ``lm`` is the place among other language models, ``compiled`` baselines learn first."""

    dataset: str
    specs: tuple[Spec, ...]
    dense: bool = False
    lm: int | None = None
    compiled: bool = False


def experiments(
    datasets: Sequence[str],
    *,
    dense: bool,
    left_out: Collection[str] = (),
    others: Sequence[str] = (),
    compiled: bool = False,
) -> Iterator[Experiment]:
    """The runs of Table 1 on every data set, and those of the other tables and figures on NQ and StrategyQA."""
    for dataset in datasets:
        if dataset not in DATASETS:
            raise InputError(f"{dataset} is none of the paper's data sets, which are {', '.join(DATASETS)}")
    endings = _endings(others)
    for dataset in datasets:
        names = [name for name in _of_table_1(dataset) if name not in left_out]
        if dataset in _ANALYSED:
            names += [f"keqa:threshold={alpha}" for alpha in _THRESHOLDS]
            names += [f"keqa:top_k={k}" for k in _TOP_K if k != SETTINGS["top_k"]]
            names += [f"keqa-full:top_k={k}" for k in _TOP_K]
            names += ["gate-probability"]
        yield Experiment(dataset, tuple(map(parse_spec, names)))
        if compiled:
            learning = [name for name in names if name in compiled_names()]
            yield Experiment(dataset, _called(learning, COMPILED), compiled=True)
        if dataset in _ANALYSED and dense:
            yield Experiment(dataset, _called(_COMPARED, DENSE), dense=True)
        for number, ending in enumerate(endings if dataset in _ANALYSED else ()):
            yield Experiment(dataset, _called(_COMPARED, ending), lm=number)


def analysed(dataset: str) -> bool:
    """Whether Tables 2 to 5 and Figures 3 to 5 have a data set."""
    return dataset in _ANALYSED


def compiled_names() -> tuple[str, ...]:
    """The baselines that have a row that learned beside their own; zero-shot CoT would be few-shot then."""
    return tuple(
        name
        for name in (*_OVERALL, _REASONING)
        if METHODS[name].kind == "baseline" and compilable(METHODS[name]) and name != "cot"
    )


def in_table_order(label: str) -> tuple[int, bool]:
    """Sorts runs of a data set: a row that learned stands beside the one that did not."""
    name = label.removesuffix(f"-{COMPILED}")
    order = _of_table_1("")
    return order.index(name) if name in order else len(order), name != label


def check_labels(planned: Sequence[Experiment], folder: Path) -> None:
    """Refuse experiments whose run files could not be written side by side."""
    for dataset in dict.fromkeys(one.dataset for one in planned):
        labels = [spec.label for one in planned if one.dataset == dataset for spec in one.specs]
        for label, count in Counter(str(run_path(folder / dataset, label)).casefold() for label in labels).items():
            if count > 1:
                raise InputError(f"two runs would be written to {label}: leave out the --other-lm that is called so")


def settings_for(method: Method, dataset: str) -> dict[str, Any]:
    """What of section 4.1 a method is set up with on a data set: top-k are the candidates that KEQA picks from."""
    settings = SETTINGS if BENCHMARKS[dataset].multi_hop else {**SETTINGS, **_ONE_HOP}
    known = takes(method) - (set() if method.kind != "baseline" or method.name in _TOP_K_TOO else {"top_k"})
    return {name: value for name, value in settings.items() if name in known}


def _endings(models: Sequence[str]) -> list[str]:
    """What distinguishes the labels of language models: the last part of the name, or all of it where that is taken."""
    found: list[str] = []
    taken = {DENSE, COMPILED}
    for model in models:
        whole = _UNUSUAL.sub("-", model)
        numbered = (f"{whole}-{number}" for number in range(2, len(models) + 2))
        candidates = [_UNUSUAL.sub("-", model.rpartition("/")[2]), whole, *numbered]
        ending = next(one for one in candidates if one and one.casefold() not in taken)
        taken.add(ending.casefold())
        found.append(ending)
    return found


def _of_table_1(dataset: str) -> list[str]:
    """The methods of Table 1, and RAG that reasons unless a data set is of one hop."""
    names = list(_OVERALL)
    if "rag" in names and (dataset not in BENCHMARKS or BENCHMARKS[dataset].multi_hop):
        names.insert(names.index("rag") + 1, _REASONING)
    return names


def _called(names: Sequence[str], ending: str) -> tuple[Spec, ...]:
    return tuple(replace(parse_spec(name), label=f"{name}-{ending}") for name in names)
