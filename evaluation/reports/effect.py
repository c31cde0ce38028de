"""What retrieval does to quizzes that the LM knows and to those that it does not know: KBM's analysis.

Two runs are laid beside each other: ``gate-never``, which has all samples of each quiz and answers from memory, and
``gate-always``, which answers from passages (the paper's LM Only and ALL RAG, sections 2.1 and 2.2).
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from keqa.data.question import quiz_key
from keqa.evaluation.reports.grid import Figure, Grid, Named, Panel, Series, count, number, p_value, share, table, text
from keqa.evaluation.reports.questions import QuizRow
from keqa.evaluation.reports.rows import Entry, by_lm
from keqa.metrics.accuracy import mastery
from keqa.programs.gate import Draws, reaches
from keqa.programs.gates import CertaintyGate
from keqa.programs.records import QuizRecord

CHANGES = ("Beneficial", "Neutral", "Harmful")
"""What retrieval can do to a quiz, in the paper's words."""

KNOWN_FROM = Fraction(9, 10)
"""From which accuracy, or certainty, on a quiz is known (KBM, appendix B.1)."""

INDICATORS = ("accuracy", "certainty")
"""What distinguishes a known quiz from an unknown one."""

# The final version's certainty is over distinct answers, which no judge has clustered.
_CERTAINTY = CertaintyGate(form="by_types", over="types")
_INTERVALS = ("[0, .2)", "[.2, .4)", "[.4, .6)", "[.6, .8)", "[.8, 1]")
_T = TypeVar("_T")
_NAME, _TITLE = "retrieval-effect", "What retrieval does to quizzes that the LM knows and does not know"
_CLASSES = (
    "Beneficial: the answer from memory, that of the largest cluster, is wrong and the answer with retrieval is right; "
    "harmful: the other way round; neutral: both are right, or both wrong. There is one answer with retrieval, and not "
    "as many as there are samples, so that what is right from memory cannot gain, and what is wrong cannot lose. "
    "Accuracy: the share of samples without retrieval that is right; certainty: that over the distinct answers among "
    "them. Right: the mean accuracy, and the shares of answers from memory and with retrieval that are right. "
    f"Known: {number(float(KNOWN_FROM), 1).text} or more."
)


class Effect(NamedTuple):
    """A quiz without and with retrieval: the share of its samples that are right, and their certainty over k answers.

    That is 1 - H / log k (section 2.2, equation 2), where an abstention is an answer of its own. `kept` says whether
    the answer with retrieval was given from a passage, `whole` whether the quiz is a question itself.
    """

    accuracy: Fraction
    certainty: float
    memory: bool
    retrieved: bool
    kept: bool
    whole: bool

    @property
    def change(self) -> str:
        """What retrieval did to it (section 2.2)."""
        return CHANGES[1 + self.memory - self.retrieved]


class ComparedQuizzes(NamedTuple):
    """The quizzes that two runs asked and answered, of how many with known answers, with how many samples each."""

    effects: list[Effect]
    known: int
    tries: tuple[int, ...]


def compared(entries: Sequence[Entry]) -> ComparedQuizzes | None:
    """Lay quizzes without and with retrieval beside each other, by their resolved texts and each once."""
    setup = attrgetter("means", "settings.top_k", "base")
    runs = ([one for one in entries if one.method == name] for name in ("gate-never", "gate-always"))
    pair = next((pair for pair in product(*runs) if setup(pair[0]) == setup(pair[1])), None)
    if pair is None:
        return None
    never, always = pair
    # Those of one text with other choices are two.
    searched: dict[tuple[str, str, tuple[str, ...]], QuizRecord] = {}
    for line in (line for line in always.within() if not line.impaired):
        for quiz in line.quizzes:
            if quiz.resolved is not None and quiz.answer is not None and quiz.retrieved:
                name = quiz_key(quiz.resolved)
                kind = (line.answer_type, line.choices) if name == quiz_key(line.question) else ("short", ())
                searched.setdefault((name, *kind), quiz)
    questions = {quiz_key(line.question) for line in never.within()}
    drawn = [quiz for quiz in never.checked() if quiz.quiz.complete]
    found = [(quiz, searched.get((quiz.text, quiz.answer_type, quiz.choices))) for quiz in drawn]
    both = [(quiz, other) for quiz, other in found if other is not None]
    effects = [_effect(quiz, other, whole=quiz.text in questions) for quiz, other in both]
    tries = tuple(sorted({quiz.quiz.tries for quiz, _ in both}))
    return ComparedQuizzes(effects, len(drawn), tries) if effects else None


def _effect(quiz: QuizRow, found: QuizRecord, *, whole: bool) -> Effect:
    drawn = quiz.quiz.samples
    answers = [None if sample.abstained else sample.text for sample in drawn]
    draws = Draws.of(answers, answer_type=quiz.answer_type, choices=quiz.choices)
    return Effect(
        accuracy=mastery([sample.text for sample in drawn], quiz.golds, quiz.answer_type, quiz.choices),
        # Rounded, so that what is 0 on paper is one number, and not several about it.
        certainty=round(_CERTAINTY.measure(draws), 12) if any(answers) else 0.0,
        memory=quiz.right(quiz.answer),
        retrieved=quiz.right(found.answer),
        kept=found.source == "passages",
        whole=whole,
    )


