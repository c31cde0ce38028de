"""Random gates of a comparison: which run each of them matches, and how often that searched (KBM, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from keqa.data.quiz_references import place_of
from keqa.errors import ConfigurationError, InputError
from keqa.evaluation.configuration import differences
from keqa.evaluation.questions import Questions
from keqa.evaluation.reading import iter_lines, read_header
from keqa.evaluation.run_file import empty
from keqa.evaluation.run_settings import RunSettings
from keqa.programs.gates import MatchedRandomGate
from keqa.programs.registry import Spec, check_arguments

_USUAL = ("gate-votes", "keqa")
_ARGUMENTS = {"like", "seed"}
_INSTEAD = "give gate-random:threshold=0.4"


class NoRatioError(ConfigurationError):
    """There is no ratio that a random gate could match."""


def waits(spec: Spec, specs: Sequence[Spec]) -> bool:
    """Whether a method needs another's run first: a random gate without a share of its own.

    Args:
        spec: The method.
        specs: All methods of the comparison.
    """
    if not spec.method.matches or "threshold" in spec.arguments:
        return False
    return "like" in spec.arguments or any(other.method.name in _USUAL for other in specs)


def check_matches(specs: Sequence[Spec]) -> None:
    """Refuse a random gate that could not be made once the others have run.

    Args:
        specs: All methods of the comparison.

    Raises:
        InputError: One has other arguments than it can have, or names no run of the comparison that it could match.
    """
    for spec in specs:
        check_arguments(spec)
        if spec.method.matches and ("like" in spec.arguments or "threshold" not in spec.arguments):
            _check(spec, specs)


def _check(spec: Spec, specs: Sequence[Spec]) -> None:
    if "threshold" in spec.arguments:
        raise InputError(f"{spec.label}: give a threshold, or with like= the run whose ratio is matched, not both")
    unknown = sorted(spec.arguments.keys() - _ARGUMENTS)
    if unknown:
        raise InputError(f"{spec.label}: {spec.method.name} has no {unknown[0]}; it has like, seed, threshold")
    if "like" in spec.arguments:
        found = _named(str(spec.arguments["like"]), specs)
        if len(found) != 1:
            labels = ", ".join(one.label for one in (found or specs) if not one.method.matches)
            several = "several runs" if found else "no run"
            raise InputError(
                f"{spec.label}: like={spec.arguments['like']} names {several} to match; name one of "
                f"{labels or 'the other methods of a comparison'}"
            )


def matched_gate(spec: Spec, ended: Sequence[Spec], places: dict[str, Path]) -> MatchedRandomGate:
    """The gate that searches for as many quizzes as the run that it matches classified as unknown.

    What that run searched for without a verdict, as a question that falls back is, the random gate searches for as
    well.

    Args:
        spec: The random gate.
        ended: The methods that were asked.
        places: Run files by label.

    Raises:
        NoRatioError: The run is not there, or holds no verdict.
    """
    like = spec.arguments.get("like")
    if like is None:
        found = [one for name in _USUAL for one in ended if one.method.name == name]
    else:
        found = _named(str(like), ended)
    if not found:
        raise NoRatioError(f"no run of {like or 'KEQA'} is there, so there is no ratio to match: {_INSTEAD}")
    path = places[found[0].label]
    verdicts = _verdicts(path)
    first = next(verdicts, None)
    if first is None:
        raise NoRatioError(f"{path} holds no verdict on a quiz, so there is no ratio to match: {_INSTEAD}")
    return MatchedRandomGate.of(chain([first], verdicts), spec.arguments.get("seed", 0))


def forget_other_match(path: Path, spec: Spec, questions: Questions, configuration: dict[str, Any]) -> None:
    """Begin a random gate's file again where it differs in nothing but what it matched, as it does with more questions.

    Args:
        path: Its run file.
        spec: The random gate.
        questions: What is asked.
        configuration: Of the gate as it is now.
    """
    if not path.exists():
        return
    try:
        before = read_header(path)
    except InputError:
        # It was killed at its first line, or is no run file: `evaluate` distinguishes them.
        return
    asked = {"dataset": questions.dataset, "split": questions.split, "seed": questions.seed}
    settings = RunSettings.model_validate(configuration)
    now = before.model_copy(update={"method": spec.method.name, **asked, "configuration": settings})
    changed = differences(before, now)
    if changed and all(one.startswith("settings.gate.") for one in changed):
        empty(path)


def _named(name: str, specs: Sequence[Spec]) -> list[Spec]:
    """The methods of a label, else those of a name, that do not decide by chance."""
    others = [spec for spec in specs if not spec.method.matches]
    return [spec for spec in others if spec.label == name] or [spec for spec in others if spec.method.name == name]


def _verdicts(path: Path) -> Iterator[tuple[str, bool]]:
    """The place of each quiz of a run, and whether it was classified as known."""
    for line in iter_lines(path):
        record = line.record
        for quiz in () if record is None else record.quizzes:
            if record is not None and quiz.known is not None:
                yield place_of(record.question, record.choices, quiz.index), quiz.known
