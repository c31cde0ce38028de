"""The program as DSPy's optimizers see it: journaled, on its language models by role, never failing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import dspy

from keqa.data.example import Answered
from keqa.lms.build import Roles
from keqa.optimize.journal import Journal
from keqa.optimize.traces import digest, identity, lms_of
from keqa.programs.calls import Shared
from keqa.programs.failures import may_pass
from keqa.programs.keqa import KEQA
from keqa.programs.program import UnansweredError
from keqa.programs.records import QuestionRecord
from keqa.programs.utility_reference import leaving_out

__all__ = ["PREFIX", "Student", "as_dspy"]

PREFIX = "program."
"""What stands before the name of a predictor in the student."""


def as_dspy(examples: Sequence[Answered]) -> list[dspy.Example]:
    """Examples as DSPy's optimizers take them."""
    return [
        dspy.Example(
            root=example.id,
            question=example.question,
            answer_type=example.answer_type,
            choices=list(example.choices),
            answers=list(example.answers),
            quizzes=list(example.quizzes),
            quiz_answers=list(example.quiz_answers),
        ).with_inputs("root", "question", "answer_type", "choices")
        for example in examples
    ]


class Student(dspy.Module):
    """Wraps a program for an optimizer.

    * A question that was answered before, by the same program, is answered from the journal, its trace included.
    * A question without an answer is a prediction without one, so that it scores 0 and does not end the optimizer.
    * Only the predictors that may change are shown, under their names in the program with `PREFIX` before them.
    * Language models stay bound by role through copies and resets. Where an optimizer sets one of its own, to draw
      anew, its temperature and rollout are taken over by the model of each role.
    """

    def __init__(
        self,
        program: KEQA,
        journal: Journal,
        predictors: Collection[str],
        asked: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up.

        Args:
            program: The program; a copy of it is wrapped.
            journal: Where answers are kept.
            predictors: Names of the predictors that the optimizer may change.
            asked: Called after each question.
        """
        super().__init__()
        self.program: KEQA = program.deepcopy()
        self._journal, self._asked = Shared(journal), Shared(asked)
        self._shown = frozenset(PREFIX + name for name in predictors)
        self._drawn = ""

    def named_predictors(self) -> list[tuple[str, dspy.Predict]]:
        """The predictors that may change."""
        return [(name, predictor) for name, predictor in super().named_predictors() if name in self._shown]

    def forward(
        self, root: str, question: str, answer_type: str = "short", choices: Sequence[str] = ()
    ) -> dspy.Prediction:
        """Answer, or replay an answer.

        Args:
            root: Identifier of the question; its own entries of the reference are left out.
            question: Its text.
            answer_type: What kind of answer it wants.
            choices: The options of a choice.
        """
        journal = self._journal.value
        key = f"{identity(self.program)}:{self._drawn}{digest([question, answer_type, list(choices)])}:trace"
        kept = journal.get(key)
        if kept is None:
            kept, lasting = self._ask(root, question, answer_type, choices)
            if lasting:
                journal.put(key, kept)
        self._asked.value()
        self._replay(kept)
        record = None if kept["record"] is None else QuestionRecord.model_validate(kept["record"])
        answer = None if record is None else record.answer
        return dspy.Prediction(answer=answer, explanation="" if record is None else record.explanation, record=record)

    def _ask(self, root: str, question: str, answer_type: str, choices: Sequence[str]) -> tuple[dict[str, Any], bool]:
        names = {id(predictor): name for name, predictor in super().named_predictors()}
        lasting, record = True, None
        with leaving_out(root), dspy.context(trace=[]):
            try:
                record = self.program(question=question, answer_type=answer_type, choices=choices).record
            except UnansweredError as error:
                record, lasting = error.record, not may_pass(error.cause)
            steps = [(names[id(p)], _plain(i), _plain(o)) for p, i, o in dspy.settings.trace or [] if id(p) in names]
        # Calls run side by side; sorted, the trace is the same in every run.
        steps.sort(key=digest)
        return {"record": None if record is None else record.model_dump(mode="json"), "steps": steps}, lasting

    def _replay(self, kept: Mapping[str, Any]) -> None:
        trace = dspy.settings.trace
        if trace is None:
            return
        predictors = dict(self.named_predictors())
        for name, inputs, outputs in kept["steps"]:
            if name in predictors:
                trace.append((predictors[name], dict(inputs), dspy.Prediction(**outputs)))

    def get_lm(self) -> Any:
        """The language model of the task, from which optimizers make theirs."""
        lms = lms_of(self.program)
        return dspy.settings.lm if lms is None else lms.task

    def set_lm(self, lm: Any) -> None:
        """Draw as this language model does, each role on its own."""
        settings = {name: lm.kwargs[name] for name in ("rollout_id", "temperature") if name in lm.kwargs}
        self._drawn = digest(settings)
        lms = lms_of(self.program)
        if lms is None:
            self.program.set_lm(lm)
            return
        copies = {id(one): one.copy(**settings) for one in (lms.task, lms.consistency, lms.utility)}
        self.program.bind_lms(Roles(copies[id(lms.task)], copies[id(lms.consistency)], copies[id(lms.utility)]))

    def reset_copy(self) -> Student:
        """A copy without demonstrations, on the same language models."""
        new: Student = super().reset_copy()
        new.program.bind_lms(lms_of(self.program))
        return new


def _plain(fields: Any) -> dict[str, Any]:
    """Fields of a call as JSON."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in dict(fields).items()}
