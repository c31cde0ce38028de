"""What commands say of runs that have ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from keqa.cli.console import emit, warn
from keqa.evaluation.compare import Row
from keqa.evaluation.overlap import MARK, overlap_notes
from keqa.evaluation.reports.grid import Cell, Grid, Named, count, number, table, text
from keqa.evaluation.reports.parts import DECLINING_NOTE, declining
from keqa.evaluation.reports.render import Rendered
from keqa.evaluation.tally import Tally
from keqa.metrics.abstention import Declining

_SPENT = {"samples": "LM calls", "calls": "sent"}
_SCORES = {"F1": "f1", "EM": "em", "ACC": "accuracy"}
_IMPAIRED = (
    "Impaired: answered although a call failed or gave a reply that could not be used, and the answer may hang on it. "
    "Untouched are the questions that neither failed nor are impaired, with their scores over these alone."
)
_UNTOUCHED = "Untouched by failures: all {} questions."


def run_table(rows: Sequence[Row]) -> Rendered:
    """The runs side by side: scores, and costs of a question."""
    impaired = any(row.tally.impaired for row in rows)
    touched = impaired or any(row.tally.failed for row in rows)
    counts = ("failed", *(["impaired"] if impaired else []))
    # Only yes/no questions and choices have an accuracy.
    scores = {name: key for name, key in _SCORES.items() if any(row.tally.mean(key) is not None for row in rows)}
    declined = any(row.tally.declining.shown for row in rows)
    shown = []
    for tally, label in ((row.tally, row.spec.label) for row in rows):
        spent = {"retrievals": 2, "samples": 1, "calls": 1, "tokens": 0}
        shown.append(
            [
                ("run", text(f"{label}{MARK if tally.learned_from else ''}")),
                *((name, number(tally.mean(key))) for name, key in scores.items()),
                *(declining(tally.declining) if declined else ()),
                *((name, count(getattr(tally, name))) for name in counts),
                *(_untouched(tally, scores) if touched else ()),
                *(
                    (_SPENT.get(name, name), number(tally.a_question(getattr(tally.cost, name)), digits))
                    for name, digits in spent.items()
                ),
            ]
        )
    note = (
        "Retrievals, LM calls and tokens are for one question; sent are the requests that no cache answered, of which "
        "one may carry several calls."
    )
    whole = {row.tally.done for row in rows}
    known = [(row.spec.label, row.tally.learned_from, row.tally.questions, row.tally.learned_unknown) for row in rows]
    apart = _IMPAIRED if touched else _UNTOUCHED.format("/".join(map(str, sorted(whole))))
    notes = (note, *([DECLINING_NOTE] if declined else []), apart, *overlap_notes(known))
    return Rendered(table("runs", "", shown, *notes))


def _untouched(tally: Tally, scores: Mapping[str, str]) -> Iterator[Named]:
    """How many questions no failure touched, and the scores over them."""
    yield "untouched", Cell(tally.untouched, f"{tally.untouched}/{tally.done}")
    for name, key in scores.items():
        yield f"untouched {name}", number(tally.untouched_mean(key))


def _declining(found: Declining) -> dict[str, float | None]:
    shares = ("coverage", "right_of_answered", "right_to_decline", "unanswered_ratio")
    return {**asdict(found), **{name: getattr(found, name) for name in shares}}


def warn_of_failures(rows: Sequence[Row], before: str = "") -> None:
    """Say what failed, by the kind of error, and what to do about it.

    Args:
        rows: The runs.
        before: What each line begins with.
    """
    for row in rows:
        tally = row.tally
        for times, how, causes in (
            (tally.failed, "failed", tally.causes),
            (tally.impaired, "answered although something failed", tally.impairments),
        ):
            if times:
                kinds = ", ".join(f"{cause} {some}" for cause, some in causes.most_common())
                warn(f"{before}{row.spec.label}: {times} {how} ({kinds}); --retry-failed asks them again")


def show_grids(grids: Sequence[Grid], *, as_json: bool) -> None:
    """Print tables, or their unrounded values as JSON."""
    emit({grid.name: grid.records for grid in grids}, map(Rendered, grids), as_json=as_json)


def figures(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The same as JSON."""
    return [
        {
            "method": row.spec.method.name,
            "label": row.spec.label,
            "file": str(row.path),
            "questions": row.tally.questions,
            "asked": row.tally.asked,
            "failed": row.tally.failed,
            "causes": dict(row.tally.causes),
            "impaired": row.tally.impaired,
            "impairments": dict(row.tally.impairments),
            "scores": {name: row.tally.mean(name) for name in row.tally.scored},
            "learned_from": None if row.tally.learned_unknown else row.tally.learned_from,
            **({"declining": _declining(row.tally.declining)} if row.tally.declining.shown else {}),
            "untouched": row.tally.untouched,
            "untouched_scores": {name: row.tally.untouched_mean(name) for name in row.tally.scored},
            "lm_samples": row.tally.cost.samples,
            "lm_requests": row.tally.cost.lm_requests,
            "lm_calls": row.tally.cost.calls,
            "tokens": row.tally.cost.tokens,
            "retrievals": row.tally.cost.retrievals,
            "retrievals_made": row.tally.cost.retrievals - row.tally.cost.retrievals_cached,
        }
        for row in rows
    ]
