"""The HTTP routes of ``keqa serve``, behind their guard: the page, chat completions, and MCP."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import asdict
from functools import partial, reduce
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from mcp.server.transport_security import TransportSecuritySettings
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from keqa.conversations import Conversations, exported, for_page
from keqa.errors import InputError, KeqaError
from keqa.page import Page, document, story_data
from keqa.programs.calls.session import Hears
from keqa.programs.declared import WantedStyle
from keqa.programs.earlier import Findings
from keqa.programs.prediction import Progress, Source
from keqa.programs.records import QuestionRecord, record_without_secrets
from keqa.retrievers.manifest import RECORD_SUFFIXES
from keqa.retrievers.readers import passed_over
from keqa.retrievers.readers.common import DOCUMENTS, plain_suffix
from keqa.retrievers.text import clean_text, one_line
from keqa.server.answers import Answers, Asked, FolderSync, in_step
from keqa.server.chat import ALIVE, DONE, MODEL, ChatRequest, Completion, Link, Story, event, no_model, read_body
from keqa.server.guard import OPEN, PAGE, Guard
from keqa.server.intake import Intake
from keqa.server.limits import ProblemError, log, problem_of
from keqa.server.mcp_tools import mcp_server
from keqa.storage.redaction import without_secrets

KEEP_ALIVE = 10.0
"""Seconds after which a stream says that its question is in work."""

_ASK, _ABOUT, _CHAT, _MODELS = "/ask", "/about", "/v1/chat/completions", "/v1/models"
_METRICS, _MCP, _DOCUMENTS, _KEPT = "/metrics", "/mcp", "/documents", "/conversations"

# What a browser shows by itself and cannot run; HTML is shown as its source.
_SHOWN = {".pdf": "application/pdf"}
_SAVED = (".docx", ".epub", ".mbox", ".mht", ".mhtml", ".ods", ".odt", ".pptx", ".rtf", ".xlsm", ".xlsx")
_TEXT = {*DOCUMENTS, *RECORD_SUFFIXES} - {*_SHOWN, *_SAVED}


class Documents:
    """A folder of documents that whoever may ask may also open."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"--documents: there is no folder {folder}")
        self._root = folder.resolve()

    def response(self, path: str) -> FileResponse:
        """A file of the folder; none that is hidden, lies elsewhere, or is of a kind that no document has."""
        parts = PurePosixPath(path).parts
        kind = PurePosixPath(path).suffix.lower() or plain_suffix(Path(path))
        plain = bool(parts) and not any(passed_over(part) or "\\" in part or "\0" in part for part in parts)
        found = None
        if plain and not path.startswith("/") and kind in (*_SHOWN, *_TEXT, *_SAVED):
            with suppress(OSError, RuntimeError, ValueError, StopIteration):
                found = reduce(_named, parts, self._root).resolve(strict=True)
        if found is None or not found.is_relative_to(self._root) or not found.is_file():
            raise ProblemError(404, "there is no such document")
        media = _SHOWN.get(kind, "text/plain; charset=utf-8" if kind in _TEXT else "application/octet-stream")
        how = "attachment" if kind in _SAVED else "inline"
        return FileResponse(found, media_type=media, filename=parts[-1], content_disposition_type=how)


def _named(folder: Path, name: str) -> Path:
    """What has a name in a folder, also where the name is as an index has it: composed, and with single spaces."""
    there = folder / name
    return there if there.exists() else next(one for one in folder.iterdir() if one_line(clean_text(one.name)) == name)