def correlation(effects: Sequence[Any]) -> tuple[float, float] | None:
    """Pearson's correlation of what has an accuracy and a certainty, such as quizzes, and its p-value (section 2.2)."""
    from scipy.stats import pearsonr

    accuracy, certainty = ([float(getattr(one, name)) for one in effects] for name in INDICATORS)
    if len(effects) < 3 or len(set(accuracy)) < 2 or len(set(certainty)) < 2:
        return None
    found = pearsonr(accuracy, certainty)
    return float(found.statistic), float(found.pvalue)


def retrieval_effect(entries: Sequence[Entry]) -> Grid | None:
    """How many quizzes retrieval helps, leaves as they are and harms, and how many answers are right."""
    found = compared(entries)
    if found is None:
        return None
    parts = list(_parts(found.effects))
    beginnings = ("accuracy [0", "certainty [0", "known", "all")
    ruled = [place for place, (name, _) in enumerate(parts) if name.startswith(beginnings)]
    correlated = "Too few quizzes, or quizzes too much alike, for a correlation of accuracy and certainty."
    if (measured := correlation(found.effects)) is not None:
        measures = f"{number(measured[0], 2).text} (p: {p_value(measured[1]).text})"
        correlated = f"Pearson's correlation of accuracy and certainty: {measures}."
    whole, vain = sum(effect.whole for effect in found.effects), sum(not effect.kept for effect in found.effects)
    counted = (
        f"Counted: {len(found.effects)} of {found.known} quizzes whose gold answer is known, each text once, with "
        f"{' or '.join(map(str, found.tries))} samples each; {whole} of them are questions themselves, the others are "
        "quizzes of one. Left out are those that only one of the runs asked, as earlier answers to which they refer "
        f"differ, and those without an answer. Answered from memory in both runs, as no passage was kept: {vain}."
    )
    rows = (_row(name, part) for name, part in parts)
    return table(_NAME, _TITLE, rows, _CLASSES, correlated, counted, ruled=ruled)


def effect_figure(entries: Sequence[Entry]) -> Figure | None:
    """The shares of beneficial, neutral and harmful retrieval over accuracy and over certainty (KBM, Figure 2)."""
    models = {lm: found for lm, rows in by_lm(entries).items() if (found := compared(rows)) is not None}
    panels = []
    for lm, found in models.items():
        for name in INDICATORS:
            parts = [(place, part) for place, part in enumerate(intervals(found.effects, name).values()) if part]
            middles = tuple((2 * place + 1) / (2 * len(_INTERVALS)) for place, _ in parts)
            shares = [_shares(part) for _, part in parts]
            series = tuple(Series(change, middles, tuple(one[change] for one in shares)) for change in CHANGES)
            panels.append(Panel(f"{name}, {lm}" if len(models) > 1 else name, "share of quizzes", series))
    return Figure(_NAME, _TITLE, "of the samples without retrieval", tuple(panels)) if panels else None


def intervals(effects: Sequence[_T], indicator: str) -> dict[str, list[_T]]:
    """What has an indicator in five intervals of equal width, closed below; the last one holds 1 as well."""
    parts: list[list[_T]] = [[] for _ in _INTERVALS]
    for effect in effects:
        # Rounded first: a float just below a bound that it equals on paper belongs above it.
        parts[min(len(parts) - 1, int(round(float(getattr(effect, indicator)) * len(parts), 9)))].append(effect)
    return {f"{indicator} {name}": part for name, part in zip(_INTERVALS, parts, strict=True)}


def _parts(effects: Sequence[Effect]) -> Iterator[tuple[str, list[Effect]]]:
    for name in INDICATORS:
        yield from intervals(effects, name).items()
    for name in INDICATORS:
        for known, called in ((True, "known"), (False, "unknown")):
            part = [effect for effect in effects if reaches(float(getattr(effect, name)), KNOWN_FROM) is known]
            yield f"{called} by {name}", part
    yield "all", list(effects)


def _row(name: str, part: Sequence[Effect]) -> Iterator[Named]:
    changes, shares = Counter(effect.change for effect in part), _shares(part)
    yield "without retrieval", text(name)
    yield "quizzes", count(len(part))
    for change in CHANGES:
        yield ("quizzes", change), count(changes[change])
        yield ("share", change), share(shares.get(change))
    for head, of in (("a draw", "accuracy"), ("memory", "memory"), ("retrieval", "retrieved")):
        right = math.fsum(float(getattr(effect, of)) for effect in part)
        yield (head, "right"), number(right / len(part) if part else None)


def _shares(part: Sequence[Effect]) -> dict[str, float]:
    """The share of each change; of nothing there is none."""
    return {change: sum(effect.change == change for effect in part) / len(part) for change in CHANGES if part}
