"""Run files side by side: what became of each question in brief, and its stories where they are wanted."""

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from keqa.errors import InputError
from keqa.evaluation.records import Content, RunHeader, RunLine
from keqa.evaluation.run_file import placed_lines, read_header, run_files
from keqa.evaluation.tally import Tally
from keqa.page import document, document_parts, story_data
from keqa.server.guard import PAGE, Guard
from keqa.server.limits import Metrics, ServerLimits
from keqa.storage.untrusted import open_regular

RIGHT, PARTLY, WRONG, FAILED, _, DECLINED = range(6)
"""What may have become of a question; the page knows them by their numbers, of which 4 is not asked."""

_BLOCK = 1 << 20
"""So many bytes of stories, about, are unpacked for one of them."""


@dataclass
class _Row:
    """A question: what each run made of it, None where it was not asked."""

    id: str
    text: str
    golds: list[str]
    kind: str
    cells: list[list[Any] | None]


@dataclass
class _RunOf:
    path: Path
    header: RunHeader
    tally: Tally
    places: dict[int, range] = field(default_factory=dict)


class Runs:
    """The runs of some files. Stories stay in the files, and are read when they are wanted."""

    def __init__(self, files: Iterable[Path | str]) -> None:
        self._rows: list[_Row] = []
        self._runs = [_RunOf(path, header := read_header(path), Tally(len(header.ids))) for path in run_files(files)]
        # Of two files of one name, a line of each may have an id that the other's has, too.
        known: dict[tuple[str, str, Content], int] = {}
        for number, run in enumerate(self._runs):
            for place, line in placed_lines(run.path):
                row = known.setdefault((run.header.dataset, line.id, line.content), len(self._rows))
                if row == len(self._rows):
                    cells: list[list[Any] | None] = [None] * len(self._runs)
                    self._rows.append(_Row(line.id, line.question, line.answers, line.kind, cells))
                run.places[row] = place
                run.tally.add(line)
                self._rows[row].cells[number] = [outcome(line), line.answer or ""]

    def __str__(self) -> str:
        return f"{len(self._runs)} {'run' if len(self._runs) == 1 else 'runs'} of {len(self._rows):,} questions"

    def overview(self) -> dict[str, Any]:
        """All of it but the stories, as the page takes it."""
        questions = [[row.id, row.text, row.golds, row.kind, row.cells] for row in self._rows]
        return {"runs": [self._brief(run) for run in self._runs], "questions": questions}

    def story(self, run: int, question: int) -> dict[str, Any]:
        """The story of a question in a run; see `keqa.page.story_data`."""
        if not 0 <= run < len(self._runs):
            raise KeyError(run)
        of = self._runs[run]
        place = of.places[question]
        try:
            with open_regular(of.path, links=True, error=InputError) as stream:
                stream.seek(place.start)
                line = RunLine.model_validate_json(stream.read(len(place)))
            if line.id != self._rows[question].id:
                raise ValueError(line.id)
        except (OSError, ValueError) as error:
            raise InputError(f"{of.path} has changed since it was read: start keqa view again") from error
        if line.record is None:
            return {"record": None, "error": "" if line.error is None else line.error.message}
        return story_data(line.record)

    def page(self) -> Iterator[str]:
        """A file of its own with everything in it, in parts; stories are packed, and unpacked when they are opened."""
        overview, ends = self.overview(), 0
        for number, run in enumerate(self._runs):
            for block, group in enumerate(_blocks(run), ends):
                for place, row in enumerate(group):
                    cell = self._rows[row].cells[number]
                    overview["questions"][row][4] = list(overview["questions"][row][4])
                    overview["questions"][row][4][number] = [*(cell or []), [block, place]]
                ends = block + 1
        blocks = (
            gzip.compress(json.dumps([self.story(number, row) for row in group]).encode(), mtime=0)
            for number, run in enumerate(self._runs)
            for group in _blocks(run)
        )
        return document_parts("runs", "KEQA: runs", overview, blocks)

    def _brief(self, run: _RunOf) -> dict[str, Any]:
        of, cost = run.tally, run.tally.cost
        alike = sum(one.header.label == run.header.label for one in self._runs)
        label = run.header.label if alike == 1 else str(run.path.with_suffix(""))
        spent = {"calls": cost.samples, "retrievals": cost.retrievals, "tokens": cost.tokens}
        return {
            "label": label,
            **{"method": run.header.method, "asked": of.done, "failed": of.failed},
            **{name: of.mean(name) for name in ("em", "f1")},
            **{name: of.a_question(count) for name, count in spent.items()},
        }


def outcome(line: RunLine) -> int:
    """What became of a question.

    `RIGHT` is an exact match, the right one of yes and no or of choices, or to decline what has no answer. `DECLINED`
    is the finding that the documents do not say what has one.
    """
    if line.failed or line.right:
        return FAILED if line.failed else RIGHT
    if line.unanswered:
        return DECLINED
    return PARTLY if line.scores.get("f1", 0.0) > 0 else WRONG


def _blocks(run: _RunOf) -> Iterator[list[int]]:
    group, size = list[int](), 0
    for row, place in run.places.items():
        group.append(row)
        size += len(place)
        if size >= _BLOCK:
            yield group
            group, size = [], 0
    if group:
        yield group


# Whoever asks is on this machine.
LIMITS = ServerLimits(rate=0)
_RUNS, _STORY = "/runs.json", "/story"


def run_view(runs: Runs, token: str | None = None) -> Guard:
    """The application that shows runs; it reads the files of the runs, and nothing else, for a request."""
    made = document("runs", "KEQA: runs", {"served": True}, served=True)
    overview = json.dumps(runs.overview(), separators=(",", ":")).encode()

    async def page(_: Request) -> Response:
        return HTMLResponse(made.text, headers={"Content-Security-Policy": made.policy})

    async def listed(_: Request) -> Response:
        return Response(overview, media_type="application/json")

    async def story(request: Request) -> Response:
        try:
            run, question = int(request.query_params["run"]), int(request.query_params["question"])
            return JSONResponse(await run_in_threadpool(runs.story, run, question))
        except (KeyError, ValueError):
            return JSONResponse({"error": {"message": "there is no such story"}}, 404)
        except InputError as error:
            return JSONResponse({"error": {"message": str(error)}}, 409)

    routes = [Route(PAGE, page), Route(_RUNS, listed), Route(_STORY, story)]
    return Guard(Starlette(routes=routes), LIMITS, Metrics(), paths=(PAGE, _RUNS, _STORY), token=token)
