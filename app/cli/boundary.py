"""``keqa boundary``: a model of what the language model knows, from labels to figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from keqa.cli.options import AsJson, InFlight, LanguageModel, QuestionOptions, refuse_empty, with_groups
from keqa.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from keqa.evaluation.questions import Questions
    from keqa.optimize.boundary.check import Figures, Ranked

_QUIZZES, _DRAWS = "quizzes.jsonl", "draws.jsonl"

boundary = typer.Typer(
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
    from keqa.cli.console import results, show_figures, warn
    from keqa.cli.opening import check_roles
    from keqa.cli.progress import Bars
    from keqa.storage.folders import check_writable

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
    as_json: AsJson = False,
) -> None:
    """Train a light boundary model, in seconds, and show how models like it fare on questions held out.

    keqa compare gate-boundary:model=OUT … asks a program with it.
    """
    from keqa.cli.console import results, show_figures
    from keqa.optimize.boundary.collect import write_private
    from keqa.optimize.boundary.train import train_light

    if out.is_dir():
        raise InputError(f"{out} is a folder; name a file, such as {out / 'model.json'}")
    trained = train_light([_read(folder) for folder in collected], reads=reads, embedder=embedder)
    import json

    write_private(out, json.dumps(trained.model.written(), ensure_ascii=True).encode())
    if as_json:
        show_figures(trained.held_out.as_json())
    else:
        results().print(_table(trained.held_out, "held-out quizzes"))
        results().print(f"Trained on all of them: {out}", soft_wrap=True)


@boundary.command()
def check(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that keqa boundary train wrote.")],
    collected: CollectedFolders,
    as_json: AsJson = False,
) -> None:
    """Measure a boundary model on questions that it has not learned from; those that it has are left out."""
    from keqa.cli.console import results, show_figures
    from keqa.optimize.boundary.check import check_model
    from keqa.programs.boundary.light import read_model

    found = read_model(model)
    figures = check_model(found, [_read(folder) for folder in collected], found.roots)
    if as_json:
        show_figures(figures.as_json())
    else:
        results().print(_table(figures, "quizzes"))


def _asked(options: QuestionOptions) -> Questions:
    """The questions, of the train split where there is one and no other is given."""
    from dataclasses import replace

    from keqa.cli.options import MethodOptions
    from keqa.cli.running import questions_of

    own = options.questions is not None and Path(options.questions).is_file()
    return questions_of(options if own or options.split else replace(options, split="train"), MethodOptions())


def _read(folder: Path) -> Any:
    from keqa.optimize.boundary.collect import read_collected

    return read_collected(folder / _QUIZZES if folder.is_dir() else folder)


def _table(figures: Figures, what: str) -> Table:
    from rich.table import Table

    table = Table("score", title=f"Whether the answer from memory is right, {figures.quizzes} {what}")
    for name in ("right", "AUROC", "PRR", "ECE", "Brier"):
        table.add_column(name, justify="right")
    for name, ranked in (("boundary model", figures.mastery), ("vote of five draws", figures.vote)):
        table.add_row(name, *_cells(ranked))
    return table


def _cells(ranked: Ranked) -> list[str]:
    values = (ranked.right, ranked.auroc, ranked.prr, ranked.ece, ranked.brier)
    return ["" if value is None else f"{value:.3f}" for value in values]
