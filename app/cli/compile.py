"""``keqa compile``: question-answer pairs in, a program tuned on them out."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from keqa.cli.console import emit, status, table, warn_of_many
from keqa.cli.declare import MisplacedOptionError, argument, flag_of, given, invocation, option
from keqa.cli.options import (
    AS_JSON,
    IN_FLIGHT,
    INDEX,
    KeqaOptions,
    LanguageModels,
    ModelOptions,
    lm_option,
    open_retriever,
    refuse_idle,
    server_of,
)
from keqa.errors import InputError, TooManyFailuresError
from keqa.storage.files import check_writable
from keqa.storage.redaction import visible, without_keys

if TYPE_CHECKING:
    from keqa.optimize.options import Split
    from keqa.optimize.report import Report
    from keqa.programs.build import Parts
    from keqa.programs.records import CallCost
    from keqa.programs.registry import Spec

_PROBLEMS_SHOWN = 8
# The standard error of a score on so many questions is about .1.
_FEW = 25
_READS = {"quiz": "the quiz", "draft": "one draft", "draws": "all draws"}
_LM_OPTIONS = {"task": "lm", "consistency": "consistency-lm", "utility": "utility-lm"}


@dataclass(frozen=True)
class LearningOptions(ModelOptions):
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
    no_tuning: bool = option("Leave gate, samples, top-k, summaries and what settles a question alone.", default=False)
    embedder: str | None = option(
        "Finds like passages in the reference: hashing, local/minilm, or a sentence-transformers model.",
        place="@",
        shown="hashing",
    )
    seed: int = option("Another seed, other demonstrations.", default=0)
    in_flight: int = IN_FLIGHT

    def check(self) -> None:
        super().check()
        left_out = "--no-boundary" if self.no_boundary else "--no-tuning" if self.no_tuning else None
        if left_out is not None and self.boundary_tries != LearningOptions.boundary_tries:
            why = f"--boundary-tries is that of the boundary model, which {left_out} leaves out"
            raise MisplacedOptionError(why, "--boundary-tries")
        searched = [name for name in ("demos", "judge_demos", "sets") if flag_of(name) in given(self)]
        if searched and self.optimizer != "bootstrap":
            flags = [*map(flag_of, searched)]
            why = f"{', '.join(flags)}: of --optimizer bootstrap, not of {self.optimizer}; leave it out"
            raise MisplacedOptionError(why, *flags)
        if self.reflection_lm is not None and self.optimizer in ("bootstrap", "finetune", "none"):
            why = f"--reflection-lm is asked by gepa, mipro and simba; --optimizer {self.optimizer} asks none"
            raise MisplacedOptionError(why, "--reflection-lm", "--reflection-api-base")

    def arguments(self) -> dict[str, Any]:
        """As `keqa.compile` takes them, without the language model that reflects."""
        values = asdict(self) | {"training": read_training(self.training)}
        del values["reflection_lm"], values["reflection_api_base"]
        values |= {name: not values.pop(f"no_{name}") for name in ("boundary", "reference", "tuning")}
        return {**values, "budget": int(self.budget) if self.budget.isdecimal() else self.budget}


@dataclass(frozen=True)
class SourceOptions:
    """The questions that a program learns from, and the passages that they are about."""

    train: Path | None = argument(
        "TRAIN", "Questions to learn from: .jsonl, .json or .csv with question and answer.", default=None
    )
    val: Path | None = option("Pairs to choose by; without it a quarter of TRAIN is held out.")
    index: str | None = INDEX
    testbed: bool = option("Learn from the testbed's own train split, choose by its dev split.", default=False)
    data: list[str] | None = option(
        "A benchmark to learn from, as NAME:PATH, or NAME from the Hugging Face hub; once for each. The utility "
        "reference labels each by its own rule.",
        place=":",
    )
    split: str | None = option("Which part of the folders of --data.", shown="train")
    sample: int | None = option("Draw so many of each --data, by --seed.", min=1)
    limit: int | None = option("Use the first so many training questions.", min=1)
    val_limit: int | None = option("Use the first so many validation questions.", min=1)

    def refuse_contradictions(self, spec: Spec, lm: str | None) -> None:
        """Refuse what contradicts itself, could have no effect, or would be asked in vain."""
        from keqa.cli.running import refuse_no_index

        if [self.testbed, self.train is not None, bool(self.data)].count(True) != 1:
            raise InputError("give one of a file of question-answer pairs, --data and --testbed")
        if not self.data and (self.split is not None or self.sample is not None):
            why = "--split and --sample are those of --data, which is missing"
            raise MisplacedOptionError(why, "--split", "--sample")
        if not self.testbed and self.index is None:
            refuse_no_index([spec], lm)
        if self.testbed and self.index is not None:
            raise MisplacedOptionError("--testbed has an index of its own: leave out --index", "--index")
        if self.val_limit is not None and self.val is None and not self.testbed:
            why = "--val-limit needs --val: without it a quarter of the training questions is held out"
            raise MisplacedOptionError(why, "--val-limit")

    def questions(self, seed: int) -> tuple[list[Any], list[Any] | None, list[str], Mapping[str, Mapping[str, Any]]]:
        """To learn from and to choose by, what cannot be used, and methods' own arguments for these questions."""
        from keqa.data.own import read_examples
        from keqa.evaluation.questions import of_testbed, of_training

        own: Mapping[str, Mapping[str, Any]] = {}
        chosen: list[Any] | None = None
        if self.train is not None:
            reading = read_examples(self.train)
            learned, problems = list(reading.examples), reading.remarks
        elif self.data:
            found = of_training(self.data, split=self.split, sample=self.sample, seed=seed)
            learned, problems = list(found.examples), list(found.problems)
        else:
            world = of_testbed("train")
            learned, own, problems = list(world.examples), world.settings, []
            chosen = list(of_testbed("dev").examples)
        if self.val is not None:
            reading = read_examples(self.val)
            chosen = list(reading.examples)
            problems += reading.remarks
        return learned[: self.limit], None if chosen is None else chosen[: self.val_limit], problems, own


