"""What a compiled program gains on questions that it has not seen, and what its parts have learned.

    python benchmarks/compiled.py [PROGRAM] [--questions 400] [--judged 40] [--threshold 0.5] [--fresh 1]
        [--folder FOLDER]

PROGRAM is the folder of a compiled KEQA with a boundary model and a utility reference, by default the one that ships.
Asked the same test questions of the testbed (beyond 200 those that the same generator draws) are KEQA as it comes; the
program as it is (compiled); and itself searching for every quiz (no-qke). --fresh SEED asks as many further questions
about the same world, of another seed; --threshold adds the boundary model at another threshold; both may be given more
than once. With --folder the same command resumes.

Ten draws are collected to the gold quizzes of the questions, by which the boundary model is checked, and the vote of
five draws. Then the utility judge sees the passages found for the gold quizzes of so many questions (--judged), without
demonstrations, with random ones and with those of R_u: a passage helps if it is about the one asked for and states the
answer that is true today; it is out of date if it states what was true once.

    python benchmarks/compiled.py --sweep [--questions 40]

Where KEQA wins and where it loses: the testbed over known share, distracting paragraphs and sources out of date. The
program is the one that ships; no question that it learned from is asked.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import fmean

from common import interval, options, show, working_in

import keqa
from keqa.evaluation.compare import compare
from keqa.evaluation.demo import COMPILED, MethodResult, ask_all
from keqa.evaluation.questions import Questions, of_testbed
from keqa.evaluation.reports import entries_of, read_brief
from keqa.metrics.answers import tokens
from keqa.metrics.significance import bootstrap_mean
from keqa.optimize.alignment import gold_quizzes
from keqa.optimize.boundary.check import check_model
from keqa.optimize.boundary.collect import collect, write_private
from keqa.programs.build import Parts
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.keqa import KEQA
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.registry import METHODS, Spec, parse_spec
from keqa.retrievers import Hit, Retriever
from keqa.storage.journal import Journal
from keqa.testbed.testbed import Testbed, TestbedQuestion, WorldSettings
from keqa.testbed.world import GOLD, World

TRIES = 10
VARIANTS = {"no reference": "none", "random R'": "random", "R_u": "similar"}
SWEPT = ("closed book", "always retrieve, reasoning", "KEQA", COMPILED)
KINDS = ("helpful", "out of date", "others")
Case = tuple[str, Hit, str]


def main() -> None:
    known = {"questions": int, "judged": 40, "threshold": [str], "fresh": [int], "folder": Path}
    given = options(__doc__, "program", program="testbed", sweep=False, **known)
    if given.sweep:
        return sweep(given.questions or 40)
    given.questions = given.questions or 400
    learned, dev, test = WorldSettings().questions
    testbed = Testbed(WorldSettings(questions=(learned, dev, max(test, given.questions))))
    asked, roles = testbed.test[: given.questions], keqa.build_roles("keqa/tiny", cache=False)
    retriever = keqa.open_encyclopedia(testbed.passages)
    with working_in(given.folder) as place, CallCache(place / "calls.sqlite") as cache:
        compiled = keqa.load(given.program, retriever, roles, method="keqa")
        model, reference = compiled.examination.gate.model, compiled.picking.reference
        assert isinstance(reference, UtilityReference), "the program was compiled without a reference"
        with Journal.open(place / "test.draws", {"split": "test", "tries": TRIES}) as journal:
            collected = collect(compiled, asked, tries=TRIES, store=journal, dataset="testbed", split="test")
        found = check_model(model, [collected])
        write_private(place / "model.json", json.dumps(model.written()).encode())
        specs = [Spec(METHODS["keqa"], {}, "compiled"), Spec(METHODS["keqa-no-qke"], {}, "no-qke")]
        specs += [parse_spec(f"gate-boundary:model={place / 'model.json'},threshold={one}") for one in given.threshold]
        plain, parts = Parts(retriever, roles), Parts(retriever, roles, program=Path(given.program))
        ranked = {"boundary model": found.mastery, "vote of five draws": found.vote}
        show(({"decides by": by, **asdict(of)} for by, of in ranked.items()), f"{found.quizzes} quizzes")
        splits = {"test": (asked, place / "runs")}
        for seed in given.fresh:
            splits[f"more-{seed}"] = (testbed.more_questions(given.questions, seed), place / f"fresh-{seed}")
        for split, (questions, runs) in splits.items():
            data = Questions("testbed", split, 0, questions, settings=of_testbed().settings)
            made = [([Spec(METHODS["keqa"], {}, "as it comes")], plain), (specs, parts)]
            ended = [row for some, of in made for row in compare(some, data, of, folder=runs, cache=cache)]
            _show(split, [MethodResult(entries_of([read_brief(row.path)])[0]) for row in ended], questions)
    cases = list(_cases(reference, retriever, testbed.world, testbed.test[: given.judged]))
    show(_judged(compiled, reference, variant, cases) for variant in VARIANTS)


def sweep(count: int) -> None:
    default, usual = WorldSettings(), Testbed()
    learned = {question.question for question in (*usual.train, *usual.dev)}
    swept = [(share, noise, default.stale_sources) for noise, share in product((0, 1, 4), (0, 0.5, 1))]
    swept += [(0.5, default.distractors, sources) for sources in (0, 1)]
    roles, rows = keqa.build_roles("keqa/tiny"), []
    with tempfile.TemporaryDirectory() as folder:
        for number, (share, noise, sources) in enumerate(swept):
            settings = WorldSettings(distractors=noise, stale_sources=sources, known=share, questions=(0, 0, 4 * count))
            testbed, index = Testbed(settings), Path(folder) / str(number)
            asked = [question for question in testbed.test if question.question not in learned][:count]
            keqa.build_index(testbed.passages, index, language="en")
            given = Questions("testbed", "test", 0, asked)
            found = {row.method: row for row in ask_all(given, keqa.open_index(index), roles, only=SWEPT)}
            row = {"known": float(share), "distractors": noise, "out of date": sources}
            row |= {f"{name} F1": found[name].f1.mean for name in SWEPT}
            row |= {"retrievals": found[COMPILED].mean("retrievals")}
            rows.append(row | {"lead over retrieving": interval(found[SWEPT[1]].f1_less(found[COMPILED]), "+.2f")})
    show(rows, digits=2)


def _show(split: str, results: list[MethodResult], questions: list[TestbedQuestion]) -> None:
    # Those that ask for a fact whose memory is stale.
    stale = [place for place, question in enumerate(questions) if "stale" in question.tiers]
    compiled, rows = next(row for row in results if row.method == "compiled"), []
    for row in results:
        lead = None if row is compiled else interval(row.f1_less(compiled), "+.3f")
        figures = {"program": row.method, "F1": interval(row.f1), "EM": interval(row.em)}
        figures |= {"lead of compiled in F1": lead, "retrievals": row.mean("retrievals")}
        right = fmean(row.scores("em")[place] for place in stale) if stale else None
        rows.append(figures | {"LM calls": row.mean("requests"), f"of {len(stale)} stale right": right})
    show(rows, f"{len(questions)} questions, {split}", digits=2)


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
    held = {(one.quiz, one.passage) for one in reference.entries}
    # By entity and what is true of it today: what was true once.
    once: dict[tuple[str, str], list[str]] = {}
    for fact in world.past:
        today, past = (world.write(fact, GOLD.between, past=outdated) for outdated in (False, True))
        once.setdefault((fact.entity, today), []).append(past)
    cases: dict[tuple[str, str], Case] = {}
    for question in questions:
        for quiz, gold in gold_quizzes(question):
            for hit in retriever.search(quiz, 10):
                if (quiz, hit.passage.rendered) not in held:
                    cases[quiz, hit.passage.id] = (quiz, hit, _kind(quiz, gold, hit, once))
    return list(cases.values())


def _kind(quiz: str, gold: str, hit: Hit, once: Mapping[tuple[str, str], Sequence[str]]) -> str:
    entity, words = hit.passage.id.split("/")[1], set(tokens(hit.passage.text))
    if entity in quiz and set(tokens(gold)) <= words:
        return "helpful"
    past = once.get((entity, gold), ()) if entity in quiz else ()
    return "out of date" if any(set(tokens(value)) <= words for value in past) else "others"


if __name__ == "__main__":
    main()
