"""The program and its index as tools of the Model Context Protocol."""

import asyncio
import logging
import sys
from contextlib import aclosing
from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from keqa.data.question import AnswerType
from keqa.programs.declared import WantedStyle
from keqa.programs.prediction import AnswerPart, Source
from keqa.programs.records import PlacedText
from keqa.programs.unanswered import answer_text
from keqa.retrievers import Hit
from keqa.server.answers import MOST_HITS, Answers, FolderSync, in_step
from keqa.server.chat import facts_of
from keqa.server.limits import problem_of
from keqa.storage.redaction import without_secrets


class Answer(BaseModel):
    """An answer, how it follows, and the passages that it rests on, of which there are none where it came from memory.

    Where the documents do not say it, the answer says so, answer_source is unanswered, and unanswered tells what was
    asked, searched and read in vain. In a written answer [2] cites the second source, and short_answer is beside it.
    A guess is what no source carries, and the language model is not sure of.
    """

    answer: str
    explanation: str
    sources: list[Source]
    disagreements: list[str] = Field(default_factory=list)
    answer_source: str
    confidence: float | None = None
    guessed: bool = False
    unanswered: dict[str, Any] | None = None
    short_answer: str | None = None
    written: dict[str, Any] | None = None


class Found(PlacedText):
    """A passage that the tool ``search`` gives; of a higher score is the better one of a list."""

    id: str
    score: float


class FoundPassages(BaseModel):
    """What the tool ``search`` gives, best first."""

    passages: list[Found]


def mcp_server(answers: Answers) -> MCPServer[None]:
    # It sets up the log of the whole process, with a handler that needs free files to show a fault: without one, a
    # server that has too many connections would end.
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    # Subscriptions are streams without an end, and there is nothing to subscribe to.
    server: MCPServer[None] = MCPServer(
        "keqa",
        title="KEQA",
        instructions="Answers questions over one collection of documents, with the passages that an answer rests on.",
        version=version("keqa"),
        log_level="ERROR",
        subscriptions=False,
    )
    root.handlers[:] = handlers
    root.setLevel(level)

    # An agent asks its user before each call of a tool that may change something.
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)

    @server.tool(
        title="Ask a question", description="Answer a question from the documents, with its sources.", annotations=reads
    )
    async def ask(
        question: Annotated[str, Field(description="The question, complete in itself.")],
        answer_type: Annotated[AnswerType, Field(description="What kind of answer it wants.")] = "short",
        choices: Annotated[list[str] | None, Field(description="The options of a choice.")] = None,
        style: Annotated[
            WantedStyle | None,
            Field(description="How it is answered: in short, or as a text, a list or a table with citations."),
        ] = None,
        *,
        context: Context[None],
    ) -> Answer:
        try:
            steps, record = 0, None
            asked = answers.check(question, answer_type, choices or [], style=style)
            async with aclosing(answers.followed(asked)) as following:
                async for one in following:
                    if isinstance(one, asyncio.Future):
                        record = one.result()
                    elif one is not None and not isinstance(one, AnswerPart):
                        steps += 1
                        await context.report_progress(steps, message=without_secrets(str(one), answers.lms))
            assert record is not None, "what is followed ends"
        except Exception as error:
            raise ToolError(problem_of(error, answers.lms).message) from None
        return Answer(answer=answer_text(record), **facts_of(record))

    @server.tool(
        title="Search the documents", description="Find passages of the documents, best first.", annotations=reads
    )
    async def search(
        query: Annotated[str, Field(description="Any text.")],
        k: Annotated[int, Field(description="How many passages.", ge=1, le=MOST_HITS)] = 10,
    ) -> FoundPassages:
        try:
            hits = await answers.search(query, k)
        except Exception as error:
            raise ToolError(problem_of(error, answers.lms).message) from None
        return FoundPassages(passages=[_found(hit) for hit in hits])

    return server


def _found(hit: Hit) -> Found:
    passage = hit.passage
    return Found(id=passage.id, title=passage.title, text=passage.text, **asdict(passage.place), score=hit.score)


async def run_on_standard_streams(answers: Answers, sync: FolderSync | None = None) -> None:
    """Speak MCP over standard input and output until the input ends."""
    # What guards a terminal hides the bytes behind it, and this output is read by a program.
    behind = sys.stdout
    sys.stdout = getattr(behind, "unguarded", behind)
    try:
        async with in_step(sync):
            await mcp_server(answers).run_stdio_async()
    finally:
        sys.stdout = behind
