"""A predictor: its prompt, the demonstrations that it shows, what they were learned from, and its saved state.

``dspy.Predict.load_state`` sets every key of a state as an attribute, so that a ``config`` in a stranger's file would
send calls, with the key of whoever loads it, to a server of the file's choice: DSPy sees only what was checked here.

A predictor without demonstrations of its own shows fixed ones: four for each prompt, written by hand as the KEQA paper
does (section 3.3), from which nothing was learned. The language models trained on the prompts do without.

A program is not measured by the questions that it learned from, or shown its own labels. They are recognised by a
digest of text and choices: ids such as ``train-0`` are those of many data sets.
"""

from __future__ import annotations

import copy
import copyreg
import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

import dspy
from dspy.adapters.types.base_type import CUSTOM_TYPE_END_IDENTIFIER, CUSTOM_TYPE_START_IDENTIFIER
from dspy.adapters.utils import get_annotation_name
from pydantic import BaseModel, ConfigDict, Field, StrictBool, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from keqa.data.question import question_digest
from keqa.errors import ConfigurationError
from keqa.programs.calls.session import context, within
from keqa.storage.untrusted import deeper_than

if TYPE_CHECKING:
    from keqa.data.example import Example

_MAX_DEMOS = 1_000
_MAX_CHARS = 4_000_000
_MAX_DEPTH = 8
_CUSTOM_TYPES = (CUSTOM_TYPE_START_IDENTIFIER, CUSTOM_TYPE_END_IDENTIFIER)
_EMPTY = ("traces", "train", "lm", "fields")
_AUGMENTED = "augmented"
"""DSPy's note that a demonstration was bootstrapped."""
SHIPPED = "keqa/"
"""The model strings of the language model that ships begin so."""

Prompts = dict[str, dict[str, Any]]
"""By predictor: the name of its signature, its instructions and its fields."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _FieldState(_Strict):
    prefix: str
    description: str


class _SignatureState(_Strict):
    instructions: str
    fields: list[_FieldState]


class PredictorState(_Strict):
    """What a predictor's state may hold."""

    signature: _SignatureState
    demos: Annotated[list[dict[str, Any]], Field(max_length=_MAX_DEMOS)]
    fields: dict[str, Any] = Field(default_factory=dict)


class SharingLMs:
    """A module of DSPy's whose copies have its language models, and not copies of them."""

    def __copy__(self: Any) -> Any:
        new = object.__new__(type(self))
        new.__setstate__(self.__getstate__())
        return new

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        memo.update({id(predictor.lm): predictor.lm for predictor in self.predictors()})
        new: Any = object.__new__(type(self))
        memo[id(self)] = new
        new.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return new


