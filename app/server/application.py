"""The HTTP routes of ``keqa serve``, behind their guard: the page, chat completions, and MCP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from mcp.server.transport_security import TransportSecuritySettings
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Route

from keqa.data.question import Question
from keqa.errors import InputError, KeqaError
from keqa.page import Page, document, story_data
from keqa.programs.prediction import Progress
from keqa.programs.records import record_without_secrets
from keqa.server.answers import Answers, FolderSync, in_step
from keqa.server.chat import ALIVE, DONE, MODEL, ChatRequest, Completion, event, no_model, read_body
from keqa.server.guard import OPEN, PAGE, Guard
from keqa.server.limits import ProblemError, problem_of
from keqa.server.mcp_tools import mcp_server
from keqa.storage.redaction import without_secrets

KEEP_ALIVE = 10.0
"""Seconds after which a stream says that its question is in work."""

_ASK, _ABOUT, _CHAT, _MODELS = "/ask", "/about", "/v1/chat/completions", "/v1/models"
_METRICS, _MCP, _DOCUMENTS = "/metrics", "/mcp", "/documents"

# What a browser shows by itself and cannot run; HTML is shown as its source.
_SHOWN = {".pdf": "application/pdf"}
_TEXT = (".txt", ".md", ".markdown", ".csv", ".tsv", ".html", ".htm", ".json", ".jsonl", ".eml")
_SAVED = (".docx", ".pptx", ".xlsx", ".epub")


class Documents:
    """A folder of documents that whoever may ask may also open."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"--documents: there is no folder {folder}")
        self._root = folder.resolve()

    def response(self, path: str) -> FileResponse:
        """A file of the folder; none that is hidden, lies elsewhere, or is of a kind that no document has."""
        parts = PurePosixPath(path).parts
        kind = PurePosixPath(path).suffix.lower()
        plain = bool(parts) and not any(part.startswith(".") or "\\" in part or "\0" in part for part in parts)
        found = None
        if plain and not path.startswith("/") and kind in (*_SHOWN, *_TEXT, *_SAVED):
            with suppress(OSError, RuntimeError, ValueError):
                found = self._root.joinpath(*parts).resolve(strict=True)
        if found is None or not found.is_relative_to(self._root) or not found.is_file():
            raise ProblemError(404, "there is no such document")
        media = _SHOWN.get(kind, "text/plain; charset=utf-8" if kind in _TEXT else "application/octet-stream")
        how = "attachment" if kind in _SAVED else "inline"
        return FileResponse(found, media_type=media, filename=parts[-1], content_disposition_type=how)


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
    page = {"documents": None if documents is None else _DOCUMENTS, "secured": token is not None}
    tools, routes = mcp_server(answers), _Routes(answers, about, document("ask", "KEQA", page, served=True))
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
    api.add_api_route(_ASK, routes.ask, methods=["POST"])
    read: dict[str, Callable[..., Any]] = {
        **{PAGE: routes.page, _ABOUT: routes.about, OPEN: routes.health, _METRICS: routes.metrics},
        **{_MODELS: routes.models, _MODELS + "/{name}": routes.model},
    }
    for path, endpoint in read.items():
        api.add_api_route(path, endpoint)
    if documents is not None:

        async def opened(path: str) -> Response:
            return await asyncio.to_thread(documents.response, path)

        api.add_api_route(_DOCUMENTS + "/{path:path}", opened)
    # Without sessions there are no streams from an MCP server to its clients, and nothing to delete.
    mcp = next(route.endpoint for route in streamable.routes if isinstance(route, Route))
    api.router.routes.append(Route(_MCP, mcp, methods=["POST"]))
    for kind in (HTTPException, ProblemError, KeqaError, Exception):
        api.add_exception_handler(kind, routes.failed)
    paths = (PAGE, _ASK, _ABOUT, _CHAT, _MODELS, f"{_MODELS}/{MODEL}", OPEN, _METRICS, _MCP)
    return Guard(api, answers.limits, answers.metrics, paths=paths, token=token, hosts=hosts)


class _Turn(BaseModel):
    question: str
    answer: str | None = None


