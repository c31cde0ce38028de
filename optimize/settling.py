"""By what a compiled program settles questions: memory, one reading, their quizzes, or what a chooser makes of these.

Each way is scored on the validation questions with the settings that were tuned for the quizzes, and what it takes is
counted; and on the training questions, for a few validation questions tell ways apart by chance alone. So that the
whole is never worse than its parts, the cheapest way is kept of those that are as good as the best: not more than a
standard error of the paired difference below it, or than what the best costs more, and never more than two hundredths.
Memory alone gives up the index, and is kept only where it is ahead of all that search beyond chance. The chooser is
learned from what each way answers to the training questions, and scored on them by what those of other folds choose;
from their quizzes the arbiter between memory and passages is learned. What documents of one's own are asked without
compiling is one of the cascades. No question is shown demonstrations that were made from it.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from math import fsum
from statistics import fmean
from typing import Any, NamedTuple, Self

from keqa.data.example import Example
from keqa.errors import InputError
from keqa.metrics.answers import is_abstention, same_answer
from keqa.metrics.significance import paired_bootstrap
from keqa.optimize.alignment import Settled, settled_quizzes
from keqa.optimize.asking import Calls, Trace
from keqa.optimize.boundary.choosing import Learner, Price
from keqa.optimize.boundary.outcomes import RecordedOutcome
from keqa.optimize.tuning import SETTLE, Point, Tuning
from keqa.programs.boundary.chooser import WAYS, Chooser
from keqa.programs.gate import leader
from keqa.programs.keqa import KEQA
from keqa.programs.records import QuestionRecord
from keqa.programs.settings import as_asked

CASCADE = "cascade"
TITLES = {
    "draft": "memory alone",
    "reading": "one search and one reading",
    "quizzes": "taking apart",
    CASCADE: "one after the other",
}
"""What each way is, in words."""
_FACTORS = (1, 2, 4)
"""Choosers are tried for so many times the costs: what is learned from few questions may expect too much of a step."""
_STANDARD_ERRORS = 2 * 1.96
"""So many of them is an interval of 95 % wide."""
_WORTH = 0.02
"""What is so far below the best is worse, however few questions there are to tell: a standard error of 25 is .1."""

FEWEST = 25
"""By fewer questions no way is chosen: the standard error of a score on so many is about .1."""
_LEAST_FOUND = 0.2
"""A smaller share of training questions whose answer stands in what is found says that the index is of other things."""


def too_few(*questions: Sequence[Example]) -> str | None:
    """How many questions there are, in words, where that is too few to choose a way by; each counts once."""
    found = len({one for some in questions for one in some})
    return f"{found} questions are too few" if found < FEWEST else None


def as_good(one: Sequence[float], best: Sequence[float]) -> bool:
    """Whether scores are at most a standard error, by the paired bootstrap, and two hundredths below the best."""
    lead = (fsum(best) - fsum(one)) / len(best)
    if lead <= 0 or lead > _WORTH:
        return lead <= 0
    behind = paired_bootstrap(best, one) if len(best) > 1 else None
    return behind is not None and behind.mean <= (behind.high - behind.low) / _STANDARD_ERRORS


def _ahead(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether scores are beyond chance above others, by the paired bootstrap; of one question there is no telling."""
    return len(one) > 1 and paired_bootstrap(one, other).low > 0


class Tried(NamedTuple):
    """A way that was tried, the choosers that it goes by, and the training questions as it answers them, if it was."""

    point: Point
    choosers: Mapping[str, Chooser]
    answered: tuple[Trace, ...] = ()

    @property
    def way(self) -> str:
        return str(self.point.settings[SETTLE])

    @property
    def trained(self) -> tuple[float, ...]:
        return tuple(one.score for one in self.answered)

    @property
    def scores(self) -> tuple[float, ...]:
        """What it scores on all questions that it was asked."""
        return self.point.scores + self.trained

    @property
    def score(self) -> float:
        """Their mean, by which ways are compared."""
        return fmean(self.scores)

    @property
    def objective(self) -> float:
        """The same less what it costs, as the validation questions say it."""
        return self.score - self.point.score + self.point.objective


