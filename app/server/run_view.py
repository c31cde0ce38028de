"""The page of run files, for a browser on this machine."""

from __future__ import annotations

import json

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from keqa.errors import InputError
from keqa.page.document import document
from keqa.page.runs import Runs
from keqa.server.guard import PAGE, Guard
from keqa.server.limits import Limits
from keqa.server.metrics import Metrics

LIMITS = Limits(rate=0)
"""Whoever asks is on this machine."""

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
