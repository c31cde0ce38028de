"""Running methods from the command line: what the options name, and a bar for each method."""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from keqa.cli.console import Bars, emit, warn, warn_of_many
from keqa.cli.declare import MisplacedOptionError, flag_of, invocation
from keqa.cli.options import (
    EvaluationOptions,
    KeqaOptions,
    LanguageModels,
    MethodOptions,
    QuestionOptions,
    RunOptions,
    open_retriever,
    refuse_idle,
    setting_of,
)
from keqa.errors import InputError
from keqa.evaluation.compare import Row, compare
from keqa.evaluation.questions import Questions, of_name, of_testbed
from keqa.evaluation.reports.grid import Grid
from keqa.evaluation.reports.render import Rendered
from keqa.evaluation.tally import Tally
from keqa.lms import check_reachable
from keqa.programs.build import Parts, check_programs, own_of
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.registry import Spec, arguments_of, load_class, roles_of, takes
from keqa.programs.saving import learned_of_another
from keqa.retrievers import CachingRetriever, Retriever
from keqa.storage.files import check_writable

TESTBED = "testbed"
"""What may take the place of a data set's name."""


def questions_of(options: QuestionOptions, method: MethodOptions) -> Questions:
    """The questions that the options name; what of the data cannot be used is reported."""
    if options.testbed == (options.questions is not None):
        raise InputError("give either --questions, a file or the name of a benchmark, or --testbed")
    if not options.testbed and method.retriever is not None:
        why = "--retriever is the testbed's; an index of your own is searched as keqa index made it"
        raise MisplacedOptionError(why, "--retriever")
    if options.questions is not None:
        how = {name: getattr(options, name) for name in ("split", "sample", "seed", "limit")}
        found = of_name(options.questions, options.data, **how)
        warn_of_many("passed over: ", found.problems)
        if found.left_out:
            warn(f"left out: {', '.join(f'{count} {reason}' for reason, count in found.left_out.items())}")
        return found
    # The testbed's questions may have documents of their own.
    index = None if method.index is None or method.index.startswith("documents:") else method.index
    own = {"--index": index, "--data": options.data, "--sample": options.sample, "--seed": options.seed or None}
    if flag := next((flag for flag, value in own.items() if value is not None), None):
        raise MisplacedOptionError(f"--testbed has its own index and order of questions: leave out {flag}", flag)
    return of_testbed(options.split or "test", options.limit)


def refuse_no_index(specs: Sequence[Spec], lm: str | None) -> None:
    """Refuse to search the testbed's encyclopedia for a language model and questions of the user's own."""
    searches = any("retriever" in arguments_of(load_class(spec.method.target)) for spec in specs)
    # The one that ships knows the testbed alone.
    if searches and lm not in (None, "keqa/tiny"):
        raise InputError(
            "name with --index the passages that the questions are about: without it the testbed's fictional "
            f"encyclopedia is searched, for which {lm} would be asked in vain"
        )


def refuse_foreign(settings: Mapping[str, Any], specs: Sequence[Spec], models: LanguageModels) -> None:
    """Refuse a setting that no method has, and a language model of a role that none asks."""
    known = set().union(*(takes(spec.method) for spec in specs))
    if foreign := [one.name for one in fields(KeqaOptions) if setting_of(one.name) in settings.keys() - known]:
        flag, methods = flag_of(foreign[0]), ", ".join(spec.label for spec in specs)
        raise MisplacedOptionError(f"{flag} means nothing to {methods}: leave it out", flag)
    asked = set().union(*(roles_of(spec.method) for spec in specs))
    for role, model, _ in models.named_models:
        if model is not None and role and role.removesuffix("_") not in asked:
            flags, named = [flag_of(f"{role}{what}") for what in ("lm", "api_base")], ", ".join(sorted(asked))
            methods = ", ".join(spec.label for spec in specs)
            raise MisplacedOptionError(f"{flags[0]} is never asked: the roles of {methods} are {named}", *flags)


