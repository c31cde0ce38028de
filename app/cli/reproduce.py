"""``keqa reproduce``: what this version should give, run again; and the paper's own experiments."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from keqa.cli.console import results, show_json, status
from keqa.cli.declare import MisplacedOptionError, argument, given, option
from keqa.cli.options import AS_JSON, PRESETS, KSOptions, LanguageModels, PaperOptions, PresetOptions
from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.evaluation.reproduction.cases import Case, Checked

PAPER = "paper"
"""The preset whose options the language models are with, where no preset is named."""

_PRESETS = {
    PAPER: ("keqa.cli.paper", "the KEQA paper's own experiments, with --lm and --index"),
    "ks-llm": ("keqa.cli.ks_llm", "the KS-LLM paper's own experiments, on the testbed or with --lm"),
}
"""Where the experiments of a paper are run, and what --list says of them; its own options stand in `reproduce`."""


def reproduce(
    *,
    names: list[str] | None = argument(
        "[NAME]...",
        "What to reproduce: names of --list, YAML files of your own, paper or ks-llm; everything by default.",
        default=None,
    ),
    listed: bool = option("List what can be reproduced.", "--list", default=False),
    out: Path | None = option(
        "Folder of the run files, with which a stopped command resumes; temporary by default.", "-o"
    ),
    as_json: bool = AS_JSON,
    models: Annotated[LanguageModels, PRESETS],
    paper: PaperOptions,
    ks_llm: KSOptions,
) -> None:
    """Run commands again whose figures are known, and say for each OK or the difference.

    They run on the testbed with the language model that ships with KEQA: no key and no network are needed. Exit code: 0
    where all figures are reproduced, 1 otherwise, 2 something to put right first.

    keqa reproduce paper runs the experiments of the KEQA paper with a language model and corpus of yours, from building
    the utility reference R to all tables and figures, and prints the paper's figures beside yours. Begin with
    --dry-run. keqa reproduce ks-llm does so for the KS-LLM paper, with --lm on its data sets, without on the testbed.
    """
    chosen = names or []
    own = dict(zip(_PRESETS, (paper, ks_llm), strict=True))
    preset = next((name for name in _PRESETS if name in chosen), None)
    if preset is not None:
        if len(chosen) > 1 or listed:
            raise InputError(f"the preset {preset} stands alone: keqa reproduce {preset}")
        shared = PresetOptions(**{field.name: getattr(paper, field.name) for field in fields(PresetOptions)})
        for other, options in own.items():
            foreign = [flag for flag in given(options) if flag not in given(shared) and other != preset]
            _refuse(foreign, f"is for keqa reproduce {other}, not for {preset}: leave it out")
        run = import_module(_PRESETS[preset][0]).reproduce
        run(out or Path("runs") / preset, models, shared, own[preset], as_json=as_json)
        return
    from keqa.evaluation.reproduction.cases import case_names, load_case

    cases = [load_case(name) for name in dict.fromkeys(chosen or case_names())]
    for other in [name for name in own if name != PAPER]:
        _refuse(given(own[other]), f"is for the preset {other}, keqa reproduce {other}: leave it out")
    unused = given(models, paper)
    _refuse(unused, f"is for the preset paper, keqa reproduce paper {', '.join(unused)} …")
    _reproduce_cases(cases, out, listed=listed, as_json=as_json)


def _refuse(flags: Iterable[str], why: str) -> None:
    if named := list(flags):
        raise MisplacedOptionError(f"{', '.join(named)} {why}", *named)


def _reproduce_cases(cases: list[Case], out: Path | None, *, listed: bool, as_json: bool) -> None:
    if listed:
        for case in cases:
            typer.echo(f"{case.name}: {case.what}")
        for name, (_, what) in _PRESETS.items():
            typer.echo(f"{name}: {what}")
        return
    checked = _check(cases, out, quiet=as_json)
    if as_json:
        show_json([_figure(one) for one in checked])
    if not all(one.reproduced for one in checked):
        raise typer.Exit(1)


def _check(cases: list[Case], out: Path | None, *, quiet: bool) -> list[Checked]:
    """Run the cases, each in a folder of its own, and report each figure as soon as it is there."""
    from keqa.evaluation.reproduction.cases import check

    checked = []
    with tempfile.TemporaryDirectory(prefix="keqa-") if out is None else nullcontext(out) as folder:
        for case in cases:
            status().print(f"{case.name}: {case.command}", style="dim", soft_wrap=True)
            place = Path(folder) / case.name
            place.mkdir(parents=True, exist_ok=True)
            for one in check(case, place):
                checked.append(one)
                if not quiet:
                    results().print(_formatted(one), soft_wrap=True)
    return checked


def _formatted(one: Checked) -> Text:
    figure = one.figure
    head = f"{one.case}: {figure.name}, expected {figure.expected:g} ± {figure.tolerance:g}: "
    if one.difference is None:
        return Text.assemble(head, (one.problem, "red"))
    measured = f"{one.measured:.4g}"
    if one.reproduced:
        return Text.assemble(head, measured, (" OK", "green"))
    return Text.assemble(head, measured, (f" differs by {one.difference:+.4g}", "red"))


def _figure(one: Checked) -> dict[str, Any]:
    of = one.figure
    return {
        **{"case": one.case, "figure": of.name, "expected": of.expected, "tolerance": of.tolerance},
        **{name: getattr(one, name) for name in ("measured", "difference", "reproduced", "problem")},
    }
