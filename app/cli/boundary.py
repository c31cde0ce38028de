"""``keqa boundary``: a model of what the language model knows, from labels to figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from keqa.cli.console import results, show_figures, warn
from keqa.cli.help import Commands
from keqa.cli.options import (
    AsJson,
    BoundaryLMOptions,
    InFlight,
    LanguageModel,
    QuestionOptions,
    refuse_empty,
    with_groups,
)
from keqa.errors import InputError
from keqa.storage.folders import check_writable

if TYPE_CHECKING:
    from rich.table import Table

    from keqa.evaluation.questions import Questions
    from keqa.optimize.boundary.check import Figures

_OPTIONS_OF = {
    "light": ("--reads",),
    "finetuned": ("--training", "--language", "--soft-labels", "--boundary-lm"),
    "prompted": ("--show", "--examples", "--reflection-lm", "--boundary-lm"),
}
_QUIZZES, _DRAWS = "quizzes.jsonl", "draws.journal"

boundary = Commands(
    name="boundary",
    help="A boundary model: trained on what the language model answers from memory, it says what that does not know.",
    no_args_is_help=True,
)

CollectedFolders = Annotated[
    list[Path],
    typer.Argument(metavar="COLLECTED...", help="Folders that keqa boundary collect wrote.", show_default=False),
]


@boundary.command()
@with_groups
def collect(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of what is collected.", show_default=False)],
    program: Annotated[
        str | None,
        typer.Option(
            "--program",
            "-p",
            help="The compiled program that shall use the model, whose prompt for quizzes is asked; testbed is the one "
            "that ships. A KEQA as it comes where none is given.",
            show_default=False,
        ),
    ] = None,
    tries: Annotated[int, typer.Option(min=5, max=1000, help="Answers drawn to each quiz.")] = 30,
    in_flight: InFlight = 8,
    as_json: AsJson = False,
    *,
    questions: QuestionOptions,
    model: LanguageModel,
) -> None:
    """Draw answers from memory to the quizzes of questions with known answers, of the train split by default.

    The draws of a quiz are kept in OUT when they are made: the same command resumes after a kill. A model is trained
    on a train split and may be checked on another one; one collected with --split test is never trained on.
    Exit code: 0 where all draws were made, 1 where some failed; the same command makes those again.
    """
    from keqa.cli.opening import check_roles
    from keqa.cli.progress import Bars

    refuse_empty("--program", program)
    check_writable(out, "--out")
    model.check()
    asked = _asked(questions)
    with Bars() as bars:
        from keqa.optimize.boundary.collect import collect as collected_from
        from keqa.optimize.boundary.collect import write_collected
        from keqa.programs.fingerprint import lm_spec
        from keqa.programs.keqa import KEQA
        from keqa.programs.saving.folder import load
        from keqa.storage.journal import Journal

        roles = model.roles(cache=False)
        made = KEQA(None, lms=roles) if program is None else load(program, None, roles, method="keqa")
        check_roles(roles)
        # Another split would take the place of what was collected here.
        data = {"dataset": asked.dataset, "split": asked.split, "seed": asked.seed}
        begun = {"task": "boundary", "lm": lm_spec(roles.task), "tries": tries, **data}
        with Journal.open(out / _DRAWS, begun) as journal:
            found = collected_from(
                made,
                asked.examples,
                tries=tries,
                store=journal,
                in_flight=in_flight,
                dataset=asked.dataset,
                split=asked.split,
                progress=lambda done, total: bars.report("collecting", done, total),
            )
        write_collected(found, out / _QUIZZES)
    shares = [float(quiz.accuracy) for quiz in found.quizzes]
    right = sum(shares) / len(shares) if shares else None
    if as_json:
        show_figures({"quizzes": len(shares), "tries": tries, "right": right, "left_out": found.left_out})
    else:
        said = "" if right is None else f", {right:.3f} of them right"
        results().print(f"{len(shares)} quizzes, {tries} answers each{said}: {out / _QUIZZES}", soft_wrap=True)
    if found.left_out:
        warn(f"{found.left_out} quizzes lack draws that failed; the same command makes them")
        raise typer.Exit(1)


@boundary.command()
@with_groups
def train(
    collected: CollectedFolders,
    out: Annotated[Path, typer.Option("--out", "-o", help="File of the model.", show_default=False)],
    reads: Annotated[
        Literal["quiz", "draft", "draws"],
        typer.Option(help="What it reads, which is what it costs: the quiz alone, one draw beside it, or all draws."),
    ] = "draft",
    embedder: Annotated[
        str, typer.Option(help="Of quizzes: hashing, hashing-N for vectors of that length, or local/minilm.")
    ] = "hashing-256",
    kind: Annotated[
        Literal["light", "finetuned", "prompted"],
        typer.Option(
            help="light: numbers, in seconds. finetuned: --boundary-lm, trained as KBM's is, in a folder beside OUT. "
            "prompted: --boundary-lm is asked, with examples from COLLECTED."
        ),
    ] = "light",
    training: Annotated[
        str | None,
        typer.Option(
            help="Of finetuned, such as method=lora,rate=0.001; KBM's settings by default.", show_default=False
        ),
    ] = None,
    language: Annotated[Literal["en", "zh"], typer.Option(help="Of the prompt of finetuned.")] = "en",
    soft_labels: Annotated[
        bool, typer.Option("--soft-labels", help="finetuned learns shares, and not what a threshold makes of them.")
    ] = False,
    show: Annotated[
        Literal["balanced", "nearest"], typer.Option(help="Which examples prompted shows a quiz.")
    ] = "balanced",
    examples: Annotated[int, typer.Option(min=0, max=64, help="How many of them.")] = 8,
    reflection_lm: Annotated[
        str | None, typer.Option(help="Writes the instruction of prompted, by GEPA.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    *,
    model: BoundaryLMOptions,
) -> None:
    """Train a boundary model, and show how such models fare on questions held out.

    keqa compare gate-boundary:model=OUT … asks a program with it. A light model is trained on all questions, after
    figures of models like it; the others hold a fifth of the questions out.
    """
    if out.is_dir():
        raise InputError(f"{out} is a folder; name a file, such as {out / 'model.json'}")
    given = {
        "--training": training is not None,
        "--language": language != "en",
        "--soft-labels": soft_labels,
        "--show": show != "balanced",
        "--examples": examples != 8,
        "--reflection-lm": reflection_lm is not None,
        "--reads": reads != "draft",
        "--boundary-lm": model.boundary_lm is not None,
    }
    for option in (name for name, is_given in given.items() if is_given and name not in _OPTIONS_OF[kind]):
        raise InputError(f"{option} is none of --kind {kind}: leave it out")
    found = [_read(folder) for folder in collected]
    values: dict[str, Any] = {}
    if kind == "light":
        from keqa.optimize.boundary import train_light

        trained: Any = train_light(found, reads=reads, embedder=embedder)
        said = "Trained on all of them"
    elif kind == "finetuned":
        trained, folder = _finetuned(found, out, model.name, training, language, soft_labels)
        values["lm"] = folder.name
        said = f"Trained as {folder}"
    else:
        trained = _prompted(found, model, show, examples, embedder, reflection_lm)
        said = "Examples chosen"
    import json

    from keqa.optimize.boundary.collect import write_private

    write_private(out, json.dumps({**trained.model.written(), **values}, ensure_ascii=True).encode())
    if as_json:
        show_figures(trained.held_out.as_json())
    else:
        results().print(_table(trained.held_out, "held-out quizzes"))
        results().print(f"{said}: {out}", soft_wrap=True)


@boundary.command()
@with_groups
def check(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that keqa boundary train wrote.")],
    collected: CollectedFolders,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw how often quizzes that it takes for so probably known are: a .png or .pdf file."),
    ] = None,
    as_json: AsJson = False,
    *,
    asked: BoundaryLMOptions,
) -> None:
    """Measure a boundary model on questions that it has not learned from; those that it has are left out."""
    from contextlib import nullcontext

    import dspy

    from keqa.optimize.boundary.check import check_model
    from keqa.programs.boundary.files import read_model

    found: Any = read_model(model)
    if found.kind != "prompted" and asked.boundary_lm is not None:
        raise InputError(f"--boundary-lm is asked by a prompted boundary model, and {model} is a {found.kind} one")
    quizzes = [_read(folder) for folder in collected]
    with dspy.context(lm=asked.build()) if found.kind == "prompted" else nullcontext():
        figures = check_model(found, quizzes, found.roots)
        if plot is not None:
            from keqa.optimize.boundary.check import draw_reliability

            draw_reliability(found, quizzes, plot)
    if as_json:
        show_figures(figures.as_json())
    else:
        results().print(_table(figures, "quizzes"))


def _asked(options: QuestionOptions) -> Questions:
    """The questions, of the train split where there is one and no other is given."""
    from dataclasses import replace

    from keqa.cli.options import MethodOptions
    from keqa.cli.running import questions_of

    named = options.questions or ""
    # A file is one split, whether it is the user's own or a benchmark's (NAME:FILE).
    files = (named, named.partition(":")[2], options.data or "")
    one_file = any(name and Path(name).is_file() for name in files)
    return questions_of(options if one_file or options.split else replace(options, split="train"), MethodOptions())


def _finetuned(
    found: list[Any], out: Path, lm: str, training: str | None, language: Any, soft_labels: bool
) -> tuple[Any, Path]:
    """A fine-tuned model, and the folder of its language model: beside its file."""
    from keqa.cli.compile import read_training
    from keqa.cli.progress import Bars
    from keqa.optimize.boundary.asked import train_finetuned

    folder = out.with_name(f"{out.name}.lm")
    with Bars() as bars:
        trained = train_finetuned(
            found,
            lm,
            folder,
            language=language,
            soft_labels=soft_labels,
            training=read_training(training),
            progress=lambda step, steps, loss: bars.report("fine-tuning", step, steps),
        )
    return trained, folder


def _prompted(
    found: list[Any], asked: BoundaryLMOptions, show: Any, examples: int, embedder: str, reflection_lm: str | None
) -> Any:
    from keqa.lms import build_lm
    from keqa.optimize.boundary.asked import train_prompted

    reflecting = None if reflection_lm is None else build_lm(reflection_lm)
    return train_prompted(found, asked.build(), show=show, k=examples, embedder=embedder, reflection_lm=reflecting)


def _read(folder: Path) -> Any:
    from keqa.optimize.boundary.collect import read_collected

    return read_collected(folder / _QUIZZES if folder.is_dir() else folder)


def _table(figures: Figures, what: str) -> Table:
    from rich.table import Table

    table = Table("score", title=f"Whether the answer from memory is right, {figures.quizzes} {what}")
    for name in ("draws", "right", "AUROC", "PRR", "ECE", "Brier"):
        table.add_column(name, justify="right")
    rows = (("boundary model", figures.draws, figures.mastery), ("vote of five draws", 5.0, figures.vote))
    for name, draws, ranked in rows:
        values = (ranked.right, ranked.auroc, ranked.prr, ranked.ece, ranked.brier)
        table.add_row(name, f"{draws:.2f}", *("" if value is None else f"{value:.3f}" for value in values))
    if figures.failed:
        table.caption = f"{figures.failed} could not be judged, and count as unknown"
    return table
