"""The program as DSPy's optimizers see it: with calls that are kept, language models by role, and never failing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any

import dspy

from keqa.data.example import Example
from keqa.data.question import AnswerType
from keqa.errors import ConfigurationError, MissingExtraError, TooManyFailuresError
from keqa.lms.factory import Roles
from keqa.optimize.asking import ROLES, Asking, Step, lms_of
from keqa.programs.calls.session import NoCopy
from keqa.programs.prediction import AnswerPrediction, prediction_of
from keqa.programs.predictor import LearnedQuestions
from keqa.programs.program import Program

PREFIX = "program."
"""What stands before the name of a predictor in the student."""


class Student(dspy.Module):
    """Wraps a program for an optimizer.

    * A question without an answer is a prediction without one, so that it scores 0 and does not end the optimizer.
    * What no other question would escape ends it: DSPy's optimizers score errors, so each further question is refused
      without a call, and `surfacing` raises the error in the end.
    * A demonstration that a question's own calls became is not shown to that question.
    * Only the predictors that may change are shown, under their names in the program with `PREFIX` before them.
    * Language models stay bound by role through copies and resets. Where an optimizer sets one of its own, to sample
      again, its temperature and rollout are taken over by the model of each role.
    """

    def __init__(
        self,
        program: Program,
        asking: Asking,
        predictors: Collection[str],
        name: str = "optimizing",
        asked: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.program: Program = program.deepcopy()
        self._asking, self._asked = NoCopy(asking), NoCopy(asked)
        self._watch = NoCopy(asking.failures.watch(name))
        self._ended: NoCopy[list[Exception]] = NoCopy([])
        self._reached = NoCopy(Event())
        self._shown = frozenset(PREFIX + name for name in predictors)

    def named_predictors(self) -> list[tuple[str, dspy.Predict]]:
        """The predictors that may change."""
        return [(name, predictor) for name, predictor in super().named_predictors() if name in self._shown]

    def forward(
        self, root: str, question: str, answer_type: AnswerType = "short", choices: Sequence[str] = ()
    ) -> AnswerPrediction:
        """Answer, with the calls that were made for it in the optimizer's trace."""
        self._reached.value.set()
        if self._ended.value:
            raise self._ended.value[0]
        asking, example = self._asking.value, Example(root, question, (), answer_type, tuple(choices))
        self.program.learned = self.known_to(self.program)
        try:
            trace = asking.ask(self.program, example)
            self._watch.value.add(trace.record, trace.error)
            self._watch.value.refuse()
        except (ConfigurationError, MissingExtraError, TooManyFailuresError) as error:
            self._ended.value.append(error)
            raise
        self._asked.value()
        signatures = {name: predictor.signature for name, predictor in self.program.named_predictors()}
        for name, inputs, outputs in trace.steps:
            asking.origins.add(signatures[name], {**inputs, **outputs}, example)
        self._show(trace.steps)
        if trace.record is None:
            return AnswerPrediction(explanation="", sources=[], answer=None)
        return prediction_of(trace.record)

    @contextmanager
    def surfacing(self) -> Iterator[None]:
        """Raise what ended the optimizer, which itself takes any error for a wrong answer."""
        try:
            yield
        except Exception as error:
            if not self._reached.value.is_set():
                raise self._unreached(f" ({type(error).__name__}: {error})") from error
            if self._ended.value and error is not self._ended.value[0]:
                raise self._ended.value[0] from error
            raise
        if not self._reached.value.is_set():
            raise self._unreached()
        if self._ended.value:
            raise self._ended.value[0]

    @staticmethod
    def _unreached(how: str = "") -> ConfigurationError:
        return ConfigurationError(
            f"the optimizer ended{how}, and not one question had reached the program, so it learned nothing. DSPy "
            "copies the usage tracker of dspy.settings into each of its threads: where one of your own cannot be "
            "copied, in_flight=1 does without threads"
        )

    def _show(self, steps: Sequence[Step]) -> None:
        trace, predictors = dspy.settings.trace, dict(self.named_predictors())
        for name, inputs, outputs in steps if trace is not None else ():
            if PREFIX + name in predictors:
                trace.append((predictors[PREFIX + name], dict(inputs), dspy.Prediction(**outputs)))

    def known_to(self, program: Program) -> LearnedQuestions:
        """What a program has learned from, where it may show calls that were made here."""
        return self._asking.value.origins.known_to(program)

    def get_lm(self) -> Any:
        """The language model of the task, from which optimizers make theirs."""
        lms = lms_of(self.program)
        return dspy.settings.lm if lms is None else lms.task

    def set_lm(self, lm: Any) -> None:
        """Draw as this language model does, each role on its own."""
        lms = lms_of(self.program)
        if lms is None:
            self.program.set_lm(lm)
            return
        settings = {name: lm.kwargs[name] for name in ("rollout_id", "temperature") if name in lm.kwargs}
        roles = {role: getattr(lms, role) for role in ROLES}
        copies = {id(one): one.copy(**settings) for one in roles.values()}
        drawing = {role: copies[id(one)] for role, one in roles.items()}
        self.program.bind_lms(Roles(**drawing, boundary=getattr(lms, "boundary", None)))

    def reset_copy(self) -> Student:
        """A copy without demonstrations, on the same language models."""
        new: Student = super().reset_copy()
        new.program.bind_lms(lms_of(self.program))
        return new
