"""What runs side by side, and what copies share."""

from __future__ import annotations

import copy

from keqa.programs.runtime.concurrency import Branch, NoCopy, run_blocking


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
