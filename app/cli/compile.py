"""``keqa compile``: question-answer pairs in, a program tuned on them out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from keqa.cli.compile_price import PriceOptions
from keqa.cli.console import emit
from keqa.cli.options import (
    AsJson,
    Index,
    InFlight,
    KeqaOptions,
    LanguageModels,
    MisplacedOptionError,
    Panel,
    Places,
    argument,
    invocation,
    lm_option,
    option,
    refuse_empty,
    server_of,
)
from keqa.errors import InputError
from keqa.storage.files import check_writable

if TYPE_CHECKING:
    from keqa.evaluation.questions import Questions
    from keqa.programs.registry import Spec

_OPTIONS = {"task": "lm", "consistency": "consistency-lm", "utility": "utility-lm"}


@dataclass(frozen=True)
class LearningOptions:
    """How to compile; see `keqa.optimize.options.Options`."""

    panel = "Learning"

    reflection_lm: str | None = lm_option(
        "Reflects and writes instructions for gepa, mipro and simba: a strong model; --lm is not."
    )
    reflection_api_base: str | None = server_of("--reflection-lm")
    optimizer: str = option("bootstrap, gepa, mipro, simba, finetune or none.", default="bootstrap")
    budget: str = option(
        "Of gepa, mipro and simba: light, medium, heavy; or a number, of questions, trials or steps.", default="light"
    )
    training: str | None = option("Of finetune, such as epochs=3,rank=16,rate=0.001,method=full.")
    demos: int = option("Demonstrations of a predictor.", default=4, min=0)
    judge_demos: int = option("Demonstrations of the consistency judge.", default=8, min=0)
    sets: int = option("Sets of demonstrations to choose from.", default=4, min=0)
    cost_per_retrieval: float | None = option(
        "What a search costs in points of F1, from 0 to 1.", shown="0.02", min=0.0
    )
    cost_per_call: float | None = option(
        "What a reply of a language model costs in points of F1.", shown="0.002", min=0.0
    )
    boundary_tries: int = option(
        "Draws to each training quiz that the boundary model learns from.", default=10, min=5, max=1000
    )
    no_boundary: bool = option("Train no boundary model; the vote of the samples decides.", default=False)
    no_reference: bool = option("Build no utility reference.", default=False)
    no_tuning: bool = option("Leave gate, samples, top-k and summaries alone.", default=False)
    embedder: str | None = option(
        "Finds like passages in the reference: hashing, local/minilm, or a sentence-transformers model.",
        place=Places("@"),
        shown="hashing",
    )
    seed: int = option("Another seed, other demonstrations.", default=0)
    in_flight: Annotated[InFlight, Panel(panel)] = 8

    def check(self) -> None:
        """Refuse what could have no effect."""
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


def compile_command(
    *,
    out: Path = option("Folder of the compiled program.", "-o", default=...),
    train: Path | None = argument(
        "TRAIN", "Question-answer pairs to learn from: .jsonl with question and answer, or .csv.", default=None
    ),
    val: Path | None = option("Pairs to choose by; without it a quarter of TRAIN is held out."),
    program: str | None = option(
        "A compiled program to begin from, such as one with demonstrations that finetune shall learn from.",
        "-p",
        rich_help_panel="Method",
    ),
    method: str = option(
        "What to compile: keqa, closed-book, cot, rag, ircot and so on, as for keqa evaluate; with arguments of its "
        "own as rag:top_k=5.",
        default="keqa",
        rich_help_panel="Method",
    ),
    index: Index = None,
    testbed: bool = option("Learn from the testbed's own train split, choose by its dev split.", default=False),
    data: list[str] | None = option(
        "A benchmark to learn from, as NAME:PATH, or NAME from the Hugging Face hub; once for each. The utility "
        "reference labels each by its own rule.",
        place=Places(":"),
    ),
    split: str | None = option("Which part of the folders of --data.", shown="train"),
    sample: int | None = option("Draw so many of each --data, by --seed.", min=1),
    limit: int | None = option("Use the first so many training questions.", min=1),
    val_limit: int | None = option("Use the first so many validation questions.", min=1),
    work: Path | None = option(
        "Folder where finished work is kept, so that the same command resumes after a kill; OUT.work."
    ),
    force: bool = option(
        "Replace a program in OUT that was compiled from other questions or otherwise.", default=False
    ),
    as_json: AsJson = False,
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
    from keqa.lms import build_lm
    from keqa.optimize.compile import compile_program
    from keqa.optimize.split import split as divided
    from keqa.programs.build import Parts, make, merged, own_of
    from keqa.programs.calls.call_cache import CallCache
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
    from keqa.cli.compile_tables import report_parts
    from keqa.programs.reference.embedding import is_built_in

    lm = "".join(f" --{_OPTIONS[role]} transformers/{place}" for role, place in compiled.saved_lms(out).items())
    ask = f'Ask with: keqa ask "…" --program {out}{lm}'
    measure = f"Measure with: keqa evaluate {spec.method.name} --program {out}{lm}"
    advice = ask if spec.method.kind == "keqa" else measure
    # A model that only the folder names would not be opened.
    embedder = learning.embedder
    named = "" if embedder is None or is_built_in(embedder) else f" --embedder {embedder}"
    emit(compiled.report.about(), [*report_parts(compiled.report), advice + named], as_json=as_json)


def read_training(text: str | None) -> dict[str, Any]:
    """The options of a training from a command line, such as ``epochs=3,rank=16``."""
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
