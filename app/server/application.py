"""The HTTP routes of ``keqa serve``, behind their guard."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from mcp.server.transport_security import TransportSecuritySettings
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.routing import Route

from keqa.data.question import Question
from keqa.errors import KeqaError
from keqa.page.document import document
from keqa.server.answers import Answers
from keqa.server.asking import PageRequest, story_events
from keqa.server.chat import ALIVE, DONE, MODEL, ChatRequest, Completion, event, model, models, no_model
from keqa.server.documents import PATH, Documents
from keqa.server.guard import OPEN, PAGE, Guard
from keqa.server.mcp_tools import mcp_server
from keqa.server.problems import Problem, ProblemError, problem_of
from keqa.server.watching import FolderSync, in_step

KEEP_ALIVE = 10.0
"""Seconds after which a stream says that its question is in work."""

_ASK, _CHAT, _MODELS, _METRICS, _MCP = "/ask", "/v1/chat/completions", "/v1/models", "/metrics", "/mcp"
_ABOUT = "/about"
_OWN_MODEL = f"{_MODELS}/{MODEL}"


def application(
    answers: Answers,
    *,
    token: str | None = None,
    hosts: Iterable[str] = (),
    documents: Documents | None = None,
    sync: FolderSync | None = None,
    about: str = "",
) -> Guard:
    """The application that a web server runs.

    Without documents nothing is read from the disk for a request, and every route is fixed, so that no path leads
    anywhere else.
    """
    tools, routes = mcp_server(answers), _Routes(answers, documents, about, secured=token is not None)
    # Each request stands by itself, so that no client can make the server keep sessions; the guard checks the rest.
    streamable = tools.streamable_http_app(
        streamable_http_path=_MCP,
        stateless_http=True,
        max_request_body_size=answers.limits.max_body,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with tools.session_manager.run(), in_step(sync):
            yield

    # FastAPI's pages of documentation load scripts from elsewhere.
    api = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan)
    api.add_api_route(_CHAT, routes.chat, methods=["POST"])
    api.add_api_route(PAGE, routes.page, methods=["GET"])
    api.add_api_route(_ASK, routes.ask, methods=["POST"])
    api.add_api_route(_ABOUT, routes.about, methods=["GET"])
    if documents is not None:
        api.add_api_route(PATH + "/{path:path}", routes.document, methods=["GET"])
    api.add_api_route(_MODELS, routes.models, methods=["GET"])
    api.add_api_route(_MODELS + "/{name}", routes.model, methods=["GET"])
    api.add_api_route(OPEN, routes.health, methods=["GET"])
    api.add_api_route(_METRICS, routes.metrics, methods=["GET"])
    # Without sessions there are no streams from an MCP server to its clients, and nothing to delete.
    endpoint = next(route.endpoint for route in streamable.routes if isinstance(route, Route))
    api.router.routes.append(Route(_MCP, endpoint, methods=["POST"]))
    api.add_exception_handler(HTTPException, _no_route)
    for kind in (ProblemError, KeqaError, Exception):
        api.add_exception_handler(kind, routes.failed)
    paths = (PAGE, _ASK, _ABOUT, _CHAT, _MODELS, _OWN_MODEL, OPEN, _METRICS, _MCP)
    return Guard(api, answers.limits, answers.metrics, paths=paths, token=token, hosts=hosts)


class _Routes:
    """What the routes do, but for those of MCP."""

    def __init__(self, answers: Answers, documents: Documents | None, about: str, *, secured: bool) -> None:
        self._answers, self._begun, self._documents, self._about = answers, int(time.time()), documents, about
        data = {"documents": None if documents is None else PATH, "secured": secured}
        self._page = document("ask", "KEQA", data, served=True)

    async def chat(self, request: Request) -> Response:
        _check_json(request)
        asked = ChatRequest.read(await request.body())
        question = self._answers.check(asked.question, asked.answer_type, asked.choices, asked.history)
        if not asked.stream:
            return JSONResponse(Completion().whole(await self._answers.ask(question)))
        self._answers.refuse_if_full()
        events = _events(self._answers, question, with_usage=asked.wants_usage)
        return StreamingResponse(events, media_type="text/event-stream")

    async def page(self) -> Response:
        """The page with the question box; it holds nothing of this server's."""
        return HTMLResponse(self._page.text, headers={"Content-Security-Policy": self._page.policy})

    async def about(self) -> Response:
        return JSONResponse({"about": self._about})

    async def document(self, path: str) -> Response:
        if self._documents is None:
            raise ProblemError(Problem(404, "there is no such document"))
        return await asyncio.to_thread(self._documents.response, path)

    async def ask(self, request: Request) -> Response:
        _check_json(request)
        question = PageRequest.read(await request.body()).checked(self._answers)
        self._answers.refuse_if_full()
        return StreamingResponse(story_events(self._answers, question), media_type="text/event-stream")

    async def models(self) -> Response:
        return JSONResponse(models(self._begun))

    async def model(self, name: str) -> Response:
        if name != MODEL:
            raise ProblemError(no_model(name))
        return JSONResponse(model(self._begun))

    async def health(self) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics(self) -> Response:
        return Response(self._answers.metrics.page(), media_type=CONTENT_TYPE_LATEST)

    async def failed(self, request: Request, error: Exception) -> Response:
        problem = problem_of(error, self._answers.lms)
        return JSONResponse(problem.body, problem.status, problem.headers)


def _check_json(request: Request) -> None:
    # A page of another site can send any text without asking, but not as JSON.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ProblemError(Problem(415, "the Content-Type must be application/json"))


async def _no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    return JSONResponse(Problem(status, "there is nothing at this address, or not by this method").body, status)


async def _events(answers: Answers, question: Question, *, with_usage: bool) -> AsyncIterator[str]:
    """The events of an answer; a question that has none ends with an event that says why."""
    completion = Completion()
    asking = asyncio.create_task(answers.ask(question))
    try:
        yield completion.begun()
        while not asking.done():
            await asyncio.wait([asking], timeout=KEEP_ALIVE)
            if not asking.done():
                yield ALIVE
        try:
            record = asking.result()
        except Exception as error:
            yield event(problem_of(error, answers.lms).body)
        else:
            for one in completion.answered(record, with_usage=with_usage):
                yield one
        yield DONE
    finally:
        asking.cancel()