def cheapest_of_the_best(tried: Sequence[Tried]) -> Tried:
    """Of the ways that are as good as the best, the one with the fewest calls, then the fewest searches.

    What the best is ahead by has to be worth what it costs more, too.
    """
    searching = [one for one in tried if one.way != "draft"]
    for memory in tried:
        if memory.way == "draft" and all(_ahead(memory.scores, one.scores) for one in searching):
            return memory
    best = max(searching, key=lambda one: one.score)
    good = [
        one
        for one in searching
        if as_good(one.scores, best.scores) or (one.objective >= best.objective and best.score - one.score <= _WORTH)
    ]
    return min(good, key=lambda one: (round(one.point.calls, 9), round(one.point.retrievals, 9), -one.point.score))


@dataclass
class Ways:
    """The ways that a tuned program may settle questions, and the one that is kept."""

    tuning: Tuning
    train: Sequence[Example]
    threshold: float
    """From what score on an answer is right."""
    tried: list[Tried] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    asked: Tried | None = None
    """The cascade as which documents of one's own are asked where nothing was compiled."""

    def run(self) -> Self:
        """Score all ways, the chooser last: where memory alone is ahead of all others, nothing could be cheaper."""
        tuning = self.tuning
        ways = [way for way in TITLES if way in tuning.values[SETTLE]]
        for done, way in enumerate(ways, start=1):
            if way == CASCADE:
                self._cascade()
            else:
                own = way == tuning.best.settings[SETTLE]
                found = Tried(tuning.best, {}) if own else self._measured(way)
                forms = [self._trained(one) for one in (found, *self._formed(found))]
                self.tried.append(max(forms, key=lambda one: one.objective))
            tuning.asking.progress("settling", done, len(ways))
        self._look_for_answers()
        return self

    @property
    def kept(self) -> Tried:
        return cheapest_of_the_best(self.tried)

    @property
    def program(self) -> KEQA:
        return self.tuning.program_of(self.kept.point.settings, **self.kept.choosers)

    @property
    def why(self) -> str:
        kept, memory = self.kept, next((one for one in self.tried if one.way == "draft"), None)
        searching = [one for one in (*self.tried, self.asked) if one is not None and one is not memory]
        best = max((one for one in searching if kept is not memory), key=lambda one: one.score, default=kept)
        arbiter = ", with an arbiter between memory and passages" if "arbiter" in kept.choosers else ""
        chosen = f"{TITLES[kept.way]} ({kept.way}){arbiter} is kept"
        if kept.score < best.score:
            by = "within a standard error" if as_good(kept.scores, best.scores) else "for what that costs more"
            those = "what keqa ask does" if best is self.asked else best.way
            why = f"it is as good as {those}, {by}, and costs less"
        else:
            rest = [one for one in searching if one is not kept and as_good(one.scores, kept.scores)]
            more = "of those as good it takes the fewest LM calls" if rest else "no other is as good"
            why = f"nothing scores better on validation and training questions together, and {more}"
        if memory is not None and kept is not memory and as_good(memory.scores, kept.scores):
            why = why.replace("nothing", "nothing that searches") + "; memory alone is not ahead beyond chance"
        return f"{chosen}: {why}"

    def about(self) -> dict[str, Any]:
        names = ("score", "calls", "retrievals", "tokens")
        ways = [
            {"settle": one.way, "is": TITLES[one.way], **{name: getattr(one.point, name) for name in names}}
            | ({"training_score": fmean(one.trained)} if one.trained else {})
            for one in self.tried
        ]
        return {"ways": ways, "kept": self.kept.way, "why": self.why}

    def _measured(self, way: str, form: Mapping[str, Any] | None = None, **choosers: Chooser) -> Tried:
        """A way with what was tuned for the quizzes; where its form is left open, reading also without picking."""
        choice = {**self.tuning.best.settings, SETTLE: way, **(form or {})}
        reads = form is None and way == "reading" and False in self.tuning.values["pick"]
        forms = [choice, {**choice, "pick": False}] if reads and choice["pick"] else [choice]
        points = [self.tuning.measured(one, **choosers) for one in forms]
        return Tried(max(points, key=lambda point: point.objective), choosers)

    def _formed(self, tried: Tried) -> list[Tried]:
        """Reading with and without thoughts and further passages, which few questions tell little of."""
        choice, values = tried.point.settings, self.tuning.values
        forms = [
            {
                **choice,
                "reason": reason,
                "expand": expand,
                # What cites has no place for thoughts.
                "pick": choice["pick"] and (not choice["cite"] or reason is choice["reason"]),
            }
            for reason, expand in product(values["reason"], values["expand"])
            if tried.way == "reading" and (reason, expand) != (choice["reason"], choice["expand"])
        ]
        return [tried._replace(point=self.tuning.measured(form)) for form in forms]

    def _cascade(self) -> None:
        """Learn the arbiter and the chooser from what the ways before answer to the training questions.

        A cascade without a chooser has nothing to learn and is tried as well: it reads first, and takes the question
        apart where the passages do not answer it. Over documents of one's own so is what is asked without compiling.
        """
        if self.kept.way == "draft":
            return
        by_way = {one.way: one for one in self.tried}
        form = {name: by_way["reading"].point.settings[name] for name in ("pick", "reason", "expand")}
        answered = {way: one.answered for way, one in by_way.items() if one.answered}
        read, apart = (by_way[way].answered for way in ("reading", "quizzes"))
        first = tuple(one if _tells("reading", one) else other for one, other in zip(read, apart, strict=True))
        cascades = [self._measured(CASCADE, form)._replace(answered=first)]
        own, values = self.tuning.own, self.tuning.values
        asked = as_asked(cites=own["cite"] or own["listwise"])
        if self.tuning.start.declines and all(value in values[name] for name, value in asked.items()):
            self.asked = self._trained(self._measured(CASCADE, {**own, **asked}))
            cascades.append(self.asked)
        try:
            self._arbitrate(answered["quizzes"])
            learner = Learner(outcomes_of(answered, self.threshold))
        except InputError as error:
            self.problems.append(f"no chooser between memory, reading and quizzes: {error}")
        else:
            prices = [Price(by_way[way].point.calls, by_way[way].point.retrievals) for way in ("reading", "quizzes")]
            call, retrieval = self.tuning.cost_per_call, self.tuning.cost_per_retrieval
            arbiter = next(one for one in self.tried if one.way == "quizzes").choosers
            for factor in _FACTORS:
                chosen = learner.chooser(factor * call, factor * retrieval, prices)
                settled = tuple(
                    _settled({way: traces[place] for way, traces in answered.items()}, chosen.chances[one.question])
                    for place, one in enumerate(self.train)
                )
                found = self._measured(CASCADE, form, **arbiter, chooser=chosen.chooser)
                cascades.append(found._replace(answered=settled))
        best = cheapest_of_the_best([*self.tried, *cascades])
        self.tried.append(best if best in cascades else cascades[0])

    def _look_for_answers(self) -> None:
        """Note where the index hardly answers what is learned from: the ways that search are as bad as memory then."""
        read = next((one.answered for one in self.tried if one.way == "reading"), ())
        found = [
            any(whole.stated_in(passage.text) for passage in trace.record.quizzes[0].passages)
            for trace in read
            if (whole := Settled.whole(trace.example)).answer_type == "short" and trace.record and trace.record.quizzes
        ]
        if found and sum(found) < _LEAST_FOUND * len(found):
            self.problems.append(
                f"of {len(found)} training questions the passages found hold a gold answer to {sum(found)}: what "
                "searching is worth cannot be learned from questions that the index does not answer"
            )

    def _arbitrate(self, answered: Sequence[Trace]) -> None:
        """Have an arbiter between memory and passages where taking apart is then better."""
        conflicts = [] if self.tuning.start.declines else conflicts_in(answered)
        with suppress(InputError):
            found = self._measured("quizzes", arbiter=Learner(conflicts).chooser(0, 0).chooser)
            place = next(place for place, one in enumerate(self.tried) if one.way == "quizzes")
            if found.point.objective > self.tried[place].point.objective:
                # It decides on a few quizzes: what it makes of the training questions is not asked once more.
                self.tried[place] = found._replace(answered=self.tried[place].answered)

    def _trained(self, tried: Tried) -> Tried:
        """A way with its scores on the training questions; draws are those of tuning, as many as a question takes."""
        tuning, asking = self.tuning, self.tuning.asking
        asking = asking.on(Calls(probabilities=tuning.draws.probabilities, store=asking.journal))
        program = tuning.program_of(tried.point.settings)
        return tried._replace(
            answered=tuple(asking.traces(program, self.train, f"answering training questions ({tried.way})"))
        )


