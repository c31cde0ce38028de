"""``keqa demo``: three methods on the testbed, in one table."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    questions: Annotated[int, typer.Option(min=2, help="Test questions of the testbed.")] = 60,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON and nothing else.")] = False,
) -> None:
    """Compare closed book, always-retrieve and KEQA on the testbed, with the LM that ships with it.

    No key and no network are needed: both the fictional encyclopedia and the language model that knows a part of it
    come with the package.
    """
    raise NotImplementedError
