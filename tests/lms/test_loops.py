"""Event loops in threads of their own."""

import asyncio
import os
import threading

import pytest

from keqa.lms.loops import Background


async def where():
    return threading.current_thread().name


def test_coroutines_run_in_one_thread_whoever_asks():
    loop = Background("test-loop")
    assert {loop.run(where), asyncio.run(loop.awaited(where))} == {"test-loop"}
    assert not loop.is_here()


def test_blocking_code_within_the_loop_does_not_wait_for_it():
    loop = Background("test-loop")

    async def outer():
        return loop.run(where)

    assert loop.run(outer) == "test-loop-nested_0"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_exit_that_a_task_raises_is_its_own(kind):
    loop = Background("test-loop")

    async def leave():
        raise kind

    with pytest.raises(kind):
        loop.run(leave)
    assert loop.run(where) == "test-loop"


def test_what_nobody_waits_for_any_more_is_cancelled():
    loop, ended = Background("test-loop"), threading.Event()

    async def waits():
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def gives_up():
        async with asyncio.timeout(0.05):
            await loop.awaited(waits)

    with pytest.raises(TimeoutError):
        asyncio.run(gives_up())
    assert ended.wait(10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_loop_of_its_own():
    loop = Background("test-loop")
    loop.run(where)
    if (child := os.fork()) == 0:
        os._exit(0 if loop.run(where) == "test-loop" else 1)
    assert os.waitpid(child, 0)[1] == 0
