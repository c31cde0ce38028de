"""How right an answer is to a question of a compilation: by a metric of this package's form, or by one of DSPy's.

A `keqa.metrics.utility.Correctness` compares an answer with gold answers, and serves for quizzes as well. A metric of
DSPy's, ``metric(example, prediction, trace)``, is about a whole question, with whatever its example holds.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from contextlib import suppress
from typing import Any

import dspy

from keqa.data.example import Example, as_example
from keqa.errors import ConfigurationError, InputError
from keqa.metrics.answers import f1
from keqa.metrics.utility import Correctness
from keqa.optimize.judged import judged, teaching
from keqa.programs.fingerprint import function_fingerprint
from keqa.programs.prediction import AnswerPrediction

_FIRST = ("example", "gold", "ex")
_FORM = "metric(answer, golds, answer_type, choices), or metric(example, prediction, trace) as DSPy's are"


class DspyMetric:
    """A metric of DSPy's, for the scores of whole questions; quizzes, of which it knows nothing, are scored by F1."""

    def __init__(self, function: Callable[..., Any], given: Mapping[str, dspy.Example] | None = None) -> None:
        self.function, self.given = function, dict(given or {})

    def __call__(self, answer: str | None, golds: Sequence[str], answer_type: str, choices: Sequence[str]) -> float:
        return f1(answer, golds, answer_type, choices)

    def of(self, example: Example, prediction: AnswerPrediction) -> float:
        own = self.given.get(example.id)
        asked = example_for_metrics(example, own)
        if own is not None and "id" in own:
            asked["id"] = own["id"]  # As it was given, such as a number.
        try:
            # A bool, a number, or a prediction with a score and feedback.
            return float(self.function(asked, prediction))
        except Exception as error:
            raise ConfigurationError(
                f"the metric failed on the question {example.question!r} ({type(error).__name__}: {error})"
            ) from error


def example_for_metrics(example: Example, given: dspy.Example | None = None) -> dspy.Example:
    """A question as metrics and optimizers of DSPy take it, gold answers and all."""
    own = {} if given is None else dict(given.items())
    lists = {name: list(getattr(example, name)) for name in ("choices", "answers", "quizzes", "quiz_answers")}
    asked = {"id": example.id, "question": example.question, "answer_type": example.answer_type}
    fields = {"answer": example.answers[0] if example.answers else None, **own, **asked, **lists}
    return dspy.Example(fields).with_inputs("id", "question", "answer_type", "choices")


def as_metric(metric: Any, *sets: Any) -> Correctness:
    """A metric in the form that compiling takes; one of DSPy's gets the examples of the sets as they were given."""
    if isinstance(metric, DspyMetric):
        return metric
    # A module that scores, such as dspy.evaluate.SemanticF1, is called through parameters of no name; DSPy warns
    # where its `forward` is looked at as where it is called.
    called = object.__getattribute__(metric, "forward") if hasattr(type(metric), "forward") else metric
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        raise ConfigurationError(f"the metric must be {_FORM}, not {metric!r}") from None
    names = list(signature.parameters)
    if "trace" in names or (names[:1] and names[0] in _FIRST) or not _binds(signature, 4):
        if not _binds(signature, 2):
            raise ConfigurationError(f"the metric must be {_FORM}; it takes {signature}")
        return DspyMetric(metric, _given(sets))
    correctness: Correctness = metric
    return correctness


def metric_fingerprint(metric: Any) -> str:
    """A metric by its name, and by its source where it does not come with the package."""
    return function_fingerprint(metric.function if isinstance(metric, DspyMetric) else metric)


def score_of(metric: Correctness, example: Example, prediction: Any) -> float:
    """How right a prediction is; 0 without an answer, and where it says that the documents do not say it.

    A metric of DSPy's is given the latter, and may see by `prediction.unanswered` what it is.
    """
    answer = getattr(prediction, "answer", None)
    if not answer:
        return 0.0
    if isinstance(metric, DspyMetric):
        score = metric.of(example, prediction)
    elif getattr(prediction, "unanswered", None) is not None:
        return 0.0
    else:
        kind = "yes/no" if example.scored_as == "yes/no" else example.answer_type
        score = float(metric(answer, example.answers, kind, example.choices))
    if not math.isfinite(score):
        # Nothing is better or worse than it.
        raise ConfigurationError(f"the metric gave {score} to the question {example.question!r}, which is no score")
    return score


def optimizer_metric(metric: Any = f1, *, threshold: float = 0.5) -> Callable[..., Any]:
    """Make a metric for DSPy's own optimizers, in the form of GEPA's. Exported as ``keqa.optimizer_metric``.

    They take every call of a run that ended well for an example to follow. But a program gets to right answers by
    detours: a quiz answered wrong from memory, or a passage judged wrong, would be learned as they are.

    * To score, it gives the correctness of the answer.
    * To bootstrap demonstrations, where it gets a trace, it says whether the run ended well, and takes out of the trace
      the calls that are wrong as far as gold answers show. Calls of other modules than the program's stay as they are.
    * To GEPA, which names a predictor, it gives the score with feedback on that predictor's call.

    Args:
        metric: Correctness of an answer, or a metric of DSPy's.
        threshold: The score from which a run ended well.

    Raises:
        ConfigurationError: The metric has neither form.
    """
    as_metric(metric)

    def scored(
        example: Any, prediction: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> Any:
        known, correctness = as_example(example), as_metric(metric, [example])
        if pred_name is not None:
            return _feedback(correctness, known, prediction, pred_trace)
        score = score_of(correctness, known, prediction)
        if trace is None:
            return score
        if isinstance(trace, MutableSequence):
            trace[:] = [one.in_form for one in teaching(judged(trace, known))]
        return score >= threshold

    return scored


def _feedback(metric: Correctness, example: Example, prediction: Any, pred_trace: Any) -> dspy.Prediction:
    record, score = getattr(prediction, "record", None), score_of(metric, example, prediction)
    parts = [one.sentence for one in judged(pred_trace, example, record)[:1]] if pred_trace and record else []
    if record is not None and record.failure is not None:
        parts.append(f"The question has no answer, since {record.failure.stage} failed: {record.failure.message}")
    else:
        golds, answer = " or ".join(repr(one) for one in example.answers), getattr(prediction, "answer", None)
        report = f"The program answered the question with {answer!r}; the gold answer is {golds}; the score is "
        parts.append(f"{report}{score:.2f}.")
    return dspy.Prediction(score=score, feedback=" ".join(part for part in parts if part))


def _binds(signature: inspect.Signature, count: int) -> bool:
    with suppress(TypeError):
        signature.bind(*[None] * count)
        return True
    return False


def _given(sets: Iterable[Any]) -> dict[str, dspy.Example]:
    """What was given of questions, as examples of DSPy's, by the id that they get; without those of no use."""
    found: dict[str, dspy.Example] = {}
    for item in (item for one in sets if isinstance(one, Sequence) for item in one):
        with suppress(InputError):
            if isinstance(item, dspy.Example):
                found[as_example(item).id] = item
            elif isinstance(item, Mapping):
                # Its answer may be in any form; a metric sees the first as text.
                own = {name: value for name, value in item.items() if name != "answer"}
                found[as_example(item).id] = dspy.Example(own)
    return found
