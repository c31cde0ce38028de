"""What a command makes sure of before its first question: that its language models can be asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dspy

    from keqa.lms import Roles

__all__ = ["check_listening", "check_once", "check_roles"]


def check_roles(roles: Roles, *others: dspy.BaseLM) -> None:
    """Find a server that is dead, wrong or unauthorised within five seconds.

    Args:
        roles: The language models of all roles.
        *others: Further ones that the command asks.

    Raises:
        ConfigurationError: One cannot be asked; see `keqa.lms.preflight.check_reachable`.
    """
    from keqa.lms import check_reachable

    check_reachable([roles.task, roles.consistency, roles.utility, *others])


def check_listening(
    lm: str | None,
    consistency_lm: str | None = None,
    utility_lm: str | None = None,
    *,
    api_base: str | None = None,
    consistency_api_base: str | None = None,
    utility_api_base: str | None = None,
) -> None:
    """Find a server at which nobody listens, before anything is loaded; for the rest, see `check_roles`.

    Args:
        lm: As for `keqa.lms.build_roles`; the one that ships, which needs no server, where None.
        consistency_lm: As there.
        utility_lm: As there.
        api_base: As there.
        consistency_api_base: As there.
        utility_api_base: As there.

    Raises:
        ConfigurationError: There is one.
    """
    from keqa.lms import address_for
    from keqa.lms.preflight import check_listening

    task = lm or "keqa/tiny"
    roles = ((lm, api_base), (consistency_lm, consistency_api_base), (utility_lm, utility_api_base))
    check_listening((model, address_for(model, own, task, api_base)) for model, own in roles if model is not None)


def check_once(roles: Roles) -> Callable[[], None]:
    """`check_roles` for when there is a question to ask: a command whose questions are all answered asks nobody."""
    return cache(lambda: check_roles(roles))
