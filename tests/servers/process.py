"""The command line in a process of its own that can be killed, started from one that has everything imported."""

import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess


def start(arguments: Sequence[object]) -> BaseProcess:
    """Run ``keqa`` with arguments, without DSPy's caches; its exit code is that of the process."""
    process = context().Process(target=run, args=([str(argument) for argument in arguments],), daemon=True)
    process.start()
    return process


def context() -> ForkServerContext:
    """Starts processes that have everything imported."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["servers.process", "keqa.optimize.compile", "keqa.cli", "litellm"])
    return found


def run(arguments: list[str]) -> None:
    """Run ``keqa`` in this process."""
    import dspy

    from keqa.__main__ import main

    with open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere
        dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
        sys.argv = ["keqa", *arguments]
        main()
