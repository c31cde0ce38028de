"""What runs side by side, and what copies share."""

from __future__ import annotations

import copy
import multiprocessing
import os

import pytest

from keqa.programs.calls.session import Branch, CallLimiter, NoCopy, run_blocking


def test_a_joined_branch_may_be_joined_again():
    async def one() -> int:
        return 1

    async def main() -> int:
        branch = Branch(one())
        return await branch.join() + await branch.join()

    assert run_blocking(main) == 2


def test_what_is_shared_is_never_copied():
    held = NoCopy([1])
    assert copy.deepcopy(held) is held


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_calls_in_threads_of_its_own():
    limiter = CallLimiter(1)

    def called() -> int:
        return run_blocking(lambda: limiter.in_thread(os.getpid))

    assert called() == os.getpid()
    child = multiprocessing.get_context("fork").Process(target=called)
    child.start()
    child.join(60)
    ended = child.exitcode
    child.kill()
    assert ended == 0
