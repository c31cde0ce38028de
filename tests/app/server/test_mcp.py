"""The tools, called by MCP's own client: over HTTP, and over standard input and output."""

import os
import sys

import pytest
from fixtures.serving import MARKUP, QUESTION
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.server.mcpserver.exceptions import ToolError

from keqa.programs.prediction import Searching
from keqa.server.mcp_tools import mcp_server

pytestmark = pytest.mark.server


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_both_tools_over_http_with_progress(serving, mode):
    heard = []

    async def progress(done, total, message):
        heard.append((done, total, message))

    async with Client(f"{serving.url}/mcp", mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [(tool.name, tool.annotations.read_only_hint) for tool in tools] == [("ask", True), ("search", True)]
        answer = await client.call_tool("ask", {"question": QUESTION}, progress_callback=progress)
        found = await client.call_tool("search", {"query": "harbour", "k": 1})
    assert not answer.is_error
    assert [done for done, _, _ in heard] == list(range(1, len(heard) + 1))
    assert (1, None, "Quiz 1: Who governs Carmouth?") in heard
    place = {"file": "", "page": None, "heading": "", "date": ""}
    source = {"id": "1", "title": "Heidi Fenman", "text": MARKUP, **place, "sentences": [MARKUP], "quizzes": [2]}
    explained = "Heidi Fenman governs Carmouth."
    assert answer.structured_content == {
        "answer": "Flora Isvik",
        "explanation": explained,
        "sources": [source],
        "disagreements": [],
        "answer_source": "summary",
        "confidence": None,
        "guessed": False,
        "unanswered": None,
        "short_answer": None,
        "written": None,
    }
    (passage,) = found.structured_content["passages"]
    assert passage.pop("score") > 0
    assert passage == {"id": "2", "title": "Harbour", "text": "A harbour of Heidi.", **place}
    assert serving.metric("keqa_retrievals_total") == 2


async def test_an_agent_says_how_it_is_answered(serve, writing):
    async with Client(f"{serve(writing).url}/mcp") as client:
        answer = await client.call_tool("ask", {"question": QUESTION, "style": "sentence"})
    told = answer.structured_content
    assert (told["answer"], told["short_answer"]) == ("She married Flora Isvik [1].", "Flora Isvik")
    assert told["written"]["style"] == "sentence"


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("ask", {"question": " "}, "the question is empty"),
        ("ask", {"question": "Who?", "answer_type": "choice"}, "needs choices"),
        ("ask", {"question": "Who?", "style": "essay"}, "Input should be 'auto', 'short', 'sentence', 'report'"),
        ("search", {"query": ""}, "is empty"),
        ("search", {"query": "x", "k": 51}, "less than or equal to 50"),
        ("search", {"query": "x" * 500_000}, "characters"),
    ],
)
async def test_what_cannot_be_asked_is_said(serve, server, tool, arguments, message):
    async with Client(f"{serve(server).url}/mcp") as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert message in result.content[0].text


async def test_a_question_ends_at_once_where_nobody_hears_of_it_any_more():
    ended = []

    class Asked:
        lms = ()

        def check(self, question, *args, **kwargs):
            return question

        async def followed(self, asked):
            try:
                yield Searching(1, asked)
            finally:
                ended.append(asked)

    class Gone:
        async def report_progress(self, *args, **kwargs):
            raise ConnectionError

    with pytest.raises(ToolError) as failed:
        await mcp_server(Asked())._tool_manager.call_tool("ask", {"question": QUESTION}, Gone())
    # What went wrong, and with it all that was under way, is still held.
    assert failed.value is not None
    assert ended == [QUESTION]


@pytest.mark.process
async def test_an_agent_starts_the_command_and_talks_to_it(served, own_index, tmp_path):
    arguments = ["-m", "keqa", "serve", "--mcp", "--no-look-first", "--index", str(own_index), *served]
    environment = {**os.environ, "OPENAI_API_KEY": "none", "XDG_CACHE_HOME": str(tmp_path)}
    command = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
    heard = []

    async def progress(done, total, message):
        heard.append(message)

    async with Client(command) as client:
        answer = await client.call_tool("ask", {"question": QUESTION}, progress_callback=progress)
        found = await client.call_tool("search", {"query": "harbour"})
    assert answer.structured_content["answer"] == "Flora Isvik"
    assert heard[0] == f"Searching: {QUESTION}"
    assert [passage["id"] for passage in found.structured_content["passages"]] == ["2"]
