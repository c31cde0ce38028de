"""What KEQA and the methods it is compared with have in common: one way to ask, one kind of answer."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from numbers import Number
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import dspy
from dspy.predict.parameter import Parameter

from keqa.data.question import AnswerType, Question
from keqa.errors import ConfigurationError, NotInDocumentsError, meant
from keqa.lms.factory import Roles
from keqa.lms.loops import relayed, relayed_from_thread
from keqa.programs import settings as models
from keqa.programs.arguments import LMS, RETRIEVER, check
from keqa.programs.calls.ask import is_rollout, rollout_of
from keqa.programs.calls.batch import Outcome, answer_many, astreamed, streamed
from keqa.programs.calls.errors import UnansweredError
from keqa.programs.calls.predictor import (
    NOTHING,
    LearnedQuestions,
    Predictor,
    SharingLMs,
    asking_for,
    leaving_out,
    named_values,
)
from keqa.programs.calls.session import CallLimiter, NoCopy, Session, as_status, current, report, run_blocking, within
from keqa.programs.declared import WaysOut
from keqa.programs.prediction import (
    AnswerPrediction,
    ProgramTool,
    Progress,
    Rewritten,
    prediction_of,
    with_supporting_sentences,
)
from keqa.programs.records import Failure, QuestionRecord
from keqa.programs.saved_settings import is_own, read_values, settings_of
from keqa.programs.stage import FollowUp, RecordBuilder, RoleLMs, Stage, keeping_lms

if TYPE_CHECKING:
    from keqa.programs.abstention import Abstention

SETTINGS = "settings"
"""The name of the settings in a program's state."""


