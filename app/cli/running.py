"""Running methods from the command line: what the options name, a bar for each method, and a table at the end."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keqa.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from keqa.runs.compare import Row
    from keqa.runs.methods import Spec
    from keqa.runs.questions import Questions
    from keqa.runs.tally import Tally

__all__ = ["Asking", "Models", "figures", "questions_of", "rows_of", "run_table", "settings_of", "told_failures"]

_TOLD = 5


@dataclass(frozen=True)
class Models:
    """The options of `keqa.lms.build_roles`."""

    lm: str | None = None
    consistency_lm: str | None = None
    utility_lm: str | None = None
    api_base: str | None = None
    consistency_api_base: str | None = None
    utility_api_base: str | None = None


@dataclass(frozen=True)
class Asking:
    """What a command asks, of whom, and where it keeps the answers.

    Attributes:
        questions: What to ask.
        models: The language models.
        folder: Of the run files.
        index: Instead of the testbed's.
        program: Folder of a compiled program.
        settings: Arguments of the methods that were given.
        in_flight: Questions in work at once.
        retry_failed: Ask failed questions again.
        cached: Whether calls are shared by the runs of the folder.
    """

    questions: Questions
    models: Models
    folder: Path
    index: Path | None = None
    program: Path | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    in_flight: int = 8
    retry_failed: bool = False
    cached: bool = True


def questions_of(
    testbed: bool,
    name: str | None,
    data: Path | None,
    split: str | None,
    sample: int | None,
    seed: int,
    limit: int | None,
    index: Path | None,
) -> Questions:
    """The questions that the options name; what of the data cannot be used is told.

    Raises:
        InputError: They contradict each other, or there are no such questions.
    """
    from keqa.runs.questions import of_name, of_testbed

    if testbed == (name is not None):
        raise InputError("give either --questions, a file or the name of a benchmark, or --testbed")
    if not testbed:
        found = of_name(str(name), data, split=split, sample=sample, seed=seed, limit=limit)
        _tell(found.problems)
        return found
    for flag, value in (("index", index), ("data", data), ("sample", sample), ("seed", seed or None)):
        if value is not None:
            raise InputError(f"--testbed has its own index and order of questions: leave out --{flag}")
    return of_testbed(split or "test", limit)


def settings_of(
    tries: int | None, threshold: str | None, temperature: float | None, top_k: int | None, no_decompose: bool
) -> dict[str, Any]:
    """The settings that were given."""
    from keqa.programs.gates import as_fraction

    if threshold is not None:
        as_fraction(threshold)
    given = {"tries": tries, "threshold": threshold, "temperature": temperature, "top_k": top_k}
    found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return found | ({"decompose": False} if no_decompose else {})


def rows_of(specs: list[Spec], asking: Asking) -> list[Row]:
    """Ask every question of every method, with a bar for each.

    Raises:
        InputError: An option means nothing to any of the methods, or a run file is that of another run.
        ConfigurationError: A key, model or setting is wrong.
    """
    from keqa.cli.bars import Bars
    from keqa.cli.given import open_retriever, refuse_stray_addresses
    from keqa.cli.invocation import invocation
    from keqa.runs.methods import takes

    known = set().union(*(takes(spec.method) for spec in specs))
    for name in asking.settings:
        if name not in known:
            flag = "--no-decompose" if name == "decompose" else f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} means nothing to {', '.join(spec.label for spec in specs)}: leave it out")
    with Bars() as bars:
        from keqa.lms import build_roles
        from keqa.runs.cache import CallCache
        from keqa.runs.compare import compare
        from keqa.runs.making import Parts

        models = asking.models
        refuse_stray_addresses(**asdict(models))
        retriever = open_retriever(asking.index, models.lm)
        roles = build_roles(**{**asdict(models), "lm": models.lm or "keqa/tiny"})
        parts = Parts(retriever, roles, asking.settings, asking.program)
        with CallCache(asking.folder / "calls.sqlite" if asking.cached else None) as cache:
            ended = compare(
                specs,
                asking.questions,
                parts,
                folder=asking.folder,
                cache=cache,
                command=invocation(),
                in_flight=asking.in_flight,
                retry_failed=asking.retry_failed,
                progress=lambda label, tally: bars.tell(label, tally.done, tally.questions, standing(tally)),
            )
            return list(ended)


def standing(tally: Tally) -> str:
    """Score and cost so far, beside a bar."""
    parts = [f"{name.upper()} {tally.mean(name):.3f}" for name in ("f1", "em") if tally.mean(name) is not None]
    parts += [f"{tally.a_question(tally.requests):.1f} calls", f"{tally.a_question(tally.retrievals):.2f} retrievals"]
    parts += [f"{tally.failed} failed"] if tally.failed else []
    return ", ".join(parts)


def run_table(rows: list[Row]) -> Table:
    """The runs side by side: scores, and costs of a question."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    table.add_column("run", overflow="fold")
    for name in ("F1", "EM", "ACC", "failed", "retr.", "LM calls", "made", "tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        tally = row.tally
        scores = [tally.mean(name) for name in ("f1", "em", "accuracy")]
        table.add_row(
            row.spec.label,
            *("" if score is None else f"{score:.3f}" for score in scores),
            str(tally.failed),
            f"{tally.a_question(tally.retrievals):.2f}",
            f"{tally.a_question(tally.requests):.1f}",
            f"{tally.a_question(tally.calls):.1f}",
            f"{tally.a_question(tally.tokens):.0f}",
        )
    table.caption = "retrievals, LM calls and tokens are for one question; made: those that no cache answered"
    table.caption_justify = "left"
    return table


def told_failures(rows: list[Row]) -> list[str]:
    """What failed, by the kind of error, and what to do about it."""
    told = []
    for row in rows:
        if row.tally.failed:
            causes = ", ".join(f"{cause} {count}" for cause, count in row.tally.causes.most_common())
            told.append(f"{row.spec.label}: {row.tally.failed} failed ({causes}); --retry-failed asks them again")
    return told


def figures(rows: list[Row]) -> list[dict[str, Any]]:
    """The same as JSON."""
    return [
        {
            "method": row.spec.method.name,
            "label": row.spec.label,
            "file": str(row.path),
            "questions": row.tally.questions,
            "asked": row.tally.asked,
            "failed": row.tally.failed,
            "causes": dict(row.tally.causes),
            "scores": {name: row.tally.mean(name) for name in row.tally.scored},
            "lm_requests": row.tally.requests,
            "lm_calls": row.tally.calls,
            "tokens": row.tally.tokens,
            "retrievals": row.tally.retrievals,
        }
        for row in rows
    ]


def _tell(problems: list[str]) -> None:
    """Name what of the data is passed over, the first few in full."""
    from keqa.cli.console import status

    for problem in problems[:_TOLD]:
        status().print(f"passed over: {problem}", style="yellow", markup=False, soft_wrap=True)
    if len(problems) > _TOLD:
        status().print(f"passed over: {len(problems) - _TOLD} more", style="yellow", markup=False)
