"""Learning from recorded outcomes which answer to believe, and when the next step is worth what it costs.

Everything is decided by what regressions of other folds say of a question, so that no threshold is read off questions
that it was fitted to.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from keqa.errors import InputError
from keqa.optimize.boundary.outcomes import RecordedOutcome
from keqa.optimize.logistic import FOLDS, Array, Fit
from keqa.programs.boundary.chooser import PLACES, WAYS, Chooser, Features, Step
from keqa.programs.boundary.light import Regression
from keqa.programs.declared import Way

FEWEST = 50
"""So many questions a step is learned from at least; a few hundred to rely on it."""
_PENALTIES = (2.0, 4.0, 8.0)
_SIGNALS_PENALTY, _LEAST_SCALE = 10.0, 1e-2


class Price(NamedTuple):
    """What a further step takes."""

    calls: float
    retrievals: float


READING, APART = Price(1, 1), Price(6, 2.5)
"""One search and one reading; and what IRCoT and KEQA take beyond, on average, of questions that are taken apart."""


def _always(score: float) -> Regression:
    return Regression(bias=score, signals={}, words=[0.0] * PLACES, slope=1, offset=0)


_PASSED = Step(right=_always(-9), onward=_always(9))
"""A step that always asks on: that of memory, where it was never asked."""


class _Seen(NamedTuple):
    """What is known of questions once there are so many answers."""

    signals: list[dict[str, float]]
    terms: Any
    right: Array
    regression: Regression
    probabilities: Array


class Chosen(NamedTuple):
    """A chooser, and what it does on questions that its regressions have not seen."""

    chooser: Chooser
    accuracy: float
    calls: float
    retrievals: float
    settled: dict[Way, float]
    chances: dict[str, list[float]]
    """How probably each answer to a question is right, of those that there are when it is settled."""


def fitted(signals: Any, terms: Any, target: Array, fold: Any) -> tuple[Regression, Array]:
    """A regression, and what those of the other folds say."""
    how: dict[str, Any] = {"tried": _PENALTIES, "signals_penalty": _SIGNALS_PENALTY, "least_scale": _LEAST_SCALE}
    # A place that no term has is weighed by nothing, and takes time.
    used = np.unique(terms.indices)
    regression, held_out = Fit(signals, terms[:, used], target, np.ones(len(target)), fold, **how).calibrated()
    words = np.zeros(PLACES)
    words[used] = regression.words
    return regression.model_copy(update={"words": words.tolist()}), held_out


class Learner:
    """What answers were right, learned once, from which choosers at any cost follow in seconds."""

    def __init__(self, outcomes: Sequence[RecordedOutcome]) -> None:
        found = {one.question: one for one in outcomes}
        outcomes = sorted(found.values(), key=lambda one: one.root)
        self.questions = [one.question for one in outcomes]
        self.roots = sorted({one.root for one in outcomes})
        order = {root: place % FOLDS for place, root in enumerate(self.roots)}
        count = min((len(one.rights) for one in outcomes), default=0)
        if len(self.roots) < FEWEST:
            raise InputError(f"{len(self.roots)} questions are too few to learn from: {FEWEST} at least")
        self.fold = np.array([order[one.root] for one in outcomes])
        # Where memory is not asked, nothing is decided by its answer.
        self.first = int(count > 1 and not any(one.draft for one in outcomes))
        self.steps = [self._learned(outcomes, answers) for answers in range(self.first + 1, count + 1)]

    def _learned(self, outcomes: Sequence[RecordedOutcome], count: int) -> _Seen:
        features = [Features(one.seen.first(count)) for one in outcomes]
        signals = [one.signals(place) for place in range(count) for one in features]
        terms = sparse.csr_array(np.array([one.terms(place) for place in range(count) for one in features]))
        right = np.array([float(one.rights[place]) for place in range(count) for one in outcomes])
        if len(set(right)) < 2:
            raise InputError("every answer is right, or every one wrong: there is nothing to choose by")
        regression, held_out = fitted(signals, terms, right, np.tile(self.fold, count))
        return _Seen(signals, terms, right.reshape(count, -1).T, regression, held_out.reshape(count, -1).T)

    def chooser(
        self, cost_per_call: float = 0.002, cost_per_retrieval: float = 0.02, prices: Sequence[Price] = (READING, APART)
    ) -> Chosen:
        """The chooser for these costs, in shares of right answers: what a step gains is set against what it takes."""
        if min(cost_per_call, cost_per_retrieval) < 0:
            raise InputError("costs are 0 or more")
        questions, last = np.arange(len(self.fold)), len(self.steps) - 1
        begun, *prices = (Price(1, 0), *prices)[self.first :]
        costs = [cost_per_call * price.calls + cost_per_retrieval * price.retrievals for price in prices]
        # From the last step to the first, since what a step is worth depends on what follows.
        seen = self.steps[last]
        chances, right = seen.probabilities.tolist(), seen.right[questions, seen.probabilities.argmax(1)]
        worth, settled = right, np.full(len(questions), last)
        steps = [Step(right=seen.regression)]
        for place in reversed(range(last)):
            seen, cost = self.steps[place], costs[place]
            first, terms = seen.signals[: len(questions)], seen.terms[: len(questions)]
            onward, expected = fitted(first, terms, np.clip(worth, 0, 1), self.fold)
            asks_on = expected - cost > seen.probabilities.max(1)
            right = np.where(asks_on, right, seen.right[questions, seen.probabilities.argmax(1)])
            own = seen.probabilities.tolist()
            chances = [later if on else now for on, later, now in zip(asks_on, chances, own, strict=True)]
            worth = np.where(asks_on, worth - cost, right)
            settled = np.where(asks_on, settled, place)
            steps.insert(0, Step(right=seen.regression, onward=onward, cost=cost))
        taken = [(settled > place).mean() for place in range(last)]
        spent = (share * np.array(price) for share, price in zip(taken, prices, strict=False))
        calls, retrievals = np.array(begun) + sum(spent, np.zeros(2))
        shares = {way: float((settled == place).mean()) for place, way in enumerate(WAYS[self.first :][: last + 1])}
        chooser = Chooser(steps=[_PASSED] * self.first + steps, roots=self.roots)
        by_question = dict(zip(self.questions, chances, strict=True))
        return Chosen(chooser, float(right.mean()), float(calls), float(retrievals), shares, by_question)
