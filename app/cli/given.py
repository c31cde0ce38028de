"""What several commands are given alike: a share, addresses of servers, an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keqa.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from fractions import Fraction

    from keqa.retrievers import Index

__all__ = ["open_retriever", "refuse_empty", "refuse_stray_addresses", "settings_of", "share_of"]


def share_of(text: str) -> Fraction:
    """Read a share exactly, so that 4 of 5 reaches .8."""
    from keqa.programs.arguments import Share

    try:
        share: Fraction = Share.read(text)
    except ValueError:
        raise InputError(f"--threshold must be a share between 0 and 1, such as 0.8 or 4/5, not {text!r}") from None
    return share


def settings_of(
    *,
    tries: int | None,
    threshold: str | None,
    temperature: float | None,
    top_k: int | None,
    no_decompose: bool,
    no_examine: bool,
    no_pick: bool,
    select: bool = False,
) -> dict[str, Any]:
    """The settings of KEQA that were given, by the names that its constructor and `keqa.load` take.

    Raises:
        InputError: The threshold is no share.
    """
    given = {
        "tries": tries,
        "threshold": None if threshold is None else share_of(threshold),
        "temperature": temperature,
        "top_k": top_k,
        "decompose": False if no_decompose else None,
        "examine": False if no_examine else None,
        "pick": False if no_pick else None,
        "select": True if select else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def refuse_stray_addresses(
    lm: str | None,
    consistency_lm: str | None,
    consistency_api_base: str | None,
    utility_lm: str | None,
    utility_api_base: str | None,
    api_base: str | None,
) -> None:
    """An address without its model would be ignored in silence; say so instead, and of an empty one as well.

    Raises:
        InputError: An address stands without its model, or one of them is empty, as a variable that is not set is.
    """
    pairs = (
        ("api-base", api_base, "lm", lm),
        ("consistency-api-base", consistency_api_base, "consistency-lm", consistency_lm),
        ("utility-api-base", utility_api_base, "utility-lm", utility_lm),
    )
    for address_flag, address, model_flag, model in pairs:
        refuse_empty(f"--{model_flag}", model)
        refuse_empty(f"--{address_flag}", address)
        if address is not None and model is None:
            raise InputError(f"--{address_flag} needs --{model_flag}: the model that this server serves")


def refuse_empty(flag: str, value: str | None) -> None:
    """Refuse an option that was given and holds nothing: its default would be taken for it in silence.

    Args:
        flag: The option.
        value: What it was given; None where it was not.

    Raises:
        InputError: It is empty.
    """
    if value is not None and not value.strip():
        raise InputError(f"{flag} is empty: give it a value, or leave it out")


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
    from keqa.testbed.index import holds_encyclopedia, open_dense_encyclopedia, open_encyclopedia

    refuse_empty("--index", index)
    if index is None and engine == "dense":
        return open_dense_encyclopedia()
    if index is None and engine == "hybrid":
        return HybridRetriever([open_encyclopedia(), open_dense_encyclopedia()])
    if index is None:
        return open_encyclopedia()
    retriever = open_index(index)
    if lm is None and not holds_encyclopedia(retriever.manifest):
        raise ConfigurationError(_needs_lm(index))
    return retriever


def _needs_lm(index: str) -> str:
    from keqa.lms.discover import suggestions

    found = "\n".join(f"  {suggestion.flag}\n      {suggestion.why}" for suggestion in suggestions())
    return (
        "the language model that ships with KEQA knows only the testbed, a fictional encyclopedia, and can neither "
        f"read nor judge the passages of {index}. Say with --lm which one to use. On this machine, for instance:\n"
        f"{found}"
    )
