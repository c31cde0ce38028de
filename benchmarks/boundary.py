"""A boundary model from one draft: how it ranks memory, and what a program with its gate gains and costs.

    python benchmarks/boundary.py [--train 200] [--test 200] [--tries 10] [--threshold 0.8] [--folder FOLDER]

Collects draws to the gold quizzes of training questions of the testbed, trains the light boundary model on them, and
checks it on the gold quizzes of the test questions. Then asks the test questions of the program that ships, of its
ablation without examination (w/o QKE), and of the program with the gate at each threshold, which is no choice by these
questions: all rows are printed. With --folder the same command resumes. The last line is JSON; its F1, retrievals and
calls of gate-boundary are those of the first threshold.
"""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from common import interval
from rich.console import Console
from rich.table import Table

import keqa
from keqa.evaluation.build import Parts
from keqa.evaluation.call_cache import CallCache
from keqa.evaluation.compare import compare
from keqa.evaluation.demo import MethodResult
from keqa.evaluation.questions import of_testbed
from keqa.optimize.boundary import Collected, check_model, collect, train_light
from keqa.optimize.boundary.collect import write_private
from keqa.programs.registry import parse_spec
from keqa.storage.journal import Journal
from keqa.testbed.testbed import Testbed

THRESHOLDS = ("0.8", "0.7", "0.85")
"""The gate's own comes first."""


def main(
    train: Annotated[int, typer.Option(help="Training questions to collect from.")] = 200,
    test: Annotated[int, typer.Option(help="Test questions to check on and to ask.")] = 200,
    tries: Annotated[int, typer.Option(min=5, help="Draws of a quiz.")] = 10,
    reads: Annotated[str, typer.Option(help="What the model reads: quiz, draft or draws.")] = "draft",
    threshold: Annotated[list[str] | None, typer.Option(help="Of the gate; once for each.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where finished work is kept.")] = None,
) -> None:
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        testbed, roles = Testbed(), keqa.build_roles("keqa/tiny", cache=False)
        program = keqa.load("testbed", None, roles, method="keqa")

        def collected(split: str, count: int) -> Collected:
            with Journal.open(place / f"{split}.draws", {"split": split, "tries": tries}) as journal:
                asked = getattr(testbed, split)[:count]
                return collect(program, asked, tries=tries, store=journal, dataset="testbed", split=split)

        trained = train_light([collected("train", train)], reads=reads)  # type: ignore[arg-type]
        model = place / "model.json"
        write_private(model, json.dumps(trained.model.written()).encode())
        found = check_model(trained.model, [collected("test", test)], trained.model.roots)
        specs = [parse_spec(name) for name in ("keqa", "keqa-no-qke")]
        specs += [parse_spec(f"gate-boundary:model={model},threshold={one}") for one in threshold or THRESHOLDS]
        cache = stack.enter_context(CallCache(place / "calls.sqlite"))
        parts = Parts(keqa.open_encyclopedia(testbed.passages), roles, program=Path("testbed"))
        rows = list(compare(specs, of_testbed("test", test), parts, folder=place / "runs", cache=cache))
    by_label = {spec.label: MethodResult.of(row, 0.0) for spec in specs for row in rows if row.spec is spec}
    Console(width=140).print(_table(by_label))
    before, without = by_label["keqa"], by_label["keqa-no-qke"]
    gate = by_label[specs[2].label]
    print(
        json.dumps(
            {
                "questions": test,
                "quizzes": found.quizzes,
                "auroc_boundary": found.mastery.auroc,
                "auroc_vote": found.vote.auroc,
                "prr": found.mastery.prr,
                "ece": found.mastery.ece,
                **_figures("gate_boundary", gate),
                **_figures("before", before),
                **_figures("no_qke", without),
            }
        )
    )


def _figures(name: str, result: MethodResult) -> dict[str, Any]:
    return {f"f1_{name}": result.f1.mean, f"retrievals_{name}": result.retrievals, f"calls_{name}": result.calls}


def _table(results: dict[str, MethodResult]) -> Table:
    before = results["keqa"]
    table = Table("program", "F1", "EM", "gain in F1", "retrievals", "LM calls")
    for label, row in results.items():
        gain = "" if row is before else interval(before.f1_less(row), "+.3f")
        means = (f"{row.retrievals:.2f}", f"{row.calls:.1f}")
        table.add_row(label, interval(row.f1, ".3f"), interval(row.em, ".3f"), gain, *means)
    return table


if __name__ == "__main__":
    typer.run(main)
