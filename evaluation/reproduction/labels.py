"""Labels of pairs of answers by a language model: the truth of the KEQA paper's Table 2."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dspy

from keqa.evaluation.reports.judge import PairKey, compared_answers, key_of
from keqa.evaluation.reports.rows import Entry
from keqa.lms.adapter import adapter
from keqa.optimize.asking import Progress
from keqa.programs.calls.batch import in_parallel
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import CallLimiter, Session, run_blocking
from keqa.programs.examination import means_the_same
from keqa.programs.fingerprint import digest, lm_spec
from keqa.programs.predictor import Predictor, whole_prompt
from keqa.signatures import JudgeConsistency
from keqa.storage.journal import Journal

_Pair = tuple[str, str, str]


def pairs_to_label(entry: Entry, datasets: Iterable[str]) -> list[_Pair]:
    """The quizzes and answers that KEQA's judge compared, each pair once."""
    wanted = set(datasets)
    found: dict[PairKey, _Pair] = {}
    for (dataset, _, _), line in entry.lines.items():
        for quiz in line.quizzes if dataset in wanted else ():
            for first, second, _ in compared_answers(quiz):
                text = str(quiz.resolved)
                found.setdefault(key_of(text, first, second), (text, first, second))
    return list(found.values())


def label_pairs(
    pairs: Iterable[_Pair], lm: dspy.BaseLM, path: Path, *, in_flight: int, progress: Progress
) -> tuple[dict[PairKey, bool], int]:
    """Ask, as D_s is asked, whether the answers of each pair mean the same: the labels, and how many calls failed."""
    pairs = list(pairs)
    judge = Predictor(JudgeConsistency)
    judge.lm = lm
    bound = CallLimiter(in_flight)
    task = "labels of pairs of answers"
    fingerprint: dict[str, Any] = {"task": task, "model": lm_spec(lm), "prompt": digest(whole_prompt(judge))}
    step, failed = "labelling pairs of answers", 0

    def ask(pair: _Pair) -> tuple[_Pair, bool | None]:
        session = Session(bound, blocking=True)
        try:
            return pair, run_blocking(lambda: session.run(means_the_same(judge, *pair)))
        except CallError:
            return pair, None

    with Journal.open(path, fingerprint) as journal:
        kept = {pair: journal.get(digest(list(pair))) for pair in pairs}
        found = {key_of(*pair): bool(one["same"]) for pair, one in kept.items() if one is not None}
        missing = [pair for pair, one in kept.items() if one is None]
        progress(step, len(found), len(pairs))
        with dspy.context(adapter=dspy.settings.adapter or adapter(), trace=None):
            for pair, same in in_parallel(ask, missing, in_flight):
                if same is None:
                    failed += 1
                else:
                    journal.put(digest(list(pair)), {"same": same})
                    found[key_of(*pair)] = same
                progress(step, len(found) + failed, len(pairs))
    return found, failed
