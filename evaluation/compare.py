"""Several methods on the same questions, language models, passages and cache."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from keqa.data.example import as_example
from keqa.errors import ConfigurationError, InputError
from keqa.evaluation.evaluate import AskingOptions, evaluate
from keqa.evaluation.gold_quizzes import golds_of
from keqa.evaluation.questions import Questions
from keqa.evaluation.run_file import forget_unasked
from keqa.evaluation.tally import Tally, learned_from, refuse_overlap
from keqa.programs.build import Parts, given, make, merged, served_by
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.calls.probabilities import tells_no_probabilities
from keqa.programs.gate import asks
from keqa.programs.program import Program
from keqa.programs.registry import Spec
from keqa.programs.shared_draws import SharedDraws
from keqa.storage.redaction import without_folders

_GOLDS = "of quizzes that ask the same"
"""How the oracle finds its gold answers: one that finds them otherwise gives other verdicts."""


class Row(NamedTuple):
    """One method of a comparison, asked: its run file, and the sums over its lines."""

    spec: Spec
    path: Path
    tally: Tally


def run_path(folder: Path, label: str) -> Path:
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

    The gates among them share their draws. `left_out` is called with a method that cannot be asked, for the language
    model gives no token probabilities; its error ends the comparison where it is None.
    """
    places = {spec.label: run_path(folder, spec.label) for spec in specs}
    if len(places) < len(specs):
        raise InputError(f"two methods of a comparison are called the same: {', '.join(one.label for one in specs)}")
    drawn, parts = parts.draws, _shared(specs, questions, parts, cache, asking.get("retry_failed", False))
    # All are made before the first question is asked, so that what is wrong is reported at once. Whether there are
    # token probabilities decides how all gates draw: the gate that needs them is asked first.
    ordered = sorted(specs, key=lambda spec: _is_gate(spec, other=True)) if any(map(_is_gate, specs)) else specs
    programs = {spec.label: make(spec, parts) for spec in ordered}
    _refuse_overlaps({} if asking.get("allow_overlap") else programs, questions)

    def run(spec: Spec) -> Row:
        path = places[spec.label]
        # Of a boundary model the file's name is enough: where it lies is of this machine only.
        arguments = {name: without_folders(str(value)) for name, value in given(spec, parts).items()}
        configuration: dict[str, Any] = {"arguments": arguments}
        if spec.method.needs_golds:
            configuration["golds"] = _GOLDS
        about = {name: getattr(questions, name) for name in ("dataset", "split", "seed", "left_out")}
        tally = evaluate(
            programs[spec.label],
            questions.examples,
            out=path,
            method=spec.method.name,
            label=spec.label,
            configuration=configuration,
            compiled=served_by(spec.method, parts.program),
            cache=cache,
            progress=lambda tally: progress(spec.label, tally),
            **about,
            **asking,
        )
        return Row(spec, path, tally)

    for spec in ordered:
        try:
            yield run(spec)
        except ConfigurationError as error:
            forget_unasked(places[spec.label])
            if left_out is None or not tells_no_probabilities(error):
                raise
            left_out(spec, error)
            if _is_gate(spec):
                parts = replace(parts, draws=drawn or SharedDraws(store=cache.draws()))
                programs |= {other.label: make(other, parts) for other in ordered if _is_gate(other, other=True)}


def _refuse_overlaps(programs: Mapping[str, Program], questions: Questions) -> None:
    """Refuse questions that a program learned from before any program is asked."""
    for label, program in programs.items():
        if program.learned.train or program.learned.validation:
            asked = [as_example(one, unanswerable=True) for one in questions.examples]
            refuse_overlap(learned_from(program, asked), len(asked), label)


def _is_gate(spec: Spec, *, other: bool = False) -> bool:
    """Whether it is the gate that needs token probabilities, or any other gate."""
    return spec.method.gate is not None and (asks(spec.method.gate) == "probabilities") is not other


def _shared(specs: Sequence[Spec], questions: Questions, parts: Parts, cache: CallCache, retry_failed: bool) -> Parts:
    """What the gates need, and what the questions ask of single methods."""
    parts = replace(parts, own=merged(questions.settings, parts.own))
    if parts.draws is not None and retry_failed:
        parts.draws.forget_failed()
    if parts.draws is None and any(spec.method.gate is not None for spec in specs):
        probable = any(map(_is_gate, specs))
        parts = replace(parts, draws=SharedDraws(probabilities=probable, store=cache.draws()))
    if parts.golds is None and any(spec.method.needs_golds for spec in specs):
        parts = replace(parts, golds=golds_of(questions.examples))
    return parts
