"""What compiling gained on questions that it has not seen.

    python benchmarks/compiled.py PROGRAM

Asks the test questions of the testbed of the program as it comes and of the compiled one in the folder PROGRAM, and
prints F1 and exact match with the paired interval of the gain. Then lets the utility judge see the passages found for
the gold quizzes of the test questions, without demonstrations, with random ones and with those of R_u, and prints how
often it is right: a passage helps if it is about the one asked for and tells the answer that is true today.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

import keqa
from keqa.demo import compare
from keqa.metrics.answers import tokens
from keqa.metrics.significance import Interval, bootstrap_mean, paired_bootstrap
from keqa.programs.keqa import KEQA
from keqa.programs.references import parse, resolve
from keqa.programs.utility_reference import UtilityReference
from keqa.retrievers import Hit
from keqa.testbed.testbed import Testbed, TestbedQuestion

VARIANTS = {"no reference": "none", "random R'": "random", "R_u": "similar"}


def main(
    program: Annotated[Path, typer.Argument(help="Folder of the compiled program.")],
    questions: Annotated[int, typer.Option(help="Test questions to answer.")] = 200,
    judged: Annotated[int, typer.Option(help="Test questions whose quizzes' passages are judged.")] = 40,
    lm: Annotated[str, typer.Option(help="The LM.")] = "keqa/tiny",
) -> None:
    testbed = Testbed()
    retriever, roles = keqa.open_encyclopedia(testbed.passages), keqa.build_roles(lm, cache=False)
    compiled = keqa.load(program, retriever, roles)
    console = Console()
    methods = {"as it comes": KEQA(retriever, lms=roles), "compiled": compiled}
    before, after = compare(methods, testbed.test[:questions])
    table = Table("program", "F1", "EM", "gain in F1", "retrievals", "LM calls", title=f"{questions} test questions")
    gain = paired_bootstrap(after.f1_scores, before.f1_scores)
    for row, gained in ((before, ""), (after, _written(gain, sign=True))):
        means = (f"{row.retrievals:.2f}", f"{row.calls:.1f}")
        table.add_row(row.method, _written(row.f1), _written(row.em), gained, *means)
    console.print(table)
    console.print(_judging(compiled, testbed, testbed.test[:judged]))


def _judging(program: KEQA, testbed: Testbed, questions: list[TestbedQuestion]) -> Table:
    cases = _cases(program, testbed, questions)
    helpful = [truth for _, _, truth in cases]
    title = f"{len(cases)} passages for {len(questions)} questions, {sum(helpful)} of them helpful"
    table = Table("demonstrations", "right", "of the helpful", "of the others", title=title)
    reference = program.picking.reference
    assert isinstance(reference, UtilityReference), "the program was compiled without a reference"
    for name, variant in VARIANTS.items():
        reference.variant = variant  # type: ignore[assignment]
        right = [
            (program.picking(quiz, [hit])[0].verdict == "helpful") == truth
            for quiz, hit, truth in track(cases, description=name, transient=True)
        ]
        pairs = list(zip(right, helpful, strict=True))
        shares = [[float(good) for good, truth in pairs if truth is wanted] for wanted in (True, False)]
        cells = [_written(bootstrap_mean([float(good) for good in right]))]
        table.add_row(name, *cells, *(f"{sum(share) / len(share):.2f}" for share in shares))
    return table


def _cases(program: KEQA, testbed: Testbed, questions: list[TestbedQuestion]) -> list[tuple[str, Hit, bool]]:
    """Quizzes and passages that the reference does not hold, and whether the passage helps."""
    retriever = keqa.open_encyclopedia(testbed.passages)
    reference = program.picking.reference
    held = {(one.quiz, one.passage) for one in reference.entries} if isinstance(reference, UtilityReference) else set()
    cases = {}
    for question in questions:
        golds: dict[int, str | None] = dict(enumerate(question.quiz_answers, start=1))
        for parsed in parse(question.quizzes):
            quiz, gold = resolve(parsed, golds) or "", question.quiz_answers[parsed.index - 1]
            for hit in retriever.search(quiz, 10):
                entity = hit.passage.id.split("/")[1]
                told = set(tokens(gold)) <= set(tokens(hit.passage.text))
                if (quiz, hit.passage.rendered) not in held:
                    cases[quiz, hit.passage.id] = (quiz, hit, told and entity in quiz)
    return list(cases.values())


def _written(interval: Interval, *, sign: bool = False) -> str:
    mean, low, high = (
        f"{value:+.2f}" if sign else f"{value:.2f}" for value in (interval.mean, interval.low, interval.high)
    )
    return f"{mean} [{low}, {high}]"


if __name__ == "__main__":
    typer.run(main)
