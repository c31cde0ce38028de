"""A program's language models, fine-tuned on its own right calls, so that it needs no demonstrations.

The program, compiled or not, answers training questions. The calls that gold answers show to be right, or do not show
to be wrong, are what each language model is trained to write, in prompts without any demonstration. The program that
comes out has the same roles, instructions and settings; what it learned is in no demonstration or reference any more.
"""

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import dspy

from keqa.data.example import Example
from keqa.errors import ConfigurationError, InputError, KeqaError
from keqa.lms.factory import Roles
from keqa.optimize.asking import ROLES, Asking, Trace, lms_of
from keqa.optimize.demos import possible
from keqa.optimize.judged import judges, lessons
from keqa.optimize.options import Options
from keqa.programs.fingerprint import digest, lm_spec
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.signatures.chat_format import adapter
from keqa.storage.files import publish

_POLLED = 0.5


class Finetuned(NamedTuple):
    """A program on language models of its own, how many calls each predictor learned from, and folders by role."""

    program: Program
    conversations: dict[str, int]
    folders: dict[str, Path]


def check_finetunable(program: Program) -> None:
    """Refuse a language model that cannot be fine-tuned, before any call is made."""
    from keqa.lms.local.weights import is_adapter

    for lm in _distinct(program):
        name = getattr(lm, "model", "none")
        if not getattr(getattr(lm, "provider", None), "finetunable", False):
            raise ConfigurationError(
                f"the language model {name} cannot be fine-tuned from here: take one of this process, such as "
                "keqa/tiny, local/smollm2 or transformers/FOLDER"
            )
        path = getattr(lm.engine, "path", None)
        if path is not None and is_adapter(path):
            raise ConfigurationError(f"the language model {name} is fine-tuned already: give its base")


def finetune(
    program: Program, trainset: Sequence[Example], asking: Asking, options: Options, folder: Path | None
) -> Finetuned:
    """Fine-tune the language models of a program on its own right calls.

    One with nothing to learn, such as a judge that gave one verdict alone, stays as it is, with its demonstrations.
    """
    traces = asking.traces(program, trainset, "answering training questions")
    calls = right_calls(program, traces, asking, options)
    predictors, format_ = dict(program.named_predictors()), dspy.settings.adapter or adapter()

    def conversation(signature: Any, call: Mapping[str, Any]) -> Any:
        parts = ({name: call[name] for name in of} for of in (signature.input_fields, signature.output_fields))
        return format_.format_finetune_data(signature, [], *parts)

    tuned: dict[int, Any] = {}
    for lm in _distinct(program):
        asked = {name: one for name, one in predictors.items() if (one.lm or dspy.settings.lm) is lm}
        data = [conversation(one.signature, call) for name, one in asked.items() for call in calls.get(name, ())]
        if data:
            random.Random(options.seed).shuffle(data)
            tuned[id(lm)] = _trained(lm, data, options, folder, asking)
    if not tuned:
        raise InputError(
            "no call of the program on the training questions is known to be right, so there is nothing to learn: "
            "give more questions, or a program that answers some of them"
        )
    before = lms_of(program) or Roles(*[dspy.settings.lm] * 3)
    by_role = {role: tuned.get(id(lm), lm) for role in ROLES for lm in [getattr(before, role)]}
    lms = Roles(**by_role, boundary=getattr(before, "boundary", None))
    new = {role: lm for role, lm in by_role.items() if lm is not getattr(before, role)}
    places = {role: getattr(lm.engine, "path", None) for role, lm in new.items()}
    folders = {role: Path(place) for role, place in places.items() if isinstance(place, str)}
    return Finetuned(_on_tuned(program, lms, tuned), {name: len(some) for name, some in calls.items()}, folders)


def _on_tuned(program: Program, lms: Roles, tuned: Mapping[int, Any]) -> Program:
    """A copy of a program on other language models; what the fine-tuned ones were shown in prompts is left out."""
    new: Program = program.deepcopy()
    before = dict(program.named_predictors())
    for name, predictor in new.named_predictors():
        if id(before[name].lm or dspy.settings.lm) in tuned:
            predictor.demos = []
    if isinstance(program, KEQA) and id(program.picking.judge.lm or dspy.settings.lm) in tuned:
        new.picking.reference = None
    new.bind_lms(lms)
    return new


