"""Asking a method many questions: side by side, each kept as it ends, and never twice."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from typing import Any, TypedDict

import dspy
from dspy.clients.base_lm import GLOBAL_HISTORY

from keqa.data.example import Example, as_examples
from keqa.data.question import refuse_table
from keqa.errors import InputError, KeqaError, NotInDocumentsError, StageError, TooManyFailuresError
from keqa.evaluation.gold_quizzes import golds_within, oracle_log
from keqa.evaluation.records import RunHeader, RunLine, RunSettings
from keqa.evaluation.run_file import RunFile
from keqa.evaluation.tally import Tally, learned_from, refuse_overlap
from keqa.metrics import hotpotqa
from keqa.metrics.accuracy import contains_answer
from keqa.metrics.answers import exact_match, f1
from keqa.optimize.written import written_scores
from keqa.programs.abstention import abstained
from keqa.programs.calls.batch import ask as ask_program
from keqa.programs.calls.batch import in_parallel
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.calls.errors import is_transient
from keqa.programs.calls.predictor import demos_of
from keqa.programs.calls.session import bypass_cache
from keqa.programs.fingerprint import digest, models_of, program_spec, retriever_spec
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.records import Failure, QuestionRecord, Written, record_without_secrets
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.wrapper import ModuleWrapper, program_within
from keqa.storage.redaction import without_secrets

STOP_AFTER_OUTAGES = 10
"""So many questions in succession that fail for a reason that may pass end a run, unless another number is given."""

_HISTORY = 64


class AskingOptions(TypedDict, total=False):
    """How questions are asked, whatever the method: the arguments of `evaluate` that stand for all of a comparison."""

    command: str
    in_flight: int
    retry_failed: bool
    stop_after_outages: int
    before_first: Callable[[], None]
    allow_overlap: bool


def evaluate(
    program: Program | ModuleWrapper[Any],
    examples: Iterable[Any] | Path | str,
    *,
    out: Path | str,
    method: str | None = None,
    label: str | None = None,
    dataset: str = "",
    split: str = "",
    seed: int = 0,
    configuration: Mapping[str, Any] | None = None,
    command: str = "",
    compiled: str = "",
    left_out: Mapping[str, int] | None = None,
    in_flight: int = 8,
    retry_failed: bool = False,
    cache: CallCache | None = None,
    progress: Callable[[Tally], None] = lambda tally: None,
    stop_after_outages: int = STOP_AFTER_OUTAGES,
    before_first: Callable[[], None] = lambda: None,
    allow_overlap: bool = False,
) -> Tally:
    """Ask a program questions and keep one line a question in a run file.

    The line is written when its question ends. Called again with the same file, it asks what is left, so that work is
    neither lost nor done twice when a run is stopped, however hard. A question that fails is kept as failed, with the
    error's type, and is no wrong answer.

    Args:
        program: Any method.
        examples: What `keqa.data.example.as_examples` takes, or a file that `keqa.data.own.read_examples` reads, of
            which each question has to be usable; a `shape` or `kind` of an item goes into its line. An `answer` that is
            None, or a true `unanswerable`, says that the documents do not answer the question.
        out: The run file, such as ``runs/keqa.jsonl``.
        method: The method's name; the program's own where None.
        label: The run's name; that of the file where None.
        dataset: Name of the data set.
        split: Part of it.
        seed: Of the sample.
        configuration: What the answers depend on beyond `keqa.evaluation.evaluate.describe`, as JSON.
        command: How to run it again, without secrets and addresses.
        compiled: The method whose compiled program the program was made from, for the header.
        left_out: How many questions of the data are not among the examples, by reason, for the header.
        in_flight: How many questions are in work at once; their calls share the program's bound.
        retry_failed: Ask the failed questions of an earlier run again, and those that were answered although something
            failed that may pass (`RunLine.impairments`), and only those and what is left. No cache answers the failed
            ones, for it may hold the reply that they failed with.
        cache: Answers calls that were made before; DSPy's own where None.
        progress: Called after each question, one call at a time.
        stop_after_outages: Ask nothing more where so many questions in succession failed for a reason that may pass,
            such as a server that is away; 0 asks all of them. What is in work then still ends and is kept.
        before_first: Called before the first question that is asked; what it raises ends the run.
        allow_overlap: Ask questions that the program learned from, too. Tables mark the run. While such a question is
            asked, its own demonstrations and utility labels are not shown.

    Returns:
        The sums over all lines of the file. `keqa.evaluation.run_file.read_run` reads them in order.

    Raises:
        InputError: A question cannot be used, two have one id, the file is that of another run, or the program learned
            from some of the questions.
        ConfigurationError: A key, model or setting is wrong, which no question would escape. What was answered by then
            is kept.
        TooManyFailuresError: Too many questions in succession failed; see `stop_after_outages`. What was asked is kept.
    """
    program = program_within(program, "keqa.evaluate")
    if in_flight < 1:
        raise InputError(f"in_flight must be at least 1, not {in_flight}")
    if stop_after_outages < 0:
        raise InputError(f"stop_after_outages must be at least 0, not {stop_after_outages}")
    label = label or Path(out).stem
    questions = _questions(examples)
    known = learned_from(program, questions.values())
    if not allow_overlap:
        refuse_overlap(known, len(questions), label)
    # Of what a run file may not mix.
    mixed: dict[str, Any] = {"method": method or program.method, "dataset": dataset, "split": split, "seed": seed}
    configured = {**describe(program), **(configuration or {})}
    header = RunHeader(
        **mixed,
        label=label,
        ids=list(questions),
        configuration=RunSettings.model_validate(configured),
        fingerprint=digest([*mixed.values(), configured]),
        command=command,
        compiled=compiled,
        demonstrations=demonstrations_of(program),
        left_out=dict(left_out or {}),
        learned_from=[one.id for one in known],
        learned_unknown=not program.learned.complete,
    )
    tally = Tally(len(questions), learned_from=len(known), learned_unknown=header.learned_unknown)
    asked = {name: (one.question, one.answers, one.answer_type, one.choices) for name, one in questions.items()}
    with RunFile.open(Path(out), header, asked, retry_failed=retry_failed, found=tally.add) as file:
        outages = _Outages(stop_after_outages)
        left = [question for name, question in questions.items() if name not in file]
        waiting = takewhile(lambda _: not outages.reason, left)
        # DSPy's trace and history would hold the last ten thousand calls.
        forgetful = dspy.context(trace=None, max_history_size=_HISTORY)
        with nullcontext() if cache is None else cache.installed(), forgetful:
            if left:
                before_first()
            for line in in_parallel(partial(_answer, program, file, dataset), waiting, in_flight):
                file.add(line)
                outages.count(line.error)
                tally.add(line)
                tally.asked += 1
                progress(tally)
                del GLOBAL_HISTORY[:-_HISTORY]
    if outages.reason and tally.done < tally.questions:
        raise TooManyFailuresError(
            f"stopped, for {outages.most} questions in succession failed for a reason that may pass ({outages.reason}"
            f"). {tally.done} of {tally.questions} questions were asked, and what was answered is kept: once the cause "
            "is gone, run the same command with --retry-failed"
        )
    return tally


def describe(program: Program) -> dict[str, Any]:
    """Its class, settings, prompts, language models, index and utility reference, as JSON without address and key."""
    retriever = getattr(getattr(program, "_retriever", None), "value", None)
    described = {
        "keqa": version("keqa"),
        **program_spec(program),
        "models": dict(sorted(models_of(program).items())),
        "index": retriever_spec(retriever),
    }
    cleaned: dict[str, Any] = without_secrets(described, program.lms_asked())
    return cleaned


def demonstrations_of(program: Program) -> dict[str, int]:
    """How many demonstrations each predictor of a program is shown, by its name."""
    found = {name: len(demos_of(predictor)) for name, predictor in program.named_predictors()}
    # Without picking no prompt has the reference's.
    reference = program.picking.reference if isinstance(program, KEQA) and program.settings.pick else None
    if isinstance(reference, UtilityReference) and reference.entries and reference.variant != "none":
        found["picking.judge"] = min(reference.k, len(reference.entries))
    return found


def _answer(program: Program, file: RunFile, dataset: str, question: Example) -> RunLine:
    with bypass_cache() if file.again(question.id) else nullcontext():
        return ask(program, question, dataset=dataset)


@dataclass
class _Outages:
    """Counts questions in succession that fail for a reason that may pass; `most` of them end a run, 0 none."""

    most: int
    in_succession: int = 0
    reason: str = ""

    def count(self, error: Failure | None) -> None:
        passing = error is not None and is_transient(error.cause)
        self.in_succession = self.in_succession + 1 if passing else 0
        if error is not None and 0 < self.most <= self.in_succession:
            self.reason = f"{error.cause}: {error.message}"


def _questions(examples: Iterable[Any] | Path | str) -> dict[str, Example]:
    """The questions to ask, by id."""
    if isinstance(examples, Path | str):
        from keqa.data.own import read_examples

        loaded = read_examples(examples, unanswerable=True)
        if loaded.problems:
            named = "".join(f"\n  {problem}" for problem in loaded.problems[:5])
            raise InputError(f"{len(loaded.problems)} questions of {examples} cannot be used{named}")
        examples = loaded.examples
    refuse_table(examples, "keqa.evaluate")
    items = list(examples)
    if not items:
        raise InputError("there is no question to ask")
    found = zip(items, as_examples(items, unanswerable=True), strict=True)
    # The testbed's kinds are shapes.
    return {one.id: replace(one, kind=str(getattr(item, "shape", "") or one.kind)) for item, one in found}


def ask(program: Program, example: Example, *, dataset: str = "") -> RunLine:
    """Ask a method a question and score it; a question that failed has its line as well."""
    with oracle_log(example) as log:
        outcome = ask_program(program, 0, example)
    # That the documents do not say it is a finding, also where the program was to raise it.
    error = None if isinstance(outcome.error, NotInDocumentsError) else outcome.error
    record = outcome.record and record_without_secrets(outcome.record, program.lms_asked())
    answer = record.answer if record is not None and error is None else None
    return RunLine(
        id=example.id,
        question=example.question,
        answers=list(example.answers),
        answer_type=example.answer_type,
        kind=example.kind,
        answer=answer,
        scores=scores_of(answer, example, declined=answer is not None and _declines(record, example))
        | _written_scores(program, example, record),
        record=record,
        error=None if error is None else _failure(error, record, program),
        seconds=outcome.seconds if record is None else record.cost.seconds,
        choices=list(example.choices),
        golds=log.answers,
        quiz_golds=golds_within(example, record, log.answers, dataset),
    )


def _written_scores(program: Program, example: Example, record: QuestionRecord | None) -> dict[str, float]:
    """Those of a written answer, by the judge that checked it; where one was wanted and there is none, they are 0.

    What is for yes or no, or a choice, is answered in short in any style.
    """
    if not isinstance(program, KEQA) or program.writing is None or record is None or record.unanswered is not None:
        return {}
    if example.answer_type != "short":
        return {}
    style = program.settings.style
    written = record.written
    if written is None and style in ("sentence", "report", "list", "table"):
        written = Written(style=style)
    if written is None:
        return {}
    return written_scores(written, example.answers, program.writing.judge(record.standalone or record.question))


def scores_of(answer: str | None, example: Example, *, declined: bool = False) -> dict[str, float]:
    """Every score that an answer has, from 0 to 1; None, of a failed question, scores 0.

    They are ``em``, ``f1`` and ``contains``, and for yes/no questions and choices ``accuracy``; by the benchmark's own
    rule where the example says so. To decline is right exactly where the question is unanswerable, as in SQuAD 2.0,
    whatever words the answer shares with a gold one.
    """
    answer_type, golds = example.scored_as or example.answer_type, example.answers
    scores: dict[str, float]
    if example.unanswerable or declined:
        scores = dict.fromkeys(("em", "f1", "contains"), declined and example.unanswerable)
    elif answer_type == "hotpotqa":
        scores = {"em": hotpotqa.exact_match(answer, golds), "f1": hotpotqa.f1(answer, golds)}
        scores["contains"] = contains_answer(answer, golds, "yes/no" if hotpotqa.is_verdict(golds) else "short")
    else:
        measures = {"em": exact_match, "f1": f1, "contains": contains_answer}
        scores = {name: score(answer, golds, answer_type, example.choices) for name, score in measures.items()}
    if answer_type not in ("short", "hotpotqa"):
        # ACC of the KEQA paper's Table 1.
        scores["accuracy"] = scores["em"]
    return {name: float(score) for name, score in scores.items()}


def _declines(record: QuestionRecord | None, example: Example) -> bool:
    """Whether the answer counts as none: by its type, and where no other one is right by its words, too."""
    return record is not None and (abstained(record) if example.unanswerable else record.unanswered is not None)


def _failure(error: KeqaError, record: QuestionRecord | None, program: Program) -> Failure:
    if record is not None and record.failure is not None:
        return record.failure
    stage, cause, message = "ask", type(error).__name__, str(error)
    if isinstance(error, StageError):
        stage, cause, message = error.stage, error.cause, error.message
    return Failure(stage=stage, cause=cause, message=without_secrets(message, program.lms_asked()))
