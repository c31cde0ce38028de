"""What ``keqa serve`` adds to calling the program in Python, and whether it holds under many users.

    python benchmarks/serve.py [--questions 100] [--repeat 5] [--users 50] [--seconds 120]

A server in a process of its own is asked the same question again and again, by one user and then by four at once; its
program gives its answer without asking anybody (target for one user: 5 ms at the 95th percentile). The last column is
processor time of server and client together. Then so many users ask a server as the command starts it, over a scripted
language model, without a pause for so many seconds (with 0 users nobody does). Exit code 1: an answer was wrong or an
error.

    python benchmarks/serve.py --crowd 60

Asks a question each second while 2,000 connections stay silent, then while 500 ask for a document of 12 MB and do not
read it, then while 200 send byte by byte, each for so many seconds and all from this machine.
"""

import asyncio
import multiprocessing
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
from common import Beside, options, show, timed
from fixtures.command_line import begin
from fixtures.serving import serving
from lakes import lakes, replying

import keqa
from keqa.server.limits import ServerLimits

QUIZZES, PASSAGES, AT_ONCE = 2, 5, 4
WARM_UP = 5
CHAT = "/v1/chat/completions"
QUESTION = "How deep is lake 1?"
UNBOUNDED = ServerLimits(in_flight=64, waiting=1000, rate=0)


def main() -> int:
    given = options(__doc__, questions=100, repeat=5, users=50, seconds=120.0, crowd=float)
    os.environ["OPENAI_API_KEY"] = "none"
    with replying(QUIZZES) as scripted:
        if given.crowd:
            return int(_crowded(scripted.api_base, given.crowd))
        _overhead(scripted.api_base, given.questions, given.repeat)
        return int(bool(given.users) and _load(scripted.api_base, given.users, given.seconds))


def _overhead(address: str, questions: int, repeat: int) -> None:
    """Milliseconds of a question, and those of a processor in client and server together."""
    rows = []
    with Beside(_serving, address) as served, httpx.Client(base_url=served.api_base, trust_env=False) as client:
        for users in (1, AT_ONCE):
            with ThreadPoolExecutor(users) as pool:
                _asked(served, client, users, WARM_UP, pool)
                found = [_asked(served, client, users, questions // users, pool) for _ in range(repeat)]
            rows.append({"users": users, **dict(zip(("p50", "p95", "CPU"), np.median(found, axis=0), strict=True))})
    show(rows, f"{repeat} times {questions} questions; medians of the {repeat}, in ms", digits=2)


def _asked(served: Beside, client: httpx.Client, users: int, rounds: int, pool: ThreadPoolExecutor) -> list[float]:
    def one(_: int) -> float:
        return 1000 * timed(lambda: _ask(client))[0]

    before = time.process_time() + served.ask("cpu")
    times = [taken for _ in range(rounds) for taken in pool.map(one, range(users))]
    spent = time.process_time() + served.ask("cpu") - before
    return [*np.percentile(times, (50, 95)), 1000 * spent / len(times)]


@contextmanager
def _serving(address: str) -> Iterator[SimpleNamespace]:
    retriever = lakes(PASSAGES)
    roles = keqa.build_roles("openai/scripted", api_base=address, cache=False)
    program = keqa.KEQA(retriever, lms=roles)
    answer = program(question=QUESTION)

    async def again(question: str, **further: object) -> object:
        return answer

    # It asks nobody, so that all time is the server's.
    at_once: Any = SimpleNamespace(max_question_chars=program.max_question_chars, acall=again)
    with serving(at_once, retriever, [roles.task], UNBOUNDED) as served:
        yield SimpleNamespace(api_base=served.url, cpu=time.process_time)


def _ask(client: httpx.Client, question: str = QUESTION) -> str:
    body = {"model": "keqa", "messages": [{"role": "user", "content": question}]}
    return str(client.post(CHAT, json=body).raise_for_status().json()["choices"][0]["message"]["content"])


def _answers(url: str, seconds: float, pause: float = 0.0, **headers: str) -> Iterator[tuple[float, bool]]:
    """Ask for some seconds, once in each pause: how long a question took, and whether it was answered."""
    end = time.monotonic() + seconds
    with httpx.Client(base_url=url, timeout=300, trust_env=False, headers=headers) as client:
        while (started := time.monotonic()) < end:
            answer = ""
            with suppress(httpx.HTTPError):
                # No cache may answer.
                answer = _ask(client, f"How deep is lake {time.time_ns()}-{threading.get_ident()}?")
            yield time.monotonic() - started, bool(answer)
            time.sleep(max(0.0, started + pause - time.monotonic()))


@contextmanager
def _command(address: str, *further: str) -> Iterator[tuple[str, int]]:
    options = ["--lm", "openai/scripted", "--api-base", address, "--port", "0", "--no-token", "--rate", "0", *further]
    with tempfile.TemporaryDirectory() as folder:
        process = begin("serve", *options, tmp_path=Path(folder))
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


def _load(address: str, users: int, seconds: float) -> bool:
    with _command(address, "--waiting", str(users)) as (url, pid), ThreadPoolExecutor(users) as pool:

        def ask(seconds: float) -> list[tuple[float, bool]]:
            return [*chain.from_iterable(pool.map(lambda _: [*_answers(url, seconds)], range(users)))]

        ask(seconds / 6)
        before = _megabytes(pid)
        times, answered = zip(*ask(seconds), strict=True)
        wrong = len(times) - sum(answered)
        figures = {"answers": len(times), "wrong, or errors": wrong, "a second": len(times) / seconds}
        figures |= dict(zip(("p50, s", "p95, s"), np.percentile(times, (50, 95)), strict=True))
        figures |= {"MB before": before, "MB after": _megabytes(pid)}
    show([figures], f"{users} users for {seconds:g} seconds", digits=2)
    return bool(wrong)


def _crowded(address: str, seconds: float) -> bool:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "large.txt").write_bytes(b"x" * 12_000_000)
        with _command(address, "--documents", folder) as (url, pid):
            for name in CROWDS:
                crowd = multiprocessing.get_context("spawn").Process(target=_hold, args=(url, name), daemon=True)
                crowd.start()
                time.sleep(5)
                found = _asked_beside(url, pid, seconds)
                crowd.terminate()
                crowd.join()
                # What it left is closed by then.
                time.sleep(15)
                rows.append({"beside": name, **found, "MB after": _megabytes(pid)})
    show(rows, f"a question each second for {seconds:g} seconds; connections open again when they are closed", 2)
    return any(row["answered"] < row["asked"] for row in rows)


def _asked_beside(url: str, pid: int, seconds: float) -> dict[str, Any]:
    """Ask each second: how long each question took, how many were answered, and the most memory."""
    asked = [(*one, _megabytes(pid)) for one in _answers(url, seconds, 1, Connection="close")]
    times, answered, memory = zip(*asked, strict=True)
    found = {"asked": len(times), "answered": sum(answered)}
    found |= dict(zip(("p50 s", "p95 s"), np.percentile(times, (50, 95)), strict=True))
    return found | {"MB": max(memory)}


def _hold(url: str, name: str) -> None:
    """Hold connections until this process is ended; one that is closed is opened again a second later."""
    host, _, port = url.removeprefix("http://").partition(":")

    async def one() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(host, int(port))
                try:
                    await CROWDS[name](reader, writer)
                finally:
                    writer.transport.abort()
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


def _megabytes(pid: int) -> float:
    (line,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(line) / 1000


if __name__ == "__main__":
    raise SystemExit(main())
