"""The server of ``keqa view``: what it gives, and to whom."""

from __future__ import annotations

import httpx
import pytest

from keqa.evaluation.records import RunHeader, RunLine, RunSettings, header_line, run_line
from keqa.page.runs import Runs, run_view
from keqa.programs.records import QuestionRecord

ABOUT = {"method": "keqa", "label": "keqa", "dataset": "d", "fingerprint": "f"}


@pytest.fixture
def client(tmp_path):
    header = RunHeader(**ABOUT, ids=["0"], configuration=RunSettings())
    record = QuestionRecord(question="Who?", answer="Ann", answer_source="memory")
    scores = {"em": 1.0, "f1": 1.0, "contains": 1.0}
    line = RunLine(id="0", question="Who?", answers=["Ann"], answer="Ann", scores=scores, record=record)
    (tmp_path / "keqa.jsonl").write_bytes(header_line(header) + run_line(line))
    transport = httpx.ASGITransport(app=run_view(Runs([tmp_path])))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8322")


async def test_the_page_the_list_and_a_story(client, tmp_path):
    async with client:
        page = await client.get("/")
        assert "connect-src 'self'" in page.headers["content-security-policy"]
        assert (await client.get("/runs.json")).json()["questions"][0][1] == "Who?"
        assert (await client.get("/story?run=0&question=0")).json()["record"]["answer"] == "Ann"
        (tmp_path / "keqa.jsonl").write_text("something else")
        changed = await client.get("/story?run=0&question=0")
    assert changed.status_code == 409
    assert "has changed since" in changed.json()["error"]["message"]


@pytest.mark.parametrize("query", ["", "?run=0", "?run=0&question=99", "?run=x&question=0", "?run=-1&question=0"])
async def test_a_story_that_is_not_there(client, query):
    async with client:
        assert (await client.get(f"/story{query}")).status_code == 404


async def test_other_users_of_the_machine_read_no_run(tmp_path):
    (tmp_path / "keqa.jsonl").write_bytes(header_line(RunHeader(**ABOUT, ids=[], configuration=RunSettings())))
    transport = httpx.ASGITransport(app=run_view(Runs([tmp_path]), "a-token-of-thirty-characters-0"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8322") as client:
        assert [(await client.get(path)).status_code for path in ("/", "/runs.json", "/story")] == [200, 401, 401]
        known = {"Authorization": "Bearer a-token-of-thirty-characters-0"}
        assert (await client.get("/runs.json", headers=known)).status_code == 200


async def test_who_may_not_ask(client):
    async with client:
        assert (await client.get("/runs.json", headers={"Host": "evil.example"})).status_code == 421
        assert (await client.get("/runs.json", headers={"Origin": "http://evil.example"})).status_code == 403
        assert (await client.get("/../keqa.jsonl")).status_code == 404
        assert (await client.post("/runs.json")).status_code == 405
