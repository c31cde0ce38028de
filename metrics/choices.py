"""Which option of a choice an answer names.

Options are compared as other answers are, as long as that distinguishes them. Where it does not (``6或－4`` beside
``6或4``, ``**`` beside ``//``, ``TT`` beside ``Tt``), they are compared by more and more of their writing, so that a
wrong option is never taken for the right one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

OPTION = re.compile(r"^\s*(?:(?:option|answer|choice)\s*+(?::\s*+)?)?[(\[]?([A-Za-z])[)\].:]*\s*$", re.IGNORECASE)
"""An option's letter and nothing else."""

_LABELLED = re.compile(r"^\s*(?:[(\[]([A-Za-z])[)\]]|([A-Za-z])[).:])\s*(\S.*)$", re.DOTALL)


def normalize_choice(text: str, choices: Sequence[str], plain: Callable[[str], str]) -> str:
    """The form of the option that an answer names by letter or by text.

    Args:
        text: The answer.
        choices: The options; where there are none, the letter is the form.
        plain: Normalises a text that is no option.

    Returns:
        A form that options of another text do not have; the answer's own form where it names no option.
    """
    option, labelled = OPTION.match(text), _LABELLED.match(text)
    letter = (option[1] if option else (labelled[1] or labelled[2]) if labelled else "").lower()
    if not choices:
        return letter if option else plain(labelled[3] if labelled else text)
    # From the coarsest form to the text as it is written.
    options = [_forms(choice, plain) for choice in choices]
    own = _forms(text, plain)
    lettered = bool(letter) and ord(letter) - ord("a") < len(options)
    # "C" is the third option unless one is written just so; that another is "c", or comes to it, does not count.
    place = _named(own, options, coarsest=2 if option and lettered else 0)
    if place is None and lettered:
        # A bare letter, or one before a text that no option has: the letter decides.
        place = ord(letter) - ord("a")
    if place is not None:
        return _telling(place, options)
    return own[-1] if own[0] and any(own[0] == forms[0] for forms in options) else own[0]


def _forms(text: str, plain: Callable[[str], str]) -> tuple[str, ...]:
    bare = " ".join(_without_label(text).split())
    return plain(bare), bare.casefold(), bare, " ".join(text.split())


def _named(own: Sequence[str], options: Sequence[Sequence[str]], coarsest: int) -> int | None:
    """The option that a text is closest to; None where it is none, or could be several."""
    for level in reversed(range(coarsest, len(own))):
        same = [place for place, forms in enumerate(options) if own[level] and forms[level] == own[level]]
        if same:
            return same[0] if len({options[place][-1] for place in same}) == 1 else None
    return None


def _telling(place: int, options: Sequence[Sequence[str]]) -> str:
    """The coarsest form of an option that no option of another text has."""
    forms = options[place]
    others = [other for other in options if other[-1] != forms[-1]]
    telling = (form for level, form in enumerate(forms) if form and all(other[level] != form for other in others))
    return next(telling, "")


def _without_label(text: str) -> str:
    labelled = _LABELLED.match(text)
    return labelled[3] if labelled else text
