"""Running methods from the command line: what the options name, and a bar for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.cli.run_options import RunOptions
    from keqa.evaluation.compare import Row
    from keqa.evaluation.compiled_programs import Folders
    from keqa.evaluation.questions import Questions
    from keqa.evaluation.tally import Tally
    from keqa.programs.registry import Spec
    from keqa.retrievers import Index, Retriever

__all__ = ["Asking", "Models", "none_answered", "questions_of", "rows_of", "settings_of"]

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
        index: Address of an index instead of the testbed's.
        program: Folder of a compiled program, or of several; see `keqa.evaluation.compiled_programs.program_of`.
        settings: Arguments of the methods that were given.
        in_flight: Questions in work at once.
        retry_failed: Ask failed and impaired questions again.
        cached: Whether calls are shared by the runs of the folder.
        engine: What searches the testbed's encyclopedia.
        stop_after_outages: See `keqa.evaluation.evaluate.evaluate`.
        embedder: The embedding model that compiled programs may open; see `keqa.load`.
    """

    questions: Questions
    models: Models
    folder: Path
    index: str | None = None
    program: Folders = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    in_flight: int = 8
    retry_failed: bool = False
    cached: bool = True
    engine: str | None = None
    stop_after_outages: int = 10
    embedder: str | None = None

    @classmethod
    def of(cls, options: RunOptions) -> Asking:
        """What the options name.

        Raises:
            InputError: They contradict each other, or there are no such questions.
        """
        return cls(
            questions_of(options),
            Models(
                options.lm,
                options.consistency_lm,
                options.utility_lm,
                options.api_base,
                options.consistency_api_base,
                options.utility_api_base,
            ),
            options.out,
            options.index,
            options.program,
            settings_of(options),
            options.in_flight,
            options.retry_failed,
            not options.no_cache,
            options.retriever,
            options.stop_after_outages,
            options.embedder,
        )


def questions_of(options: RunOptions) -> Questions:
    """The questions that the options name; what of the data cannot be used is reported.

    Raises:
        InputError: They contradict each other, or there are no such questions.
    """
    from keqa.evaluation.questions import of_name, of_testbed

    if options.testbed == (options.questions is not None):
        raise InputError("give either --questions, a file or the name of a benchmark, or --testbed")
    if not options.testbed and options.retriever is not None:
        raise InputError("--retriever is the testbed's; an index of your own is searched as keqa index made it")
    if not options.testbed:
        found = of_name(
            str(options.questions),
            options.data,
            split=options.split,
            sample=options.sample,
            seed=options.seed,
            limit=options.limit,
        )
        _tell(found.problems, found.left_out)
        return found
    own = {"index": options.index, "data": options.data, "sample": options.sample, "seed": options.seed or None}
    for flag, value in own.items():
        if value is not None:
            raise InputError(f"--testbed has its own index and order of questions: leave out --{flag}")
    return of_testbed(options.split or "test", options.limit)


def settings_of(options: RunOptions) -> dict[str, Any]:
    """The settings that were given."""
    from keqa.programs.gates import as_fraction

    if options.threshold is not None:
        as_fraction(options.threshold)
    given = {name: getattr(options, name) for name in ("tries", "threshold", "temperature", "top_k")}
    found = {name: value for name, value in given.items() if value is not None}
    return found | ({"decompose": False} if options.no_decompose else {})


def rows_of(specs: Sequence[Spec], asking: Asking, *, leave_out: bool = False) -> list[Row]:
    """Ask every question of every method, with a bar for each; the rows are in the order of the methods.

    Args:
        specs: The methods.
        asking: What they are asked.
        leave_out: Whether a method that cannot be asked while others can is reported and left out; see
            `keqa.evaluation.compare.compare`.

    Raises:
        InputError: An option means nothing to any of the methods, or a run file is that of another run.
        ConfigurationError: A key, model or setting is wrong, or a server cannot be asked.
        TooManyFailuresError: Too many questions in succession failed.
    """
    from keqa.cli.given import open_retriever, refuse_stray_addresses
    from keqa.cli.invocation import invocation
    from keqa.cli.preflight import check_once
    from keqa.cli.progress import Bars
    from keqa.programs.registry import takes

    known = set().union(*(takes(spec.method) for spec in specs))
    for name in asking.settings:
        if name not in known:
            flag = "--no-decompose" if name == "decompose" else f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} means nothing to {', '.join(spec.label for spec in specs)}: leave it out")
    with Bars() as bars:
        from keqa.evaluation.build import Parts, own_of
        from keqa.evaluation.call_cache import CallCache
        from keqa.evaluation.compare import compare
        from keqa.lms import build_roles
        from keqa.storage.folders import check_writable

        models = asking.models
        check_writable(asking.folder, "--out")
        refuse_stray_addresses(**asdict(models))
        retriever = open_retriever(asking.index, models.lm, asking.engine)
        roles = build_roles(**{**asdict(models), "lm": models.lm or "keqa/tiny"})
        with (
            CallCache(asking.folder / "calls.sqlite" if asking.cached else None) as cache,
            _searching(retriever, asking) as searched,
        ):
            parts = Parts(
                searched,
                roles,
                asking.settings,
                asking.program,
                own=own_of(models.lm),
                embedder=asking.embedder,
            )
            ended = compare(
                specs,
                asking.questions,
                parts,
                folder=asking.folder,
                cache=cache,
                command=invocation(),
                in_flight=asking.in_flight,
                retry_failed=asking.retry_failed,
                progress=lambda label, tally: bars.report(label, tally.done, tally.questions, standing(tally)),
                left_out=(lambda spec, error: bars.say(f"{spec.label} is left out: {error}")) if leave_out else None,
                stop_after_outages=asking.stop_after_outages,
                before_first=check_once(roles),
            )
            return sorted(ended, key=lambda row: specs.index(row.spec))


def _searching(retriever: Index, asking: Asking) -> AbstractContextManager[Retriever]:
    """The index, with what was found in it before where runs share their calls."""
    from keqa.retrievers import CachingRetriever

    return CachingRetriever(retriever, asking.folder / "retrievals.sqlite") if asking.cached else nullcontext(retriever)


def none_answered(rows: Sequence[Row]) -> bool:
    """Whether some method answered none of its questions: its figures are those of an outage."""
    return any(row.tally.done and row.tally.failed == row.tally.done for row in rows)


def standing(tally: Tally) -> str:
    """Score and cost so far, beside a bar."""
    parts = [f"{name.upper()} {tally.mean(name):.3f}" for name in ("f1", "em") if tally.mean(name) is not None]
    cost = tally.cost
    parts += [f"{tally.a_question(cost.samples):.1f} calls", f"{tally.a_question(cost.retrievals):.2f} retrievals"]
    parts += [f"{tally.failed} failed"] if tally.failed else []
    parts += [f"{tally.impaired} impaired"] if tally.impaired else []
    return ", ".join(parts)


def _tell(problems: Sequence[str], left_out: Mapping[str, int]) -> None:
    """Name what of the data is passed over, the first few in full, and count what is sound and not asked."""
    from keqa.cli.console import status

    for problem in problems[:_TOLD]:
        status().print(f"passed over: {problem}", style="yellow", markup=False, soft_wrap=True)
    if len(problems) > _TOLD:
        status().print(f"passed over: {len(problems) - _TOLD} more", style="yellow", markup=False)
    if left_out:
        counts = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        status().print(f"left out: {counts}", style="yellow", markup=False)
