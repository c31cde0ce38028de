"""What fine-tuning is worth on the testbed, beside demonstrations: F1, prompt tokens and calls a question.

    python benchmarks/finetuning.py --out runs/finetuning

Compiles the program by bootstrapped demonstrations, by fine-tuning the language model on its right calls (LoRA; the
teacher is the program with demonstrations), and by DSPy's BetterTogether (demonstrations, then weights), all from the
same training questions; then asks all of them and the program as it comes the same test questions. Everything finished
is kept: the same command resumes. Its last line is JSON.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import dspy
import typer
from common import Lines, interval
from rich.console import Console
from rich.table import Table

import keqa
from keqa.evaluation.questions import of_testbed
from keqa.metrics.answers import f1
from keqa.metrics.significance import bootstrap_mean, paired_bootstrap
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program

PROGRAMS = ("uncompiled", "bootstrap", "finetune", "bettertogether")


def main(
    out: Annotated[Path, typer.Option(help="Folder where finished work is kept.")] = Path("runs/finetuning"),
    lm: Annotated[str, typer.Option(help="The language model.")] = "keqa/tiny",
    train: Annotated[int, typer.Option(help="Training questions.")] = 200,
    val: Annotated[int, typer.Option(help="Validation questions.")] = 100,
    questions: Annotated[int, typer.Option(help="Test questions.")] = 200,
    epochs: Annotated[int, typer.Option(help="Of fine-tuning.")] = 3,
    rate: Annotated[float, typer.Option(help="Of fine-tuning.")] = 1e-3,
    in_flight: Annotated[int, typer.Option(help="Questions in work at once.")] = 8,
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    retriever = keqa.open_encyclopedia()
    learnt, chosen, tested = (
        list(of_testbed(split).examples)[:count]
        for split, count in (("train", train), ("dev", val), ("test", questions))
    )
    # One log for one set of choices, so that other ones do not pass for these.
    lines = Lines(out / f"{lm.replace('/', '-')}-{train}-{val}-{epochs}-{rate:g}.jsonl")
    training = {"epochs": epochs, "rate": rate}
    console = Console()
    for name in PROGRAMS:
        answered = {line["id"] for line in lines.done if line.get("program") == name}
        if len(answered) >= len(tested):
            continue
        began = time.monotonic()
        program = _made(name, lm, retriever, learnt, chosen, out, training, in_flight)
        if not any(line.get("made") == name for line in lines.done):
            lines.add({"made": name, "minutes": (time.monotonic() - began) / 60})
        left = [example for example in tested if example.id not in answered]
        for outcome in program.answer_many(left, in_flight=in_flight):
            record, item = outcome.record, outcome.item
            figures = {"f1": 0.0, "prompt_tokens": 0, "samples": 0, "retrievals": 0}
            if record is not None:
                figures["prompt_tokens"] = sum(one.prompt_tokens for one in record.cost.by_role.values())
                figures |= {"samples": record.cost.samples, "retrievals": record.cost.retrievals}
                if record.answer is not None:
                    figures["f1"] = f1(record.answer, list(item.answers), item.answer_type, item.choices)
            lines.add({"program": name, "id": item.id, **figures})
    _show(console, lines, [example.id for example in tested])


def _made(
    name: str,
    lm: str,
    retriever: Any,
    learnt: list[Any],
    chosen: list[Any],
    out: Path,
    training: dict[str, Any],
    in_flight: int,
) -> Program:
    program = KEQA(retriever, lms=keqa.build_roles(lm, cache=False))
    if name == "uncompiled":
        return program
    key = f"{lm.replace('/', '-')}-{len(learnt)}-{len(chosen)}"
    # Settings and the utility reference would be gains of other steps.
    plain = {"tuning": False, "reference": False, "in_flight": in_flight}
    bootstrapped = keqa.compile(program, learnt, chosen, folder=out / f"bootstrap-{key}", **plain).program
    if name == "bootstrap":
        return bootstrapped
    if name == "finetune":
        how = {**plain, "optimizer": "finetune", "training": training}
        folder = out / f"finetune-{key}-{training['epochs']}-{training['rate']:g}"
        compiled = keqa.compile(bootstrapped, learnt, chosen, folder=folder, **how)
        for trial in compiled.report.trials:
            Console().print(f"validation: {trial.name} {trial.score:.3f}", highlight=False)
        return compiled.program
    return _together(program, lm, learnt, chosen, out / f"bettertogether-{key}", training, in_flight)


def _together(
    program: KEQA, lm: str, learnt: list[Any], chosen: list[Any], folder: Path, training: dict[str, Any], threads: int
) -> Program:
    """DSPy's own way: demonstrations, then weights, both by the metric for its optimizers; it keeps the best step."""
    adapter = folder / f"adapter-{training['epochs']}-{training['rate']:g}"
    kept = folder / f"kept-{adapter.name}"
    if not kept.exists():
        metric = keqa.optimizer_metric()
        weights = {**training, "folder": str(adapter)}
        together = dspy.BetterTogether(
            metric,
            p=dspy.BootstrapFewShot(metric, max_bootstrapped_demos=4, max_labeled_demos=0),
            w=dspy.BootstrapFinetune(metric, exclude_demos=True, num_threads=threads, train_kwargs=weights),
        )
        train, val = ([_example(one) for one in some] for some in (learnt, chosen))
        learned = together.compile(program, trainset=train, valset=val, strategy="p -> w", num_threads=threads)
        tuned = Path(learned.get_lm().engine.path) == adapter.resolve()
        keqa.save(learned, kept, model=f"transformers/{adapter}" if tuned else lm)
    model = json.loads((kept / "program.json").read_text())["about"]["model"]
    return keqa.load(kept, keqa.open_encyclopedia(), keqa.build_roles(model, cache=False))


def _example(one: Any) -> dspy.Example:
    fields = {name: list(getattr(one, name)) for name in ("choices", "quizzes", "quiz_answers")}
    asked = {"question": one.question, "answer": one.answers[0], "answer_type": one.answer_type}
    return dspy.Example(**asked, **fields).with_inputs("question", "answer_type", "choices")


def _show(console: Console, lines: Lines, ids: list[str]) -> None:
    rows = {name: {} for name in PROGRAMS}
    for line in lines.done:
        if "program" in line:
            rows[line["program"]][line["id"]] = line
    minutes = {line["made"]: line["minutes"] for line in lines.done if "made" in line}
    table = Table("program", "F1", "than bootstrap", "prompt tokens", "LM calls", "retrievals", "minutes to make")
    scores = {name: [of[one]["f1"] for one in ids] for name, of in rows.items()}
    found: dict[str, Any] = {"questions": len(ids)}
    for name, of in rows.items():
        means = {key: sum(of[one][key] for one in ids) / len(ids) for key in ("prompt_tokens", "samples", "retrievals")}
        behind = "" if name == "bootstrap" else interval(paired_bootstrap(scores[name], scores["bootstrap"]), "+.3f")
        cells = (f"{means['prompt_tokens']:,.0f}", f"{means['samples']:.1f}", f"{means['retrievals']:.2f}")
        table.add_row(name, interval(bootstrap_mean(scores[name]), ".3f"), behind, *cells, f"{minutes[name]:.1f}")
        found[name] = {"f1": sum(scores[name]) / len(ids), **means, "minutes": minutes[name]}
    console.print(table)
    print(json.dumps(found))


if __name__ == "__main__":
    typer.run(main)