def application(
    answers: Answers,
    *,
    token: str | None = None,
    hosts: Iterable[str] = (),
    documents: Documents | None = None,
    sync: FolderSync | None = None,
    about: str = "",
    story: Story = "reasoning",
    conversations: Conversations | None = None,
    intake: Intake | None = None,
    public_url: str = "",
) -> Guard:
    """The application that a web server runs.

    Without documents nothing is read from the disk for a request, and every route is fixed, so that no path leads
    anywhere else. Links to documents begin with `public_url`, by default the address by which a client has asked.
    """
    kept = conversations or Conversations(kept=False)
    page = {
        "documents": None if documents is None else _DOCUMENTS,
        "secured": token is not None,
        "writes": answers.writes,
        "conversations": _KEPT if kept.kept else None,
        "adds": None if intake is None else {"path": _DOCUMENTS, "most": intake.most, "kinds": intake.kinds},
    }
    tools = mcp_server(answers)
    handlers = _Handlers(answers, about, document("ask", "KEQA", page, served=True), story, kept)
    # Each request stands by itself, so that no client can make the server keep sessions; the guard checks the rest.
    streamable = tools.streamable_http_app(
        streamable_http_path=_MCP,
        stateless_http=True,
        max_request_body_size=answers.limits.max_body,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    # Without sessions there are no streams from an MCP server to its clients, and nothing to delete.
    mcp = next(route.endpoint for route in streamable.routes if isinstance(route, Route))
    routes = [
        *(Route(path, endpoint, methods=["POST"]) for path, endpoint in ((_CHAT, handlers.chat), (_ASK, handlers.ask))),
        *(Route(PAGE, handlers.page), Route(_ABOUT, handlers.about), Route(OPEN, handlers.health)),
        *(Route(_MODELS, handlers.models), Route(_MODELS + "/{name:path}", handlers.model)),
        *(Route(_METRICS, handlers.metrics), Route(_MCP, mcp, methods=["POST"])),
    ]
    if documents is not None:

        async def opened(request: Request) -> Response:
            return await asyncio.to_thread(documents.response, request.path_params["path"])

        routes.append(Route(_DOCUMENTS + "/{path:path}", opened))
    if intake is not None:

        async def added(request: Request) -> Response:
            # No form can send this type, and no page of another site without asking.
            _check_type(request, "application/octet-stream")
            name = request.query_params.get("name", "")
            return JSONResponse(await intake.add(name, await request.body()))

        routes.append(Route(_DOCUMENTS, added, methods=["POST"]))
    if kept.kept:
        routes += [Route(_KEPT, handlers.listed), Route(_KEPT + "/{name}", handlers.resumed)]
        routes.append(Route(_KEPT + "/{name}", handlers.deleted, methods=["DELETE"]))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with tools.session_manager.run(), in_step(sync):
            yield

    failures = dict.fromkeys((HTTPException, ProblemError, KeqaError, Exception), handlers.failed)
    api = Starlette(routes=routes, exception_handlers=failures, lifespan=lifespan)
    api.router.redirect_slashes = False
    paths = (PAGE, _ASK, _ABOUT, _CHAT, _MODELS, f"{_MODELS}/{MODEL}", OPEN, _METRICS, _MCP, _DOCUMENTS, _KEPT)
    how: dict[str, Any] = {"paths": paths, "token": token, "hosts": hosts}
    how["opened"] = f"{_DOCUMENTS}/" if documents is not None else ""
    how["larger"] = {} if intake is None else {_DOCUMENTS: intake.most}
    guard = Guard(api, answers.limits, answers.metrics, **how)
    if documents is not None:
        handlers.ticket, handlers.public_url = guard.ticket, public_url.rstrip("/")
    return guard


class _Turn(BaseModel):
    question: str
    answer: str | None = None


class _PageRequest(BaseModel):
    question: str
    answer_type: str = "short"
    choices: list[str] = Field(default_factory=list)
    history: list[_Turn] = Field(default_factory=list)
    conversation: str | None = None
    style: WantedStyle | None = None


class _Handlers:
    ticket: Callable[[str], str] | None = None
    """Where documents are given out, what a link to one carries."""
    public_url = ""

    def __init__(self, answers: Answers, about: str, page: Page, story: Story, conversations: Conversations) -> None:
        self._answers, self._about, self._page, self._story = answers, about, page, story
        self._conversations = conversations
        self._model = {"id": MODEL, "object": "model", "created": int(time.time()), "owned_by": "keqa"}

    async def chat(self, request: Request) -> Response:
        asked = ChatRequest.read(await _json_body(request))
        question = self._answers.check(asked.question, asked.answer_type, asked.choices, asked.history, asked.style)
        with_usage = bool(asked.stream_options and asked.stream_options.include_usage)
        how: dict[str, Any] = {"with_usage": with_usage, "link": self._links(request)}
        completion = Completion(asked.story or self._story, self._answers.lms, **how)
        if not asked.stream:
            return JSONResponse(completion.whole(await self._answers.ask(question)))

        def end(asking: asyncio.Future[Any]) -> Iterator[str]:
            try:
                yield from completion.answered(asking.result(), lists=asked.sources_in_text)
            except Exception as error:
                yield event(problem_of(error, self._answers.lms).body)
            yield DONE

        return self._stream(question, completion.begun(), end, completion.happened)

    def _links(self, request: Request) -> Link:
        base, ticket = self.public_url or str(request.base_url).rstrip("/"), self.ticket

        def link(source: Source) -> str | None:
            if ticket is None or not source.file:
                return None
            path = f"{_DOCUMENTS}/{source.file}"
            query = f"?ticket={signed}" if (signed := ticket(path)) else ""
            return f"{base}{quote(path)}{query}{f'#page={source.page}' if source.page else ''}"

        return link

    async def ask(self, request: Request) -> Response:
        """Stream what happens to a question (`keqa.programs.prediction`), and at the end its whole story."""
        body = read_body(_PageRequest, await _json_body(request)).model_dump()
        lms, name = self._answers.lms, body.pop("conversation")
        asked, begun, asking_for = self._answers.check(**body), ALIVE, None
        self._answers.refuse_if_full()
        if name is not None:
            asked, begun, asking_for = await self._kept(asked, body, name)

        def shown(one: Progress) -> str:
            fields: dict[str, Any] = without_secrets({"said": str(one), **asdict(one)}, lms)
            return event({"kind": type(one).__name__, **fields})

        def end(asking: asyncio.Future[Any]) -> Iterator[str]:
            try:
                yield event({"kind": "Answered", **story_data(asking.result())})
            except Exception as error:
                record = getattr(error, "record", None)
                story = {} if record is None else story_data(record_without_secrets(record, lms))
                yield event({"kind": "Failed", "message": problem_of(error, lms).message, **story})

        return self._stream(asked, begun, end, shown, asking_for)

    async def _kept(
        self, asked: Asked, body: dict[str, Any], name: str
    ) -> tuple[Asked, str, Callable[[Hears], Awaitable[QuestionRecord]]]:
        """The question as one of a conversation that is kept: an empty name begins one."""
        kept = self._conversations
        if not kept.kept:
            raise ProblemError(400, "this server keeps no conversations", param="conversation")
        before = await asyncio.to_thread(kept.read, name) if name else kept.begin(asked.question, self._about)
        asked = self._answers.check(**{**body, "history": before.history})
        talk = await asyncio.to_thread(kept.ask, before, asked.question)
        by = ""

        def settled(answering: str) -> Findings:
            nonlocal by
            by = answering
            return before.findings(answering)

        async def keep(record: QuestionRecord | None, error: str = "") -> None:
            # Whoever asked gets what became of the question, whether or not that can be kept.
            try:
                await asyncio.to_thread(partial(kept.answer, talk, record, by=by, error=error))
            except (InputError, OSError) as problem:
                log.error("an answer cannot be kept: %s", getattr(problem, "strerror", None) or problem)

        async def ask(hears: Hears) -> QuestionRecord:
            try:
                record = await self._answers.ask(asked, hears, settled)
            except Exception as error:
                failed = getattr(error, "record", None)
                failed = None if failed is None else record_without_secrets(failed, self._answers.lms)
                await keep(failed, problem_of(error, self._answers.lms).message)
                raise
            await keep(record)
            return record

        return asked, event({"kind": "Kept", "conversation": talk.about.id, "said": ""}), ask

    async def listed(self, _: Request) -> Response:
        found = await asyncio.to_thread(self._conversations.listed)
        return JSONResponse({"conversations": [one.model_dump() for one in found]})

    async def resumed(self, request: Request) -> Response:
        """A conversation, for the page to go on with, or as a file."""
        talk = await asyncio.to_thread(self._conversations.read, request.path_params["name"])
        form = request.query_params.get("form", "json")
        if form in ("html", "md"):
            text = exported(talk, "html" if form == "html" else "md", self._links(request))
            headers = {"Content-Disposition": f'attachment; filename="conversation-{talk.about.id}.{form}"'}
            return Response(text, media_type=f"text/{'html' if form == 'html' else 'markdown'}", headers=headers)
        return JSONResponse(for_page(talk))

    async def deleted(self, request: Request) -> Response:
        name = request.path_params["name"]
        await asyncio.to_thread(self._conversations.delete, name)
        return JSONResponse({"deleted": name})

    def _stream(
        self,
        asked: Asked,
        begun: str,
        end: Callable[[asyncio.Future[Any]], Iterator[str]],
        shown: Callable[[Progress], str],
        ask: Callable[[Hears], Awaitable[QuestionRecord]] | None = None,
    ) -> Response:
        """The events of a question: that it has begun, what happens, signs of life, and its end."""
        self._answers.refuse_if_full()

        async def events() -> AsyncIterator[str]:
            yield begun
            async with aclosing(self._answers.followed(asked, KEEP_ALIVE, ask)) as following:
                async for one in following:
                    if isinstance(one, asyncio.Future):
                        for last in end(one):
                            yield last
                    else:
                        yield ALIVE if one is None else shown(one)

        # By default nginx keeps what it passes on until some kilobytes are there.
        return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def page(self, _: Request) -> Response:
        return HTMLResponse(self._page.text, headers={"Content-Security-Policy": self._page.policy})

    async def about(self, _: Request) -> Response:
        return JSONResponse({"about": self._about})

    async def models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model]})

    async def model(self, request: Request) -> Response:
        if (name := request.path_params["name"]) != MODEL:
            raise no_model(name)
        return JSONResponse(self._model)

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics(self, _: Request) -> Response:
        return Response(self._answers.metrics.page(), media_type=CONTENT_TYPE_LATEST)

    async def failed(self, request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            message = f"there is nothing at this address, or not by this method: questions go to POST {_CHAT}"
            problem = ProblemError(error.status_code, message)
        else:
            problem = problem_of(error, self._answers.lms)
        return JSONResponse(problem.body, problem.status, problem.headers)


async def _json_body(request: Request) -> bytes:
    # A page of another site can send any text without asking, but not as JSON.
    _check_type(request, "application/json")
    return await request.body()


def _check_type(request: Request, wanted: str) -> None:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != wanted:
        raise ProblemError(415, f"the Content-Type must be {wanted}")
