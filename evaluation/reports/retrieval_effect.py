"""What retrieval does to quizzes that the LM knows and to those that it does not know: KBM's analysis, from run files.

Two runs are laid beside each other: ``gate-never``, which has all samples of each quiz and answers from memory, and
``gate-always``, which answers from passages (the paper's LM Only and ALL RAG, sections 2.1 and 2.2). The paper draws
answers with retrieval as often as without. A run has one such answer of a quiz, so that here the change is that of the
answer, and accuracy and certainty are those of the samples from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from keqa.data.quiz_references import plain
from keqa.evaluation.reports.quizzes import Checked, checked_quizzes
from keqa.evaluation.reports.rows import Entry
from keqa.metrics.accuracy import mastery
from keqa.programs.gates import CertaintyGate, Golds
from keqa.programs.gates.votes import Votes
from keqa.programs.records import QuizRecord

__all__ = ["CHANGES", "INDICATORS", "Change", "Compared", "Effect", "compared", "correlation"]

Change = Literal["Beneficial", "Neutral", "Harmful"]
CHANGES: tuple[Change, ...] = ("Beneficial", "Neutral", "Harmful")
"""What retrieval can do to a quiz, in the paper's words."""

_NEVER, _ALWAYS = "gate-never", "gate-always"
# The final version's certainty is over distinct answers, which no judge has clustered.
_CERTAINTY = CertaintyGate(form="by_types", over="types")

_Asked = tuple[str, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Effect:
    """A quiz without and with retrieval.

    Attributes:
        accuracy: The share of its samples that are right.
        certainty: 1 - H / log k over the k distinct answers among its samples (section 2.2, equation 2); an abstention
            is one of its own, and without any answer it is 0.
        memory: Whether the answer from memory, that of the largest cluster, is right.
        retrieved: Whether the answer with retrieval is right.
        kept: Whether that was given from a passage; where none was helpful, memory stands in.
        whole: Whether it is a question itself, and not a quiz of one.
    """

    accuracy: Fraction
    certainty: float
    memory: bool
    retrieved: bool
    kept: bool
    whole: bool

    @property
    def change(self) -> Change:
        """What retrieval did to it (section 2.2)."""
        return CHANGES[1 + self.memory - self.retrieved]


@dataclass(frozen=True, slots=True)
class Compared:
    """The quizzes of two runs.

    Attributes:
        effects: Of each whose gold answer is known and that both runs asked and answered.
        known: How many the run without retrieval has whose gold answer is known.
        tries: The numbers of samples that the quizzes have.
    """

    effects: list[Effect]
    known: int
    tries: tuple[int, ...]


INDICATORS: Mapping[str, Callable[[Effect], float]] = {
    "accuracy": lambda effect: float(effect.accuracy),
    "certainty": lambda effect: effect.certainty,
}
"""What distinguishes a known quiz from an unknown one, by name."""


def compared(entries: Sequence[Entry], golds: Callable[[Entry], Golds | None]) -> Compared | None:
    """Lay quizzes without and with retrieval beside each other, by their resolved texts and each once.

    A later quiz of a question is in both runs only where the earlier answers that it refers to agree. A question whose
    calls failed in a way that may pass, such as for a retriever that was away, shows nothing about retrieval and is
    left out.

    Args:
        entries: All rows.
        golds: The gold answers of a row's quizzes.

    Returns:
        None where one of the two runs is missing, or they have no quiz in common whose gold answer is known. Of
        several pairs of runs, as on several language models, the first.
    """
    pair = _pair(entries)
    if pair is None:
        return None
    never, always = pair
    searched = _searched(always)
    questions = {plain(line.question) for line in never.lines.values()}
    effects, tries, known = [], set(), 0
    for quiz in checked_quizzes(never, golds=golds(never)):
        if not quiz.quiz.complete:
            continue
        known += 1
        found = searched.get(_asked(quiz.quiz, quiz.answer_type, quiz.choices))
        if found is not None:
            effects.append(_effect(quiz, found, questions))
            tries.add(quiz.quiz.tries)
    return Compared(effects, known, tuple(sorted(tries))) if effects else None


def correlation(effects: Sequence[Effect]) -> tuple[float, float] | None:
    """Pearson's correlation of accuracy and certainty over quizzes, and its p-value (section 2.2).

    Returns:
        None where one of the two is the same for all quizzes, or there are fewer than three.
    """
    from scipy.stats import pearsonr

    accuracy, certainty = ([indicator(effect) for effect in effects] for indicator in INDICATORS.values())
    if len(effects) < 3 or len(set(accuracy)) < 2 or len(set(certainty)) < 2:
        return None
    found = pearsonr(accuracy, certainty)
    return float(found.statistic), float(found.pvalue)


def _pair(entries: Sequence[Entry]) -> tuple[Entry, Entry] | None:
    """The runs without and with retrieval that are set up alike."""
    pairs = (
        (never, always)
        for never in entries
        for always in entries
        if (never.method, always.method) == (_NEVER, _ALWAYS) and _setup(never) == _setup(always)
    )
    return next(pairs, None)


def _setup(entry: Entry) -> tuple[str | int | None, ...]:
    return entry.facets.lm, entry.facets.retriever, entry.facets.top_k, entry.base


def _searched(always: Entry) -> dict[_Asked, QuizRecord]:
    """The quizzes of a run that were searched for and answered."""
    found: dict[_Asked, QuizRecord] = {}
    for line in always.lines.values():
        for quiz in [] if line.impaired else line.quizzes:
            if quiz.resolved is None or quiz.answer is None or not quiz.retrieved:
                continue
            whole = plain(quiz.resolved) == plain(line.question)
            asked = _asked(quiz, line.answer_type, line.choices) if whole else _asked(quiz, "short", ())
            found.setdefault(asked, quiz)
    return found


def _asked(quiz: QuizRecord, answer_type: str, choices: tuple[str, ...]) -> _Asked:
    # Two questions of one text that offer other choices are not one question.
    return plain(str(quiz.resolved)), answer_type, choices


def _effect(quiz: Checked, found: QuizRecord, questions: set[str]) -> Effect:
    drawn = quiz.quiz.samples
    votes = Votes(
        sizes=tuple(cluster.size for cluster in quiz.quiz.clusters),
        drawn=len(drawn),
        tries=len(drawn),
        answers=tuple(None if sample.abstained else sample.text for sample in drawn),
        answer_type=quiz.answer_type,
        choices=quiz.choices,
    )
    return Effect(
        accuracy=mastery([sample.text for sample in drawn], quiz.golds, quiz.answer_type, quiz.choices),
        # Rounded, so that what is 0 on paper is one number, and not several about it.
        certainty=round(_CERTAINTY.measure(votes), 12) if votes.sizes else 0.0,
        memory=quiz.right(quiz.answer),
        retrieved=quiz.right(found.answer),
        kept=found.source == "passages",
        whole=plain(str(quiz.quiz.resolved)) in questions,
    )
