"""What ``keqa serve`` adds to calling the program in Python, and whether it holds under many users.

    python benchmarks/serve.py [--questions 100] [--repeat 5] [--at-once 4] [--users 50] [--seconds 120]

A scripted language model in a process of its own answers at once. First the same questions are asked in Python and
through a server, which has a process of its own, by turns, by one user and then by several at once; what a question
takes longer through the server, client and network included, is what that adds (target for one user: 5 ms at the 95th
percentile). A second call in Python shows how far two calls are apart where nothing is added: the noise of the machine,
of which the difference has as much. So a second server is asked whose program gives its answer without asking anybody;
all of that time is the server's and the client's. The last column is processor time of client and server together,
which no other work lengthens by waiting.

Then so many users ask without a pause for so many seconds (with 0 users nobody does); every answer must be right, and
the memory of the server's process, which runs as the command does, is read before and after. Exit code 1: an answer was
wrong or an error.

    python benchmarks/serve.py --crowd 60

Asks a question each second while 2,000 connections stay silent, then while 500 ask for a document of 12 MB and do not
read it, then while 200 send byte by byte, each for so many seconds and all from this machine.
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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from latency import Passages, replying
from rich.console import Console
from rich.table import Table

import keqa
from keqa.server.answers import Answers
from keqa.server.application import application
from keqa.server.limits import ServerLimits
from keqa.server.serving import listen, server

QUIZZES, PASSAGES, MOST_USERS = 2, 5, 16
WARM_UP = 5
QUESTION = "How deep is lake 1?"
UNBOUNDED = ServerLimits(in_flight=64, waiting=1000, rate=0)


def main(
    questions: Annotated[int, typer.Option(help="Questions that are timed in each way.")] = 100,
    repeat: Annotated[int, typer.Option(help="How often that is done.")] = 5,
    at_once: Annotated[int, typer.Option(min=1, max=MOST_USERS, help="Users of the second half of these.")] = 4,
    users: Annotated[int, typer.Option(help="Users at once, without a pause.")] = 50,
    seconds: Annotated[float, typer.Option(help="How long they ask.")] = 120.0,
    crowd: Annotated[float, typer.Option(help="Instead: how long each crowd of connections stays.")] = 0.0,
) -> None:
    os.environ["OPENAI_API_KEY"] = "none"
    with replying(QUIZZES) as (address, _):
        console, sound = Console(), True
        if crowd:
            table, sound = _crowded(address, crowd)
            console.print(table)
            raise typer.Exit(not sound)
        console.print(_overhead(address, questions, repeat, at_once))
        if users:
            table, sound = _load(address, users, seconds)
            console.print(table)
    raise typer.Exit(not sound)


def _overhead(address: str, questions: int, repeat: int, at_once: int) -> Table:
    """Milliseconds of the same questions directly and through the server, and of their differences, pair by pair."""
    program = keqa.KEQA(Passages(PASSAGES), lms=_roles(address))
    title = f"{repeat} times {questions} questions of {QUIZZES} quizzes; medians of the {repeat}, in ms"
    table = Table("users", "", "p50", "p95", "CPU", title=title)
    with _serving(address, answers_at_once=False) as whole, _serving(address, answers_at_once=True) as bare:
        for users in dict.fromkeys((1, at_once)):
            with ThreadPoolExecutor(users) as pool:
                runs = [_interleaved(program, whole, bare, users, questions, pool) for _ in range(repeat)]
            for name in runs[0]:
                rows = [run[name].shown() for run in runs]
                table.add_row(
                    f"{users}", name, *(f"{statistics.median(column):.2f}" for column in zip(*rows, strict=True))
                )
            table.add_section()
    return table


@dataclass
class _Times:
    """The milliseconds of some questions, and those of a processor that each took, in the client and the servers."""

    passed: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)

    def less(self, other: _Times) -> _Times:
        """What each took longer than another."""
        pairs = ((self.passed, other.passed), (self.worked, other.worked))
        return _Times(*([one - base for one, base in zip(ours, theirs, strict=True)] for ours, theirs in pairs))

    def shown(self) -> list[float]:
        """Median, 95th percentile, and the median of what a processor took."""
        return [*(_percentile(self.passed, at) for at in (50, 95)), statistics.median(self.worked)]


def _interleaved(
    program: keqa.KEQA, whole: _Server, bare: _Server, users: int, questions: int, pool: ThreadPoolExecutor
) -> dict[str, _Times]:
    """What each question takes, asked in all ways one after the other, so that noise hits all of them."""

    def directly(place: int) -> float:
        return _milliseconds(lambda: program(question=QUESTION))

    ways: dict[str, Callable[[int], float]] = {
        "in Python": directly,
        "in Python again": directly,
        "through the server": lambda place: _milliseconds(lambda: _ask(whole.clients[place])),
        "through the server, at once": lambda place: _milliseconds(lambda: _ask(bare.clients[place])),
    }

    def worked() -> float:
        return 1000 * time.process_time() + whole.cpu() + bare.cpu()

    found = {name: _Times() for name in ways}
    for number in range(-WARM_UP, questions // users):
        names = list(ways)
        # None is always the one that comes after another.
        for name in names[number % 4 :] + names[: number % 4]:
            before = worked()
            times = list(pool.map(ways[name], range(users)))
            if number >= 0:
                found[name].passed += times
                found[name].worked += [(worked() - before) / users] * users
    plain = found["in Python"]
    return {
        "in Python": plain,
        "through the server": found["through the server"],
        "added by the server": found["through the server"].less(plain),
        "added by nothing": found["in Python again"].less(plain),
        "through the server, at once": found["through the server, at once"],
    }


@dataclass
class _Server:
    """A server in a process of its own, and a client for each user."""

    pid: int
    clients: list[httpx.Client]

    def cpu(self) -> float:
        """The milliseconds of processor time that all its threads have taken (Linux)."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6


