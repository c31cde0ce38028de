"""What ``keqa serve`` adds to calling the program in Python, and whether it holds under many users.

    python benchmarks/serve.py [--questions 200] [--users 50] [--seconds 120]

A scripted language model in a process of its own answers at once. First one client asks one question after the other.
Of each the time until the client has the answer is taken, and the time that the program itself took for it; what lies
between is what the server adds, client and network included (target: 5 ms at the 95th percentile). On a busy machine
that is mostly waiting for a core, so CPU time is measured as well, with a program that gives the answer at once. Then
so many users ask without a pause for so many seconds; every answer must be right, and the memory of the server's
process, which runs as the command does, is read before and after. Exit code 1: an answer was wrong or an error.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated

import httpx
import typer
from latency import Passages, Replies
from rich.console import Console
from rich.table import Table

import keqa
from keqa.server.answers import Answers
from keqa.server.application import application
from keqa.server.limits import Limits
from keqa.server.serving import listen, server

QUIZZES, PASSAGES, TARGET_MS = 2, 5, 5.0
QUESTION = "How deep is lake 1?"
UNBOUNDED = Limits(in_flight=64, waiting=1000, rate=0)


def main(
    questions: Annotated[int, typer.Option(help="Pairs of questions that are timed.")] = 200,
    users: Annotated[int, typer.Option(help="Users at once.")] = 50,
    seconds: Annotated[float, typer.Option(help="How long they ask.")] = 120.0,
) -> None:
    here, there = multiprocessing.get_context("spawn").Pipe()
    lm = multiprocessing.get_context("spawn").Process(target=_language_model, args=(there,), daemon=True)
    lm.start()
    os.environ["OPENAI_API_KEY"] = "none"
    try:
        console, address = Console(), here.recv()
        console.print(_overhead(address, questions))
        table, sound = _load(address, users, seconds)
        console.print(table)
    finally:
        here.send("stop")
        lm.join(10)
    raise typer.Exit(not sound)


def _language_model(pipe: Connection) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from servers import openai_server

    with openai_server.OpenAIServer(reply=Replies(openai_server, QUIZZES)) as running:
        pipe.send(running.api_base)
        pipe.recv()


def _overhead(address: str, questions: int) -> Table:
    """Milliseconds until a client has an answer, and how many of them are the server's."""
    roles = keqa.build_roles("openai/scripted", api_base=address, cache=False)
    retriever = Passages(PASSAGES)
    program = _Timed(keqa.KEQA(retriever, lms=roles))
    answers = Answers(program, retriever, [roles.task], UNBOUNDED)
    web = server(application(answers), UNBOUNDED, 5)
    with listen("127.0.0.1", 0) as port:
        thread = threading.Thread(target=web.run, kwargs={"sockets": [port]}, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{port.getsockname()[1]}"
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            for _ in range(10):
                _ask(client)
            program.times.clear()
            served = [_milliseconds(lambda: _ask(client)) for _ in range(questions)]
            taken = list(program.times)
            program.at_once = True
            busy = [_milliseconds(lambda: _ask(client), time.process_time) for _ in range(questions)]
        web.should_exit = True
        thread.join(20)
    added = [whole - own for whole, own in zip(served, taken, strict=True)]
    table = Table("ms", "p50", "p95", title=f"{questions} questions of {QUIZZES} quizzes, one at a time")
    rows = {"over HTTP": served, "of which in the program": taken, f"added (target {TARGET_MS:g})": added}
    rows["added, CPU time"] = busy
    for name, found in rows.items():
        table.add_row(name, *(f"{_percentile(found, at):.1f}" for at in (50, 95)))
    return table


class _Timed:
    """A program that notes how many milliseconds each of its answers took, or gives the last one again at once."""

    def __init__(self, program: keqa.KEQA) -> None:
        self.program, self.times, self.last, self.at_once = program, [], None, False
        self.max_question_chars = program.max_question_chars

    async def acall(self, question: str, **further: object) -> object:
        if not self.at_once:
            started = time.perf_counter()
            self.last = await self.program.acall(question, **further)
            self.times.append(1000 * (time.perf_counter() - started))
        return self.last


def _ask(client: httpx.Client) -> None:
    body = {"model": "keqa", "messages": [{"role": "user", "content": QUESTION}]}
    client.post("/v1/chat/completions", json=body).raise_for_status()


def _milliseconds(work, clock=time.perf_counter) -> float:
    started = clock()
    work()
    return 1000 * (clock() - started)


def _percentile(found: list[float], at: int) -> float:
    return statistics.quantiles(found, n=100)[at - 1]


def _load(address: str, users: int, seconds: float) -> tuple[Table, bool]:
    """Many users at once, before the command in a process of its own."""
    options = ["--lm", "openai/scripted", "--api-base", address, "--port", "0", "--rate", "0", "--waiting", str(users)]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "DSPY_CACHEDIR": folder}
        command = [sys.executable, "-m", "keqa", "serve", *options]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            first = process.stderr.readline()
            found = re.search(r"Serving at (http://[\d.]+:\d+)", first)
            if found is None:
                raise SystemExit(f"the server did not start: {first}{process.stderr.read()}")
            url = found[1]
            # Nobody else empties the pipe of the log.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
                for _ in range(3):
                    _ask(client)
            asyncio.run(_users(url, users, seconds / 6))
            before = _megabytes(process.pid)
            times, wrong = asyncio.run(_users(url, users, seconds))
            after = _megabytes(process.pid)
        finally:
            process.terminate()
            process.wait(60)
    table = Table("", "", title=f"{users} users for {seconds:g} seconds", show_header=False)
    table.add_row("answers", f"{len(times):,}")
    table.add_row("wrong, or errors", f"{wrong:,}")
    table.add_row("questions a second", f"{len(times) / seconds:.1f}")
    table.add_row("seconds, p50 and p95", f"{_percentile(times, 50):.2f}, {_percentile(times, 95):.2f}")
    table.add_row("memory before and after", f"{before:.0f} MB, {after:.0f} MB")
    return table, not wrong


async def _users(url: str, users: int, seconds: float) -> tuple[list[float], int]:
    end, times, wrong, number = time.monotonic() + seconds, [], 0, 0

    async def user(client: httpx.AsyncClient) -> None:
        nonlocal wrong, number
        while time.monotonic() < end:
            number += 1
            # No cache may answer.
            content = f"How deep is lake {time.time_ns()}-{number}?"
            body = {"model": "keqa", "messages": [{"role": "user", "content": content}]}
            started = time.perf_counter()
            answer = await client.post("/v1/chat/completions", json=body)
            times.append(time.perf_counter() - started)
            wrong += answer.status_code != 200 or not answer.json()["choices"][0]["message"]["content"]

    limits = httpx.Limits(max_connections=users)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits, trust_env=False) as client:
        await asyncio.gather(*(user(client) for _ in range(users)))
    return times, wrong


def _megabytes(pid: int) -> float:
    """Resident memory of a process (Linux)."""
    (line,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(line) / 1000


if __name__ == "__main__":
    typer.run(main)
