"""What a command opens and makes sure of before its first question: an index, and language models that can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keqa.cli.console import status, warn
from keqa.cli.options import refuse_empty
from keqa.errors import ConfigurationError, MissingExtraError

if TYPE_CHECKING:
    import dspy

    from keqa.cli.options import KeqaOptions, LanguageModels, ProgramOptions, RiskOptions
    from keqa.lms import Roles
    from keqa.programs.program import Program
    from keqa.retrievers import Index, Retriever


def check_installed(what: str, *packages: str) -> None:
    """Refuse to serve where a package of the extra is missing.

    Args:
        what: Needs them, in the words of the message.
        *packages: By the names under which they are imported.

    Raises:
        MissingExtraError: One is.
    """
    from importlib.util import find_spec

    if not all(map(find_spec, packages)):
        raise MissingExtraError("serve", what)


def open_retriever(index: str | None, lm: str | None, engine: str | None = None) -> Index:
    """Open an index, or the testbed's encyclopedia where none is given.

    Args:
        index: Its address; see `keqa.retrievers.open_index`.
        lm: The language model that will read its passages; the one that ships with KEQA where None.
        engine: What searches the encyclopedia: ``bm25``, ``dense`` or ``hybrid``.

    Raises:
        ConfigurationError: The language model that ships with KEQA cannot read this index.
        MissingExtraError: A package is missing that the engine needs.
        InputError: The address is none, or empty.
        RetrievalError: The index cannot be opened.
    """
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
    """Find a server that is dead, wrong or unauthorised within five seconds.

    Args:
        roles: The language models of all roles.
        *others: Further ones that the command asks.

    Raises:
        ConfigurationError: One cannot be asked; see `keqa.lms.preflight.check_reachable`.
    """
    from keqa.lms import check_reachable

    check_reachable([*roles.every, *others])


def open_program(
    folder: Path | None, retriever: Retriever, roles: Roles, given: Mapping[str, Any], embedder: str | None
) -> Program:
    """The program in a folder, or one that is not compiled, with the options that were given.

    Args:
        folder: Of the compiled program; ``testbed`` is the one that ships.
        retriever: What it searches.
        roles: Its language models.
        given: Settings that hold instead of its own.
        embedder: The embedding model that the program was compiled with, where it must be named.

    Raises:
        InputError: The folder holds no program.
        ConfigurationError: A setting is out of its range.
    """
    if folder is None:
        from keqa.programs.keqa import KEQA

        return KEQA(retriever, lms=roles, **given)
    from keqa.programs.saving.folder import load

    program: Program = load(folder, retriever, roles, embedder=embedder, **given)
    return program


def open_all(
    program: ProgramOptions,
    models: LanguageModels,
    method: KeqaOptions,
    risk: RiskOptions,
    *,
    watch: bool = False,
) -> tuple[Program, Retriever, Roles]:
    """Open what a command asks again and again, and make sure that it can be asked.

    Args:
        program: The options of the program and its index.
        models: The options of the language models.
        method: The options of the method.
        risk: What the program is to hold.
        watch: Whether the index is one that others change meanwhile; see `keqa.retrievers.watching`.

    Returns:
        The program, the index and the language models.

    Raises:
        KeqaError: As for the functions of this module.
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
        roles = models.roles(cache=not program.no_cache)
        asked = open_program(program.program, retriever, roles, settings, program.embedder)
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
