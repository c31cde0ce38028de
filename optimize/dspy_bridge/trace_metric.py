"""A metric for DSPy's optimizers over a program, or over a module that contains one, that looks at every call.

DSPy's optimizers take every call of a run that ended well for an example to follow. But a program gets to right answers
by detours: a quiz answered wrong from memory, or a passage judged wrong, would be learned as they are. This metric
leaves of a run that ended well only the calls that are not known to be wrong:

* an answer to the question, or to a quiz that a gold quiz asks as well, has to be right;
* a verdict on two answers has to be that of the gold answer, a verdict on a passage must not contradict it;
* of calls about which gold answers say nothing, those teach whose predictor is not known to be wrong in the same run.

Calls of other modules than the program's are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence, Sequence
from typing import Any

import dspy

from keqa.data.example import Example, as_example
from keqa.data.quiz_references import plain
from keqa.metrics.accuracy import contains_answer
from keqa.metrics.answers import f1
from keqa.optimize.alignment import Settled, gold_number
from keqa.optimize.demos.candidate import complete
from keqa.optimize.demos.from_traces import checked
from keqa.optimize.dspy_bridge.feedback import feedback_metric
from keqa.optimize.scoring import as_metric, example_for_metrics, score_of
from keqa.programs.predictor_state import Predictor
from keqa.programs.records import QuizRecord
from keqa.programs.stages.decomposition import is_the_question

OptimizerMetric = Callable[..., Any]
"""``metric(example, prediction, trace=None, pred_name=None, pred_trace=None)``, as all of DSPy's optimizers call it."""


def optimizer_metric(metric: Any = f1, *, threshold: float = 0.5) -> OptimizerMetric:
    """Make a metric for DSPy's own optimizers. Exported as ``keqa.optimizer_metric``.

    * To score, it gives the correctness of the answer.
    * To bootstrap demonstrations, where it gets a trace, it says whether the run ended well, and takes out of the trace
      the calls that are wrong as far as gold answers show.
    * To GEPA, which names a predictor, it gives the score with feedback on that predictor's call.

    Args:
        metric: Correctness of an answer, or a metric of DSPy's.
        threshold: The score from which a run ended well.

    Raises:
        ConfigurationError: The metric has neither form.
    """
    correctness = as_metric(metric)

    def scored(
        example: Any, prediction: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> Any:
        known = as_example(example)
        if pred_name is not None:
            whole = example_for_metrics(known, example)
            return feedback_metric(correctness)(whole, prediction, trace, pred_name, pred_trace)
        score = score_of(as_metric(metric, [example]), known, prediction)
        if trace is None:
            return score
        if isinstance(trace, MutableSequence):
            trace[:] = sound_calls(trace, known)
        return score >= threshold

    return scored


def sound_calls(trace: Sequence[Any], example: Example) -> list[Any]:
    """The calls of a trace that are not known to be wrong, answers in the gold answer's form."""
    golds = _golds(trace, example)
    found: list[tuple[Any, Any]] = [(step, _judged(step, golds, example)) for step in trace]
    of_right = {id(step[0]) for step, judged in found if isinstance(judged, dict)}
    of_wrong = {id(step[0]) for step, judged in found if judged is False}
    kept = []
    for step, judged in found:
        predictor, inputs, outputs = step
        if isinstance(judged, dict):
            in_form = {name: judged.get(name, value) for name, value in dict(outputs).items()}
            kept.append((predictor, inputs, dspy.Prediction(**in_form)))
        elif judged is None and id(predictor) not in of_right | of_wrong:
            kept.append(step)
    return kept


def _judged(step: Any, golds: Mapping[str, Settled], example: Example) -> Any:
    """A right call with its answer in the gold form; False for a wrong one, None where gold answers do not show it."""
    predictor, inputs, outputs = step
    if not isinstance(predictor, Predictor):
        return None
    signature, fields = predictor.signature, {**dict(inputs), **dict(outputs)}
    try:
        demo = complete(signature, fields)
    except KeyError:
        return False
    if "helpful" in signature.output_fields:
        one = golds.get(plain(str(demo.get("quiz"))))
        return None if one is None or one.answer_type != "short" else _verdict(demo, one)
    if "quizzes" in signature.output_fields and example.quizzes:
        # A decomposition of another length asks too little or too much.
        return demo if len(demo["quizzes"]) == len(example.quizzes) else False
    return checked(signature, demo, golds)


def _verdict(demo: Mapping[str, Any], one: Settled) -> Any:
    """A passage that states the gold answer helps; that one does not state it says little about others."""
    stated = contains_answer(str(demo["passage"]), one.golds)
    if stated or demo["helpful"]:
        return dict(demo) if stated and demo["helpful"] else False
    return dict(demo)


def _golds(trace: Sequence[Any], example: Example) -> dict[str, Settled]:
    """The quizzes that were asked, by their text, with the gold answers of those that a gold quiz asks as well.

    A right answer may be in another form than the gold one, and a quiz that refers to it has that form.
    """
    answers: dict[str, list[str]] = {}
    for _, inputs, outputs in trace:
        text = str(inputs.get("question") or inputs.get("quiz") or "")
        answers.setdefault(text, []).extend([str(outputs["answer"])] if "answer" in outputs else [])
    found: dict[str, Settled] = {}
    forms: dict[int, str] = {}
    # Each round may settle the quizzes that refer to those of the round before.
    for turn in range(len(example.quizzes) + 1):
        known = dict(forms) if turn else {}
        for text, given in answers.items():
            if not text or plain(text) in found:
                continue
            quiz = QuizRecord(index=1, text=text, resolved=text)
            if is_the_question(text, example.question):
                found[plain(text)] = Settled(quiz, example.answers, example.answer_type, example.choices)
                continue
            number = gold_number(text, example, known)
            if number is not None:
                one = found[plain(text)] = Settled(quiz, (example.quiz_answers[number - 1],))
                forms.update((number, answer) for answer in given if one.agrees(answer))
    return found
