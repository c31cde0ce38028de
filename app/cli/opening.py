"""What a command opens and makes sure of before its first question: an index, and language models that can be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keqa.cli.console import status, warn
from keqa.cli.declare import refuse_empty
from keqa.errors import ConfigurationError, MissingExtraError

if TYPE_CHECKING:
    import dspy

    from keqa.cli.options import KeqaOptions, LanguageModels, ProgramOptions, RiskOptions
    from keqa.lms import Roles
    from keqa.programs.program import Program
    from keqa.retrievers import Index, Retriever


def check_installed(what: str, *packages: str) -> None:
    """Refuse to serve where a package of the extra is missing."""
    from importlib.util import find_spec

    if not all(map(find_spec, packages)):
        raise MissingExtraError("serve", what)


def open_retriever(index: str | None, lm: str | None, engine: str | None = None) -> Index:
    """Open an index, or the testbed's encyclopedia where none is given."""
    from keqa.retrievers import HybridRetriever, open_index
    from keqa.testbed.index import as_benchmark, holds_encyclopedia, open_dense_encyclopedia, open_encyclopedia

    refuse_empty("--index", index)
    if index is None and engine == "dense":
        return open_dense_encyclopedia()
    if index is None and engine == "hybrid":
        return HybridRetriever([open_encyclopedia(), open_dense_encyclopedia()])
    if index is None:
        return open_encyclopedia()
    retriever = open_index(index)
    # An index of another package may say nothing about itself.
    if holds_encyclopedia(getattr(retriever, "manifest", None)):
        return as_benchmark(retriever)
    if lm is None:
        raise ConfigurationError(_needs_lm(index))
    return retriever


def open_corpus(index: str | None, lm: str | None) -> Index:
    """As `open_retriever`, of a benchmark's passages, over which a program does what its paper does."""
    found = open_retriever(index, lm)
    found.own_documents = False
    return found


def check_roles(roles: Roles, *others: dspy.BaseLM) -> None:
    """Find a server that is dead, wrong or unauthorised within five seconds."""
    from keqa.lms import check_reachable

    check_reachable([*roles.every, *others])


def open_all(
    program: ProgramOptions,
    models: LanguageModels,
    method: KeqaOptions,
    risk: RiskOptions,
    *,
    make: Callable[[Retriever, Roles], Program] | None = None,
    watch: bool = False,
    **calling: Any,
) -> tuple[Program, Retriever, Roles]:
    """Open what a command asks, and make sure that it can be asked; ``make`` makes another program than KEQA.

    With ``watch``, others may change the index meanwhile; see `keqa.retrievers.watching`.
    """
    from keqa.retrievers.watching import WatchedRetriever

    settings, index = method.settings(), program.index
    program.check()
    models.check()
    risk.check()
    with status().status("opening…"):
        models.check_listening()
        opened = open_retriever(index, models.lm)
        retriever = WatchedRetriever(index, opened) if watch and index is not None else opened
        roles = models.roles(cache=not program.no_cache, **calling)
        from keqa.programs.keqa import KEQA
        from keqa.programs.saving.folder import load

        if make is not None:
            asked = make(retriever, roles)
        elif program.program is None:
            asked = KEQA(retriever, lms=roles, **settings)
        else:
            asked = load(program.program, retriever, roles, embedder=program.embedder, **settings)
        promise = risk.hold(asked)
        check_roles(roles)
    if promise:
        warn(promise)
    return asked, retriever, roles


def _needs_lm(index: str) -> str:
    from keqa.lms.discover import suggestions

    found = "\n".join(f"  {suggestion.flag}\n      {suggestion.why}" for suggestion in suggestions())
    return (
        "the language model that ships with KEQA knows only the testbed, a fictional encyclopedia, and can neither "
        f"read nor judge the passages of {index}. Say with --lm which one to use. On this machine, for instance:\n"
        f"{found}"
    )
