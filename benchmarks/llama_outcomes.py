"""What a chooser learned from recorded outcomes gains over a trained router: Llama-3.1-8B on four sets of questions.

    python benchmarks/llama_outcomes.py FOLDER [--cost 0.03 0.015 0.005] [--curve]

FOLDER has NAME_dev.jsonl, from which alone everything is learned, and NAME_test.jsonl, by which it is measured, of the
repository of AdaRAGUE: answers closed-book, after one retrieval and by IRCoT, and the choice of Adaptive-RAG's T5-large
router. An answer is right where a gold answer stands in it. One retrieval costs 1, IRCoT 3.5 with that of the question
itself; `in full` a question that is read and then taken apart counts 4.5. Dev questions that share a part with a test
question are left out.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from common import interval, options, read_lines, show
from scipy.stats import rankdata

from keqa.metrics.answers import f1, same_answer
from keqa.metrics.confidence import auroc
from keqa.metrics.significance import Interval, bootstrap_mean, paired_bootstrap
from keqa.optimize.boundary.choosing import Learner, Price, fitted
from keqa.optimize.boundary.outcomes import RecordedOutcome, as_collected, read_outcomes
from keqa.optimize.boundary.train import train_light
from keqa.programs.boundary.chooser import WAYS, Chooser, Features
from keqa.programs.gate import Draws

RETRIEVALS = (0.0, 1.0, 3.5)
READING = Price(0, 1)
APART, IN_FULL = Price(0, 2.5), Price(0, 3.5)
FLAT_COST = 0.01
_TWO = {"quizzes": None, "quizzes_right": None}


class Measured(NamedTuple):
    name: str
    right: list[float]
    retrievals: list[float]


def parts(line: RecordedOutcome) -> set[str]:
    """The questions that a question of MuSiQue is made of, by its id."""
    found = re.fullmatch(r"\d+hop\d*__(.+)", line.id or "")
    return set(found[1].split("_")) if found else set()


def cascade(name: str, chooser: Chooser, test: Sequence[RecordedOutcome], prices: Sequence[Price]) -> Measured:
    right, retrievals = [], []
    for one in test:
        count, spent = 1, 0.0
        while (choice := chooser.choose(one.seen.first(count))).asks_on:
            spent += prices[count - 1].retrievals
            count += 1
        right.append(one.rights[WAYS.index(choice.believed)])
        retrievals.append(spent)
    return Measured(name, right, retrievals)


def flat(learner: Learner, test: Sequence[RecordedOutcome]) -> Measured:
    """One choice, by question and draft, of which way to go."""
    first, last = learner.steps[0], learner.steps[-1]
    heads = [fitted(first.signals, first.terms, last.right[:, place], learner.fold)[0] for place in range(3)]
    places = []
    for one in test:
        features = Features(one.seen.first(1))
        chances = [head.probability(features.signals(0), features.terms(0)) for head in heads]
        places.append(int(np.argmax(np.array(chances) - FLAT_COST * np.array(RETRIEVALS))))
    return one_way(f"flat choice by question and draft, {FLAT_COST:g} a retrieval", test, places)


def one_way(name: str, test: Sequence[RecordedOutcome], places: Sequence[int]) -> Measured:
    right = [one.rights[place] for one, place in zip(test, places, strict=True)]
    return Measured(name, right, [RETRIEVALS[place] for place in places])


def ways(test: Sequence[RecordedOutcome], routed: Sequence[int]) -> list[Measured]:
    """What needs nothing to be learned; the router first."""
    names = ("closed book", "one retrieval", "IRCoT")
    best = [one.rights.index(True) if any(one.rights) else 0 for one in test]
    always = [one_way(name, test, [place] * len(test)) for place, name in enumerate(names)]
    oracle = one_way("oracle, the cheapest that is right", test, best)
    return [one_way("T5-large router", test, routed), *always, oracle]


def resampled(of: Callable[[Any], float], count: int, resamples: int = 500) -> Interval:
    rng = np.random.default_rng(0)
    drawn = [of(rng.integers(0, count, count)) for _ in range(resamples)]
    return Interval(of(np.arange(count)), *map(float, np.quantile(drawn, [0.025, 0.975])))


def area(values: Any, known: Any) -> float:
    return auroc(values[known].tolist(), values[~known].tolist())


def ranking(name: str, scores: Any, router: Any, right: Any, calls: int, retrievals: int) -> dict[str, Any]:
    """A row of AUROCs: of right memories, and the lead over the router on the same questions."""
    lead = resampled(lambda rows: area(scores[rows], right[rows]) - area(router[rows], right[rows]), len(right))
    whole = interval(resampled(lambda rows: area(scores[rows], right[rows]), len(right)))
    found = {"calls": calls, "retrievals": retrievals, "questions": len(right), "AUROC": whole}
    return {"who tells right memories": name, **found, "lead over the router": interval(lead, "+.3f")}


def memories(learner: Learner, test: Sequence[RecordedOutcome], count: int) -> Any:
    head, features = learner.steps[count - 1].regression, [Features(one.seen.first(count)) for one in test]
    return np.array([head.probability(one.signals(0), one.terms(0)) for one in features])


def rankings(learner: Learner, light: Any, test: Sequence[RecordedOutcome], lines: list[dict[str, Any]]) -> list[Any]:
    router = np.array([line["t5_router"]["probabilities"][0] for line in lines])
    right = np.array([one.right for one in test])
    before, after = (memories(learner, test, count) for count in (1, 2))
    quiz = np.array([light.judge(one.question, Draws()).mastery for one in test])
    rows = [
        ranking("T5-large router's P(no retrieval)", router, router, right, 1, 0),
        ranking("light boundary model, reads the question", quiz, router, right, 0, 0),
        ranking("chooser: question, chain and draft", before, router, right, 1, 0),
        ranking("chooser: and the answer of one retrieval", after, router, right, 2, 1),
    ]
    some = np.array([place for place, line in enumerate(lines) if "short_draw" in line], dtype=int)
    if some.size:
        # No short draw is in dev, so that nothing can be learned of them: ranks are added as they are.
        perplexity = np.array([-lines[place]["short_draw"]["perplexity"] for place in some])
        agrees = np.array([f1(lines[place]["short_draw"]["answer"], [test[place].seen.answers[0]]) for place in some])
        here, known = (router[some], right[some]), rankdata
        rows.append(ranking("perplexity of a short draw", perplexity, *here, 1, 0))
        both = known(perplexity) + known(agrees)
        rows.append(ranking("perplexity and agreement with the draft", both, *here, 2, 0))
        rows.append(ranking("chooser: question, chain and draft", before[some], *here, 1, 0))
        rows.append(ranking("chooser: and the answer of one retrieval", after[some], *here, 2, 1))
        rows.append(ranking("and perplexity and agreement", both + 2 * known(after[some]), *here, 3, 1))
    return rows


def _learned_from(learned: Sequence[RecordedOutcome], test: Sequence[RecordedOutcome]) -> dict[str, Any]:
    learner, right = Learner([replaced.model_copy(update=_TWO) for replaced in learned]), [one.right for one in test]
    found: dict[str, Any] = {"dev questions": len(learned)}
    for count, name in ((1, "before retrieval"), (2, "after one")):
        scores, seen = memories(learner, test, count), learner.steps[count - 1]
        held = area(seen.probabilities[:, 0], seen.right[:, 0] > 0)
        found |= {f"{name}, dev held out": held, f"{name}, test": area(scores, np.array(right))}
    return found


def _agreeing(test: Sequence[RecordedOutcome]) -> list[dict[str, Any]]:
    rows = []
    for name, here in (("the same", True), ("another", False)):
        some = [one for one in test if same_answer(*one.seen.answers[:2]) is here]
        right = [one.right for one in some]
        rows.append({"answer of one retrieval": name, "questions": len(some), "memory right": sum(right) / len(some)})
    return rows


def main() -> None:
    given = options(__doc__, "folder", folder=Path, cost=[0.03, 0.015, 0.005], curve=False)
    names = sorted(path.stem.removesuffix("_test") for path in given.folder.glob("*_test.jsonl"))
    test = [one for name in names for one in read_outcomes(given.folder / f"{name}_test.jsonl", measured=True)]
    lines = [line for name in names for line in read_lines(given.folder / f"{name}_test.jsonl")]
    asked = {part for one in test for part in parts(one)} | {one.root for one in test}
    dev = [one for name in names for one in read_outcomes(given.folder / f"{name}_dev.jsonl")]
    learned = [one for one in dev if not asked & {one.root, *parts(one)}]
    learner = Learner(learned)
    routed = ["ABC".index(line["t5_router"]["choice"]) for line in lines]
    router, *fixed, oracle = ways(test, routed)
    rows = [router, *fixed, flat(learner, test)]
    for what, price in (("", APART), (", in full", IN_FULL)):
        for cost in given.cost:
            prices = (READING, price)
            chooser = learner.chooser(0.0, cost, prices).chooser
            rows.append(cascade(f"cascade, {cost:g} a retrieval{what}", chooser, test, prices))
    title = f"{len(test)} test questions; learned from {len(learned)} of {len(dev)} dev questions"
    show([_row(one, router) for one in (*rows, oracle)], title)
    light = train_light([as_collected(learned)], reads="quiz").model
    if given.curve:
        curve = [_learned_from(learned[::step], test) for step in (8, 4, 2, 1)]
        show(curve, "AUROC of right memories by dev questions")
        show(_agreeing(test), "Right memories where the answer of one retrieval is the same, and where it is another")
    show(rankings(learner, light, test, lines), "AUROC of right memories, test questions")


def _row(one: Measured, router: Measured) -> dict[str, Any]:
    lead = None if one is router else interval(paired_bootstrap(one.right, router.right), "+.3f")
    fewer = None if one is router else interval(paired_bootstrap(one.retrievals, router.retrievals), "+.2f")
    return {
        "chooser": one.name,
        "accuracy": interval(bootstrap_mean(one.right)),
        "retrievals": fmean(one.retrievals),
        "accuracy less the router's": lead,
        "retrievals less the router's": fewer,
    }


if __name__ == "__main__":
    main()
