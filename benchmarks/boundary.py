"""What a boundary model gains: how it ranks memory, and a program that it decides for beside one that votes.

    python benchmarks/boundary.py [PROGRAM] [--questions 400] [--train 200] [--tries 10] [--fresh 1] [--folder FOLDER]

PROGRAM is the folder of a compiled KEQA, by default the one that ships. Draws are collected to the gold quizzes of test
questions of the testbed, by which the boundary model of its gate is checked, and the vote of five draws; for a program
whose gate has none, one is trained on draws to --train training questions.
Then three programs are asked the same test
questions, beyond 200 of them those that the same generator draws: the program as it is (compiled); itself with KEQA's
vote at 4/5, each passage judged by itself and one quiz not summarized (before); and itself without examination, which
searches for every quiz (w/o QKE). --fresh SEED asks them all as many further questions about the same world, of
another seed; it may be given more than once. --threshold adds the boundary model at other thresholds, --model another
boundary model's file, --gates the gates that they are compared with, for the tables of `keqa compare FOLDER`. With
--folder the same command resumes. The last line is JSON.
"""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, NamedTuple

import typer
from common import interval
from rich.console import Console
from rich.table import Table

import keqa
from keqa.evaluation.compare import compare
from keqa.evaluation.demo import MethodResult
from keqa.evaluation.questions import Questions, of_testbed
from keqa.optimize.boundary import Collected, Figures, check_model, collect, train_light
from keqa.optimize.boundary.collect import write_private
from keqa.programs.boundary import BoundaryModel
from keqa.programs.build import Parts
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.gates import BoundaryGate
from keqa.programs.keqa import KEQA
from keqa.programs.registry import METHODS, Spec, parse_spec
from keqa.storage.journal import Journal
from keqa.testbed.testbed import Settings, Testbed, TestbedQuestion

BEFORE = {
    "threshold": "4/5",
    "listwise": False,
    "summarize_single": False,
    "summarize_known": False,
    "prefer_reliable": False,
    "on_nothing_helpful": "largest_cluster",
}
"""The settings of the program as it was before there were boundary models."""

GATES = ("votes", "certainty", "probability", "always", "never", "oracle")


def main(
    program: Annotated[str, typer.Argument(help="Folder of a compiled program.")] = "testbed",
    questions: Annotated[int, typer.Option(help="Test questions to check on and to ask.")] = 400,
    train: Annotated[int, typer.Option(help="Training questions, for a program without a boundary model.")] = 200,
    tries: Annotated[int, typer.Option(min=5, help="Draws of a quiz.")] = 10,
    threshold: Annotated[list[str] | None, typer.Option(help="Another threshold of the gate; once for each.")] = None,
    other: Annotated[list[Path] | None, typer.Option("--model", help="Another boundary model; once for each.")] = None,
    gates: Annotated[bool, typer.Option("--gates", help="Ask with the gates that it is compared with, too.")] = False,
    lm: Annotated[str, typer.Option(help="The LM.")] = "keqa/tiny",
    fresh: Annotated[list[int] | None, typer.Option(help="Seed of further questions; once for each.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where finished work is kept.")] = None,
) -> None:
    learned, dev, test = Settings().questions
    testbed = Testbed(Settings(questions=(learned, dev, max(test, questions))))
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        roles = keqa.build_roles(lm, cache=False)
        compiled = keqa.load(program, None, roles, method="keqa")

        def collected(split: str, count: int) -> Collected:
            asked = getattr(testbed, split)[:count]
            with Journal.open(place / f"{split}.draws", {"split": split, "tries": tries}) as journal:
                return collect(compiled, asked, tries=tries, store=journal, dataset="testbed", split=split)

        model, roots = _model(compiled, lambda: collected("train", train))
        found = check_model(model, [collected("test", questions)], roots)
        write_private(place / "model.json", json.dumps(model.written()).encode())
        keqa_itself, unexamined = METHODS["keqa"], METHODS["keqa-no-qke"]
        specs = [Spec(keqa_itself, {}, "compiled"), Spec(keqa_itself, BEFORE, "before"), Spec(unexamined, {}, "no-qke")]
        specs += [parse_spec(f"gate-boundary:model={place / 'model.json'},threshold={one}") for one in threshold or ()]
        specs += [parse_spec(f"gate-boundary:model={one}") for one in other or ()]
        specs += [parse_spec(f"gate-{name}") for name in GATES if gates]
        parts = Parts(keqa.open_encyclopedia(testbed.passages), roles, program=Path(program))
        cache = stack.enter_context(CallCache(place / "calls.sqlite"))

        def answers(split: str, asked: list[TestbedQuestion], runs: Path) -> Answers:
            data = Questions("testbed", split, 0, asked, settings=of_testbed().settings)
            rows = compare(specs, data, parts, folder=runs, cache=cache)
            stale = [place for place, question in enumerate(asked) if "stale" in question.tiers]
            return Answers({row.spec.label: MethodResult.of(row, 0.0) for row in rows}, stale)

        given = answers("test", testbed.test[:questions], place / "runs")
        others = {}
        for seed in fresh or ():
            more = testbed.more_questions(questions, seed)
            others[seed] = answers(f"more-{seed}", more, place / f"fresh-{seed}")
    console = Console(width=160)
    console.print(_ranking(found))
    console.print(_programs(given, "test questions"))
    for seed, one in others.items():
        console.print(_programs(one, f"further questions, seed {seed}"))
    figures = _figures(given)
    figures |= {"quizzes": found.quizzes, "auroc_boundary": found.mastery.auroc, "auroc_vote": found.vote.auroc}
    figures |= {"prr": found.mastery.prr, "ece": found.mastery.ece}
    print(json.dumps(figures | {f"fresh_{seed}": _figures(one) for seed, one in others.items()}))