@dataclass(frozen=True)
class PriceOptions:
    """What a compilation may cost."""

    panel = "Price"

    limit_cost: float = option(
        "Ask first where it may cost more US dollars; without a terminal, do not begin.", default=5.0, min=0.0
    )
    yes: bool = option("Begin whatever it may cost.", "-y", default=False)
    dry_run: bool = option("Estimate calls, tokens and price, and ask nothing.", default=False)

    def agree(
        self,
        spec: Spec,
        parts: Parts,
        questions: Split,
        models: Mapping[str, str],
        learning: Mapping[str, Any],
        *,
        work: Path,
        as_json: bool,
    ) -> None:
        """Say what it will cost, and ask where that may be above the limit."""
        from keqa.evaluation.reports.render import Rendered
        from keqa.evaluation.reproduction.estimate import estimate_compilation, estimates

        # The model that ships costs seconds.
        if set(models.values()) == {"keqa/tiny"} and not self.dry_run:
            return
        with status().status("rehearsing…"):
            try:
                grid = estimates([estimate_compilation(spec, parts, questions, models, learning)])
            except TooManyFailuresError as error:
                raise InputError(f"what it will cost cannot be estimated: {error}") from error
        further = [f"What {work} holds is not asked again."] if any(work.glob("*")) else []
        if learning["optimizer"] not in ("bootstrap", "none"):
            further.append(f"What {learning['optimizer']} itself asks is not in it.")
        if self.dry_run:
            emit({grid.name: grid.records}, [Rendered(grid), *further], as_json=as_json)
            return
        status().print(Rendered(grid), *further)
        most = grid.records[0]["US dollars most"]
        if self.yes or not isinstance(most, float) or most <= self.limit_cost:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise InputError(
                f"it may cost more than {self.limit_cost:g} US dollars: give --yes, or a higher --limit-cost"
            )
        if not typer.confirm(f"It may cost more than {self.limit_cost:g} US dollars. Begin?", err=True):
            raise typer.Exit