def outcomes_of(answered: Mapping[str, Sequence[Trace]], threshold: float) -> list[RecordedOutcome]:
    """What each way answered to questions, and whether that was right; a way that was not asked said nothing."""
    found = []
    for place, last in enumerate(answered["quizzes"]):
        traces = {way: traces[place] for way, traces in answered.items()}
        answers = {way: _answer_of(way, trace.record) for way, trace in traces.items()}
        right = {way: bool(text) and traces[way].score >= threshold for way, text in answers.items()}
        draft = traces["draft"].record if "draft" in traces else None
        samples = [] if draft is None else [one for quiz in draft.quizzes for one in quiz.samples]
        found.append(
            RecordedOutcome(
                id=last.example.id,
                question=last.example.question,
                draft=answers.get("draft", ""),
                right=right.get("draft", False),
                probability=samples[0].probability if samples else None,
                reading=answers["reading"],
                reading_right=right["reading"],
                quizzes=answers["quizzes"],
                quizzes_right=right["quizzes"],
            )
        )
    return found


def _answer_of(way: str, record: QuestionRecord | None) -> str:
    """What a way answered, as a cascade sees it: an answer from memory in the place of a reading is none."""
    if record is None or record.answer is None or record.unanswered is not None:
        return ""
    return record.answer if way != "reading" or record.quizzes[0].source == "passages" else ""