def right_calls(
    program: Program, traces: Sequence[Trace], asking: Asking, options: Options
) -> dict[str, list[dict[str, Any]]]:
    """The calls to learn from, by predictor, each once; of a judge as many of each verdict."""
    predictors = dict(program.named_predictors())
    found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in predictors}

    def add(name: str, call: Mapping[str, Any]) -> None:
        found[name].setdefault(digest([call[one] for one in predictors[name].signature.input_fields]), dict(call))

    for trace in traces:
        if trace.record is not None and trace.score >= options.threshold:
            for name, fields in lessons(program, trace.steps, trace.example):
                add(name, fields)
    if isinstance(program, KEQA):
        # Gold answers to quizzes that it never answered right are left out: an LM that is trained on facts that it does
        # not know learns to make up others.
        for name, pool in possible(program, traces, asking, options).items():
            for demo in pool if name != "examination.quiz" else ():
                add(name, demo.demo)
    rng, calls = random.Random(options.seed), {name: list(some.values()) for name, some in found.items()}
    judging = judges(program)
    return {
        name: _balanced(predictors[name].signature, some, rng) if name in judging else some
        for name, some in calls.items()
    }


def _balanced(signature: Any, calls: list[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    """As many calls of each verdict; none where there is one alone, which would be all that a judge says."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for call in calls:
        kinds.setdefault(repr([call[name] for name in signature.output_fields]), []).append(call)
    if len(kinds) < 2:
        return []
    least = min(map(len, kinds.values()))
    return [call for kind in sorted(kinds) for call in rng.sample(kinds[kind], least)]


def _distinct(program: Program) -> Iterable[Any]:
    lms = [predictor.lm or dspy.settings.lm for predictor in program.predictors()]
    return {id(lm): lm for lm in lms}.values()


def _trained(lm: Any, data: list[Any], options: Options, folder: Path | None, asking: Asking) -> Any:
    from keqa.lms.local.provider import LocalProvider

    kwargs = dict(options.training)
    if folder is not None and isinstance(lm.provider, LocalProvider):
        kwargs["folder"] = str(folder / f"finetuned-{digest([lm_spec(lm), data, kwargs])}")
    job = lm.finetune(train_data=data, train_data_format="chat", train_kwargs=kwargs)
    try:
        while not job.done():
            with suppress(NotImplementedError):
                status = job.status()
                if isinstance(status, dict) and "step" in status:
                    asking.progress("fine-tuning", status["step"], status["steps"])
            time.sleep(_POLLED)
    except BaseException:
        job.cancel()
        raise
    result = job.result()
    if isinstance(result, KeqaError):
        raise result
    if isinstance(result, Exception):
        raise ConfigurationError(f"{lm.model} could not be fine-tuned: {result}") from result
    return result


def save_lms(folders: Mapping[str, Path], program: str | Path) -> dict[str, Path]:
    """Copy fine-tuned language models beside a program: as ``PROGRAM.lm``, or one a role as ``PROGRAM.lm-ROLE``."""
    from keqa.lms.local.weights import TRAINING

    places = places_beside(folders, program)
    for source, target in {(folders[role], target) for role, target in places.items()}:
        if source.resolve() == target.resolve():
            continue
        if target.exists() and not (target / TRAINING).is_file():
            raise InputError(f"{target} holds something else, and a fine-tuned language model would go there: move it")
        try:
            files = {file.name: file.read_bytes() for file in source.iterdir() if file.is_file()}
            publish(target, files, owned={*files, *(file.name for file in target.glob("*"))})
        except OSError as error:
            raise InputError(f"{target} cannot be written: {error}") from error
    return places


def places_beside(folders: Mapping[str, Path], program: str | Path) -> dict[str, Path]:
    """Where `save_lms` puts fine-tuned language models, by role."""
    place, first = Path(program), {source: role for role, source in reversed([*folders.items()])}
    ends = {source: ".lm" if len(first) == 1 else f".lm-{role}" for source, role in first.items()}
    return {role: place.with_name(place.name + ends[source]) for role, source in folders.items()}