def compile_command(
    *,
    out: Path = option("Folder of the compiled program.", "-o", default=...),
    source: SourceOptions,
    program: str | None = option(
        "A compiled program to begin from, such as one with demonstrations that finetune shall learn from.",
        "-p",
        place=":",
        rich_help_panel="Method",
    ),
    method: str = option(
        "What to compile: keqa, closed-book, cot, rag, ircot and so on, as for keqa evaluate; with arguments of its "
        "own as rag:top_k=5.",
        default="keqa",
        rich_help_panel="Method",
    ),
    work: Path | None = option(
        "Folder where finished work is kept, so that the same command resumes after a kill; OUT.work."
    ),
    force: bool = option(
        "Replace a program in OUT that was compiled from other questions or otherwise.", default=False
    ),
    as_json: bool = AS_JSON,
    models: LanguageModels,
    options: KeqaOptions,
    learning: LearningOptions,
    price: PriceOptions,
) -> None:
    """Tune the program on question-answer pairs: demonstrations or instructions, utility reference, settings, gate.

    The methods that KEQA is compared with learn demonstrations or instructions with --method.

    The expected cost is shown first: calls, tokens, and US dollars where LiteLLM knows the price; above --limit-cost
    you are asked. It ends with a table of what was learned. Every finished question is kept at once: the same command
    resumes after a kill. Ask with the result: keqa ask "…" --program OUT.
    """
    from keqa.lms import build_lm
    from keqa.optimize.options import Options
    from keqa.optimize.options import split as divided

    settings = options.settings()
    spec = _method_of(method, settings, models)
    source.refuse_contradictions(spec, models.lm)
    trainset, valset, problems, own = source.questions(learning.seed)
    place = work or out.parent / f"{out.name}.work"
    from keqa.programs.build import Parts, make, merged, own_of
    from keqa.programs.keqa import KEQA
    from keqa.programs.saving import check_apart, check_place

    check_place(out)
    check_writable(place, "--work")
    check_apart(out, place)
    if not price.dry_run:
        models.check_listening()
    retriever = open_retriever(source.index, models.lm)
    # A dry run needs no key.
    roles = None if price.dry_run else models.roles()
    reflecting = learning.reflection_lm and build_lm(learning.reflection_lm, api_base=learning.reflection_api_base)
    if not price.dry_run:
        # The rehearsal, which takes its time, is of no optimizer of DSPy's.
        Options(reflection_lm=reflecting, **learning.arguments())
    folder = None if program is None else Path(program)
    questions = divided(trainset, valset, learning.seed)
    warn_of_many("", [*problems, *questions.problems])
    how, parts = learning.arguments(), Parts(retriever, roles, settings, folder, own=merged(own, own_of(models.lm)))
    uncompiled = make(spec, parts)
    refuse_idle(settings, uncompiled)
    if learning.no_tuning and isinstance(uncompiled, KEQA):
        # What is left alone is what keqa ask does.
        asks = uncompiled.as_asked
        parts = replace(parts, settings={**asks, **settings})
        if "pick" in asks and not learning.no_reference:
            problems.append("it is left as keqa ask has it, which has no utility reference: --pick builds one")
    price.agree(spec, parts, questions, models.by_role, how, work=place, as_json=as_json)
    if roles is None:
        return
    from keqa.cli.running import compiling
    from keqa.lms import check_reachable
    from keqa.optimize.compile import compile_program

    asked = [*roles.every, *([reflecting] if reflecting else [])]
    with compiling(place, retriever) as (bars, searched):
        compiled = compile_program(
            make(spec, replace(parts, retriever=searched)),
            trainset,
            valset,
            folder=place,
            out=None if force else out,
            reflection_lm=reflecting,
            progress=bars.report,
            before_first=lambda: check_reachable(asked),
            **how,
        )
    compiled.report.problems[:0] = problems
    compiled.save(out, overwrite=force, command=invocation())
    from keqa.programs.reference.embedding import is_built_in

    measured = f"Measure with: keqa evaluate {spec.method.name} --questions …"
    begun = 'Ask with: keqa ask "…"' if spec.method.kind == "keqa" else measured
    tuned = {f"--{_LM_OPTIONS[role]}": f"transformers/{lm}" for role, lm in compiled.saved_lms(out).items()}
    needed = {"--program": out, "--index": source.index, **given(models), **tuned}
    # A model that only the folder names would not be opened.
    if learning.embedder is not None and not is_built_in(learning.embedder):
        needed["--embedder"] = learning.embedder
    further = [text for flag, value in needed.items() if value is not None for text in (flag, str(value))]
    advice = without_keys(f"{begun} {shlex.join(further)}", asked)
    emit(compiled.report.about(), [*_shown(compiled.report), advice], as_json=as_json)


