"""``keqa compile``: question-answer pairs in, a program tuned on them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keqa.cli.invocation import invocation
from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.lms import Roles
    from keqa.optimize.compile import Compiled

__all__ = ["compile_command"]

_LMS, _METHOD, _LEARNING = "Language models", "Method", "Learning"


def compile_command(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the compiled program.", show_default=False)],
    train: Annotated[
        Path | None,
        typer.Argument(
            metavar="TRAIN",
            help="Question-answer pairs to learn from: .jsonl with question and answer, or .csv.",
            show_default=False,
        ),
    ] = None,
    val: Annotated[
        Path | None, typer.Option(help="Pairs to choose by; without it a quarter of TRAIN is held out.")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="What to compile: keqa, closed-book, cot, rag, ircot and so on, as for keqa evaluate; with arguments "
            "of its own as rag:top_k=5.",
            rich_help_panel=_METHOD,
        ),
    ] = "keqa",
    index: Annotated[
        str | None, typer.Option("--index", "-i", help="As for keqa ask; the testbed's by default.")
    ] = None,
    testbed: Annotated[
        bool, typer.Option("--testbed", help="Learn from the testbed's own train split, choose by its dev split.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Use the first so many training questions.")] = None,
    val_limit: Annotated[int | None, typer.Option(min=1, help="Use the first so many validation questions.")] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            help="Folder where finished work is kept, so that the same command resumes after a kill; OUT.work."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a program in OUT that was compiled from other questions or otherwise."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON and nothing else.")] = False,
    lm: Annotated[
        str | None, typer.Option("--lm", "-m", help="As for keqa ask.", rich_help_panel=_LMS, show_default=False)
    ] = None,
    consistency_lm: Annotated[str | None, typer.Option(help="As for keqa ask.", rich_help_panel=_LMS)] = None,
    utility_lm: Annotated[str | None, typer.Option(help="As for keqa ask.", rich_help_panel=_LMS)] = None,
    api_base: Annotated[str | None, typer.Option(help="Address of the server of --lm.", rich_help_panel=_LMS)] = None,
    consistency_api_base: Annotated[
        str | None, typer.Option(help="Address of the server of --consistency-lm.", rich_help_panel=_LMS)
    ] = None,
    utility_api_base: Annotated[
        str | None, typer.Option(help="Address of the server of --utility-lm.", rich_help_panel=_LMS)
    ] = None,
    reflection_lm: Annotated[
        str | None,
        typer.Option(
            help="Reflects and writes instructions for gepa, mipro and simba: a strong model; --lm is not.",
            rich_help_panel=_LMS,
        ),
    ] = None,
    reflection_api_base: Annotated[
        str | None, typer.Option(help="Address of the server of --reflection-lm.", rich_help_panel=_LMS)
    ] = None,
    optimizer: Annotated[
        str, typer.Option(help="bootstrap, gepa, mipro, simba or none.", rich_help_panel=_LEARNING)
    ] = "bootstrap",
    budget: Annotated[
        str,
        typer.Option(
            help="Of gepa, mipro and simba: light, medium, heavy; or a number, of questions, trials or steps.",
            rich_help_panel=_LEARNING,
        ),
    ] = "light",
    demos: Annotated[int, typer.Option(min=0, help="Demonstrations of a predictor.", rich_help_panel=_LEARNING)] = 4,
    judge_demos: Annotated[
        int, typer.Option(min=0, help="Demonstrations of the consistency judge.", rich_help_panel=_LEARNING)
    ] = 8,
    sets: Annotated[
        int, typer.Option(min=0, help="Sets of demonstrations to choose from.", rich_help_panel=_LEARNING)
    ] = 4,
    cost_per_retrieval: Annotated[
        float,
        typer.Option(min=0.0, help="What a search costs in points of F1, from 0 to 1.", rich_help_panel=_LEARNING),
    ] = 0.0,
    no_reference: Annotated[
        bool, typer.Option("--no-reference", help="Build no utility reference.", rich_help_panel=_LEARNING)
    ] = False,
    no_tuning: Annotated[
        bool, typer.Option("--no-tuning", help="Leave threshold, samples, top-k alone.", rich_help_panel=_LEARNING)
    ] = False,
    embedder: Annotated[
        str | None,
        typer.Option(
            help="Finds like passages in the reference: hashing, local/minilm, or a sentence-transformers model.",
            show_default="hashing",
            rich_help_panel=_LEARNING,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, other demonstrations.", rich_help_panel=_LEARNING)] = 0,
    in_flight: Annotated[
        int, typer.Option(min=1, max=1000, help="Questions in work at once.", rich_help_panel=_LEARNING)
    ] = 8,
    tries: Annotated[
        int | None, typer.Option(min=1, help="As for keqa ask.", show_default="5", rich_help_panel=_METHOD)
    ] = None,
    threshold: Annotated[
        str | None, typer.Option(help="As for keqa ask.", show_default="0.8", rich_help_panel=_METHOD)
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="As for keqa ask.", show_default="1.0", rich_help_panel=_METHOD)
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(min=1, help="As for keqa ask.", show_default="10, or the method's own", rich_help_panel=_METHOD),
    ] = None,
    no_decompose: Annotated[
        bool, typer.Option("--no-decompose", help="For questions of one hop.", rich_help_panel=_METHOD)
    ] = False,
    no_examine: Annotated[bool, typer.Option("--no-examine", help="As for keqa ask.", rich_help_panel=_METHOD)] = False,
    no_pick: Annotated[bool, typer.Option("--no-pick", help="As for keqa ask.", rich_help_panel=_METHOD)] = False,
) -> None:
    """Tune the program on question-answer pairs: demonstrations or instructions, utility reference, settings.

    The methods that KEQA is compared with learn demonstrations or instructions with --method.

    It ends with a table of what was learned. Every finished question is kept at once: the same command resumes after a
    kill. Ask with the result: keqa ask "…" --program OUT.
    """
    from keqa.cli.compile_given import method_of, questions_of, retrieves
    from keqa.cli.console import results
    from keqa.cli.given import open_retriever, refuse_empty, refuse_stray_addresses, settings_of
    from keqa.cli.progress import Bars

    settings = settings_of(
        tries=tries,
        threshold=threshold,
        temperature=temperature,
        top_k=top_k,
        no_decompose=no_decompose,
        no_examine=no_examine,
        no_pick=no_pick,
    )
    spec = method_of(method, settings)
    refuse_stray_addresses(lm, consistency_lm, consistency_api_base, utility_lm, utility_api_base, api_base)
    refuse_empty("--reflection-lm", reflection_lm)
    if testbed == (train is not None):
        raise InputError("give either a file of question-answer pairs or --testbed")
    if train is not None and index is None and lm is not None and retrieves(spec):
        raise InputError(
            "name with --index the passages that TRAIN's questions are about: without it the testbed's fictional "
            f"encyclopedia is searched, for which {lm} would be asked in vain"
        )
    if testbed and index is not None:
        raise InputError("--testbed has an index of its own: leave out --index")
    if val_limit is not None and val is None and not testbed:
        raise InputError("--val-limit needs --val: without it a quarter of the training questions is held out")
    if reflection_api_base is not None and reflection_lm is None:
        raise InputError("--reflection-api-base needs --reflection-lm")
    if reflection_lm is not None and optimizer in ("bootstrap", "none"):
        raise InputError(f"--reflection-lm is asked by gepa, mipro and simba; --optimizer {optimizer} asks none")
    trainset, valset, problems, own = questions_of(train, val, limit, val_limit)
    place = work or out.with_name(f"{out.name}.work")
    with Bars() as bars:
        from keqa.cli.preflight import check_listening, check_roles
        from keqa.evaluation.build import Parts, make, own_of
        from keqa.evaluation.call_cache import CallCache
        from keqa.lms import build_lm, build_roles
        from keqa.optimize.compile import compile_program
        from keqa.programs.saving.folder import check_apart, check_place
        from keqa.retrievers import CachingRetriever
        from keqa.storage.folders import check_writable

        check_place(out)
        check_writable(place, "--work")
        check_apart(out, place)
        servers = {
            "api_base": api_base,
            "consistency_api_base": consistency_api_base,
            "utility_api_base": utility_api_base,
        }
        check_listening(lm, consistency_lm, utility_lm, **servers)
        retriever = open_retriever(index, lm)
        roles: Roles = build_roles(lm or "keqa/tiny", consistency_lm, utility_lm, **servers)
        reflecting = None if reflection_lm is None else build_lm(reflection_lm, api_base=reflection_api_base)
        # A question that a kill interrupts is asked again from its start; its finished calls are answered from there.
        with (
            CachingRetriever(retriever, place / "retrievals.sqlite") as searched,
            CallCache(place / "calls.sqlite") as cache,
            cache.installed(),
        ):
            compiled = compile_program(
                make(spec, Parts(searched, roles, settings, own={**own, **own_of(lm)})),
                trainset,
                valset,
                folder=place,
                out=None if force else out,
                progress=bars.report,
                optimizer=optimizer,
                before_first=lambda: check_roles(roles, *([] if reflecting is None else [reflecting])),
                reflection_lm=reflecting,
                budget=int(budget) if budget.isdecimal() else budget,
                demos=demos,
                judge_demos=judge_demos,
                sets=sets,
                cost_per_retrieval=cost_per_retrieval,
                reference=not no_reference,
                tuning=not no_tuning,
                embedder=embedder,
                seed=seed,
                in_flight=in_flight,
            )
    compiled.report.problems[:0] = problems
    compiled.save(out, overwrite=force, command=invocation())
    if as_json:
        typer.echo(json.dumps(compiled.report.about(), indent=2))
        return
    _show(compiled)
    ask = f'Ask with: keqa ask "…" --program {out}'
    advice = ask if spec.method.kind == "keqa" else f"Measure with: keqa evaluate {spec.method.name} --program {out}"
    from keqa.programs.reference.embedding import is_built_in

    # A model that only the folder names would not be opened.
    named = "" if embedder is None or is_built_in(embedder) else f" --embedder {embedder}"
    results().print(advice + named, markup=False, soft_wrap=True)


def _show(compiled: Compiled[Any]) -> None:
    from keqa.cli.compile_tables import report_parts
    from keqa.cli.console import results

    console = results()
    for part in report_parts(compiled.report):
        console.print(part, soft_wrap=False)
