"""Several methods on the same questions, language models, passages and cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from keqa.data.example import as_example
from keqa.errors import ConfigurationError, InputError
from keqa.evaluation.build import Parts, given, make, merged, served_by
from keqa.evaluation.call_cache import CallCache
from keqa.evaluation.configuration import describe
from keqa.evaluation.evaluate import AskingOptions, evaluate
from keqa.evaluation.gold_quizzes import golds_of
from keqa.evaluation.matching import NoRatioError, check_matches, forget_other_match, matched_gate, waits
from keqa.evaluation.overlap import learned_from, refuse_overlap
from keqa.evaluation.questions import Questions
from keqa.evaluation.run_file import forget_unasked
from keqa.evaluation.tally import Tally
from keqa.programs.gates import asks
from keqa.programs.program import Program
from keqa.programs.registry import Spec
from keqa.programs.shared_draws import SharedDraws
from keqa.programs.stages.probabilities import tells_no_probabilities

_GOLDS = "of quizzes that ask the same"
"""How the oracle finds its gold answers: one that finds them otherwise gives other verdicts."""


@dataclass(frozen=True)
class Row:
    """One method of a comparison, asked.

    Attributes:
        spec: Which method.
        path: Its run file.
        tally: The sums over its lines.
    """

    spec: Spec
    path: Path
    tally: Tally


def run_path(folder: Path, label: str) -> Path:
    """The run file of a label.

    Raises:
        InputError: The label cannot name a file.
    """
    if not label or label.startswith(".") or set(label) & set('/\\:*?"<>|\0'):
        raise InputError(f"{label!r} cannot name a file: a label is made of letters, digits, -, _, = and the like")
    return folder / f"{label}.jsonl"


def compare(
    specs: Sequence[Spec],
    questions: Questions,
    parts: Parts,
    *,
    folder: Path,
    cache: CallCache,
    progress: Callable[[str, Tally], None] = lambda label, tally: None,
    left_out: Callable[[Spec, ConfigurationError], None] | None = None,
    **asking: Unpack[AskingOptions],
) -> Iterator[Row]:
    """Ask every question of every method, one method after the other; see `keqa.evaluation.evaluate.evaluate`.

    The gates among them share their draws. Random gates come last, and each retrieves for as many quizzes as KEQA did,
    or the method that it is to be ``like``; where that has changed since it was asked, it is asked again. The gate that
    needs token probabilities comes before the other gates, which draw without them where the language model gives none.

    Args:
        specs: The methods, each with a label of its own.
        questions: What to ask.
        parts: What the methods are made from; shared draws, gold answers and what random gates match are found here,
            and the settings of the questions are theirs.
        folder: Where the run files go, named for the labels.
        cache: Shared by all.
        progress: Called with the label after each question.
        left_out: Called with a method that cannot be asked while others can, and the reason: the language model gives
            no token probabilities, or there is no ratio that a random gate could match. Its error ends the comparison
            where this is None.
        **asking: How each method is asked, as in `keqa.evaluation.evaluate.evaluate`. With `retry_failed` draws that
            failed are made again, too; what `before_first` raises, which is called before each method's first question,
            ends the comparison, and a run file that holds no question is taken away.

    Yields:
        The methods as they end.

    Raises:
        InputError: Two methods have one label, a random gate names no run to match, or a run file is that of another
            run, or a program learned from some of the questions.
        ConfigurationError: A method cannot be made, or a setting is wrong, which no question would escape.
        TooManyFailuresError: Too many questions in succession failed; see `stop_after_outages`.
    """
    places = _places(specs, folder)
    own, parts = parts, _shared(specs, questions, parts, cache, asking.get("retry_failed", False))
    check_matches(specs)
    later = [spec for spec in specs if waits(spec, specs)]
    now = _in_order([spec for spec in specs if spec not in later])
    # All that can be made is made before the first question is asked, so that what is wrong is reported at once.
    programs = {spec.label: make(spec, parts) for spec in now}
    _refuse_overlaps({} if asking.get("allow_overlap") else programs, questions)

    def run(spec: Spec, program: Program) -> Row:
        path = places[spec.label]
        configuration: dict[str, Any] = {"arguments": {name: str(value) for name, value in given(spec, parts).items()}}
        if spec.method.needs_golds:
            configuration["golds"] = _GOLDS
        if spec in later:
            forget_other_match(path, spec, questions, {**describe(program), **configuration})
        tally = evaluate(
            program,
            questions.examples,
            out=path,
            method=spec.method.name,
            label=spec.label,
            dataset=questions.dataset,
            split=questions.split,
            seed=questions.seed,
            configuration=configuration,
            compiled=served_by(spec.method, parts.program),
            left_out=questions.left_out,
            cache=cache,
            progress=lambda tally: progress(spec.label, tally),
            **asking,
        )
        return Row(spec, path, tally)

    ended: list[Spec] = []
    for spec in [*now, *later]:
        try:
            if spec in later:
                programs[spec.label] = make(spec, replace(parts, matched=matched_gate(spec, ended, places)))
            row = run(spec, programs[spec.label])
        except ConfigurationError as error:
            forget_unasked(places[spec.label])
            if not (tells_no_probabilities(error) or isinstance(error, NoRatioError)):
                raise
            if left_out is None:
                raise
            left_out(spec, error)
            if _asks_probabilities(spec):
                parts = replace(parts, draws=own.draws or SharedDraws(store=cache.draws()))
                programs |= {
                    other.label: make(other, parts)
                    for other in now
                    if other.method.gate is not None and not _asks_probabilities(other)
                }
            continue
        ended.append(spec)
        yield row


def _refuse_overlaps(programs: Mapping[str, Program], questions: Questions) -> None:
    """Refuse questions that a program learned from before any program is asked."""
    for label, program in programs.items():
        if program.learned.train or program.learned.validation:
            asked = [as_example(one, unanswerable=True) for one in questions.examples]
            refuse_overlap(learned_from(program, asked), len(asked), label)


def _places(specs: Sequence[Spec], folder: Path) -> dict[str, Path]:
    """The run files by label."""
    labels = [spec.label for spec in specs]
    if len(set(labels)) < len(labels):
        raise InputError(f"two methods of a comparison are called the same: {', '.join(labels)}")
    return {label: run_path(folder, label) for label in labels}


def _in_order(specs: Sequence[Spec]) -> list[Spec]:
    """Whether there are token probabilities decides how all gates draw: the gate that needs them is asked first."""
    if not any(map(_asks_probabilities, specs)):
        return list(specs)
    return sorted(specs, key=lambda spec: spec.method.gate is not None and not _asks_probabilities(spec))


def _asks_probabilities(spec: Spec) -> bool:
    return spec.method.gate is not None and asks(spec.method.gate) == "probabilities"


def _shared(specs: Sequence[Spec], questions: Questions, parts: Parts, cache: CallCache, retry_failed: bool) -> Parts:
    """What the gates need, and what the questions ask of single methods."""
    parts = replace(parts, own=merged(questions.settings, parts.own))
    if parts.draws is not None and retry_failed:
        parts.draws.forget_failed()
    if parts.draws is None and any(spec.method.gate is not None for spec in specs):
        probable = any(map(_asks_probabilities, specs))
        parts = replace(parts, draws=SharedDraws(probabilities=probable, store=cache.draws()))
    if parts.golds is None and any(spec.method.needs_golds for spec in specs):
        parts = replace(parts, golds=golds_of(questions.examples))
    return parts