@contextmanager
def _serving(address: str, *, answers_at_once: bool) -> Iterator[_Server]:
    here, there = multiprocessing.get_context("spawn").Pipe()
    serving = multiprocessing.get_context("spawn").Process(target=_serve, args=(there, address, answers_at_once))
    serving.start()
    url = here.recv()
    clients = [httpx.Client(base_url=url, timeout=60, trust_env=False) for _ in range(MOST_USERS)]
    try:
        yield _Server(serving.pid or 0, clients)
    finally:
        for client in clients:
            client.close()
        here.send("stop")
        serving.join(20)


def _serve(pipe: Connection, address: str, answers_at_once: bool) -> None:
    """Serve, as the command does, until a word comes."""
    retriever, roles = Passages(PASSAGES), _roles(address)
    program: Any = keqa.KEQA(retriever, lms=roles)
    if answers_at_once:
        program = _AtOnce(program)
    web = server(application(Answers(program, retriever, [roles.task], UNBOUNDED)), UNBOUNDED, 5)
    with listen("127.0.0.1", 0) as port:
        thread = threading.Thread(target=web.run, kwargs={"sockets": [port]}, daemon=True)
        thread.start()
        pipe.send(f"http://127.0.0.1:{port.getsockname()[1]}")
        pipe.recv()
        web.should_exit = True
        thread.join(20)


def _roles(address: str) -> Any:
    return keqa.build_roles("openai/scripted", api_base=address, cache=False)


class _AtOnce:
    """A program that gives its first answer again without asking anybody, so that all time is the server's."""

    def __init__(self, program: keqa.KEQA) -> None:
        self.max_question_chars = program.max_question_chars
        self._answer = program(question=QUESTION)

    async def acall(self, question: str, **further: object) -> object:
        return self._answer


def _ask(client: httpx.Client) -> None:
    body = {"model": "keqa", "messages": [{"role": "user", "content": QUESTION}]}
    client.post("/v1/chat/completions", json=body).raise_for_status()


def _milliseconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - started)


def _percentile(found: list[float], at: int) -> float:
    return statistics.quantiles(found, n=100, method="inclusive")[at - 1]


@contextmanager
def _command(address: str, *further: str) -> Iterator[tuple[str, int]]:
    """The command in a process of its own: its address and its process."""
    options = ["--lm", "openai/scripted", "--api-base", address, "--port", "0", "--no-token", "--rate", "0", *further]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "DSPY_CACHEDIR": folder}
        command = [sys.executable, "-m", "keqa", "serve", *options]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            first = process.stderr.readline()
            found = re.search(r"Serving at (http://[\d.]+:\d+)", first)
            if found is None:
                raise SystemExit(f"the server did not start: {first}{process.stderr.read()}")
            # Nobody else empties the pipe of the log.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            with httpx.Client(base_url=found[1], timeout=120, trust_env=False) as client:
                for _ in range(3):
                    _ask(client)
            yield found[1], process.pid
        finally:
            process.terminate()
            process.wait(60)


