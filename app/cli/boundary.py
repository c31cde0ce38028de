"""``keqa boundary``: a model of what the language model knows, from labels to figures."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import typer

from keqa.cli.console import Bars, emit, table, warn, warn_of_many
from keqa.cli.declare import Commands, MisplacedOptionError, argument, given, option
from keqa.cli.options import (
    AS_JSON,
    IN_FLIGHT,
    BoundaryLMOptions,
    JudgeLMOptions,
    LanguageModel,
    MethodOptions,
    QuestionOptions,
    open_retriever,
)
from keqa.errors import InputError
from keqa.storage.files import check_writable

if TYPE_CHECKING:
    from rich.table import Table

    from keqa.evaluation.questions import Questions
    from keqa.optimize.boundary.check import Figures
    from keqa.optimize.boundary.collect import Collected

_OPTIONS = {
    "--reads": ("light",),
    "--embedder": ("light", "finetuned", "prompted"),
    "--cost-per-call": ("chooser",),
    "--cost-per-retrieval": ("chooser",),
    "--certainty": ("light",),
    "--training": ("finetuned",),
    "--language": ("finetuned",),
    "--soft-labels": ("finetuned",),
    "--show": ("prompted",),
    "--examples": ("prompted",),
    "--reflection-lm": ("prompted",),
    "--boundary-lm": ("finetuned", "prompted"),
}
_QUIZZES = "quizzes.jsonl"

boundary = Commands(
    name="boundary",
    help="A boundary model: trained on what a language model answers from memory, it predicts what that does not know.",
    no_args_is_help=True,
)

_COLLECTED = argument("COLLECTED...", "Folders that keqa boundary collect wrote.")


@boundary.command()
def collect(
    *,
    context: typer.Context,
    out: Path = option("Folder of what is collected.", "-o", default=...),
    program: str | None = option(
        "The compiled program that shall use the model, whose prompt for quizzes is asked; testbed is the one that "
        "ships. A KEQA as it comes where none is given.",
        "-p",
        place=":",
    ),
    tries: int = option("Answers drawn to each quiz.", default=30, min=5, max=1000),
    index: str | None = option(
        "Draw as many again from what this index finds, as KBM does: a fine-tuned model that judges again with "
        "passages has then seen some. Its folder or address; testbed is the testbed's encyclopedia.",
        *("--index", "-i"),
        place=",@",
    ),
    in_flight: int = IN_FLIGHT,
    as_json: bool = AS_JSON,
    questions: QuestionOptions,
    model: LanguageModel,
    judge: JudgeLMOptions,
) -> None:
    """Draw answers from memory to the quizzes of questions with known answers, of the train split by default.

    The draws of a quiz are kept in OUT when they are made: the same command resumes after a kill. A model is trained
    on a train split and may be checked on another one; one collected with --split test is never trained on.
    Exit code: 0 where all draws were made, 1 where some failed; the same command makes those again.
    """
    check_writable(out, "--out")
    asked = _asked(questions)
    # Only measuring takes questions that have no answer.
    examples = [one for one in asked.examples if one.answers]
    warn_of_many("passed over: ", [f"{one.id}: there is no answer" for one in asked.examples if not one.answers])
    searched, source = None, context.get_parameter_source("index")
    # One that a file sets for all commands would double the calls unasked.
    if index is not None and getattr(source, "name", "") == "COMMANDLINE":
        searched = open_retriever(None if index == "testbed" else index, model.lm, benchmark=True)
    from keqa.programs.keqa import KEQA
    from keqa.programs.saving import load

    roles = model.roles(cache=False)
    made = KEQA(None, lms=roles) if program is None else load(program, None, roles, method="keqa")
    # Another split would take the place of what was collected here.
    begun = {"split": asked.split, "seed": asked.seed}
    how: dict[str, Any] = {"examples": examples, "retriever": searched, "tries": tries, "in_flight": in_flight}
    how["judge_lm"] = judge.build()
    found = draw(made, roles, asked, out / _QUIZZES, begun, **how)
    figures: dict[str, Any] = {"tries": tries, "left_out": found.left_out}
    summary = f"{tries} answers each"
    for side, beside in (("", ""), *([("retrieved ", " with passages")] if searched is not None else [])):
        some = [quiz for quiz in found.quizzes if (quiz.reference is not None) is bool(side)]
        right = fmean(float(one.accuracy) for one in some) if some else None
        figures |= {f"{side}quizzes": len(some), f"{side}right": right}
        summary += "" if right is None else f", {right:.3f} of them right{beside}"
    emit(figures, [f"{figures['quizzes']} quizzes, {summary}: {out / _QUIZZES}"], as_json=as_json)
    if found.left_out:
        warn(f"{found.left_out} quizzes lack draws that failed; the same command makes them")
        raise typer.Exit(1)


def draw(program: Any, lms: Any, asked: "Questions", place: Path, begun: Mapping[str, Any], **how: Any) -> "Collected":
    """What `keqa.optimize.boundary.collect.collect` draws, into a file; each draw is kept beside it when it is made."""
    from keqa.lms import check_reachable
    from keqa.optimize.boundary.collect import collect, write_collected
    from keqa.programs.fingerprint import lm_spec
    from keqa.storage.journal import Journal

    about = {"task": "boundary", "lm": lm_spec(lms.task), "tries": how["tries"], "dataset": asked.dataset, **begun}
    how |= {"dataset": asked.dataset, "split": asked.split}
    check_reachable(lms.every)
    with Bars() as bars, Journal.open(place.with_name("draws.journal"), about) as journal:
        found = collect(program, store=journal, progress=bars.report, **how)
    write_collected(found, place)
    return found


@dataclass(frozen=True)
class TrainOptions:
    """How a boundary model is trained, by its kind."""

    reads: Literal["quiz", "draft", "draws"] = option(
        "What it reads, which is what it costs: the quiz alone, one draw beside it, or all draws.", default="draft"
    )
    embedder: str = option(
        "Of quizzes: hashing, hashing-N for vectors of that length, or local/minilm.", default="hashing-256"
    )
    certainty: Literal["by_types", "by_samples"] = option(
        "What light learns as certainty: 1 - H / log k over the k types of answers, which is KBM's, or "
        "1 - H / log N over all N draws.",
        default="by_samples",
    )
    kind: Literal["light", "finetuned", "prompted", "chooser"] = option(
        "light: numbers, in seconds. finetuned: --boundary-lm, trained as KBM's is, in a folder beside OUT. prompted: "
        "--boundary-lm is asked, with examples from COLLECTED. chooser, of --outcomes alone: numbers that choose "
        "between memory, one reading and taking a question apart.",
        default="light",
    )
    outcomes: bool = option(
        "COLLECTED are files of recorded outcomes instead: questions with drafts that were right or not. Asks nobody.",
        default=False,
    )
    cost_per_call: float = option("Of chooser: what a call costs, in shares of right answers.", default=0.002, min=0)
    cost_per_retrieval: float = option("Of chooser: what a retrieval costs.", default=0.02, min=0)
    training: str | None = option("Of finetuned, such as method=lora,rate=0.001; KBM's settings by default.")
    language: Literal["auto", "en", "zh"] = option(
        "Of the prompt of finetuned; auto asks each question in the one of its own language, as KBM's does.",
        default="auto",
    )
    soft_labels: bool = option("finetuned learns shares, and not what a threshold makes of them.", default=False)
    show: Literal["balanced", "nearest"] = option("Which examples prompted shows a quiz.", default="balanced")
    examples: int = option("How many of them.", default=8, min=0, max=64)
    reflection_lm: str | None = option("Writes the instruction of prompted, by GEPA.")


@boundary.command()
def train(
    *,
    collected: list[Path] = argument(
        "COLLECTED...", "Folders that keqa boundary collect wrote; with --outcomes, files of your own."
    ),
    out: Path = option("File of the model.", "-o", default=...),
    as_json: bool = AS_JSON,
    options: TrainOptions,
    model: BoundaryLMOptions,
) -> None:
    """Train a boundary model, and show how such models fare on questions held out.

    keqa compare gate-boundary:model=OUT … asks a program with it. A light model is trained on all questions, after
    figures of models like it; the others hold a fifth of the questions out.
    """
    if out.is_dir():
        raise InputError(f"{out} is a folder; name a file, such as {out / 'model.json'}")
    for flag in given(options, model):
        if flag in _OPTIONS and options.kind not in _OPTIONS[flag]:
            raise MisplacedOptionError(f"{flag} is none of --kind {options.kind}: leave it out", flag)
    check_writable(out.parent, "--out")
    if options.kind == "chooser":
        _train_chooser(collected, out, options, as_json=as_json)
        return
    found = [_read_outcomes(place) if options.outcomes else _read(place) for place in collected]
    trained, values, summary = _trained(found, out, model, options)
    from keqa.optimize.boundary.collect import write_private

    write_private(out, json.dumps({**trained.model.written(), **values}, ensure_ascii=True).encode())
    shown = [_table(trained.held_out, "held-out quizzes"), f"{summary}: {out}"]
    emit(trained.held_out.as_json(), shown, as_json=as_json)


def _read_outcomes(file: Path) -> Any:
    from keqa.optimize.boundary.outcomes import as_collected, read_outcomes

    return as_collected(read_outcomes(file), file.stem)


def _train_chooser(files: list[Path], out: Path, options: TrainOptions, *, as_json: bool) -> None:
    if not options.outcomes:
        raise InputError("a chooser learns from recorded outcomes: add --outcomes, and name their files")
    from keqa.optimize.boundary.choosing import Learner
    from keqa.optimize.boundary.collect import write_private
    from keqa.optimize.boundary.outcomes import read_outcomes

    learner = Learner([one for file in files for one in read_outcomes(file)])
    found = learner.chooser(options.cost_per_call, options.cost_per_retrieval)
    write_private(out, json.dumps(found.chooser.written(), ensure_ascii=True).encode())
    figures = {"right": found.accuracy, "calls": found.calls, "retrievals": found.retrievals, "settled": found.settled}
    settled = ", ".join(f"{share:.0%} by {way}" for way, share in found.settled.items())
    summary = f"Held out: {found.accuracy:.3f} right with {found.calls:.1f} calls and {found.retrievals:.2f} retrievals"
    emit(figures, [f"{summary}; settled {settled}", f"Trained on all of them: {out}"], as_json=as_json)


def _trained(found: Any, out: Path, model: BoundaryLMOptions, options: TrainOptions) -> tuple[Any, dict[str, Any], str]:
    if options.kind == "light":
        from keqa.optimize.boundary import train_light

        how: dict[str, Any] = {"reads": options.reads, "target": options.certainty}
        return train_light(found, embedder=options.embedder, **how), {}, "Trained on all of them"
    if options.kind == "prompted":
        from keqa.lms import build_lm
        from keqa.optimize.boundary.train import train_prompted

        writer = None if options.reflection_lm is None else build_lm(options.reflection_lm)
        how = {"show": options.show, "k": options.examples, "embedder": options.embedder}
        return train_prompted(found, model.build(), reflection_lm=writer, **how), {}, "Examples chosen"
    from keqa.cli.compile import read_training
    from keqa.optimize.boundary.train import train_finetuned

    folder = out.with_name(f"{out.name}.lm")
    with Bars() as bars:
        trained = train_finetuned(
            *(found, model.name, folder),
            language=options.language,
            soft_labels=options.soft_labels,
            training=read_training(options.training),
            progress=lambda step, steps, loss: bars.report("fine-tuning", step, steps),
        )
    if left_out := trained.model.about["left_out"]:
        warn(
            f"{left_out} quizzes, or their passages, were too long to learn from: --training longest=… has longer ones"
        )
    return trained, {"lm": folder.name}, f"Trained as {folder}"


@boundary.command()
def check(
    *,
    model: Path = argument("MODEL", "A file that keqa boundary train wrote."),
    collected: list[Path] = _COLLECTED,
    plot: Path | None = option("Draw how often quizzes that it takes for so probably known are: a .png or .pdf file."),
    as_json: bool = AS_JSON,
    asked: BoundaryLMOptions,
) -> None:
    """Measure a boundary model on questions that it has not learned from; those that it has are left out."""
    import dspy

    from keqa.optimize.boundary.check import draw_reliability, judged
    from keqa.programs.boundary import read_model

    found: Any = read_model(model)
    if found.kind != "prompted" and asked.boundary_lm is not None:
        why = f"--boundary-lm is asked by a prompted boundary model, and {model} is a {found.kind} one"
        raise MisplacedOptionError(why, "--boundary-lm", "--boundary-api-base")
    quizzes = [_read(folder) for folder in collected]
    with dspy.context(lm=asked.build()) if found.kind == "prompted" else nullcontext():
        checked = judged(found, quizzes)
    emit(checked.figures.as_json(), [_table(checked.figures, "quizzes")], as_json=as_json)
    if plot is not None:
        draw_reliability(checked, plot)


def _asked(options: QuestionOptions) -> "Questions":
    """The questions, of the train split where there is one and no other is given."""
    from keqa.cli.running import questions_of

    # A file is one split, whether it is the user's own or a benchmark's (NAME:FILE).
    named = options.questions or ""
    one_file = any(place and Path(place).is_file() for place in (named, named.partition(":")[2], options.data))
    return questions_of(options if one_file or options.split else replace(options, split="train"), MethodOptions())


def _read(folder: Path) -> Any:
    from keqa.optimize.boundary.collect import read_collected

    return read_collected(folder / _QUIZZES if folder.is_dir() else folder)


def _table(figures: "Figures", what: str) -> "Table":
    rows = []
    for name, draws, of in (
        ("boundary model", figures.draws, figures.mastery),
        ("vote of the draws", figures.voting, figures.vote),
    ):
        values = (of.right, of.auroc, of.prr, of.ece, of.brier)
        rows.append((name, f"{draws:.2f}", *("" if value is None else f"{value:.3f}" for value in values)))
    notes = {
        "it has learned from and are left out": figures.left_out,
        "could not be judged, and count as unknown": figures.failed,
    }
    caption = "; ".join(f"{count} {what}" for what, count in notes.items() if count) or None
    title = f"Whether the answer from memory is right, {figures.quizzes} {what}"
    return table(("score", "draws", "right", "AUROC", "PRR", "ECE", "Brier"), rows, title=title, caption=caption)
