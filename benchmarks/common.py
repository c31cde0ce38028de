"""What the benchmarks share: processes of their own, lines of JSON, shared data, asking questions, and tables."""

import argparse
import ast
import json
import multiprocessing
import random
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from keqa.retrievers import Hit, Passage
from keqa.retrievers.base import SharedRetriever

Made = TypeVar("Made")
Asked = TypeVar("Asked", bound=Any)
ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / ".." / "shared" / "data"
"""The benchmarks' files, where they are beside this repository."""

if str(ROOT / "tests") not in sys.path:
    sys.path.insert(0, str(ROOT / "tests"))


def options(doc: str | None, *places: str, given: Sequence[str] | None = None, **known: Any) -> argparse.Namespace:
    """A benchmark's options by name and what is usual, or a type where nothing is; `places` stand by themselves.

    Of a list as many as are given; of a tuple all are usual, and no others may be given.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in known.items():
        alone, several = name in places, isinstance(usual, list | tuple)
        first = usual[0] if several else usual
        how: dict[str, Any] = {"type": first if isinstance(first, type) else type(first)}
        if usual is False:
            how = {"action": "store_true"}
        elif several:
            how |= {"nargs": "*", "choices": usual} if isinstance(usual, tuple) else {"nargs": "+"}
            # That nothing is given is a choice as well, and argparse asks for it where an argument stands by itself.
            how |= {"choices": (*usual, []), "metavar": name} if alone and "choices" in how else {}
            how |= {} if alone else {"action": "extend"}
        elif first is not how["type"]:
            how |= {"default": usual, "help": f"{usual} by default", **({"nargs": "?"} if alone else {})}
        parser.add_argument(name if alone else f"--{name.replace('_', '-')}", **how)
    found = parser.parse_args(given)
    for name, usual in known.items():
        if isinstance(usual, list | tuple) and not getattr(found, name):
            setattr(found, name, [one for one in usual if not isinstance(one, type)])
    found.refuse = parser.error
    return found


def settings(given: Sequence[str]) -> dict[str, Any]:
    """Settings of KEQA from NAME=VALUE, as in a method's specification."""
    from keqa.programs.registry import parse_spec

    return dict(parse_spec(f"keqa:{','.join(given)}").arguments) if given else {}


def show(rows: Iterable[Mapping[str, Any]], title: str | None = None, digits: int = 3) -> None:
    """Print a table that is headed by the names of the first row; a value that is None is an empty cell."""
    rows = list(rows)
    table = Table(*(rows[0] if rows else ()), title=title)
    for row in rows:
        table.add_row(*(_cell(value, digits) for value in row.values()))
    Console(width=180).print(table)


def _cell(value: Any, digits: int) -> str:
    if isinstance(value, float):
        return f"{value:,.{digits}f}"
    return "" if value is None else f"{value:,}" if type(value) is int else str(value)


def interval(found: Any, form: str = ".3f") -> str:
    mean, low, high = (format(value, form) for value in (found.mean, found.low, found.high))
    return f"{mean} [{low}, {high}]"


def timed(work: Callable[[], Made]) -> tuple[float, Made]:
    """The seconds that work took, and what it returned."""
    started = time.perf_counter()
    made = work()
    return time.perf_counter() - started, made


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def recorded(program: Any, asked: Sequence[Asked], out: Path, in_flight: int) -> list[tuple[Asked, dict[str, Any]]]:
    """Ask those with a question, and answers if it has any, that are not asked yet: each with its record."""
    from keqa import evaluate

    rows = [
        {"id": f"{place:03}", "question": one.question, "answers": one.answers[:1], "unanswerable": not one.answers}
        for place, one in enumerate(asked)
    ]
    # So that what a slow language model has answered by some time is of all kinds alike.
    random.Random(0).shuffle(rows)
    evaluate(program, rows, out=out, in_flight=in_flight)
    records = {int(line["id"]): line["record"] for line in read_lines(out) if line.get("record")}
    return [(asked[place], records[place]) for place in sorted(records)]


@contextmanager
def working_in(folder: Path | None) -> Iterator[Path]:
    """A folder that is made where it is not there yet, or one for the time being."""
    with tempfile.TemporaryDirectory() as temporary:
        made = folder or Path(temporary)
        made.mkdir(parents=True, exist_ok=True)
        yield made


def listed(value: str) -> list[str]:
    """The texts of a prompt's field that is a list, or that numbers them."""
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError):
            found = read(value)
            texts = found.values() if isinstance(found, dict) else found if isinstance(found, list) else [found]
            return [str(one) for one in texts]
    # DSPy numbers a list's texts.
    return [part.strip(" «»\n") for part in re.split(r"(?m)^\[\d+\] ", value) if part.strip()]


def replies_of(record: Mapping[str, Any]) -> int:
    return sum(role["samples"] for role in record["cost"]["by_role"].values())


class Beside:
    """What a context manager gives, in a process of its own: `ask` gets an attribute, or what a method returns."""

    def __init__(self, make: Callable[..., AbstractContextManager[Any]], *arguments: Any, **options: Any) -> None:
        self._made = (make, arguments, options)

    def __enter__(self) -> "Beside":
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_beside, args=(theirs, *self._made), daemon=True)
        self._process.start()
        # So that a process that dies is noticed, and not waited for.
        theirs.close()
        self.api_base = self.ask("api_base")
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._pipe.send(None)
        self._process.join(20)

    def ask(self, name: str, **arguments: Any) -> Any:
        self._pipe.send((name, arguments))
        return self._pipe.recv()


def _beside(pipe: Any, make: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> None:
    with make(*arguments, **options) as made, suppress(EOFError, KeyboardInterrupt):
        while (asked := pipe.recv()) is not None:
            found = getattr(made, asked[0])
            pipe.send(found(**asked[1]) if callable(found) else found)


def alone(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What a function returns in a process of its own, with its CPU seconds and its peak of memory."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_alone, function, arguments).result()


def _alone(function: Callable[..., dict[str, Any]], arguments: Sequence[Any]) -> dict[str, Any]:
    started = time.process_time()
    figures = function(*arguments)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return {**figures, "cpu_s": time.process_time() - started, "peak_mb": peak}


def remove_indexes(address: str, pattern: str) -> None:
    from keqa.retrievers.elasticsearch.client import connect, parse_address

    with connect(parse_address(address)) as client:
        for index in client.indices.get(index=pattern):
            client.indices.delete(index=index)


class Finds(SharedRetriever):
    """A retriever that finds the same passages for everything."""

    def __init__(self, title: str, texts: Sequence[str]) -> None:
        self._hits = [Hit(Passage(f"p{place}", title, text), 1 - place / 10) for place, text in enumerate(texts)]

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        return [self._hits[:k] for _ in queries]
