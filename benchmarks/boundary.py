"""How well T_c tells what an LM knows.

    python benchmarks/boundary.py

Examines 400 facts of the testbed, drawn over all tiers in their shares, and prints T_c by tier, the AUROC of facts told
often against facts never told, and the AUROC over all tiers, where stale facts count as unknown.
"""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from keqa.lms import build_roles
from keqa.metrics.answers import same_answer
from keqa.metrics.gates import auroc
from keqa.programs.examination import Assessment, Examination
from keqa.programs.gates import CertaintyGate
from keqa.testbed.relations import RELATIONS
from keqa.testbed.testbed import Testbed
from keqa.testbed.world import Convention, Fact

TIERS = ("often", "sometimes", "stale", "never")


def main(
    lm: Annotated[str, typer.Option(help="The LM to examine.")] = "keqa/tiny",
    facts: Annotated[int, typer.Option(help="Facts to examine.")] = 400,
    tries: Annotated[int, typer.Option(help="N_c.")] = 5,
) -> None:
    testbed = Testbed()
    chosen = random.Random("boundary").sample(testbed.world.facts(), facts)
    # A gate that needs all draws: what is measured is T_c, not the cost of finding a verdict.
    examination = Examination(tries=tries, gate=CertaintyGate())
    examination.bind_lms(build_roles(lm))

    def examine(fact: Fact) -> Assessment:
        return examination(RELATIONS[fact.relation].asks[0].format(e=fact.entity))

    with ThreadPoolExecutor(16) as pool:
        found = list(track(pool.map(examine, chosen), total=facts, description="examining", transient=True))
    scores: dict[str, list[Fraction]] = {tier: [] for tier in TIERS}
    right: Counter[str] = Counter()
    for fact, assessment in zip(chosen, found, strict=True):
        tier = testbed.tiers.tier[fact]
        scores[tier].append(assessment.votes.consistency)
        golds = {testbed.world.write(fact, Convention(form, short)) for form in range(3) for short in (False, True)}
        right[tier] += any(same_answer(assessment.answer or "", gold) for gold in golds)
    table = Table("tier", "facts", "mean T_c", "T_c >= .8", "answer right", title=f"{facts} facts, {tries} tries, {lm}")
    for tier in TIERS:
        values = scores[tier]
        reached = sum(value >= Fraction(4, 5) for value in values) / len(values)
        mean = float(sum(values) / len(values))
        table.add_row(tier, str(len(values)), f"{mean:.2f}", f"{reached:.2f}", f"{right[tier] / len(values):.2f}")
    console = Console()
    console.print(table)
    console.print(f"AUROC, often against never: {auroc(scores['often'], scores['never']):.3f}")
    known = [*scores["often"], *scores["sometimes"]]
    unknown = [*scores["never"], *scores["stale"]]
    console.print(f"AUROC, often and sometimes against never and stale: {auroc(known, unknown):.3f}")


if __name__ == "__main__":
    typer.run(main)