def evaluate_methods(
    specs: Sequence[Spec], options: EvaluationOptions, *, held: Spec | None, leave_out: bool = False
) -> list[Row]:
    """Ask methods the questions of a command; the rows are in the order of the methods."""
    try:
        check_programs(specs, options.method.program)
    except InputError as error:
        raise MisplacedOptionError(str(error), "--program") from error
    questions = questions_of(options.questions, options.method)
    if options.risk.calibrated_on is not None and not options.run.allow_overlap:
        from keqa.evaluation.risk import refuse_calibrated

        ids = (one.id for one in questions.examples)
        refuse_calibrated(options.risk.calibrated_on, questions.dataset, questions.split, ids)
    return rows_of(
        *(specs, questions, options.models, options.method, options.run),
        leave_out=leave_out,
        compared=len(specs) > 1,
        prepare=lambda spec, program: options.risk.hold(program) if spec is held else "",
    )


def rows_of(
    specs: Sequence[Spec],
    questions: Questions,
    models: LanguageModels,
    options: MethodOptions,
    run: RunOptions,
    *,
    settings: Mapping[str, Any] | None = None,
    leave_out: bool = False,
    compared: bool = True,
    prepare: Callable[[Spec, Program], str] | None = None,
) -> list[Row]:
    """Ask every question of every method, with a bar for each; the rows are in the order of the methods.

    With ``leave_out``, a method that cannot be asked while others can is reported and left out. Where methods are
    ``compared``, KEQA guesses like those that cannot say that the documents do not say it, unless the user wants
    otherwise. ``prepare`` is called with each before it is asked; what it returns is said above the bars. ``settings``
    stand in the place of those that the user gave; each method takes what it has.
    """
    if settings is None:
        settings = options.settings()
        refuse_foreign(settings, specs, models)
    cascades = any(spec.arguments.get("settle") == "cascade" for spec in specs)
    with Bars() as bars:
        # Rows of one program say the same.
        say = functools.cache(bars.say)

        def prepared(spec: Spec, program: Program) -> None:
            # Ablations are of KEQA's quizzes, whatever it is beside them; so is what a cascade is compared with.
            if spec.method.kind == "keqa" and ("chooser" in spec.arguments or not cascades):
                refuse_idle({**settings, **spec.arguments}, program)
            # A question is measured by its short answer, unless the user wants another.
            if isinstance(program, KEQA) and program.style is None and program.writes:
                program.style = "short"
            if compared and isinstance(program, KEQA) and program.unanswered is None and program.declines:
                program.unanswered = "guess"
            for message in (prepare and prepare(spec, program), learned_of_another(program)):
                if message:
                    say(message)

        check_writable(run.out, "--out")
        if questions.dataset != TESTBED and options.index is None:
            refuse_no_index(specs, models.lm)
        retriever = open_retriever(options.index, models.lm, options.retriever)
        roles = models.roles()
        # What was found before is kept where runs share their calls.
        with _kept(None if run.no_cache else run.out, retriever) as (cache, searched):
            own = own_of(models.lm)
            ended = compare(
                specs,
                questions,
                Parts(searched, roles, settings, options.program, own=own, embedder=options.embedder, prepare=prepared),
                folder=run.out,
                cache=cache,
                command=invocation(),
                in_flight=run.in_flight,
                retry_failed=run.retry_failed,
                progress=lambda label, tally: bars.report(label, tally.done, tally.questions, standing(tally)),
                left_out=(lambda spec, error: bars.say(f"{spec.label} is left out: {error}")) if leave_out else None,
                stop_after_outages=run.stop_after_outages,
                allow_overlap=run.allow_overlap,
                # Once, and where there is a question to ask: a run that is finished asks nobody.
                before_first=functools.cache(lambda: check_reachable(roles.every)),
            )
            return sorted(ended, key=lambda row: specs.index(row.spec))


@contextmanager
def compiling(folder: Path, retriever: Retriever, before: str = "") -> Iterator[tuple[Bars, Retriever]]:
    """A bar for each step, and calls and searches kept in a folder, from which those of a question are after a kill."""
    with Bars() as bars, _kept(folder, retriever, before) as (cache, searched), cache.installed():
        yield bars, searched


