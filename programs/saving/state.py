"""What DSPy's own ``save`` and ``load`` keep of a program besides its predictors: how it is set up.

DSPy saves the state of a module as that of its parameters, each by its name, and a user's module with a program in it
saves the program's parameters among its own. So the settings are a parameter as well, which every program has::

    {"settings": {"method": "keqa", "values": {"tries": 5, ...}, "reference": {"entries": 2326}},
     "decomposition.decompose": ..., "picking.reference": ...}

Language models and the retriever are none: they are those of the program that a state is loaded into. A program that is
pickled whole (``save_program=True``) travels without them, and says so where it arrives.
"""

from __future__ import annotations

import copyreg
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dspy.predict.parameter import Parameter

from keqa.errors import ConfigurationError
from keqa.programs.calls.session import NoCopy
from keqa.programs.kept import become
from keqa.programs.keqa import KEQA
from keqa.programs.predictor_state import named_values
from keqa.programs.prompts import prompts_of
from keqa.programs.reference.embedding import is_built_in
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.registry import arguments_of
from keqa.programs.saving.methods import arguments_from, made, name_of, set_up
from keqa.programs.settings import OWN

if TYPE_CHECKING:
    from keqa.programs.program import Program
    from keqa.retrievers.base import Hit

SETTINGS = "settings"
"""The name of the settings in a program's state."""

_PARTS = ("method", "values", "reference")
_REFERENCE = "picking.reference"


class SavedSettings(Parameter):
    """A program's settings as a parameter of DSPy's: written with its state, and taken over from one."""

    def __init__(self, program: Program) -> None:
        """Stand for the settings of a program.

        Args:
            program: As it is whenever it is saved.
        """
        self._program = program

    def reset(self) -> None:
        """Stay: an optimizer that starts afresh has not found the settings."""

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The method, its constructor's arguments as JSON values, and whether there is a utility reference."""
        return _described(self._program)

    def load_state(self, state: Mapping[str, Any]) -> SavedSettings:
        """Set the program up as a saved one was; its predictors stay the same objects.

        Args:
            state: What `dump_state` gave, from anywhere.

        Raises:
            ConfigurationError: It is that of another method, holds what it may not, or wants parts that the program
                lacks.
        """
        take(self._program, state, whole=False)
        return self


def take(program: Program, state: Any, *, whole: bool) -> None:
    """Set a program up as a saved one was; language models, retriever and the number of workers stay.

    Args:
        program: It has the same method.
        state: What `SavedSettings.dump_state` gave, from anywhere.
        whole: Whether predictors and a utility reference may be added, as the whole state is about to be loaded; within
            a user's module DSPy loads those parts only that were there before.

    Raises:
        ConfigurationError: See `SavedSettings.load_state`.
    """
    own = _described(program)
    if set(named_values(state, "what a state says of settings")) != set(_PARTS):
        raise ConfigurationError(f"the settings of a state have {', '.join(_PARTS)} and nothing else")
    if state["method"] != own["method"]:
        raise ConfigurationError(f"the state is that of a {state['method']!a:.80}, and this is a {own['method']!a:.80}")
    before, after = (_set_up_like(program, own, values) for values in (own["values"], state["values"]))
    _take_reference(program, state["reference"], whole=whole)
    if before is None or after is None:
        return
    now, then = prompts_of(before), prompts_of(after)
    added = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
    if added and not whole:
        raise ConfigurationError(
            f"the state was saved with other prompts than this program has ({added[0]}): make the program with the "
            "same settings, such as gate=… or reason=…, before its state is loaded"
        )
    become(program, before, after)


def _described(program: Program) -> dict[str, Any]:
    method, values = type(program).__name__, None
    try:
        method = "keqa" if isinstance(program, KEQA) else name_of(program)
        values = set_up(program)
    except ConfigurationError:
        # A method of the user's own, whose settings only its author can write down.
        pass
    reference: Any = program.picking.reference if isinstance(program, KEQA) else None
    if isinstance(reference, UtilityReference):
        reference = {"entries": len(reference.entries)}
    elif reference is not None:
        reference = OWN
    return {"method": method, "values": values, "reference": reference}


def _parts_of(program: Program) -> dict[str, Any]:
    """What of a program's arguments may be code of the user's own, the reference excepted."""
    if not isinstance(program, KEQA):
        return {}
    return {"gate": program.examination.gate, "similarity": program.selection.similarity}


def _set_up_like(program: Program, own: Mapping[str, Any], values: Any) -> Program | None:
    """A program with the saved settings; None where a method of the user's own has none that are known here."""
    if values is None or own["values"] is None:
        return None
    named_values(values, "the settings of a state")
    method: str = own["method"]
    given: dict[str, Any] = {}
    for name, part in _parts_of(program).items():
        if own["values"][name] == values.get(name) and not isinstance(values.get(name), Mapping | None):
            given[name] = part
    if "workers" in arguments_of(type(program)):
        given["workers"] = program.bound.workers
    try:
        return made(method, arguments_from(method, values, given))
    # Whatever a stranger wrote there, it is the state that is wrong and not the code that reads it.
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ConfigurationError(f"the settings of the state cannot be used: {error!r:.200}") from error