class Program(SharingLMs, Stage):
    """Answers questions; subclasses say how in `solve`. Safe to call from many threads at once.

    Attributes:
        method: Its name in records.
        Settings: What it is set up with: arguments of the constructor, and attributes that can be read and assigned.
        settings: Its own.
        learned: The questions that it learned from. While one of them is asked, neither the demonstrations nor the
            utility labels that come from it are shown.
        abstention: Withholds answers that are too probably wrong, where the program is to hold a risk; see
            `keqa.evaluation.risk.hold_risk`. It is neither saved nor loaded: it holds for the language models and the
            retriever that it was calibrated with.
    """

    method: ClassVar[str]
    Settings: ClassVar[type[models.Settings]] = models.Settings
    settings: models.Settings
    learned: LearnedQuestions = NOTHING
    abstention: Abstention | None = None
    _retriever: NoCopy[Any] = NoCopy(None)

    def __init__(self, *, lms: Annotated[RoleLMs, LMS] | None = None, **settings: Any) -> None:
        given = check(Program, {"lms": lms}, type(self).__name__)
        self.__dict__["settings"] = self.Settings.read(settings, type(self).__name__)
        super().__init__(CallLimiter(self.settings.workers))
        self._lms: NoCopy[Any] = NoCopy(given["lms"])

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Show the settings among the arguments of the constructor."""
        super().__init_subclass__(**kwargs)
        _, *own = inspect.signature(cls.__init__).parameters.values()
        if own and own[-1].kind is inspect.Parameter.VAR_KEYWORD:
            names = {one.name for one in own}
            own[-1:] = [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.annotation)
                for name, one in cls.Settings.model_fields.items()
                if name not in names
            ]
        cls.__signature__ = inspect.Signature(own)
        for name in cls.Settings.model_fields:
            if not hasattr(cls, name):
                setattr(cls, name, setting(name, f"settings.{name}"))

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; what looks like a setting and is none would have no effect, and is an error."""
        self.refuse_misspelt(name, value)
        super().__setattr__(name, value)

    def refuse_misspelt(self, name: str, value: Any) -> None:
        """Raise AttributeError for a new name that is nearly a setting's, or ``lm``; users' classes have their own."""
        kind, ours = type(self).__name__, type(self).__module__.startswith("keqa.")
        if not ours or name[:1] == "_" or name in self.__dict__ or hasattr(type(self), name):
            return
        if name == "lm":
            raise AttributeError(f"{kind} has no lm: give all roles one with set_lm(lm), or each its own with lms")
        if isinstance(value, str | Number) and (near := meant(name, self.Settings.model_fields, least=0.8)):
            raise AttributeError(f"{kind} has no setting {name}{near}")

    def change(self, **changes: Any) -> None:
        """Give settings other values, and the program the parts that it is then made of; assigning one is the same.

        Where a value cannot work, the program stays what it was.
        """
        if changes.get("workers", self.settings.workers) != self.settings.workers:
            raise AttributeError("the number of workers is given to the constructor")
        had, before = dict(self.__dict__), self.settings
        self.__dict__["settings"] = before.changed(changes, type(self).__name__)
        try:
            self.fit(before)
        except Exception:
            after = self.settings
            self.__dict__.clear()
            self.__dict__.update(had)
            self.fit(after)
            raise
        self._demonstrate()

    def fit(self, before: models.Settings) -> None:
        """Have the parts that the settings ask for, where they were others before."""

    @property
    def way_out(self) -> WaysOut:
        """What is done where the documents do not say what was asked; a method that knows of no such thing guesses."""
        return "guess"

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Answer a question by writing its story; an `UnansweredError` says that there is no answer."""
        raise NotImplementedError

    def forward(
        self, question: str, answer_type: AnswerType = "short", choices: Sequence[str] = (), history: Any = ()
    ) -> AnswerPrediction:
        """Answer a question.

        Args:
            question: Its text. Lone surrogates and control characters in it are dropped.
            answer_type: ``short``, ``yes/no`` or ``choice``.
            choices: The options of a choice; a question that has some is one, unless it is ``yes/no``.
            history: The questions before, each with its answer, as ``(question, answer)``, mappings of these names or a
                ``dspy.History`` of them; the last ten count. A question with a history is rewritten to stand alone
                first.

        Returns:
            A prediction with `answer`, `explanation` (may be empty) and `sources`, the passages that the answer rests
            on; see `keqa.programs.prediction.AnswerPrediction`. Its attribute `record` is a `QuestionRecord`.

        Raises:
            InputError: The question cannot be asked.
            UnansweredError: It has no answer; the error carries its record.
            NotInDocumentsError: The documents do not say it, and the program was to raise that.
            ConfigurationError: A key, model or setting is wrong, which no other question would escape.
        """
        asked = Question.check(question, answer_type, choices, self.max_question_chars, history)
        with relayed_from_thread() as relay, as_status(relay):
            return run_blocking(partial(self.run, asked, blocking=True))

    async def aforward(
        self, question: str, answer_type: AnswerType = "short", choices: Sequence[str] = (), history: Any = ()
    ) -> AnswerPrediction:
        """Answer a question from within an event loop; see `forward`."""
        asked = Question.check(question, answer_type, choices, self.max_question_chars, history)
        async with relayed() as relay:
            with as_status(relay):
                return await self.run(asked, blocking=False)

    if TYPE_CHECKING:
        # DSPy, which calls them, is untyped.
        __call__, acall = forward, aforward

    def stream(
        self, question: str, answer_type: AnswerType = "short", choices: Sequence[str] = (), history: Any = ()
    ) -> Iterator[Progress]:
        """Answer a question and yield what happens meanwhile, as it happens; see `forward` for the arguments.

        Returns:
            Events of `keqa.programs.prediction`, such as `Searching`; the last is `Answered`, with the
            prediction. Nothing is asked before the first is wanted. Who leaves early ends the question at its next
            event.

        Raises:
            InputError: The question cannot be asked.
            UnansweredError: As in `forward`, when the events before were read; so does `ConfigurationError`.
        """
        Question.check(question, answer_type, choices, self.max_question_chars, history)
        return streamed(lambda: self(question=question, answer_type=answer_type, choices=choices, history=history))

    def astream(
        self, question: str, answer_type: AnswerType = "short", choices: Sequence[str] = (), history: Any = ()
    ) -> AsyncIterator[Progress]:
        """As `stream`, from within an event loop."""
        Question.check(question, answer_type, choices, self.max_question_chars, history)
        return astreamed(
            lambda: self.acall(question=question, answer_type=answer_type, choices=choices, history=history)
        )

    def answer_many(self, questions: Iterable[Any], *, in_flight: int = 8) -> Iterator[Outcome]:
        """Answer many questions side by side and yield each as it finishes.

        Args:
            questions: Texts, mappings or objects with `question` and, where wanted, `answer_type` and `choices`.
            in_flight: How many questions are in work at once; their calls share the program's bound.

        Returns:
            Outcomes, in the order in which they finish. A failed question is an outcome with an error.

        Raises:
            InputError: What is given is no list of questions, such as the text of one, or a DataFrame: give its rows,
                ``df.to_dict("records")``.
            ConfigurationError: `in_flight` is out of its range; or as in `forward`, and it ends the batch.
            Exception: A part of the program has a fault; it ends the batch as well.
        """
        return answer_many(self, questions, in_flight)

    def as_tool(self, name: str | None = None, desc: str | None = None) -> dspy.Tool:
        """This program as a tool for ``dspy.ReAct`` or any other agent.

        Its one argument is `question`. It returns text: the answer, then the beginnings of at most five passages that
        the answer rests on; or, where there is no answer, why. In an event loop, ``await tool.acall(question=...)``.

        Args:
            name: What agents call it; ``answer_question`` where None.
            desc: What agents read about it; where None, that it answers factual questions with sources.
        """
        return ProgramTool(self, name, desc)

    async def run(self, asked: Question, *, blocking: bool) -> AnswerPrediction:
        """Answer a checked question; see `Session` for how."""
        from keqa.signatures.chat_format import adapter

        session = Session(self.bound, blocking, self._lms_in_use(), provisional=self.abstention is not None)
        session.count_steps(self.named_predictors())
        story, failure, given = RecordBuilder(question=asked.question), None, asked
        with within(session=session, given=given.question), dspy.context(adapter=dspy.settings.adapter or adapter()):
            if given.history:
                asked = await self._standing_alone(given)
            own = self.learned.ids_of(asked.question, asked.choices)
            if own:
                session.hides = partial(self.learned.hides, asked.question, asked.choices)
            with leaving_out(*own), asking_for(asked.question, asked.choices):
                try:
                    await self.solve(asked, story)
                    if story.answer is None:
                        raise UnansweredError("answer", "NoAnswerError", f"{self.method} wrote no answer")
                except UnansweredError as error:
                    failure = error
            record = self._record(given, asked, story, failure)
        if failure is not None:
            failure.record = record
            raise failure
        if record.unanswered is not None and self.way_out == "raise":
            raise NotInDocumentsError(record.unanswered, record)
        return prediction_of(record if self.abstention is None else self.abstention.applied(record))

    async def _standing_alone(self, asked: Question) -> Question:
        """A follow-up made to stand alone by a stage of no program: it learns nothing and is not saved."""
        stage = FollowUp(self.bound)
        stage.rewrite.fixed = self.demonstrations
        if (lms := current().lms) is not None:
            stage.bind_lms(lms)
        current().count_steps([*self.named_predictors(), ("follow_up.rewrite", stage.rewrite)])
        text = await stage.run(asked.question, asked.history, self.max_question_chars)
        if text != asked.question:
            report(Rewritten(text))
        return replace(asked, question=text)

    def _record(
        self, given: Question, asked: Question, story: RecordBuilder, failure: UnansweredError | None
    ) -> QuestionRecord:
        fields = dict(vars(story))
        if failure is not None:
            failed = Failure(stage=failure.stage, cause=failure.cause, message=failure.message)
            fields |= {"answer": None, "answer_source": "failed", "unanswered": None, "guessed": False}
            fields |= {"settled_by": None, "failure": failed}
        session, standalone = current(), None if asked.question == given.question else asked.question
        fields |= {"question": given.question, "answer_type": given.answer_type, "choices": given.choices}
        fields |= {"standalone": standalone, "method": self.method}
        fields |= {"degradations": session.degradations, "cost": session.cost()}
        return with_supporting_sentences(QuestionRecord(**fields))

    # Language models belong to the machine that a program runs on, not to the program: they are bound by role, survive
    # what optimizers do to a program, and are neither copied nor saved with it.

    def bind_lms(self, lms: RoleLMs | None) -> None:
        self._lms = NoCopy(lms)
        for _, stage in self.named_sub_modules(Stage):
            Stage.bind_lms(stage, lms)
        self._demonstrate()

    def _demonstrate(self) -> None:
        for predictor in self.predictors():
            if isinstance(predictor, Predictor):
                predictor.fixed = self.demonstrations

    def set_lm(self, lm: Any) -> None:
        """Use one language model in all roles.

        A rollout of the task's own, as ``dspy.BestOfN`` and SIMBA make them from `get_lm`, leaves the judges theirs:
        each role draws again, on the language model that it has.
        """
        own = self.get_lm() if rollout_of(lm) is not None else None
        if own is None or not is_rollout(lm, own):
            self.bind_lms(None if lm is None else Roles(lm, lm, lm))
            return
        settings = {name: lm.kwargs[name] for name in ("rollout_id", "temperature") if name in lm.kwargs}
        copies = {id(own): lm}

        def drawn_again(one: Any) -> Any:
            if one is not None and id(one) not in copies:
                copies[id(one)] = one.copy(**settings)
            return copies.get(id(one))

        for predictor in self.predictors():
            predictor.lm = drawn_again(predictor.lm)
        bound = self._lms.value
        if bound is not None:
            task, consistency, utility = map(drawn_again, (bound.task, bound.consistency, bound.utility))
            # A boundary model asks without predictors and samples nothing, so there is nothing to draw again.
            self._lms = NoCopy(Roles(task, consistency, utility, getattr(bound, "boundary", None)))

    def get_lm(self) -> Any:
        """The language model of the task, whatever the judges have; None where ``dspy.settings.lm`` answers.

        Where several were set on single predictors of the task, that is a ValueError.
        """
        found = [
            getattr(stage, name).lm
            for _, stage in self.named_sub_modules(Stage)
            for name, role in stage.roles.items()
            if role == "task" and isinstance(getattr(stage, name, None), dspy.Predict)
        ]
        first = found[0] if found else None
        if any(lm is not first for lm in found):
            raise ValueError("the predictors of the task have several language models, so there is no one to return")
        return first

    def _lms_in_use(self) -> RoleLMs | None:
        """The language models by role, with the task's that the predictors have: a parent's `set_lm` reaches no more.

        Where the predictors have several, there is no one of them.
        """
        bound, task = self.lms, None
        with suppress(ValueError):
            task = self.get_lm()
        if task is None or task is getattr(bound, "task", None):
            return bound
        return Roles(task, task, task, getattr(bound, "boundary", None))

    def named_sub_modules(self, type_: Any = None, skip_compiled: bool = False) -> Iterator[tuple[str, Any]]:
        """As DSPy's, without the candidates on other language models that an optimizer may have left with a program."""
        for name, part in super().named_sub_modules(type_, skip_compiled):
            if not name.startswith("self.candidate_programs"):
                yield name, part

    def reset_copy(self) -> Program:
        """A copy without what an optimizer added, on the same language models."""
        new: Program = self.deepcopy()
        with keeping_lms(new):
            for parameter in new.parameters():
                parameter.reset()
        return new

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse to be pickled, as by ``save_program=True``."""
        raise ConfigurationError(
            "a program is not pickled: keqa.save(program, folder) keeps all of it, and program.save('x.json') its state"
        )

    @property
    def lms(self) -> RoleLMs | None:
        """The language model of each role, None where ``dspy.settings.lm`` answers; assigned as by `bind_lms`."""
        found: RoleLMs | None = self._lms.value
        return found

    @lms.setter
    def lms(self, lms: RoleLMs | None) -> None:
        self.bind_lms(check(Program, {"lms": lms}, type(self).__name__)["lms"])

    def lms_asked(self) -> list[Any]:
        """The LMs whose keys a record may repeat: the predictors', and the boundary model's, which has no predictor."""
        boundary = getattr(self._lms.value, "boundary", None)
        return [*(predictor.lm for predictor in self.predictors()), *([] if boundary is None else [boundary])]

    @property
    def retriever(self) -> Any:
        """Where it searches, None where nowhere; assigned as by `bind_retriever`."""
        return self._retriever.value

    @retriever.setter
    def retriever(self, retriever: Any) -> None:
        self.bind_retriever(retriever)

    def bind_retriever(self, retriever: Annotated[Any, RETRIEVER]) -> None:
        """Search somewhere else from now on; what is given is what the constructor takes."""
        if "retriever" not in inspect.signature(type(self)).parameters:
            raise ConfigurationError(f"a {type(self).__name__} searches nothing and takes no retriever")
        given = check(Program.bind_retriever, {"retriever": retriever}, type(self).__name__)
        self._retriever = NoCopy(given["retriever"])

    def named_parameters(self) -> list[tuple[str, Any]]:
        """As DSPy's, and the settings as a parameter of their own, so that they are saved and loaded with the rest."""
        return [(SETTINGS, SavedSettings(self)), *super().named_parameters()]

    def load(self, path: str | Path, *how: Any, **named: Any) -> None:
        """Load a state that was saved as a file, as DSPy does."""
        if Path(path).is_dir():
            raise ConfigurationError(f"{path} is a folder: keqa.load(folder, retriever, lms) loads the program in it")
        super().load(path, *how, **named)

    def load_state(self, state: Mapping[str, Any], *, allow_unsafe_lm_state: bool = False) -> None:
        """Become what was saved, from anywhere: settings, utility reference, predictors. LMs and retriever stay.

        Where the state holds what it may not, is that of another method, or needs a part of your own that this program
        lacks, the program is what it was before.
        """
        found = dict(named_values(state, f"the state of {type(self).__name__}"))
        if (settings := found.pop(SETTINGS, None)) is None:
            raise ConfigurationError(
                f"the state is none of a {type(self).__name__}: it has no settings. That of a module around a program "
                "is loaded into such a module"
            )
        for program in (self.deepcopy(), self):
            program.take(settings, whole=True)
            program.load_parts(found, {name: part for name, part in program.named_parameters() if name != SETTINGS})

    def described(self) -> dict[str, Any]:
        """The settings as they are saved: of which class, and their values as JSON."""
        return {"method": type(self).__name__, "values": settings_of(self)}

    def take(self, saved: Any, *, whole: bool) -> None:
        """Set the program up as what `described` gave, from anywhere; LMs, retriever and the number of workers stay.

        With `whole`, predictors and a utility reference may be added, as the whole state is about to be loaded; within
        a user's module DSPy loads those parts only that were there before.
        """
        own = self.described()
        named_values(saved, "what a state says of settings", own)
        if saved["method"] != own["method"]:
            raise ConfigurationError(f"the state is that of a {saved['method']!a:.80}, and this is a {own['method']!a}")
        values = named_values(saved["values"], "the settings of a state")
        both = [name for name, value in own["values"].items() if is_own(value) and is_own(values.get(name))]
        given = {name: getattr(self, name) for name in both}
        before = {name: predictor.signature for name, predictor in self.named_predictors()}
        found = read_values(self.Settings, values, given, method=type(self).__name__)
        self.change(**{**found, "workers": self.workers})
        after = {name: predictor.signature for name, predictor in self.named_predictors()}
        added = sorted(name for name in {*before, *after} if before.get(name) is not after.get(name))
        if added and not whole:
            raise ConfigurationError(
                f"the state was saved with other prompts than this program has ({added[0]}): make the program with the "
                "same settings, such as gate=…, draft=…, cite=… or reason=…, before its state is loaded"
            )


def setting(name: str, place: str) -> Any:
    """A property that reads what is in force at a place of the program, and that is assigned as a setting."""
    return property(attrgetter(place), lambda program, value: program.change(**{name: value}))


class SavedSettings(Parameter):
    """A program's settings as a parameter of DSPy's: written with its state, and taken over from one."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def reset(self) -> None:
        """Stay: an optimizer that starts afresh has not found the settings."""

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        return self._program.described()

    def load_state(self, state: Mapping[str, Any]) -> SavedSettings:
        """Set the program up as a saved one was; its predictors stay the same objects."""
        self._program.take(state, whole=False)
        return self
