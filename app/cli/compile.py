"""``keqa compile``: question-answer pairs in, a program tuned on them out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keqa.cli.compile_price import PriceOptions
from keqa.cli.console import results, show_figures
from keqa.cli.options import (
    AsJson,
    Index,
    InFlight,
    KeqaOptions,
    LanguageModels,
    MisplacedOptionError,
    Panel,
    Places,
    Server,
    invocation,
    refuse_empty,
    server_of,
    with_groups,
)
from keqa.errors import InputError
from keqa.storage.folders import check_writable

if TYPE_CHECKING:
    from keqa.evaluation.questions import Questions
    from keqa.programs.registry import Spec

_LEARNING = "Learning"


_OPTIONS = {"task": "lm", "consistency": "consistency-lm", "utility": "utility-lm"}
_learning = partial(typer.Option, rich_help_panel=_LEARNING)


@dataclass(frozen=True)
class LearningOptions:
    """How to compile; see `keqa.optimize.options.Options`."""

    reflection_lm: Annotated[
        str | None,
        _learning(help="Reflects and writes instructions for gepa, mipro and simba: a strong model; --lm is not."),
        Places("/"),
    ] = None
    reflection_api_base: Annotated[str | None, server_of("--reflection-lm", _LEARNING), Server] = None
    optimizer: Annotated[str, _learning(help="bootstrap, gepa, mipro, simba, finetune or none.")] = "bootstrap"
    budget: Annotated[
        str,
        _learning(help="Of gepa, mipro and simba: light, medium, heavy; or a number, of questions, trials or steps."),
    ] = "light"
    training: Annotated[
        str | None,
        _learning(help="Of finetune, such as epochs=3,rank=16,rate=0.001,method=full.", show_default=False),
    ] = None
    demos: Annotated[int, _learning(help="Demonstrations of a predictor.", min=0)] = 4
    judge_demos: Annotated[int, _learning(help="Demonstrations of the consistency judge.", min=0)] = 8
    sets: Annotated[int, _learning(help="Sets of demonstrations to choose from.", min=0)] = 4
    cost_per_retrieval: Annotated[
        float | None,
        _learning(help="What a search costs in points of F1, from 0 to 1.", min=0.0, show_default="0.02"),
    ] = None
    cost_per_call: Annotated[
        float | None,
        _learning(help="What a reply of a language model costs in points of F1.", min=0.0, show_default="0.002"),
    ] = None
    boundary_tries: Annotated[
        int, _learning(help="Draws to each training quiz that the boundary model learns from.", min=5, max=1000)
    ] = 10
    no_boundary: Annotated[
        bool, _learning("--no-boundary", help="Train no boundary model; the vote of the samples decides.")
    ] = False
    no_reference: Annotated[bool, _learning("--no-reference", help="Build no utility reference.")] = False
    no_tuning: Annotated[bool, _learning("--no-tuning", help="Leave gate, samples, top-k and summaries alone.")] = False
    embedder: Annotated[
        str | None,
        _learning(
            help="Finds like passages in the reference: hashing, local/minilm, or a sentence-transformers model.",
            show_default="hashing",
        ),
        Places("@"),
    ] = None
    seed: Annotated[int, _learning(help="Another seed, other demonstrations.")] = 0
    in_flight: Annotated[InFlight, Panel(_LEARNING)] = 8

    def check(self) -> None:
        """Refuse what could have no effect.

        Raises:
            InputError: There is such an option.
        """
        refuse_empty("--reflection-lm", self.reflection_lm)
        if self.no_boundary and self.boundary_tries != LearningOptions.boundary_tries:
            raise InputError("--boundary-tries is that of the boundary model, which --no-boundary leaves out")
        if self.reflection_api_base is not None and self.reflection_lm is None:
            raise InputError("--reflection-api-base needs --reflection-lm")
        if self.reflection_lm is not None and self.optimizer in ("bootstrap", "finetune", "none"):
            raise InputError(
                f"--reflection-lm is asked by gepa, mipro and simba; --optimizer {self.optimizer} asks none"
            )

    def arguments(self) -> dict[str, Any]:
        """As `keqa.compile` takes them, without the language model that reflects."""
        values = asdict(self)
        for name in ("reflection_lm", "reflection_api_base"):
            del values[name]
        values["training"] = read_training(self.training)
        for name in ("boundary", "reference", "tuning"):
            values[name] = not values.pop(f"no_{name}")
        return {**values, "budget": int(self.budget) if self.budget.isdecimal() else self.budget}


@with_groups
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
    program: Annotated[
        str | None,
        typer.Option(
            "--program",
            "-p",
            help="A compiled program to begin from, such as one with demonstrations that finetune shall learn from.",
            rich_help_panel="Method",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="What to compile: keqa, closed-book, cot, rag, ircot and so on, as for keqa evaluate; with arguments "
            "of its own as rag:top_k=5.",
            rich_help_panel="Method",
        ),
    ] = "keqa",
    index: Index = None,
    testbed: Annotated[
        bool, typer.Option("--testbed", help="Learn from the testbed's own train split, choose by its dev split.")
    ] = False,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="A benchmark to learn from, as NAME:PATH, or NAME from the Hugging Face hub; once for each. The "
            "utility reference labels each by its own rule.",
            show_default=False,
        ),
        Places(":"),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Which part of the folders of --data.", show_default="train")
    ] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Draw so many of each --data, by --seed.")] = None,
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
    as_json: AsJson = False,
    *,
    models: LanguageModels,
    options: KeqaOptions,
    learning: LearningOptions,
    price: PriceOptions,
) -> None:
    """Tune the program on question-answer pairs: demonstrations or instructions, utility reference, settings, gate.

    The methods that KEQA is compared with learn demonstrations or instructions with --method.

    What it will cost is said first: calls, tokens, and US dollars where LiteLLM knows the price; above --limit-cost you
    are asked. It ends with a table of what was learned. Every finished question is kept at once: the same command
    resumes after a kill. Ask with the result: keqa ask "…" --program OUT.
    """
    from keqa.cli.opening import check_roles, open_retriever
    from keqa.cli.progress import Bars
    from keqa.evaluation.questions import of_training

    settings = options.settings()
    spec = _method_of(method, settings)
    models.check()
    if [testbed, train is not None, bool(data)].count(True) != 1:
        raise InputError("give one of a file of question-answer pairs, --data and --testbed")
    if not data and (split is not None or sample is not None):
        raise MisplacedOptionError("--split and --sample are those of --data, which is missing", "--split", "--sample")
    if not testbed and index is None and models.lm is not None and _retrieves(spec):
        raise InputError(
            "name with --index the passages that the training questions are about: without it the testbed's fictional "
            f"encyclopedia is searched, for which {models.lm} would be asked in vain"
        )
    if testbed and index is not None:
        raise MisplacedOptionError("--testbed has an index of its own: leave out --index", "--index")
    if val_limit is not None and val is None and not testbed:
        raise InputError("--val-limit needs --val: without it a quarter of the training questions is held out")
    learning.check()
    refuse_empty("--program", program)
    benchmarks = of_training(data, split=split, sample=sample, seed=learning.seed) if data else None
    trainset, valset, problems, own = _questions_of(train, val, limit, val_limit, benchmarks)
    place = work or out.with_name(f"{out.name}.work")
    from keqa.evaluation.build import Parts, make, merged, own_of
    from keqa.evaluation.call_cache import CallCache
    from keqa.lms import build_lm
    from keqa.optimize.compile import compile_program
    from keqa.optimize.split import split as divided
    from keqa.programs.saving.folder import check_apart, check_place
    from keqa.retrievers import CachingRetriever

    check_place(out)
    check_writable(place, "--work")
    check_apart(out, place)
    if not price.dry_run:
        models.check_listening()
    retriever = open_retriever(index, models.lm)
    # A dry run needs no key.
    roles = None if price.dry_run else models.roles()
    reflecting = learning.reflection_lm and build_lm(learning.reflection_lm, api_base=learning.reflection_api_base)
    folder = None if program is None else Path(program)
    parts = Parts(retriever, roles, settings, folder, own=merged(own, own_of(models.lm)))
    lm = models.name
    price.agree(
        *(spec, parts, divided(trainset, valset, learning.seed)),
        {"task": lm, "consistency": models.consistency_lm or lm, "utility": models.utility_lm or lm},
        learning.arguments(),
        work=place,
        as_json=as_json,
    )
    if roles is None:
        return
    # A question that a kill interrupts is asked again from its start; its finished calls are answered from there.
    with (
        Bars() as bars,
        CachingRetriever(retriever, place / "retrievals.sqlite") as searched,
        CallCache(place / "calls.sqlite") as cache,
        cache.installed(),
    ):
        compiled = compile_program(
            make(spec, replace(parts, retriever=searched)),
            trainset,
            valset,
            folder=place,
            out=None if force else out,
            progress=bars.report,
            before_first=lambda: check_roles(roles, *([reflecting] if reflecting else [])),
            reflection_lm=reflecting,
            **learning.arguments(),
        )
    compiled.report.problems[:0] = problems
    compiled.save(out, overwrite=force, command=invocation())
    if as_json:
        show_figures(compiled.report.about())
        return
    from keqa.cli.compile_tables import report_parts

    for part in report_parts(compiled.report):
        results().print(part, soft_wrap=False)
    lm = "".join(f" --{_OPTIONS[role]} transformers/{place}" for role, place in compiled.saved_lms(out).items())
    ask = f'Ask with: keqa ask "…" --program {out}{lm}'
    measure = f"Measure with: keqa evaluate {spec.method.name} --program {out}{lm}"
    advice = ask if spec.method.kind == "keqa" else measure
    from keqa.programs.reference.embedding import is_built_in

    # A model that only the folder names would not be opened.
    embedder = learning.embedder
    named = "" if embedder is None or is_built_in(embedder) else f" --embedder {embedder}"
    results().print(advice + named, soft_wrap=True)


def read_training(text: str | None) -> dict[str, Any]:
    """The options of a training from a command line, such as ``epochs=3,rank=16``.

    Raises:
        InputError: It has another form.
    """
    found: dict[str, Any] = {}
    for part in (text or "").split(",") if text else []:
        name, given, value = (one.strip() for one in part.partition("="))
        if not (name and given and value):
            raise InputError(f"--training is NAME=VALUE,NAME=VALUE, such as epochs=3,rank=16, and not {text!r:.80}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _method_of(method: str, settings: Mapping[str, Any]) -> Spec:
    """What is to be compiled."""
    from keqa.cli.running import refuse_foreign
    from keqa.programs.registry import compilable, parse_spec

    spec = parse_spec(method)
    name = spec.method.name
    if not compilable(spec.method):
        raise InputError(
            f"{name} is made from a compiled keqa: compile that, and give it to keqa evaluate {name} with --program"
        )
    refuse_foreign(settings, [spec])
    return spec


def _retrieves(spec: Spec) -> bool:
    """Whether a method searches for passages."""
    from keqa.programs.registry import arguments_of, load_class

    return "retriever" in arguments_of(load_class(spec.method.target))


def _questions_of(
    train: Path | None,
    val: Path | None,
    limit: int | None,
    val_limit: int | None,
    benchmarks: Questions | None,
) -> tuple[list[Any], list[Any] | None, list[str], Mapping[str, Mapping[str, Any]]]:
    """Training questions, validation questions, what cannot be used, and methods' own arguments for these questions."""
    from keqa.data.own import read_examples
    from keqa.optimize.split import named

    own: Mapping[str, Mapping[str, Any]] = {}
    chosen: list[Any] | None = None
    if benchmarks is not None:
        learnt, problems = list(benchmarks.examples), list(benchmarks.problems)
    elif train is None:
        from keqa.evaluation.questions import of_testbed

        world = of_testbed("train")
        learnt, own = list(world.examples), world.settings
        chosen, problems = list(of_testbed("dev").examples), []
    else:
        reading = read_examples(train)
        learnt, problems = list(reading.examples), named(reading.problems)
    if val is not None:
        reading = read_examples(val)
        chosen = list(reading.examples)
        problems += named(reading.problems)
    return learnt[:limit], None if chosen is None else chosen[:val_limit], problems, own
