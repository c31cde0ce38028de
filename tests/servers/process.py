"""The command line in a process of its own that can be killed, started from one that has everything imported."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess


def start(arguments: Sequence[object]) -> BaseProcess:
    """Run ``keqa`` with arguments, without DSPy's caches; its exit code is that of the process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["servers.process", "keqa.optimize.compile", "keqa.cli", "litellm"])
    process = context.Process(target=_run, args=([str(argument) for argument in arguments],), daemon=True)
    process.start()
    return process


def _run(arguments: list[str]) -> None:
    import dspy

    from keqa.__main__ import main

    with open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere
        dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
        sys.argv = ["keqa", *arguments]
        main()