class Answers(NamedTuple):
    """What each program answered, and the places of the questions that ask for a fact whose memory is stale."""

    results: dict[str, MethodResult]
    stale: list[int]


def _model(compiled: KEQA, collected: Any) -> tuple[BoundaryModel, list[str]]:
    """The boundary model of a program, or one that is trained now, and the questions that it learned from."""
    gate = compiled.examination.gate
    if isinstance(gate, BoundaryGate):
        return gate.model, list(getattr(gate.model, "roots", []))
    trained = train_light([collected()])
    return trained.model, trained.model.roots


def _figures(answers: Answers) -> dict[str, Any]:
    results, stale = answers
    rows = {name: results[name.replace("_", "-")] for name in ("compiled", "before", "no_qke")}
    return {
        "questions": len(rows["compiled"].f1_scores),
        **{f"f1_{name}": row.f1.mean for name, row in rows.items()},
        **{f"retrievals_{name}": row.retrievals for name, row in rows.items()},
        **{f"calls_{name}": row.calls for name, row in rows.items()},
        "stale_questions": len(stale),
        "stale_right": _right(rows["compiled"], stale),
        **{f"stale_right_{name}": _right(rows[name], stale) for name in ("before", "no_qke")},
    }


def _right(result: MethodResult, places: list[int]) -> float | None:
    """The share of some questions that are answered in the words of a gold answer."""
    return fmean(result.em_scores[place] for place in places) if places else None


def _ranking(found: Figures) -> Table:
    table = Table("decides by", "right from memory", "AUROC", "PRR", "ECE", "Brier", title=f"{found.quizzes} quizzes")
    for name, ranked in (("boundary model", found.mastery), ("vote of five draws", found.vote)):
        cells = (ranked.right, ranked.auroc, ranked.prr, ranked.ece, ranked.brier)
        table.add_row(name, *("" if one is None else f"{one:.3f}" for one in cells))
    return table


def _programs(answers: Answers, asked: str) -> Table:
    results, stale = answers
    heads = ("F1", "EM", "lead of compiled in F1", "retrievals", "LM calls", f"of {len(stale)} stale right")
    compiled = results["compiled"]
    table = Table("program", *heads, title=f"{len(compiled.f1_scores)} {asked}")
    for label, row in results.items():
        lead = "" if row is compiled else interval(row.f1_less(compiled), "+.3f")
        right = _right(row, stale)
        means = (f"{row.retrievals:.2f}", f"{row.calls:.1f}", "" if right is None else f"{right:.3f}")
        table.add_row(label, interval(row.f1, ".3f"), interval(row.em, ".3f"), lead, *means)
    return table


if __name__ == "__main__":
    typer.run(main)