class Predictor(SharingLMs, dspy.Predict):
    """A predictor whose language model is the machine's: copies share it, and nothing that is saved holds it."""

    fixed = True
    """Whether it shows the fixed demonstrations of its signature while it has none of its own; they are never among its
    `demos`, so that they are neither saved nor taken for something that was learned."""
    like: Predictor | None = None
    """Another predictor of the same fields, whose learned demonstrations it shows while it has none of its own."""

    def __init__(self, signature: Any, **arguments: Any) -> None:
        super().__init__(signature, **arguments)
        # New instructions make a signature without a name.
        self.prompt = self.signature.__name__

    def forward(self, **kwargs: Any) -> Any:
        return super().forward(**self._demonstrated(kwargs))

    async def aforward(self, **kwargs: Any) -> Any:
        return await super().aforward(**self._demonstrated(kwargs))

    def _demonstrated(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return kwargs if "demos" in kwargs else {**kwargs, "demos": demos_of(self, kwargs.get("lm"))}

    def reset(self) -> None:
        lm: Any = getattr(self, "lm", None)
        super().reset()
        self.lm = lm

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The prompt, with what it shows of its demonstrations; no language model."""
        state: dict[str, Any] = super(Predictor, detached(self)).dump_state(json_mode=json_mode)
        return state

    def load_state(self, state: Mapping[str, Any], *, allow_unsafe_lm_state: bool = False) -> Any:
        """Load a saved state, which may come from a stranger; see `checked_state`."""
        lm: Any = getattr(self, "lm", None)
        loaded = super().load_state(checked_state(state, self.signature, self.signature.__name__))
        self.lm = lm
        return loaded

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickled, it has no language model: an address and a key would travel with it."""
        attributes: Any = self.__getstate__()
        return (copyreg.__newobj__, (type(self),), {**attributes, "lm": None})  # type: ignore[attr-defined]


def detached(parameter: Any) -> Any:
    """A predictor without its language model and with what its prompt shows; any other parameter as it is."""
    if not isinstance(parameter, dspy.Predict):
        return parameter
    twin = copy.copy(parameter)
    twin.lm, twin.demos = None, shown(parameter.demos, parameter.signature)
    return twin


def demos_of(predictor: dspy.Predict, lm: Any = None) -> list[Any]:
    """The demonstrations that a predictor shows where a call, of this language model, brings none."""
    learned = learned_demos(predictor)
    if learned or not (isinstance(predictor, Predictor) and predictor.fixed):
        return learned
    return list(fixed_for(predictor.prompt, predictor.signature, lm or predictor.lm or dspy.settings.lm))


def learned_demos(predictor: dspy.Predict) -> list[Any]:
    """The demonstrations that a predictor learned, or else those of the one that it is like."""
    like = getattr(predictor, "like", None)
    return list(predictor.demos or ([] if like is None else like.demos))


def fixed_for(prompt: str, signature: type[dspy.Signature], lm: Any) -> list[dspy.Example]:
    """The fixed demonstrations of a prompt; none for an LM that does without, or a signature of other fields."""
    if lm is None or trained_on_prompts(lm):
        return []
    demos = _written().get(prompt, ())
    if any(demo.keys() != signature.fields.keys() for demo in demos):
        return []
    return [dspy.Example(**demo) for demo in demos]


def trained_on_prompts(lm: Any) -> bool:
    """Whether a language model was trained on the papers' prompts: the one that ships, and those fine-tuned here."""
    return str(getattr(lm, "model", "")).startswith(SHIPPED) or fine_tuned(lm)


def fine_tuned(lm: Any) -> bool:
    """Whether a language model was fine-tuned here: it knows the prompts that its program asked, and no others."""
    return getattr(lm, "finetuned", False) is True


@cache
def _written() -> Mapping[str, list[dict[str, Any]]]:
    written: dict[str, list[dict[str, Any]]] = json.loads(
        (files("keqa.programs") / "demonstrations.json").read_text(encoding="utf-8")
    )
    return written


def shown(demos: Iterable[Any], signature: type[dspy.Signature]) -> list[Any]:
    """Demonstrations with what a prompt shows of them; optimizers of DSPy take whole training examples."""
    names = {*signature.fields, _AUGMENTED}
    return [
        type(demo)({name: value for name, value in dict(demo).items() if name in names})
        if set(dict(demo)) - names
        else demo
        for demo in demos
    ]


def prompts_of(program: dspy.Module) -> Prompts:
    """The prompt of each predictor: of a fresh program those of the code, of a compiled one those that were tuned."""
    return {name: prompt_of(predictor.signature) for name, predictor in program.named_predictors()}


def prompt_of(signature: Any) -> dict[str, Any]:
    return {
        "signature": signature.__name__,
        "instructions": signature.instructions,
        "fields": [
            {
                "name": name,
                "kind": field.json_schema_extra["__dspy_field_type"],
                "type": get_annotation_name(field.annotation),
            }
            for name, field in signature.fields.items()
        ],
    }


def drift(then: Mapping[str, Any], now: Mapping[str, Any], *, instructions: bool = True) -> list[str]:
    """Where prompts that something was found for, maybe from a stranger's file, differ from those of now, by name."""
    found = []
    for name in dict.fromkeys([*then, *now]):
        if name not in now:
            found.append(f"{name:.80} is gone")
        elif name not in then:
            found.append(f"{name} is new")
        elif not isinstance(then[name], Mapping):
            found.append(f"{name} is not described")
        elif then[name].get("fields") != now[name]["fields"]:
            found.append(f"the fields of {name} ({now[name]['signature']}) have changed")
        elif instructions and then[name].get("instructions") != now[name]["instructions"]:
            found.append(f"the instructions of {name} ({now[name]['signature']}) have changed")
    return found


def whole_prompt(predictor: dspy.Predict) -> dict[str, Any]:
    """All that a predictor asks with: instructions, fields, demonstrations, and settings of its own, if any."""
    whole = {"signature": predictor.signature.dump_state(), "demos": [dict(demo) for demo in demos_of(predictor)]}
    if predictor.config:
        whole["config"] = dict(predictor.config)
    if predictor.fields:
        # Written without the language model, which may have no form that can be saved.
        twin = dspy.Predict(predictor.signature)
        twin.fields = predictor.fields
        whole["decisions"] = twin.dump_state().get("fields")
    return whole


def checked_states(
    state: Mapping[str, Any], parts: Mapping[str, Any], optional: Mapping[str, type[dspy.Signature]], owner: str
) -> dict[str, Any]:
    """The states of all parts of a module, from anywhere; it may be without `optional` predictors."""
    named_values(state, f"the state of {owner}")
    signatures = {**optional, **{name: one.signature for name, one in parts.items() if isinstance(one, dspy.Predict)}}
    # DSPy notes in "metadata" which versions wrote a file; nothing else is read from there.
    given = {name: part for name, part in state.items() if name != "metadata"}
    if unknown := sorted(given.keys() - {*parts, *optional}):
        raise ConfigurationError(f"a {owner} has no part {unknown[0][:80]!a}")
    return {
        name: checked_state(part, signatures[name], name) if name in signatures else part
        for name, part in given.items()
    }


def checked_state(state: Any, signature: type[dspy.Signature], name: str) -> dict[str, Any]:
    """A predictor's state, from anywhere, with what may be in it, and nothing else, for ``dspy.Predict.load_state``."""
    what = f"the predictor {name}"
    # DSPy writes some parts with every predictor, and nothing into them.
    plain = {part: value for part, value in named_values(state, what).items() if value or part not in _EMPTY}
    if isinstance(plain.get("demos"), list):
        plain["demos"] = [dict(one) if isinstance(one, dspy.Example) else one for one in plain["demos"]]
    _refuse_large(plain, what)
    try:
        found = PredictorState.model_validate(plain).model_dump()
    except ValidationError as error:
        raise refused(error, what) from None
    if len(found["signature"]["fields"]) != len(signature.fields):
        count = len(found["signature"]["fields"])
        raise ConfigurationError(f"the signature of {name} has {count} fields, not {len(signature.fields)}")
    if any(marker in json.dumps(found["signature"]) for marker in _CUSTOM_TYPES):
        raise ConfigurationError(f"the signature of {name} holds markers of DSPy's, which no prompt has")
    for demo in found["demos"]:
        if unknown := sorted(demo.keys() - {*signature.fields, _AUGMENTED}):
            raise ConfigurationError(f"a demonstration of {name} may not hold {unknown[0][:80]!a}")
        for one in demo.keys() & signature.fields.keys():
            _check_shown(demo[one], signature.fields[one].annotation, f"{one} in a demonstration of {name}")
    _check_decisions(found["fields"], signature, name)
    empty: dict[str, Any] = {part: None if part == "lm" else [] for part in _EMPTY if part != "fields"}
    return {**empty, **{part: value for part, value in found.items() if value or part != "fields"}}


def named_values(value: Any, what: str, names: Iterable[str] | None = None) -> Mapping[str, Any]:
    """A value from anywhere as the named values that it has to be, of these names where they are given."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigurationError(f"{what} is not described by named values")
    if names is not None and set(value) != {*names}:
        raise ConfigurationError(f"{what} has {', '.join(names)} and nothing else")
    return value


def refused(error: ValidationError, what: str) -> ConfigurationError:
    """What is said of values from anywhere that a model does not allow."""
    first = error.errors()[0]
    *where, last = map(str, first["loc"])
    if first["type"] == "extra_forbidden":
        inside = f", in {'.'.join(where)}," if where else ""
        return ConfigurationError(f"{what}{inside} may not hold {last[:80]!a}")
    return ConfigurationError(f"{what}: {'.'.join([*where, last])[:80]!a}: {first['msg']}")


def _check_shown(value: Any, annotation: Any, what: str) -> None:
    """Refuse a value that a prompt cannot show: it is text, or of its field's type."""
    if value is None or isinstance(value, str | int | float):
        return
    try:
        TypeAdapter(annotation).validate_python(value)
    except (ValidationError, PydanticSchemaGenerationError) as error:
        raise ConfigurationError(f"{what} is not of its type") from error


def _check_decisions(fields: Mapping[str, Any], signature: type[dspy.Signature], name: str) -> None:
    """Refuse thresholds and the like of decisions that DSPy would."""
    from dspy.adapters.decision_state import DecisionState

    try:
        DecisionState(signature, fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(f"the fields of {name} cannot be used: {error}") from error


def _refuse_large(state: Mapping[str, Any], what: str) -> None:
    try:
        written = json.dumps(state, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise ConfigurationError(f"{what} holds a value that is no plain text, number or list") from None
    if len(written) > _MAX_CHARS:
        raise ConfigurationError(f"{what} holds more than {_MAX_CHARS:,} characters")
    if any(deeper_than(value, _MAX_DEPTH) for value in state.values()):
        raise ConfigurationError(f"{what} holds values nested deeper than {_MAX_DEPTH} levels")


Text = Annotated[str, Field(max_length=1_000)]
Known = tuple[Text, Text]
"""The id of a question in its data set, and `question_digest`."""
KnownQuestions = Annotated[tuple[Known, ...], Field(max_length=1_000_000)]


def demonstration_digest(demo: Any, signature: type[dspy.Signature]) -> str:
    """What a demonstration is recognised by: all that a prompt shows of it."""
    [seen] = shown([dict(demo)], signature)
    text = json.dumps({name: value for name, value in seen.items() if name != _AUGMENTED}, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def asking_for(question: str, choices: Iterable[str] = ()) -> AbstractContextManager[None]:
    """Within this context no utility reference shows what it holds of a training question that is asked again."""
    return within(asked=(question, tuple(choices)))


def leaving_out(*roots: str) -> AbstractContextManager[None]:
    """Within this context no utility reference shows what it holds of the training questions with these ids."""
    return within(left_out=context().left_out | set(roots))


@dataclass(frozen=True)
class LearnedQuestions:
    """What a program learned from, by id and digest."""

    train: KnownQuestions = ()
    """Questions that demonstrations, instructions and the utility reference come from."""
    validation: KnownQuestions = ()
    """Questions by which it was chosen among others."""
    demonstrations: dict[str, tuple[Text, ...]] = field(default_factory=dict)
    """By `demonstration_digest`, the digests of the questions that a demonstration comes from."""
    complete: StrictBool = True
    """Whether that is all: of demonstrations from elsewhere nobody knows what they were learned from."""

    def ids_of(self, question: str, choices: Iterable[str] = ()) -> tuple[str, ...]:
        """The ids under which a question was learned from; none where it was not."""
        return self._ids.get(question_digest(question, choices), ()) if self._ids else ()

    def hides(self, question: str, choices: Iterable[str], demo: Any, signature: type[dspy.Signature]) -> bool:
        """Whether a predictor's demonstration comes from a question, so that it is not shown while that is asked."""
        roots = self.demonstrations.get(demonstration_digest(demo, signature), ())
        return bool(roots) and question_digest(question, choices) in roots

    def and_from(
        self,
        train: Iterable[Example],
        validation: Iterable[Example],
        demonstrations: Mapping[str, Iterable[str]] | None = None,
    ) -> LearnedQuestions:
        """What it is after more was learned; demonstrations as in the attribute."""
        merged = dict(self.demonstrations)
        for name, roots in (demonstrations or {}).items():
            merged[name] = tuple(dict.fromkeys((*merged.get(name, ()), *roots)))
        return LearnedQuestions(
            train=tuple(dict.fromkeys((*self.train, *map(_known, train)))),
            validation=tuple(dict.fromkeys((*self.validation, *map(_known, validation)))),
            demonstrations=merged,
            complete=self.complete,
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @cached_property
    def _ids(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name, digest in (*self.train, *self.validation):
            found[digest] = tuple(dict.fromkeys((*found.get(digest, ()), name)))
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> LearnedQuestions:
        return self


NOTHING = LearnedQuestions()
"""That of a program that has learned from no question."""
_ADAPTER = TypeAdapter(LearnedQuestions)


def learned_from_json(value: Any) -> LearnedQuestions:
    """Read what `LearnedQuestions.as_json` gave, from a file that may be a stranger's."""
    what = "what it learned from"
    try:
        return _ADAPTER.validate_python(named_values(value, what, [one.name for one in fields(LearnedQuestions)]))
    except ValidationError as error:
        raise refused(error, what) from None


def _known(example: Example) -> Known:
    return example.id, question_digest(example.question, example.choices)
