"""What compiling gained on questions that it has not seen.

    python benchmarks/compiled.py PROGRAM

Asks the test questions of the testbed of the program as it comes and of the compiled one in the folder PROGRAM, and
prints F1 and exact match with the paired interval of the gain. Beyond 200 test questions, more come from the same
generator. Then lets the utility judge see the passages found for the gold quizzes of the test questions, without
demonstrations, with random ones and with those of R_u, and prints how often it is right: a passage helps if it is about
the one asked for and states the answer that is true today; it is out of date if it states what was true once.
"""

from pathlib import Path
from typing import Annotated

import typer
from common import interval
from rich.console import Console
from rich.progress import track
from rich.table import Table

import keqa
from keqa.data.question import numbered_quizzes, resolved_text
from keqa.evaluation.demo import COMPILED, ask_all
from keqa.evaluation.questions import Questions
from keqa.metrics.answers import tokens
from keqa.metrics.significance import bootstrap_mean
from keqa.programs.keqa import KEQA
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.retrievers import Hit
from keqa.testbed.testbed import Settings, Testbed, TestbedQuestion
from keqa.testbed.world import GOLD, World

VARIANTS = {"no reference": "none", "random R'": "random", "R_u": "similar"}
KINDS = ("helpful", "out of date", "others")


def main(
    program: Annotated[Path, typer.Argument(help="Folder of the compiled program.")],
    questions: Annotated[int, typer.Option(help="Test questions to answer.")] = 200,
    judged: Annotated[int, typer.Option(help="Test questions whose quizzes' passages are judged.")] = 40,
    lm: Annotated[str, typer.Option(help="The LM.")] = "keqa/tiny",
) -> None:
    train, dev, test = Settings().questions
    testbed = Testbed(Settings(questions=(train, dev, max(test, questions))))
    retriever, roles = keqa.open_encyclopedia(testbed.passages), keqa.build_roles(lm, cache=False)
    compiled = keqa.load(program, retriever, roles)
    console = Console()
    asked = Questions("testbed", "test", 0, testbed.test[:questions])
    before, after = ask_all(asked, retriever, roles, program=program, only=("KEQA", COMPILED))
    title = f"{len(before.f1_scores)} test questions"
    table = Table("program", "F1", "EM", "gain in F1", "retrievals", "LM calls", title=title)
    for row, gain in ((before, ""), (after, interval(before.f1_less(after), "+.2f"))):
        means = (f"{row.retrievals:.2f}", f"{row.calls:.1f}")
        table.add_row(row.method, interval(row.f1), interval(row.em), gain, *means)
    console.print(table)
    console.print(_judging(compiled, testbed, testbed.test[:judged]))


def _judging(program: KEQA, testbed: Testbed, questions: list[TestbedQuestion]) -> Table:
    cases = _cases(program, testbed, questions)
    kinds = [kind for _, _, kind in cases]
    title = f"{len(cases)} passages for {len(questions)} questions"
    heads = [f"{kinds.count(kind)} {kind}" for kind in KINDS]
    table = Table("demonstrations", "right", *heads, title=title)
    reference = program.picking.reference
    assert isinstance(reference, UtilityReference), "the program was compiled without a reference"
    for name, variant in VARIANTS.items():
        reference.variant = variant  # type: ignore[assignment]
        right = [
            float((program.picking(quiz, [hit])[0].verdict == "helpful") == (kind == "helpful"))
            for quiz, hit, kind in track(cases, description=name, transient=True)
        ]
        shares = [[good for good, kind in zip(right, kinds, strict=True) if kind == wanted] for wanted in KINDS]
        table.add_row(name, *(interval(bootstrap_mean(s)) if len(s) > 1 else "" for s in (right, *shares)))
    return table


def _cases(program: KEQA, testbed: Testbed, questions: list[TestbedQuestion]) -> list[tuple[str, Hit, str]]:
    """Quizzes and passages that the reference does not hold, and what kind of passage it is."""
    retriever = keqa.open_encyclopedia(testbed.passages)
    reference = program.picking.reference
    held = {(one.quiz, one.passage) for one in reference.entries} if isinstance(reference, UtilityReference) else set()
    once = _once(testbed.world)
    cases = {}
    for question in questions:
        golds: dict[int, str | None] = dict(enumerate(question.quiz_answers, start=1))
        for parsed in numbered_quizzes(question.quizzes):
            quiz, gold = resolved_text(parsed, golds) or "", question.quiz_answers[parsed.index - 1]
            for hit in retriever.search(quiz, 10):
                if (quiz, hit.passage.rendered) not in held:
                    entity = hit.passage.id.split("/")[1]
                    kind = "others"
                    if entity in quiz and _states(hit, gold):
                        kind = "helpful"
                    elif entity in quiz and any(_states(hit, past) for past in once.get((entity, gold), ())):
                        kind = "out of date"
                    cases[quiz, hit.passage.id] = (quiz, hit, kind)
    return list(cases.values())


def _states(hit: Hit, value: str) -> bool:
    return set(tokens(value)) <= set(tokens(hit.passage.text))


def _once(world: World) -> dict[tuple[str, str], list[str]]:
    """By entity and what is true of it today: what was true once."""
    once: dict[tuple[str, str], list[str]] = {}
    for fact in world.past:
        today, past = (world.write(fact, GOLD.between, past=outdated) for outdated in (False, True))
        once.setdefault((fact.entity, today), []).append(past)
    return once


if __name__ == "__main__":
    typer.run(main)