@contextmanager
def _kept(folder: Path | None, retriever: Retriever, before: str = "") -> Iterator[tuple[CallCache, Retriever]]:
    """A cache of calls, and a retriever that keeps its searches: in a folder, or where there is none, nowhere."""
    if folder is None:
        with CallCache(None) as cache:
            yield cache, retriever
        return
    calls, searches = (folder / f"{before}{name}.sqlite" for name in ("calls", "retrievals"))
    with CallCache(calls) as cache, CachingRetriever(retriever, searches) as searched:
        yield cache, searched


def preset_questions(name: str, sample: int | None, usual: int) -> Questions:
    """The questions of a data set of a paper, or of the testbed in its place."""
    return of_testbed(limit=sample) if name == TESTBED else of_name(name, sample=sample or usual)


def preset_rows(
    specs: Sequence[Spec],
    questions: Questions,
    models: LanguageModels,
    options: MethodOptions,
    run: RunOptions,
    settings: Mapping[str, Any],
    timed: Collection[str] = (),
    *,
    leave_out: bool = False,
) -> list[Row]:
    """Ask the rows of a paper on a data set; those whose time is reported, by label, reuse no other's calls."""
    rows: list[Row] = []
    for no_cache in (True, False):
        if chosen := [spec for spec in specs if (spec.label in timed) is no_cache]:
            how = replace(run, no_cache=no_cache)
            rows += rows_of(chosen, questions, models, options, how, settings=settings, leave_out=leave_out)
    warn_of_failures(rows, f"{questions.dataset}, ")
    return sorted(rows, key=lambda row: specs.index(row.spec))


def none_answered(rows: Sequence[Row]) -> bool:
    """Whether some method answered none of its questions: its figures are those of an outage."""
    return any(row.tally.done and row.tally.failed == row.tally.done for row in rows)


def standing(tally: Tally) -> str:
    """Score and cost so far, beside a bar."""
    scores = [f"{name.upper()} {tally.mean(name):.3f}" for name in ("f1", "em") if tally.mean(name) is not None]
    cost, counts = tally.cost, (("failed", tally.failed), ("impaired", tally.impaired))
    costs = [f"{tally.a_question(cost.samples):.1f} calls", f"{tally.a_question(cost.retrievals):.2f} retrievals"]
    return ", ".join([*scores, *costs, *(f"{number} {name}" for name, number in counts if number)])


def warn_of_failures(rows: Sequence[Row], before: str = "") -> None:
    """Say what failed, by the kind of error, and what to do about it."""
    for label, tally in ((row.spec.label, row.tally) for row in rows):
        impaired = (tally.impaired, "answered although something failed", tally.impairments)
        for times, how, causes in ((tally.failed, "failed", tally.causes), impaired):
            kinds = ", ".join(f"{cause} {some}" for cause, some in causes.most_common())
            if times:
                warn(f"{before}{label}: {times} {how} ({kinds}); --retry-failed asks them again")


def show_grids(grids: Sequence[Grid], *, as_json: bool) -> None:
    """Print tables, or their unrounded values as JSON."""
    emit({grid.name: grid.records for grid in grids}, map(Rendered, grids), as_json=as_json)


def figures(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The sums over runs as JSON."""
    shares = ("coverage", "right_of_answered", "right_to_decline", "unanswered_ratio")
    return [
        {
            "method": row.spec.method.name,
            "label": row.spec.label,
            "file": str(row.path),
            **_named(of, ("questions", "asked", "failed")),
            "causes": dict(of.causes),
            "impaired": of.impaired,
            "impairments": dict(of.impairments),
            "scores": {name: of.mean(name) for name in of.scored},
            "learned_from": None if of.learned_unknown else of.learned_from,
            **({"declining": asdict(of.declining) | _named(of.declining, shares)} if of.declining.shown else {}),
            "untouched": of.untouched,
            "untouched_scores": {name: of.untouched_mean(name) for name in of.scored},
            "lm_samples": of.cost.samples,
            "lm_requests": of.cost.lm_requests,
            "lm_calls": of.cost.calls,
            "tokens": of.cost.tokens,
            "retrievals": of.cost.retrievals,
            "retrievals_made": of.cost.retrievals - of.cost.retrievals_cached,
        }
        for row, of in ((row, row.tally) for row in rows)
    ]


def _named(values: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(values, name) for name in names}