class _PageRequest(BaseModel):
    question: str
    answer_type: str = "short"
    choices: list[str] = Field(default_factory=list)
    history: list[_Turn] = Field(default_factory=list)


class _Routes:
    def __init__(self, answers: Answers, about: str, page: Page) -> None:
        self._answers, self._about, self._page = answers, about, page
        self._model = {"id": MODEL, "object": "model", "created": int(time.time()), "owned_by": "keqa"}

    async def chat(self, request: Request) -> Response:
        asked = ChatRequest.read(await _json_body(request))
        question = self._answers.check(asked.question, asked.answer_type, asked.choices, asked.history)
        completion = Completion()
        if not asked.stream:
            return JSONResponse(completion.whole(await self._answers.ask(question)))

        def end(asking: asyncio.Task[Any]) -> Iterator[str]:
            try:
                yield from completion.answered(asking.result(), with_usage=asked.wants_usage)
            except Exception as error:
                yield event(problem_of(error, self._answers.lms).body)
            yield DONE

        return self._stream(question, completion.begun(), end)

    async def ask(self, request: Request) -> Response:
        """Stream what happens to a question (`keqa.programs.prediction`), and at the end its whole story."""
        asked = read_body(_PageRequest, await _json_body(request)).model_dump()
        lms = self._answers.lms

        def shown(one: Progress) -> str:
            told: dict[str, Any] = without_secrets({"said": str(one), **asdict(one)}, lms)
            return event({"kind": type(one).__name__, **told})

        def end(asking: asyncio.Task[Any]) -> Iterator[str]:
            try:
                yield event({"kind": "Answered", **story_data(asking.result())})
            except Exception as error:
                record = getattr(error, "record", None)
                story = {} if record is None else story_data(record_without_secrets(record, lms))
                yield event({"kind": "Failed", "message": problem_of(error, lms).message, **story})

        return self._stream(self._answers.check(**asked), ALIVE, end, shown)

    def _stream(self, *events: Any) -> Response:
        self._answers.refuse_if_full()
        return StreamingResponse(_events(self._answers, *events), media_type="text/event-stream")

    async def page(self) -> Response:
        return HTMLResponse(self._page.text, headers={"Content-Security-Policy": self._page.policy})

    async def about(self) -> dict[str, str]:
        return {"about": self._about}

    async def models(self) -> dict[str, Any]:
        return {"object": "list", "data": [self._model]}

    async def model(self, name: str) -> dict[str, Any]:
        if name != MODEL:
            raise no_model(name)
        return self._model

    async def health(self) -> dict[str, str]:
        return {"status": "ok"}

    async def metrics(self) -> Response:
        return Response(self._answers.metrics.page(), media_type=CONTENT_TYPE_LATEST)

    async def failed(self, request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            problem = ProblemError(error.status_code, "there is nothing at this address, or not by this method")
        else:
            problem = problem_of(error, self._answers.lms)
        return JSONResponse(problem.body, problem.status, problem.headers)


async def _json_body(request: Request) -> bytes:
    # A page of another site can send any text without asking, but not as JSON.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ProblemError(415, "the Content-Type must be application/json")
    return await request.body()


async def _events(
    answers: Answers,
    question: Question,
    begun: str,
    end: Callable[[asyncio.Task[Any]], Iterator[str]],
    shown: Callable[[Progress], str] | None = None,
) -> AsyncIterator[str]:
    """The events of a question: that it has begun, what happens where that is shown, signs of life, and its end."""
    loop, happened = asyncio.get_running_loop(), asyncio.Queue[Progress | None]()

    def hears(one: Progress) -> None:
        # It happens in the loop of all questions, which is another one.
        loop.call_soon_threadsafe(happened.put_nowait, one)

    asking = asyncio.create_task(answers.ask(question, None if shown is None else hears))
    asking.add_done_callback(lambda _: happened.put_nowait(None))
    try:
        yield begun
        while not asking.done() or not happened.empty():
            try:
                one = await asyncio.wait_for(happened.get(), KEEP_ALIVE)
            except TimeoutError:
                yield ALIVE
            else:
                if one is not None and shown is not None:
                    yield shown(one)
        for last in end(asking):
            yield last
    finally:
        asking.cancel()
