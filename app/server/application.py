"""The HTTP routes of ``keqa serve``, behind their guard: the page, chat completions, and MCP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
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
from keqa.page import document, story_data
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

_ASK, _CHAT, _MODELS, _METRICS, _MCP = "/ask", "/v1/chat/completions", "/v1/models", "/metrics", "/mcp"
_ABOUT = "/about"
_OWN_MODEL = f"{_MODELS}/{MODEL}"


PATH = "/documents"
"""Files are below this path, by their own paths below the folder."""

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
        if not plain or path.startswith("/") or kind not in (*_SHOWN, *_TEXT, *_SAVED):
            raise _missing()
        try:
            found = self._root.joinpath(*parts).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            raise _missing() from None
        if not found.is_relative_to(self._root) or not found.is_file():
            raise _missing()
        media = _SHOWN.get(kind, "text/plain; charset=utf-8" if kind in _TEXT else "application/octet-stream")
        how = "attachment" if kind in _SAVED else "inline"
        return FileResponse(found, media_type=media, filename=parts[-1], content_disposition_type=how)


def _missing() -> ProblemError:
    return ProblemError(404, "there is no such document")


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
    api.add_api_route(_ASK, routes.ask, methods=["POST"])
    api.add_api_route(PAGE, routes.page)
    api.add_api_route(_ABOUT, routes.about)
    if documents is not None:
        api.add_api_route(PATH + "/{path:path}", routes.document)
    api.add_api_route(_MODELS, routes.models)
    api.add_api_route(_MODELS + "/{name}", routes.model)
    api.add_api_route(OPEN, routes.health)
    api.add_api_route(_METRICS, routes.metrics)
    # Without sessions there are no streams from an MCP server to its clients, and nothing to delete.
    endpoint = next(route.endpoint for route in streamable.routes if isinstance(route, Route))
    api.router.routes.append(Route(_MCP, endpoint, methods=["POST"]))
    for kind in (HTTPException, ProblemError, KeqaError, Exception):
        api.add_exception_handler(kind, routes.failed)
    paths = (PAGE, _ASK, _ABOUT, _CHAT, _MODELS, _OWN_MODEL, OPEN, _METRICS, _MCP)
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
    def __init__(self, answers: Answers, documents: Documents | None, about: str, *, secured: bool) -> None:
        self._answers, self._documents, self._about = answers, documents, about
        self._model = {"id": MODEL, "object": "model", "created": int(time.time()), "owned_by": "keqa"}
        data = {"documents": None if documents is None else PATH, "secured": secured}
        self._page = document("ask", "KEQA", data, served=True)

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

        return _stream(self._answers, question, completion.begun(), end)

    async def ask(self, request: Request) -> Response:
        """Stream what happens to a question, and at the end its whole story.

        Each event is JSON with ``kind``, the name of its class in `keqa.programs.prediction`, its fields, and
        ``said``, a sentence. The last one is of the kind ``Answered`` or ``Failed``, with the record where there is
        one.
        """
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

        return _stream(self._answers, self._answers.check(**asked), ALIVE, end, shown)

    async def page(self) -> Response:
        """The page with the question box; it holds nothing of this server's."""
        return HTMLResponse(self._page.text, headers={"Content-Security-Policy": self._page.policy})

    async def about(self) -> dict[str, str]:
        return {"about": self._about}

    async def document(self, path: str) -> Response:
        if self._documents is None:
            raise _missing()
        return await asyncio.to_thread(self._documents.response, path)

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


def _stream(answers: Answers, *events: Any) -> Response:
    answers.refuse_if_full()
    return StreamingResponse(_events(answers, *events), media_type="text/event-stream")


async def _events(
    answers: Answers,
    question: Question,
    begun: str,
    end: Callable[[asyncio.Task[Any]], Iterator[str]],
    shown: Callable[[Progress], str] | None = None,
) -> AsyncIterator[str]:
    """The events of a question: that it has begun, what happens where that is shown, signs of life, and its end."""
    loop, happened = asyncio.get_running_loop(), asyncio.Queue[Progress]()

    def hears(one: Progress) -> None:
        # It happens in the loop of all questions, which is another one.
        loop.call_soon_threadsafe(happened.put_nowait, one)

    asking = asyncio.create_task(answers.ask(question, None if shown is None else hears))
    try:
        yield begun
        while not asking.done() or not happened.empty():
            hearing = asyncio.create_task(happened.get())
            await asyncio.wait([asking, hearing], timeout=KEEP_ALIVE, return_when=asyncio.FIRST_COMPLETED)
            if hearing.done() and shown is not None:
                yield shown(hearing.result())
            else:
                hearing.cancel()
                if not asking.done():
                    yield ALIVE
        for one in end(asking):
            yield one
    finally:
        asking.cancel()
