"""``keqa evaluate``: one method, many questions, a line each."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from keqa.cli.console import UNANSWERED, emit, warn, warn_of_many
from keqa.cli.declare import MisplacedOptionError, argument, given, option
from keqa.cli.options import AS_JSON, EvaluationOptions, RiskOptions, RunOptions
from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.programs.registry import Spec


def evaluate(
    *,
    method: str = argument(
        "METHOD", "keqa, closed-book, cot, rag, ircot and so on; with arguments of its own as rag:top_k=5.", place=":=,"
    ),
    label: str | None = option("Name of the run and its file; METHOD by default."),
    as_json: bool = AS_JSON,
    options: EvaluationOptions,
) -> None:
    """Ask a method questions with known answers, and keep a line for each in OUT/METHOD.jsonl.

    The line is there when its question ends: the same command resumes after a kill and asks nothing twice. A question
    that fails is kept apart from a wrong answer. Several methods, side by side: keqa compare.

    With --risk the method says "I do not know" where its answer is too probably wrong. It first reports how often that
    will be, and does not begin where no threshold holds the risk.

    Exit code: 0 where some question was answered, 1 where every one failed, 2 something to put right first, such as a
    server that is away.
    """
    from keqa.cli.running import evaluate_methods, figures, none_answered, warn_of_failures
    from keqa.evaluation.reports import entries_of, printed, read_brief
    from keqa.programs.registry import parse_spec

    spec = parse_spec(method)
    spec = spec if label is None else replace(spec, label=label)
    rows = evaluate_methods([spec], options, held=spec)
    path = rows[0].path
    shown = () if as_json else (*printed(entries_of([read_brief(path)])), f"Each question in full: {path}")
    emit(figures(rows)[0], shown, as_json=as_json)
    if not as_json:
        warn_of_failures(rows)
    if none_answered(rows):
        raise typer.Exit(UNANSWERED)


def compare(
    *,
    methods: list[str] = argument(
        "METHOD...",
        "keqa, closed-book, cot, rag, ircot and so on; with arguments of its own as rag:top_k=5. Or run files and "
        "folders of them, which are compared without asking anything; --out is their only option.",
        place=":=,",
    ),
    as_json: bool = AS_JSON,
    options: EvaluationOptions,
) -> None:
    """Ask several methods the same questions, one run file a method in OUT, and put them side by side.

    They share language models, passages and a cache of calls, so that none pays for what another has asked; both what
    the answers take and what was paid are reported. The same command resumes after a kill, and one more method costs
    its own questions only. The paper's tables and figures are written to OUT/report; given run files, they are
    drawn again.

    Gates (gate-votes, gate-certainty and so on) decide on the same samples. gate-probability needs samples with token
    probabilities: name it from the beginning, for gates that were asked without it in OUT are not asked again with it.

    On the testbed ircot collects 8 passages at most, as many as the language model that ships was trained to read.
    rowen compares answers in English and Chinese, as in its paper, or in another language with rowen:language=German;
    the language model that ships speaks English only, and rephrased questions are all that is compared.

    With --risk one of the methods, that of --calibrated-on, is asked once more as a row of its own, which says "I do
    not know" where an answer is too probably wrong. Nothing is asked where no threshold holds the risk.

    A method whose language model gives no token probabilities, though it needs them, is reported and left out. Exit
    code: 0 where every method was asked, 1 where one was left out or answered no question, 2 something to put right
    first, such as a server that is away.
    """
    from keqa.cli.running import evaluate_methods, figures, none_answered, warn_of_failures
    from keqa.evaluation.reports import entries_of, printed, read_brief, write
    from keqa.programs.registry import parse_spec

    files, rows, left_out = run_files_of(methods), [], False
    if files is None:
        specs = [parse_spec(method) for method in methods]
        held = held_spec(specs, options.risk)
        specs += [] if held is None else [held]
        rows = evaluate_methods(specs, options, held=held, leave_out=True)
        left_out = len(rows) < len(specs) or none_answered(rows)
        if not rows:
            raise typer.Exit(UNANSWERED)
        files = [row.path for row in rows]
        warn_of_failures(rows)
    elif flags := [*given(replace(options, run=replace(options.run, out=RunOptions.out))), *["--json"] * as_json]:
        why = f"run files are compared as they are, and nothing is asked: leave out {', '.join(flags)}"
        raise MisplacedOptionError(why, *flags)
    entries = entries_of([read_brief(file) for file in files])
    report = options.run.out / "report"
    written = write(report, entries)
    if older := sorted({one.stem.removesuffix("-points") for one in {*report.glob("*.csv")}.difference(written)}):
        warn(f"{report} still holds tables of an earlier comparison, which are not of these runs: {', '.join(older)}")
    emit(figures(rows), [*printed(entries), f"Tables and figures: {report}"], as_json=as_json)
    if left_out:
        raise typer.Exit(UNANSWERED)


def held_spec(specs: "Sequence[Spec]", risk: RiskOptions) -> "Spec | None":
    """The method that is asked once more and holds a risk, under a label of its own; None where there is no risk."""
    if risk.risk is None or risk.calibrated_on is None:
        return None
    from keqa.evaluation.run_file import read_header

    header = read_header(risk.calibrated_on)
    of_method = [spec for spec in specs if spec.method.name == header.method]
    found = [spec for spec in of_method if spec.label == header.label] or of_method
    if len(found) != 1:
        why = "several of the methods are" if found else "none of the methods is"
        raise InputError(f"{risk.calibrated_on} holds answers of {header.label}, and {why}: name that one")
    return replace(found[0], label=f"{found[0].label}-risk={risk.risk:g}")


def run_files_of(names: list[str]) -> list[Path] | None:
    """The run files that are named; None where methods are."""
    from keqa.evaluation.run_file import run_files
    from keqa.programs.registry import METHODS

    # A folder may be called like a method, and then has to be written as ./keqa.
    places = [Path(name) for name in names if name.partition(":")[0] not in METHODS]
    if not any(place.exists() or place.suffix == ".jsonl" for place in places):
        return None
    if len(places) < len(names):
        raise InputError("give run files only, or methods only")
    others: list[Path] = []
    found = run_files(places, key=_order, passed_over=others.append)
    warn_of_many("passed over, for it is no run file: ", list(map(str, others)))
    return found


def _order(file: Path) -> tuple[int, str]:
    """A folder's runs in the order of the paper's tables, as far as their names show their methods."""
    from keqa.programs.registry import METHODS

    names = list(METHODS)
    named = max((name for name in names if f"{file.stem}-".startswith(f"{name}-")), key=len, default=None)
    return (len(names) if named is None else names.index(named)), file.stem
