"""What is made before the preset paper asks: the utility reference R, and baselines that learn."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keqa.cli.console import status, warn, warn_of_many
from keqa.cli.opening import check_roles, open_corpus
from keqa.cli.options import invocation
from keqa.cli.paper.plan import Plan
from keqa.cli.progress import Bars
from keqa.errors import ConfigurationError
from keqa.evaluation.questions import Questions
from keqa.evaluation.reproduction.experiments import OF_REFERENCE, Experiment, settings_for
from keqa.evaluation.reproduction.training import REFERENCE, build_program, compile_baseline, embedder_of, of_set
from keqa.lms import Roles
from keqa.programs.build import Parts, own_of
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.registry import Spec
from keqa.programs.saving.folder import check_place
from keqa.programs.stages.probabilities import tells_no_probabilities
from keqa.retrievers import CachingRetriever, Retriever
from keqa.storage.files import check_writable


def learn(plan: Plan) -> Plan:
    """Build R and let baselines learn; the plan with what came of it. Everything finished is kept, and not done again.

    A baseline that cannot be asked, for the language model gives no token probabilities, has no row.
    """
    if plan.training is None:
        return plan
    check_writable(plan.out, "--out")
    roles = plan.models.roles()
    program, kept = plan.program, []
    with ExitStack() as stack:
        bars = stack.enter_context(Bars())
        cache = stack.enter_context(CallCache(plan.out / "training-calls.sqlite"))
        stack.enter_context(cache.installed())
        found = open_corpus(plan.options.index, plan.models.lm)
        retriever = stack.enter_context(CachingRetriever(found, plan.out / "training-retrievals.sqlite"))
        learning = _Learning(plan, plan.training, retriever, roles, bars, functools.cache(lambda: check_roles(roles)))
        if program is None and not plan.options.no_reference:
            program = learning.reference()
        for one in plan.experiments:
            specs = learning.baselines(one) if one.compiled else one.specs
            kept += [replace(one, specs=specs)] if specs else []
    if program is None:
        # There are no rows that change what a utility reference shows.
        kept = [
            replace(one, specs=tuple(spec for spec in one.specs if spec.method.name not in OF_REFERENCE))
            for one in kept
        ]
    return replace(plan, program=program, experiments=kept)


@dataclass(frozen=True)
class _Learning:
    """What is shared while R is built and baselines learn."""

    plan: Plan
    training: Questions
    retriever: Retriever
    roles: Roles
    bars: Bars
    reachable: Callable[[], None]

    def reference(self) -> Path | None:
        """Build R; the folder of KEQA with it, or None where no passage made a difference."""
        place = self.plan.out / REFERENCE
        check_place(place)
        embedder = embedder_of(self.plan.options.embedder)
        self.reachable()
        built = build_program(
            self.retriever,
            self.roles,
            self.training,
            place,
            embedder=embedder,
            in_flight=self.plan.options.in_flight,
            progress=self.bars.report,
            command=invocation(),
        )
        warn_of_many("", built.problems, self.bars.say)
        if built.folder is None:
            warn("no passage made an answer better or worse: there is no utility reference, and rows are w/o R")
        else:
            said = f"R: {built.helpful} passages that helped, {built.harmful} that harmed, in {place}"
            status().print(said, soft_wrap=True)
        return built.folder

    def baselines(self, one: Experiment) -> tuple[Spec, ...]:
        """Let the baselines of an experiment learn; those that could be asked."""
        own = {**self.plan.questions[one.dataset].settings, **own_of(self.plan.models.lm)}
        examples = of_set(self.training, one.dataset)
        return tuple(spec for spec in one.specs if self._learns(one.dataset, spec, own, examples))

    def _learns(self, dataset: str, spec: Spec, own: Mapping[str, Any], examples: Sequence[Any]) -> bool:
        name = f"{dataset}, {spec.label}"
        try:
            learned = compile_baseline(
                spec,
                Parts(self.retriever, self.roles, settings_for(spec.method, dataset), own=own),
                examples,
                self.plan.compiled(dataset, spec.method.name),
                in_flight=self.plan.options.in_flight,
                progress=lambda step, done, total: self.bars.report(f"{name}: {step}", done, total),
                before_first=self.reachable,
                command=invocation(),
            )
        except ConfigurationError as error:
            if not tells_no_probabilities(error):
                raise
            self.bars.say(f"{name} is left out: {error}")
            return False
        if not learned:
            self.bars.say(f"{name}: nothing that it learned made it better")
        return True