def read_training(text: str | None) -> dict[str, Any]:
    """The options of a training from a command line, such as ``epochs=3,rank=16``."""
    found: dict[str, Any] = {}
    for part in text.split(",") if text else []:
        name, given, value = (one.strip() for one in part.partition("="))
        if not (name and given and value):
            raise InputError(f"--training is NAME=VALUE,NAME=VALUE, such as epochs=3,rank=16, and not {text!r:.80}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def _method_of(method: str, settings: Mapping[str, Any], models: LanguageModels) -> Spec:
    from keqa.cli.running import refuse_foreign
    from keqa.programs.registry import compilable, parse_spec

    spec = parse_spec(method)
    if not compilable(spec.method):
        name = spec.method.name
        raise InputError(
            f"{name} is made from a compiled keqa: compile that, and give it to keqa evaluate {name} with --program"
        )
    refuse_foreign(settings, [spec], models)
    return spec


def _shown(report: Report) -> Iterator[Any]:
    """Tables of predictors, settings and scores, then reference, cost and problems in a line each."""
    yield from _predictors(report)
    if report.settings:
        rows = []
        for name, setting in report.settings.items():
            cells = (name, *("-" if value is None else str(value) for value in setting))
            rows.append([Text(cell, "" if setting.before == setting.after else "bold") for cell in cells])
        yield _titled("Settings", rows, "setting", "before", "after")
    if report.curve:
        costs = f"{report.cost_per_retrieval:g} · retrievals - {report.cost_per_call:g} · LM calls a question"
        yield Text(f"Chosen from {len(report.curve)} settings for score - {costs}.\n", "dim")
    if report.settling is not None:
        yield _ways(report.settling)
        yield Text(f"{report.settling['why']}.\n")
    title = f"Score on {report.validated_on} validation questions"
    yield _titled(title, _scores(report), "program", "score", "95 % interval", "")
    if report.failed:
        failures = [(one.step, f"{one.asked:,}", Text(f"{one.failed:,}", "yellow"), one.cause) for one in report.failed]
        names = ("step", "questions", "failed", "mostly")
        yield _titled("Questions without an answer; each scored 0", failures, *names)
    yield Text(
        f"Learned from {report.trained_on} training questions. The program was chosen on the validation questions: "
        "expect a smaller gain on others.\n",
        "dim",
    )
    if report.validated_on < _FEW:
        yield Text(
            f"Questions as few as {report.validated_on} hardly tell what is better: give {_FEW} or more.\n", "yellow"
        )
    yield from (Text.assemble((f"{label}: ", "bold"), text) for label, text in _costs(report).items())
    if report.problems:
        more = len(report.problems) - _PROBLEMS_SHOWN
        further = [f"and {more} more, which the program's folder lists"] if more > 0 else []
        lines = [visible(f"  {problem}") for problem in (*report.problems[:_PROBLEMS_SHOWN], *further)]
        yield from (Text(line, "yellow") for line in ("What could not be used", *lines))


def _ways(settling: Mapping[str, Any]) -> Any:
    rows = []
    for way in settling["ways"]:
        end = Text("kept", "green") if way["settle"] == settling["kept"] else Text()
        costs = (f"{way['calls']:.1f}", f"{way['retrievals']:.1f}", f"{way['tokens']:,.0f}")
        trained = f"{way['training_score']:.3f}" if "training_score" in way else "-"
        rows.append((way["settle"], f"{way['score']:.3f}", trained, *costs, end))
    names = ("settle", "score", "training", "LM calls", "retrievals", "tokens", "")
    meant = "; ".join(f"{way['settle']}: {way['is']}" for way in settling["ways"])
    return _titled("The parts beside the whole, on validation and training questions", rows, *names, caption=meant)


def _predictors(report: Report) -> Iterator[Any]:
    rows, rewritten = [], []
    for one in report.predictors:
        if one.instruction_after != one.instruction_before:
            for when, text, style in (("before", one.instruction_before, "dim"), ("after", one.instruction_after, "")):
                rewritten += [Text(f"{one.name}, instruction {when}", "bold"), Text(visible(text), style)]
            rewritten.append(Text(""))
        after = Text(str(one.demos_after), "green" if one.demos_after else "dim")
        how = "as it was" if one.instruction_after == one.instruction_before else "rewritten"
        rows.append((one.name, how, str(one.demos_before), after))
    yield _titled("What each predictor learned", rows, "predictor", "instruction", "demos before", "after")
    yield from rewritten


def _titled(title: str, rows: list[Any], *names: str, **more: Any) -> Any:
    return table(names, rows, title=title, title_justify="left", caption_justify="left", **more)


def _scores(report: Report) -> list[list[Text]]:
    rows = []
    for trial in report.trials:
        kept = trial.name in report.chosen
        end = Text("kept", "green") if kept else Text()
        rows.append([Text(trial.name, "" if kept else "dim"), Text(f"{trial.score:.3f}"), Text(), end])
    for name, interval in (("before", report.before_score), ("compiled", report.after_score), ("gain", report.gain)):
        if interval is not None:
            cells = (name, f"{interval.mean:.3f}", f"{interval.low:.3f} … {interval.high:.3f}", "")
            rows.append([Text(cell, "bold") for cell in cells])
    return rows


def _costs(report: Report) -> dict[str, str]:
    """The utility reference and the boundary model where settings were tuned, and what was spent."""

    def spent(cost: CallCost) -> str:
        return f"{cost.calls:,} requests, {cost.prompt_tokens:,} tokens read and {cost.completion_tokens:,} written"

    found = {}
    if report.settings:
        labelled = ", ".join(f"{count:,} {label}" for label, count in report.reference.items())
        doubted = f"; unreliable sources: {', '.join(report.unreliable_sources)}" if report.unreliable_sources else ""
        found["utility reference"] = visible(f"{labelled} passages{doubted}") if report.reference else "none"
        found["boundary model"] = "none"
    if report.settings and report.boundary is not None:
        held = report.boundary["held_out"]
        boundary, vote = ("-" if (one := held[of]["auroc"]) is None else f"{one:.3f}" for of in ("mastery", "vote"))
        found["boundary model"] = (
            f"{'decides' if report.boundary['kept'] else 'left out'}; reads {_READS[report.boundary['reads']]}; "
            f"AUROC {boundary} on {held['quizzes']:,} quizzes held out (five votes: {vote})"
        )
    earlier = f"; earlier runs in the same folder: at least {spent(report.spent_earlier)}"
    costs = spent(report.spent) + (earlier if report.spent_earlier.calls else "")
    return {**found, "language models": costs}