def _tells(way: str, trace: Trace) -> bool:
    """Whether a way answers a question: an answer that says something, and one from passages where it reads."""
    answer = _answer_of(way, trace.record)
    return bool(answer) and not is_abstention(answer, trace.example.choices)


def _settled(traces: Mapping[str, Trace], chances: Sequence[float]) -> Trace:
    """What is most probably right of the answers that a question has when it is settled, or the last of them."""
    by_way = {way: chance for way, chance in zip(WAYS, chances, strict=False) if way in traces}
    telling = [way for way in by_way if _tells(way, traces[way])]
    return traces[max(telling, key=by_way.__getitem__, default=[*by_way][-1])]


def conflicts_in(answered: Sequence[Trace]) -> list[RecordedOutcome]:
    """The quizzes whose answers from memory and from passages differ, and which of both was right."""
    settled = [one for t in answered if t.record is not None for one in settled_quizzes(t.example, t.record)]
    return [found for one in settled if (found := _conflict(one)) is not None]


def _conflict(one: Settled) -> RecordedOutcome | None:
    quiz, first = one.quiz, leader([cluster.size for cluster in one.quiz.clusters])
    if first is None or quiz.source != "passages" or not quiz.answer:
        return None
    memory = quiz.clusters[first].answer
    if same_answer(memory, quiz.answer, one.answer_type, one.choices):
        return None
    drawn = [sample for sample in quiz.samples if sample.text and not sample.abstained]
    leading, *others = sorted(drawn, key=lambda sample: sample.text != memory)
    return RecordedOutcome(
        id=one.root,
        question=str(quiz.resolved),
        draft=memory,
        right=one.agrees(memory),
        probability=leading.probability,
        further=[str(sample.text) for sample in others],
        reading=quiz.answer,
        reading_right=one.agrees(quiz.answer),
    )
