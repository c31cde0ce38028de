"""What fine-tuning is worth on the testbed, beside demonstrations: F1, prompt tokens and calls a question.

    python benchmarks/finetuning.py --out runs/finetuning [--epochs 3] [--rate 0.001] [--questions 200]

Compiles the program by bootstrapped demonstrations, by fine-tuning the language model on its right calls (LoRA; the
teacher is the program with demonstrations), and by DSPy's BetterTogether (demonstrations, then weights), all from the
same 200 training and 100 validation questions; then asks all of them and the program as it comes the same test
questions. Everything finished is kept: the same command resumes.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import common
import dspy
from common import interval, show

import keqa
from keqa.evaluation.questions import of_testbed
from keqa.evaluation.run_file import iter_lines
from keqa.metrics.significance import bootstrap_mean, paired_bootstrap
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program

LM = "keqa/tiny"
PROGRAMS = ("bootstrap", "uncompiled", "finetune", "bettertogether")
# Settings and the utility reference would be gains of other steps.
PLAIN: dict[str, Any] = {"tuning": False, "reference": False, "in_flight": 8}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/finetuning"), help="where finished work is kept")
    parser.add_argument("--epochs", type=int, default=3, help="of fine-tuning")
    parser.add_argument("--rate", type=float, default=1e-3, help="of fine-tuning")
    parser.add_argument("--train", type=int, default=200, help="training questions; half as many choose")
    parser.add_argument("--questions", type=int, default=200, help="test questions")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    counts = {"train": given.train, "dev": given.train // 2, "test": given.questions}
    learnt, chosen, tested = (list(of_testbed(split).examples)[:count] for split, count in counts.items())
    training = {"epochs": given.epochs, "rate": given.rate}
    out = given.out / f"{given.train}-{given.epochs}-{given.rate:g}"
    out.mkdir(exist_ok=True)
    rows, before = [], None
    for name in PROGRAMS:
        began, minutes = time.monotonic(), out / f"{name}.minutes"
        program = _made(name, learnt, chosen, given.out / f"bootstrap-{given.train}", out, training)
        if not minutes.exists():
            minutes.write_text(f"{(time.monotonic() - began) / 60:.1f}")
        run = out / f"{name}.jsonl"
        keqa.evaluate(program, tested, out=run, in_flight=PLAIN["in_flight"])
        lines = sorted(iter_lines(run), key=lambda line: str(line.id))
        scores, costs = [line.scores["f1"] for line in lines], [line.record.cost for line in lines if line.record]
        before = before or scores
        row = {"program": name, "F1": interval(bootstrap_mean(scores))}
        row |= {"than bootstrap": interval(paired_bootstrap(scores, before), "+.3f")}
        row["prompt tokens"] = fmean(sum(role.prompt_tokens for role in one.by_role.values()) for one in costs)
        row |= {"LM calls": fmean(one.samples for one in costs), "retrievals": fmean(one.retrievals for one in costs)}
        rows.append(row | {"minutes to make": minutes.read_text()})
    show(rows, digits=1)


def _made(name: str, learnt: list[Any], chosen: list[Any], shown: Path, out: Path, training: dict[str, Any]) -> Program:
    program = KEQA(keqa.open_encyclopedia(), lms=keqa.build_roles(LM, cache=False))
    if name == "uncompiled":
        return program
    if name == "bettertogether":
        return _together(program, learnt, chosen, out, training)
    program = keqa.compile(program, learnt, chosen, folder=shown, **PLAIN).program
    if name == "bootstrap":
        return program
    how = {**PLAIN, "optimizer": "finetune", "training": training}
    return keqa.compile(program, learnt, chosen, folder=out / "finetune", **how).program


def _together(program: KEQA, learnt: list[Any], chosen: list[Any], out: Path, training: dict[str, Any]) -> Program:
    """DSPy's own way: demonstrations, then weights, both by the metric for its optimizers; it keeps the best step."""
    adapter, kept = out / "adapter", out / "kept"
    if not kept.exists():
        metric, threads = keqa.optimizer_metric(), PLAIN["in_flight"]
        weights = {**training, "folder": str(adapter)}
        together = dspy.BetterTogether(
            metric,
            p=dspy.BootstrapFewShot(metric, max_bootstrapped_demos=4, max_labeled_demos=0),
            w=dspy.BootstrapFinetune(metric, exclude_demos=True, num_threads=threads, train_kwargs=weights),
        )
        train, val = ([_example(one) for one in some] for some in (learnt, chosen))
        learned = together.compile(program, trainset=train, valset=val, strategy="p -> w", num_threads=threads)
        tuned = Path(learned.get_lm().engine.path) == adapter.resolve()
        keqa.save(learned, kept, model=f"transformers/{adapter}" if tuned else LM)
    model = json.loads((kept / "program.json").read_text())["about"]["model"]
    return keqa.load(kept, keqa.open_encyclopedia(), keqa.build_roles(model, cache=False))


def _example(one: Any) -> dspy.Example:
    fields = {name: list(getattr(one, name)) for name in ("choices", "quizzes", "quiz_answers")}
    asked = {"question": one.question, "answer": one.answers[0], "answer_type": one.answer_type}
    return dspy.Example(**asked, **fields).with_inputs("question", "answer_type", "choices")


if __name__ == "__main__":
    main()