def _take_reference(program: Program, saved: Any, *, whole: bool) -> None:
    if not isinstance(program, KEQA):
        return
    there = program.picking.reference
    if saved is None and there is not None:
        raise ConfigurationError(
            "the state was saved without a utility reference, and this program has one: load it into a program without"
        )
    if saved is None or there is not None:
        return
    if saved == OWN:
        raise ConfigurationError(
            "the state was saved with a utility reference that is code of your own: make the program with it, "
            "reference=…, before its state is loaded"
        )
    if not whole:
        entries = saved.get("entries") if isinstance(saved, Mapping) else None
        raise ConfigurationError(
            f"the state was saved with a utility reference of {entries!a:.20} entries, and this program has none to "
            "load it into: make the program with reference=UtilityReference(), of "
            "keqa.programs.reference.utility_reference, before its state is loaded"
        )
    program.picking.reference = UtilityReference()


@dataclass(frozen=True)
class Absent:
    """What a pickled program travels without.

    Attributes:
        retriever: The class of its retriever; None where it has none.
        lms: The models' names; none where ``dspy.settings.lm`` answered.
    """

    retriever: str | None
    lms: tuple[str, ...]

    @classmethod
    def of(cls, program: Program) -> Absent:
        """What belongs to the machine that a program is on."""
        retriever = program.given_retriever
        kind = retriever.kind if isinstance(retriever, AbsentRetriever) else type(retriever).__name__
        models = {str(predictor.lm.model) for predictor in program.predictors() if predictor.lm is not None}
        return cls(None if retriever is None else kind, tuple(sorted(models)))

    def mark(self, program: Program) -> None:
        """Warn of what is missing; a search before a retriever is given is an error, and no empty search."""
        missing = []
        if self.retriever is not None:
            program.bind_retriever(AbsentRetriever(self.retriever))
            missing.append(f"its retriever ({self.retriever}; give it one with program.bind_retriever(…))")
        if self.lms:
            missing.append(
                f"its language models ({', '.join(self.lms)}; bind them with program.bind_lms(keqa.build_roles(…)), or "
                "dspy.settings.lm answers)"
            )
        if missing:
            message = f"the {type(program).__name__} was saved without {' and '.join(missing)}"
            warnings.warn(message, UserWarning, stacklevel=2)


class AbsentRetriever:
    """Stands where a program's retriever was that could not be saved with it, and refuses to search.

    Attributes:
        kind: Of the retriever.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """Refuse.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            f"the program was loaded without its retriever ({self.kind}): give it one with program.bind_retriever(…)"
        )


def reduced(program: Program) -> tuple[Any, ...]:
    """What a program is pickled as: its state, without what cannot travel.

    Raises:
        ConfigurationError: A part of it is a model that the loading machine would have to be instructed to open.
    """
    absent, state = Absent.of(program), _described(program)
    if state["values"] is None or type(program) is not type(made(state["method"], _plain(program, state))):
        inside: Any = program.__getstate__()
        attributes = {**inside, "_lms": NoCopy(None)}
        if "_retriever" in attributes:
            attributes["_retriever"] = NoCopy(None)
        return (_revived, (type(program), attributes, absent))
    own: dict[str, Any] = {}
    if isinstance(program, KEQA):
        reference = program.picking.reference
        if isinstance(reference, UtilityReference) and not is_built_in(reference.embedder.name):
            raise ConfigurationError(
                f"a utility reference with the embedder {reference.embedder.name!a:.100} cannot be pickled; keqa.save "
                "writes it with its vectors"
            )
        parts = {**_parts_of(program), "reference": reference}
        described = {**state["values"], "reference": state["reference"]}
        own = {name: part for name, part in parts.items() if described[name] == OWN}
    return (_restored, (program.dump_state(), own, bool(program._compiled), absent))


def _plain(program: Program, state: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a program for `made`, parts of the user's own given."""
    values = state["values"]
    given = {name: part for name, part in _parts_of(program).items() if values[name] == OWN}
    return arguments_from(state["method"], values, given)


def _restored(state: dict[str, Any], own: dict[str, Any], compiled: bool, absent: Absent) -> Program:
    """A program from what `reduced` gave."""
    settings = state[SETTINGS]
    reference = own.pop("reference", None)
    arguments = arguments_from(settings["method"], settings["values"], own)
    program = made(settings["method"], arguments, reference=reference)
    program.load_state(state)
    program._compiled = compiled
    absent.mark(program)
    return program


def _revived(kind: type[Program], attributes: dict[str, Any], absent: Absent) -> Program:
    """A program of the user's own from what `reduced` gave."""
    program: Program = copyreg.__newobj__(kind)  # type: ignore[attr-defined]
    program.__setstate__(attributes)
    absent.mark(program)
    return program
