"""What compiling gained on questions that it has not seen.

    python benchmarks/compiled.py PROGRAM [--questions 200] [--judged 40]

Asks test questions of the testbed of the program as it comes and of the compiled one in the folder PROGRAM; beyond 200,
more come from the same generator. Then lets the utility judge see the passages found for the gold quizzes of so many
test questions, without demonstrations, with random ones and with those of R_u, and prints how often it is right: a
passage helps if it is about the one asked for and states the answer that is true today; it is out of date if it states
what was true once.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import common
from common import interval, show

import keqa
from keqa.data.question import numbered_quizzes, resolved_text
from keqa.evaluation.demo import COMPILED, ask_all
from keqa.evaluation.questions import Questions
from keqa.metrics.answers import tokens
from keqa.metrics.significance import bootstrap_mean
from keqa.programs.keqa import KEQA
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.retrievers import Hit, Retriever
from keqa.testbed.testbed import Testbed, TestbedQuestion, WorldSettings
from keqa.testbed.world import GOLD, World

VARIANTS = {"no reference": "none", "random R'": "random", "R_u": "similar"}
KINDS = ("helpful", "out of date", "others")
Case = tuple[str, Hit, str]


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("program", type=Path, help="folder of the compiled program")
    parser.add_argument("--questions", type=int, default=200, help="test questions to answer")
    parser.add_argument("--judged", type=int, default=40, help="test questions whose quizzes' passages are judged")
    given = parser.parse_args()
    train, dev, test = WorldSettings().questions
    testbed = Testbed(WorldSettings(questions=(train, dev, max(test, given.questions))))
    retriever, roles = keqa.open_encyclopedia(testbed.passages), keqa.build_roles("keqa/tiny", cache=False)
    compiled = keqa.load(given.program, retriever, roles)
    asked = Questions("testbed", "test", 0, testbed.test[: given.questions])
    rows = list(ask_all(asked, retriever, roles, program=given.program, only=("KEQA", COMPILED)))
    show(
        {
            "program": row.method,
            **{"F1": interval(row.f1), "EM": interval(row.em), "gain in F1": interval(rows[0].f1_less(row), "+.2f")},
            **{"retrievals": row.mean("retrievals"), "LM calls": row.mean("requests")},
        }
        for row in rows
    )
    reference = compiled.picking.reference
    assert isinstance(reference, UtilityReference), "the program was compiled without a reference"
    cases = list(_cases(reference, retriever, testbed.world, testbed.test[: given.judged]))
    show(_judged(compiled, reference, variant, cases) for variant in VARIANTS)


def _judged(program: KEQA, reference: UtilityReference, variant: str, cases: Sequence[Case]) -> dict[str, str]:
    reference.variant = VARIANTS[variant]  # type: ignore[assignment]
    right: dict[str, list[float]] = {"right": [], **{kind: [] for kind in KINDS}}
    for quiz, hit, kind in cases:
        good = (program.picking(quiz, [hit])[0].verdict == "helpful") == (kind == "helpful")
        right["right"].append(float(good))
        right[kind].append(float(good))
    shares = {f"{len(of)} {kind}": interval(bootstrap_mean(of)) for kind, of in right.items() if len(of) > 1}
    return {"demonstrations": variant, **shares}


def _cases(
    reference: UtilityReference, retriever: Retriever, world: World, questions: Sequence[TestbedQuestion]
) -> Sequence[Case]:
    """Quizzes and passages that the reference does not hold, and what kind of passage it is."""
    held = {(one.quiz, one.passage) for one in reference.entries}
    once = _once(world)
    cases: dict[tuple[str, str], Case] = {}
    for question in questions:
        golds: dict[int, str | None] = dict(enumerate(question.quiz_answers, start=1))
        for parsed in numbered_quizzes(question.quizzes):
            quiz, gold = resolved_text(parsed, golds) or "", question.quiz_answers[parsed.index - 1]
            for hit in retriever.search(quiz, 10):
                if (quiz, hit.passage.rendered) not in held:
                    cases[quiz, hit.passage.id] = (quiz, hit, _kind(quiz, gold, hit, once))
    return list(cases.values())


def _kind(quiz: str, gold: str, hit: Hit, once: Mapping[tuple[str, str], Sequence[str]]) -> str:
    entity, said = hit.passage.id.split("/")[1], set(tokens(hit.passage.text))
    if entity in quiz and set(tokens(gold)) <= said:
        return "helpful"
    past = once.get((entity, gold), ()) if entity in quiz else ()
    return "out of date" if any(set(tokens(value)) <= said for value in past) else "others"


def _once(world: World) -> dict[tuple[str, str], list[str]]:
    """By entity and what is true of it today: what was true once."""
    once: dict[tuple[str, str], list[str]] = {}
    for fact in world.past:
        today, past = (world.write(fact, GOLD.between, past=outdated) for outdated in (False, True))
        once.setdefault((fact.entity, today), []).append(past)
    return once


if __name__ == "__main__":
    main()
