"""What a boundary model gains: how it ranks memory, and a program that it decides for beside one that votes.

    python benchmarks/boundary.py [PROGRAM] [--questions 400] [--threshold 0.5] [--fresh 1] [--folder FOLDER]

PROGRAM is the folder of a compiled KEQA whose gate has a boundary model, by default the one that ships. Ten draws are
collected to the gold quizzes of test questions of the testbed, by which the model is checked, and the vote of five
draws. Then three programs are asked the same test questions, beyond 200 of them those that the same generator draws:
the program as it is (compiled); itself with KEQA's vote at 4/5, each passage judged by itself and one quiz not
summarized (before); and itself without examination, which searches for every quiz (w/o QKE). --fresh SEED asks them all
as many further questions about the same world, of another seed. --threshold adds the boundary model at another
threshold; both may be given more than once. With --folder the same command resumes.
"""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

import common
from common import interval, show

import keqa
from keqa.evaluation.compare import compare
from keqa.evaluation.demo import MethodResult
from keqa.evaluation.questions import Questions, of_testbed
from keqa.evaluation.reports import read_brief
from keqa.optimize.boundary import check_model, collect
from keqa.optimize.boundary.collect import write_private
from keqa.programs.build import Parts
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.registry import METHODS, Spec, parse_spec
from keqa.storage.journal import Journal
from keqa.testbed.testbed import Testbed, TestbedQuestion, WorldSettings

BEFORE = {
    "threshold": "4/5",
    "listwise": False,
    "summarize_single": False,
    "summarize_known": False,
    "prefer_reliable": False,
    "on_nothing_helpful": "largest_cluster",
}
"""The settings of the program as it was before there were boundary models."""

TRIES = 10


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("program", nargs="?", default="testbed", help="folder of a compiled program")
    parser.add_argument("--questions", type=int, default=400, help="test questions to check on and to ask")
    parser.add_argument("--threshold", action="append", default=[], help="another threshold of the gate")
    parser.add_argument("--fresh", type=int, action="append", default=[], help="seed of further questions")
    parser.add_argument("--folder", type=Path, help="where finished work is kept")
    given = parser.parse_args()
    learned, dev, test = WorldSettings().questions
    testbed = Testbed(WorldSettings(questions=(learned, dev, max(test, given.questions))))
    asked, roles = testbed.test[: given.questions], keqa.build_roles("keqa/tiny", cache=False)
    with ExitStack() as stack:
        place = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place.mkdir(parents=True, exist_ok=True)
        compiled = keqa.load(given.program, None, roles, method="keqa")
        model = compiled.examination.gate.model
        with Journal.open(place / "test.draws", {"split": "test", "tries": TRIES}) as journal:
            collected = collect(compiled, asked, tries=TRIES, store=journal, dataset="testbed", split="test")
        found = check_model(model, [collected], list(getattr(model, "roots", [])))
        write_private(place / "model.json", json.dumps(model.written()).encode())
        specs = [Spec(METHODS["keqa"], {}, "compiled"), Spec(METHODS["keqa"], BEFORE, "before")]
        specs.append(Spec(METHODS["keqa-no-qke"], {}, "no-qke"))
        specs += [parse_spec(f"gate-boundary:model={place / 'model.json'},threshold={one}") for one in given.threshold]
        parts = Parts(keqa.open_encyclopedia(testbed.passages), roles, program=Path(given.program))
        cache = stack.enter_context(CallCache(place / "calls.sqlite"))
        ranked = {"boundary model": found.mastery, "vote of five draws": found.vote}
        names = ("right", "auroc", "prr", "ece", "brier")
        rows = ({"decides by": by, **{name: getattr(of, name) for name in names}} for by, of in ranked.items())
        show(rows, f"{found.quizzes} quizzes")
        splits = {"test": (asked, place / "runs")}
        for seed in given.fresh:
            splits[f"more-{seed}"] = (testbed.more_questions(given.questions, seed), place / f"fresh-{seed}")
        for split, (questions, runs) in splits.items():
            data = Questions("testbed", split, 0, questions, settings=of_testbed().settings)
            asked_rows = compare(specs, data, parts, folder=runs, cache=cache)
            results = [MethodResult(row.spec.label, read_brief(row.path).lines) for row in asked_rows]
            _show(split, {one.method: one for one in results}, questions)


def _show(split: str, results: dict[str, MethodResult], questions: list[TestbedQuestion]) -> None:
    # Those that ask for a fact whose memory is stale.
    stale = [place for place, question in enumerate(questions) if "stale" in question.tiers]
    compiled, rows = results["compiled"], []
    for label, row in results.items():
        lead = None if row is compiled else interval(row.f1_less(compiled), "+.3f")
        figures = {"program": label, "F1": interval(row.f1), "EM": interval(row.em), "lead of compiled in F1": lead}
        figures |= {"retrievals": row.mean("retrievals"), "LM calls": row.mean("requests")}
        right = fmean(row.scores("em")[place] for place in stale) if stale else None
        rows.append(figures | {f"of {len(stale)} stale right": right})
    show(rows, f"{len(questions)} questions, {split}", digits=2)


if __name__ == "__main__":
    main()
