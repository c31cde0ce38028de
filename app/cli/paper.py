"""``keqa reproduce paper``: the KEQA paper's experiments with a language model and corpus of the user's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from keqa.cli.paper_runs import Plan, by_role, estimated, measured
from keqa.cli.running import Models
from keqa.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from keqa.evaluation.reports.grid import Grid

__all__ = ["reproduce_paper"]


def reproduce_paper(
    *,
    out: Path | None,
    as_json: bool,
    lm: str | None = None,
    consistency_lm: str | None = None,
    utility_lm: str | None = None,
    api_base: str | None = None,
    consistency_api_base: str | None = None,
    utility_api_base: str | None = None,
    index: str | None = None,
    dense_index: str | None = None,
    other_lm: Sequence[str] = (),
    data: Sequence[str] = (),
    program: Path | None = None,
    sample: int | None = None,
    in_flight: int = 8,
    retry_failed: bool = False,
    dry_run: bool = False,
) -> None:
    """Run the paper's experiments, or estimate what they cost; see `keqa.cli.reproduce.reproduce`.

    Raises:
        InputError: There is no language model or index, or a data set is none of the paper's.
        ConfigurationError: A key, model or setting is wrong.
    """
    from keqa.cli.console import results, status
    from keqa.cli.given import refuse_stray_addresses
    from keqa.evaluation.questions import of_name
    from keqa.evaluation.reports.rendering.terminal import Rendered
    from keqa.evaluation.reproduction.experiments import LEARNED, SAMPLE, check_labels, experiments
    from keqa.evaluation.reproduction.published import DATASETS

    if lm is None or index is None:
        raise InputError("keqa reproduce paper needs --lm, the language model, and --index, the corpus")
    models = Models(lm, consistency_lm, utility_lm, api_base, consistency_api_base, utility_api_base)
    refuse_stray_addresses(**asdict(models))
    others = list(dict.fromkeys(other_lm))
    named = {one.partition(":")[0]: one for one in data or DATASETS}
    planned = list(experiments(list(named), program=program is not None, dense=dense_index is not None, others=others))
    questions = {name: of_name(source, sample=sample or SAMPLE) for name, source in named.items()}
    plan = Plan(
        planned,
        questions,
        models,
        others,
        index,
        dense_index,
        program,
        in_flight,
        retry_failed,
        out or Path("runs") / "paper",
    )
    check_labels(planned, plan.out)
    _check_models(plan, dry_run)
    if program is None:
        left_out = ", ".join(LEARNED)
        status().print(f"left out, for they need --program: {left_out}", style="yellow", markup=False, soft_wrap=True)
    grids = [estimated(plan)] if dry_run else measured(plan)
    if as_json:
        typer.echo(json.dumps({grid.name: _rows(grid) for grid in grids}, indent=2))
        return
    for grid in grids:
        results().print(Rendered(grid))


def _check_models(plan: Plan, dry_run: bool) -> None:
    """Build every language model, so that a wrong one is reported before the first question; a dry run asks none.

    Raises:
        ConfigurationError: A string names nothing usable, or a key or an address is missing that is needed.
    """
    from keqa.lms import build_roles, check_model

    if dry_run:
        for model in (*by_role(plan.models).values(), *plan.others):
            check_model(model)
        return
    build_roles(**asdict(plan.models))
    for number, model in enumerate(plan.others):
        try:
            build_roles(**asdict(plan.models_of(number)))
        except ConfigurationError as error:
            raise ConfigurationError(
                f"--other-lm {model}: {error} (--api-base is the address of --lm; another model's is read from the "
                "environment, such as HOSTED_VLLM_API_BASE.)"
            ) from error


def _rows(grid: Grid) -> list[dict[str, Any]]:
    names = [column.full for column in grid.columns]
    return [dict(zip(names, (cell.value for cell in row.cells), strict=True)) for row in grid.rows]
