"""Demonstrations from gold answers alone, for predictors that got nothing right by themselves.

A language model that cannot keep the form of a reply without an example gets nothing right, and leaves nothing to
bootstrap from. What it lacks is the form, and gold answers show it as well as its own right ones would, as in DSPy's
``LabeledFewShot``.

======  ===============================================================================================================
quiz    a quiz with its gold answer: the question where the program does not decompose, else the gold decomposition's
answer  the same with the first passage found for it whose text states the gold answer
same    the gold answer beside an alias of it, and beside the gold answer of another quiz
======  ===============================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from keqa.data.example import Answered
from keqa.errors import RetrievalError
from keqa.metrics.accuracy import agrees, contains_answer
from keqa.metrics.answers import same_answer
from keqa.optimize.alignment import GoldQuiz
from keqa.optimize.demos.candidate import Candidate, kind_of
from keqa.optimize.failures import FailureMonitor
from keqa.programs.keqa import KEQA

_ENOUGH = 32
"""Quizzes that are searched for: each costs a search, and a set of demonstrations holds a handful."""


def labelled(
    program: KEQA, examples: Sequence[Answered], wanting: Collection[str], watch: FailureMonitor
) -> dict[str, list[Candidate]]:
    """Make all possible demonstrations."""
    parts = GoldQuiz.parts if program.decompose else lambda example: [GoldQuiz.whole(example)]
    known = [one for example in examples for one in parts(example)]
    makers: dict[str, Callable[[], list[Candidate]]] = {
        "answering.answer": lambda: list(_answers(program, known, watch)),
        "examination.quiz": lambda: [_demonstration(one, quiz=one.quiz) for one in known],
        "examination.same": lambda: list(_judgements(known)),
    }
    return {name: make() for name, make in makers.items() if name in wanting}


def _demonstration(one: GoldQuiz, **asked: object) -> Candidate:
    kind = {"answer_type": one.answer_type, "choices": list(one.choices)}
    return Candidate({**asked, **kind, "answer": one.golds[0]}, kind_of(one.golds[0], one.answer_type), one.root)


def _answers(program: KEQA, known: Sequence[GoldQuiz], watch: FailureMonitor) -> Iterator[Candidate]:
    retriever = program._retriever.value
    if retriever is None:
        return
    for one in [one for one in known if one.answer_type == "short"][:_ENOUGH]:
        try:
            passages = [hit.passage for hit in retriever.search(one.quiz, program.top_k)]
        except RetrievalError as error:
            watch.outcome(type(error).__name__, str(error))
            continue
        watch.outcome(None, None)
        # A title names what a passage is about; its text says something about it.
        telling = next((passage for passage in passages if contains_answer(passage.text, list(one.golds))), None)
        if telling is not None:
            yield _demonstration(one, passages=[telling.rendered], question=one.quiz)


def _judgements(known: Sequence[GoldQuiz]) -> Iterator[Candidate]:
    short = [one for one in known if one.answer_type == "short"]
    for place, one in enumerate(short):
        gold = one.golds[0]
        alias = next((alias for alias in one.golds[1:] if not same_answer(gold, alias)), None)
        other = short[place - 1].golds[0]
        pairs = [(alias, True)] if alias is not None else []
        if not agrees(other, one.golds):
            pairs.append((other, False))
        for answer, same in pairs:
            demo = {"quiz": one.quiz, "first_answer": gold, "second_answer": answer, "same": same}
            yield Candidate(demo, str(same), one.root)
