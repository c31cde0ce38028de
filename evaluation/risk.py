"""Holding a risk: a program that is calibrated by the run file of its own answers to questions with known ones."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from keqa.errors import InputError
from keqa.evaluation.evaluate import describe
from keqa.evaluation.records import RunSettings, differences
from keqa.evaluation.run_file import iter_lines, read_header
from keqa.optimize.abstention import CalibrationAnswer, Held, calibrate
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.wrapper import ModuleWrapper, program_within

# They are not what the answers depend on.
_BESIDE = ("arguments", "golds", "abstention")
_NAMED = 3


def hold_risk(
    program: Program | ModuleWrapper[Any], run_file: Path | str, risk: float, *, delta: float = 0.1, seed: int = 0
) -> Held:
    """Let a program answer only so that a given share of its answers is wrong at most, else say "I do not know".

    Args:
        program: Any method. From now on it withholds answers; ``program.abstention = None`` ends that.
        run_file: The program's own answers to questions with known ones that it has not learned from, as
            ``keqa evaluate`` writes them. The bound is for questions like these.
        risk: The share of its answers that may be wrong, by exact match.
        delta: The chance that this does not hold.
        seed: Of which questions are learned and tested on.

    Returns:
        What is held. Its text says which share of the questions the program expects to abstain from.

    Raises:
        InputError: The run file is that of another program, or cannot be read, or the risk is out of range.
        keqa.optimize.abstention.UnheldRiskError: No threshold holds the risk.
    """
    program = program_within(program, "keqa.hold_risk")
    header = read_header(run_file)
    with ExitStack() as undone:
        if isinstance(program, KEQA) and program.style is None and program.writes:
            # What was measured is short answers, and no other is known to hold a risk.
            program.style = "short"
            undone.callback(setattr, program, "style", None)
        now = header.model_copy(update={"configuration": RunSettings.model_validate(describe(program))})
        changed = [one for one in differences(header, now) if not one.startswith(_BESIDE)]
        if changed:
            raise InputError(
                f"{run_file} holds the answers of another program ({'; '.join(changed[:_NAMED])}): calibrate on a run "
                "of this one"
            )
        held = calibrate(outcomes_of(run_file), risk, delta, seed)
        undone.pop_all()
    program.abstention = held.abstention
    return held


def outcomes_of(run_file: Path | str) -> list[CalibrationAnswer]:
    """The questions of a run that say what its program can: answered, untouched by failures, not learned from."""
    header = read_header(run_file)
    if header.learned_unknown:
        raise InputError(f"{run_file}: its program does not say which questions it learned from")
    if header.configuration.model_extra and "abstention" in header.configuration.model_extra:
        raise InputError(f"{run_file} was run with --risk; calibrate on a run without it")
    learned = set(header.learned_from)
    sound = [one for one in iter_lines(run_file) if one.id not in learned and not one.touched]
    return [CalibrationAnswer(line.id, line.record, line.right) for line in sound if line.record is not None]


def refuse_calibrated(run_file: Path | str, dataset: str, split: str, ids: Iterable[str]) -> None:
    """Refuse to evaluate on questions that a threshold was calibrated on."""
    header = read_header(run_file)
    common = set(ids) & set(header.ids) if (header.dataset, header.split) == (dataset, split) else set()
    if common:
        raise InputError(
            f"{len(common)} of the questions are those of {run_file}, which the threshold is calibrated on: figures "
            "over them would flatter it. Ask others, or give --allow-overlap"
        )