def _load(address: str, users: int, seconds: float) -> tuple[Table, bool]:
    """Many users at once, before the command in a process of its own."""
    with _command(address, "--waiting", str(users)) as (url, pid):
        asyncio.run(_users(url, users, seconds / 6))
        before = _megabytes(pid)
        times, wrong = asyncio.run(_users(url, users, seconds))
        after = _megabytes(pid)
    table = Table("", "", title=f"{users} users for {seconds:g} seconds", show_header=False)
    table.add_row("answers", f"{len(times):,}")
    table.add_row("wrong, or errors", f"{wrong:,}")
    table.add_row("questions a second", f"{len(times) / seconds:.1f}")
    table.add_row("seconds, p50 and p95", f"{_percentile(times, 50):.2f}, {_percentile(times, 95):.2f}")
    table.add_row("memory before and after", f"{before:.0f} MB, {after:.0f} MB")
    return table, not wrong


def _crowded(address: str, seconds: float) -> tuple[Table, bool]:
    """A question each second while others hold connections, of the same address as whoever asks."""
    title = (
        f"a question each second for {seconds:g} seconds, beside connections that are opened again when they are closed"
    )
    columns = ("beside", "asked", "answered", "p50 s", "p95 s", "MB", "files, at most", "MB and files after")
    table, sound = Table(*columns, title=title), True
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "large.txt").write_bytes(b"x" * 12_000_000)
        with _command(address, "--documents", folder) as (url, pid):
            for name in CROWDS:
                crowd = multiprocessing.get_context("spawn").Process(target=_hold, args=(url, name), daemon=True)
                crowd.start()
                time.sleep(5)
                times, wrong, memory, files = _asked_beside(url, pid, seconds)
                crowd.terminate()
                crowd.join()
                # What it left is closed by then.
                time.sleep(15)
                after = f"{_megabytes(pid):.0f}, {_files(pid)}"
                answered = len(times) - wrong
                row = (len(times), answered, f"{_percentile(times, 50):.2f}", f"{_percentile(times, 95):.2f}")
                table.add_row(name, *map(str, row), f"{memory:.0f}", str(files), after)
                sound = sound and not wrong
    return table, sound


def _asked_beside(url: str, pid: int, seconds: float) -> tuple[list[float], int, float, int]:
    """Ask each second: how long each question took, how many were not answered, and the most memory and files."""
    times, wrong, memory, files, end = [], 0, 0.0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        body = {"model": "keqa", "messages": [{"role": "user", "content": f"How deep is lake {time.time_ns()}?"}]}
        started = time.monotonic()
        try:
            answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60, trust_env=False)
            wrong += answer.status_code != 200
        except httpx.HTTPError:
            wrong += 1
        times.append(time.monotonic() - started)
        memory, files = max(memory, _megabytes(pid)), max(files, _files(pid))
        time.sleep(max(0.0, started + 1 - time.monotonic()))
    return times, wrong, memory, files


def _hold(url: str, name: str) -> None:
    """Hold connections until this process is ended; one that is closed is opened again a second later."""
    host, _, port = url.removeprefix("http://").partition(":")

    async def one() -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(host, int(port))
                try:
                    await CROWDS[name](reader, writer)
                finally:
                    writer.transport.abort()
            except OSError:
                pass
            await asyncio.sleep(1)

    async def all_of_them() -> None:
        await asyncio.gather(*(one() for _ in range(int(name.split()[0]))))

    asyncio.run(all_of_them())


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def _unreading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /documents/large.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
    # More than that is not taken from the system.
    writer.transport.pause_reading()
    await asyncio.sleep(30)


async def _slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for byte in b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n":
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1)


CROWDS = {"2000 silent": _silent, "500 that do not read": _unreading, "200 that send byte by byte": _slow}


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

    limits = httpx.ServerLimits(max_connections=users)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits, trust_env=False) as client:
        await asyncio.gather(*(user(client) for _ in range(users)))
    return times, wrong


def _megabytes(pid: int) -> float:
    """Resident memory of a process (Linux)."""
    (line,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(line) / 1000


def _files(pid: int) -> int:
    """Open files of a process (Linux)."""
    return len(os.listdir(f"/proc/{pid}/fd"))


if __name__ == "__main__":
    typer.run(main)
