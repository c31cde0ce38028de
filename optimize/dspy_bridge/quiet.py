"""How DSPy's optimizers are run: without a word on the terminal, and each question once."""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from types import SimpleNamespace
from typing import Any


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the optimizers' own bars and logs from the terminal: progress and results are shown by the caller."""
    engine: Any = importlib.import_module("gepa.core.engine")
    bootstrapping: Any = importlib.import_module("dspy.teleprompt.bootstrap")

    logger = logging.getLogger("dspy")
    level, bar, bars = logger.level, engine.tqdm, bootstrapping.tqdm
    logger.setLevel(logging.ERROR)
    engine.tqdm = functools.partial(bar, disable=True)
    bootstrapping.tqdm = SimpleNamespace(tqdm=functools.partial(bars.tqdm, disable=True))
    try:
        with redirect_stdout(StringIO()):
            yield
    finally:
        logger.setLevel(level)
        engine.tqdm, bootstrapping.tqdm = bar, bars


@contextmanager
def no_straggler_retries() -> Iterator[None]:
    """DSPy starts the last, slow questions of a batch a second time; while it does not, each is asked once."""
    import dspy.evaluate.evaluate as evaluating
    import dspy.predict.parallel as parallel

    before = (evaluating.ParallelExecutor, parallel.ParallelExecutor)
    evaluating.ParallelExecutor, parallel.ParallelExecutor = map(_without_restarts, before)
    try:
        yield
    finally:
        evaluating.ParallelExecutor, parallel.ParallelExecutor = before


def _without_restarts(executor: Any) -> Callable[..., Any]:
    return lambda *arguments, **settings: executor(*arguments, **{**settings, "timeout": 0})
