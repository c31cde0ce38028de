"""``keqa reproduce``: what this version should give, run again; and the paper's own experiments."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from keqa.cli.console import results, show_json, status
from keqa.cli.declare import MisplacedOptionError, argument, flag_of, given, option
from keqa.cli.options import (
    ALLOW_OVERLAP,
    AS_JSON,
    IN_FLIGHT,
    INDEX,
    RETRY_FAILED,
    JudgeLMOptions,
    LanguageModels,
    ModelOptions,
    RunOptions,
    lm_option,
    server_of,
)
from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.evaluation.reproduction.cases import Case, Checked

PRESETS = "The presets paper, ks-llm, kbm and real"
"""The panel of the help for the options of all presets."""


@dataclass(frozen=True)
class PresetOptions:
    """The options of all presets, beside their language models."""

    panel = PRESETS

    index: str | None = INDEX
    other_lm: list[str] | None = option(
        "Another language model instead of --lm, as in Table 4 of the KEQA paper; once for each. Its server's address "
        "is read from the environment: HOSTED_VLLM_API_BASE, OLLAMA_API_BASE or OPENAI_BASE_URL, by its provider.",
        place="/",
    )
    data: list[str] | None = option(
        "A data set of the paper, as NAME:PATH, or NAME from the Hugging Face hub; once for each, all of the paper's "
        "from the hub by default. Of the preset real: the folder with all data sets.",
        place=":",
        shown=False,
    )
    sample: int | None = option("Questions of each set.", min=2, shown="500, of real 100")
    in_flight: int = IN_FLIGHT
    retry_failed: bool = RETRY_FAILED
    allow_overlap: bool = ALLOW_OVERLAP

    def run(self, out: Path) -> RunOptions:
        return RunOptions(out, self.retry_failed, in_flight=self.in_flight, allow_overlap=self.allow_overlap)


@dataclass(frozen=True)
class PresetLearningOptions(PresetOptions):
    """The options of the presets that learn from training questions, and can be priced."""

    panel = "The presets paper and kbm"

    train: list[str] | None = option(
        "Training questions of a data set, as NAME:PATH or NAME, from which R or a boundary model is made; once for "
        "each, by default the train split of --data, or the paper's training sets.",
        place=":",
        shown=False,
    )
    train_sample: int | None = option("Training questions of each set.", min=1, shown="as --sample")
    dry_run: bool = option("Estimate calls, tokens and price, and ask nothing.", default=False)


@dataclass(frozen=True)
class PaperOptions(PresetLearningOptions, ModelOptions):
    """The options of the preset paper, beside its language models."""

    panel = "The preset paper"

    dense_index: str | None = option("The same corpus with a dense retriever, for Table 3.", place=",@")
    program: Path | None = option(
        "A program compiled on training questions, instead of one with a utility reference R built from --train.", "-p"
    )
    no_reference: bool = option("Build no R and compile nothing; rows are then called w/o R.", default=False)
    no_demonstrations: bool = option(
        "Show no fixed demonstrations in any row; by default only the direct prompt, vanilla RAG and zero-shot CoT "
        "go without, as in the paper.",
        default=False,
    )
    plain_baselines: bool = option(
        "Leave out the rows of baselines that learned from the training questions.", default=False
    )
    embedder: str | None = option(
        "Finds like passages in R: hashing, local/minilm, or a sentence-transformers model.",
        place="@",
        shown="local/minilm where it is installed",
    )
    labelling_lm: str | None = lm_option(
        "Decides for Table 2 which answers mean the same; gold answers of quizzes do where the data have them."
    )
    labelling_api_base: str | None = server_of("--labelling-lm")
    cases: int = option("Questions of each set in Table 6, with all their steps.", min=0, default=1)
    pilot: Path | None = option(
        "With --dry-run: the --out of a smaller run of the same, from whose costs the expected ones are computed."
    )


@dataclass(frozen=True)
class KSOptions:
    """The options of the preset ks-llm, beside those of both presets."""

    panel = "The preset ks-llm"

    documents: Path | None = option(
        "Folder with a file of documents for each data set, NAME.jsonl, as keqa documents makes them. By default they "
        "are made: of the questions' own contexts, of what --index finds, or written by --lm."
    )
    similarity: str | None = option(
        "The embedding model of the distance, by name or folder; words compares words.",
        shown="local/minilm, where it is installed",
    )
    one_text: bool = option("Embed the triples as one text (equation 2), not each by itself.", default=False)


@dataclass(frozen=True)
class KBMOptions(JudgeLMOptions):
    """The options of the preset kbm, beside those of all presets."""

    panel = "The preset kbm"

    boundary: Path | None = option(
        "The file of a boundary model, of keqa boundary train --kind finetuned for the paper's; by default a light one "
        "is trained on draws of the training questions."
    )
    draws: int = option("Answers drawn to a question, of Figure 2 and to learn from.", default=30, min=5, max=1000)


@dataclass(frozen=True)
class RealOptions:
    """The options of the preset real, beside those of all presets."""

    panel = "The preset real"

    only: list[str] | None = option("Ask only this data set, or this row; once for each.", shown=False)


_PRESETS = {
    "paper": "the KEQA paper's own experiments, with --lm and --index",
    "ks-llm": "the KS-LLM paper's own experiments, on the testbed or with --lm",
    "kbm": "the KBM paper's own experiments, on the testbed or with --lm and --index",
    "real": "real language models on real questions, from what ships or with --lm and --data",
}
"""What ``--list`` says of the experiments of papers; a module of `keqa.cli`, called alike, runs them."""


def reproduce(
    *,
    names: list[str] | None = argument(
        "[NAME]...",
        "What to reproduce: names of --list, YAML files of your own, paper, ks-llm, kbm or real; all cases by default.",
        default=None,
    ),
    listed: bool = option("List what can be reproduced.", "--list", default=False),
    out: Path | None = option(
        "Folder of the run files, with which a stopped command resumes; temporary by default, runs/NAME of a preset.",
        "-o",
    ),
    as_json: bool = AS_JSON,
    models: Annotated[LanguageModels, PRESETS],
    paper: PaperOptions,
    ks_llm: KSOptions,
    kbm: Annotated[KBMOptions, KBMOptions.panel],
    real: RealOptions,
) -> None:
    """Rerun commands whose figures are known, and report OK or the difference for each.

    They run on the testbed with the language model that ships with KEQA: no key and no network are needed. Exit code: 0
    where all figures are reproduced, 1 otherwise, 2 something to put right first.

    keqa reproduce paper runs the experiments of the KEQA paper with a language model and corpus of yours, from building
    the utility reference R to all tables and figures, and prints the paper's figures beside yours. Begin with
    --dry-run. keqa reproduce ks-llm does so for the KS-LLM paper, with --lm on its data sets, without on the testbed;
    keqa reproduce kbm for the KBM paper, likewise. keqa reproduce real prints what real language models gave on real
    questions, from what ships and without them, and collects further with --lm and --data.
    """
    chosen = names or []
    preset = next((name for name in _PRESETS if name in chosen), None)
    if preset is not None and (len(chosen) > 1 or listed):
        raise InputError(f"the preset {preset} stands alone: keqa reproduce {preset}")
    # The options of all presets stand in the group of the first one.
    shared = {flag_of(one.name) for one in fields(PresetOptions)}
    groups: dict[str, Any] = {"paper": None, "ks-llm": ks_llm, "kbm": kbm, "real": real}
    learning = {flag_of(one.name) for one in fields(PresetLearningOptions)} if preset == "kbm" else shared
    own = {name: list(given(group)) for name, group in groups.items() if group is not None}
    own["paper"] = [flag for flag in given(paper) if flag not in learning]
    for other, flags in own.items():
        if preset is not None and other != preset:
            _refuse(flags, f"is for keqa reproduce {other}, not for {preset}: leave it out")
        elif preset is None and other != "paper":
            _refuse(flags, f"is for the preset {other}, keqa reproduce {other}: leave it out")
    if preset is not None:
        from keqa.cli.running import show_grids

        run = import_module(f"keqa.cli.{preset.replace('-', '_')}").reproduce
        show_grids(run(out or Path("runs") / preset, models, paper, groups[preset]), as_json=as_json)
        return
    from keqa.evaluation.reproduction.cases import case_names, load_case

    cases = [load_case(name) for name in dict.fromkeys(chosen or case_names())]
    unused = given(models, paper)
    _refuse(unused, f"is for the preset paper, keqa reproduce paper {', '.join(unused)} …")
    if listed:
        about = {one.name: one.what for one in cases} | _PRESETS
        typer.echo("\n".join(f"{name}: {what}" for name, what in about.items()))
        return
    checked = _check(cases, out, quiet=as_json)
    if as_json:
        show_json([_figure(one) for one in checked])
    if not all(one.reproduced for one in checked):
        raise typer.Exit(1)


def _refuse(flags: Iterable[str], why: str) -> None:
    if named := list(flags):
        raise MisplacedOptionError(f"{', '.join(named)} {why}", *named)


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
    end = (" OK", "green") if one.reproduced else (f" differs by {one.difference:+.4g}", "red")
    return Text.assemble(head, f"{one.measured:.4g}", end)


def _figure(one: Checked) -> dict[str, Any]:
    of = one.figure
    return {
        **{"case": one.case, "figure": of.name, "expected": of.expected, "tolerance": of.tolerance},
        **{name: getattr(one, name) for name in ("measured", "difference", "reproduced", "problem")},
    }
