"""Processes of their own that can be killed, for the command line or some code: begun by one that has all imported."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path


def start(arguments: Sequence[object]) -> BaseProcess:
    """Run ``keqa`` with arguments, without DSPy's caches; its exit code is that of the process."""
    process = context().Process(target=run, args=([str(argument) for argument in arguments],), daemon=True)
    process.start()
    return process


def context() -> ForkServerContext:
    """Starts processes that have everything imported."""
    found = multiprocessing.get_context("forkserver")
    retrievers = [f"keqa.retrievers.{name}" for name in ("changing", "local.dense", "readers.formats")]
    libraries = ["litellm", "elasticsearch.helpers", "safetensors", "transformers.utils"]
    found.set_forkserver_preload(["servers.process", "keqa.optimize.compile", "keqa.cli", *retrievers, *libraries])
    return found


def script(
    code: str, arguments: Sequence[object], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run code to its end, or until it kills itself, with the modules of a folder."""
    said = folder / "stderr.txt"
    given = (code, [str(argument) for argument in arguments], folder, dict(environment), said)
    process = context().Process(target=_run_script, args=given, daemon=True)
    process.start()
    process.join()
    return subprocess.CompletedProcess(given[1], process.exitcode or 0, stderr=said.read_text())


def _run_script(code: str, arguments: list[str], folder: Path, environment: dict[str, str], said: Path) -> None:
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    sys.path.insert(0, str(folder))
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    exec(code, {"__name__": "__main__"})


def run(arguments: list[str]) -> None:
    """Run ``keqa`` in this process."""
    import dspy

    from keqa.__main__ import main

    with open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere
        dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
        sys.argv = ["keqa", *arguments]
        main()
