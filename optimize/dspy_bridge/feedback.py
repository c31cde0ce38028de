"""Feedback on one call of one predictor, written so that a language model can improve the predictor's instruction.

GEPA shows a reflecting language model what a predictor was given, what it wrote, and this text. The text says what the
call should have led to, as far as gold answers show, and which part of the blame lies elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import dspy

from keqa.data.example import Example
from keqa.metrics.accuracy import contains_answer
from keqa.metrics.answers import is_abstention, same_answer
from keqa.metrics.utility import Correctness
from keqa.optimize.alignment import Settled, gold_quizzes, settled_quizzes
from keqa.optimize.dspy_bridge.student import PREFIX
from keqa.optimize.scoring import score_of
from keqa.programs.records import QuestionRecord


def feedback_metric(metric: Correctness) -> Callable[..., dspy.Prediction]:
    """Make the metric that GEPA needs from a correctness metric."""

    def scored(
        gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> dspy.Prediction:
        example = as_example_of(gold)
        answer, score = getattr(pred, "answer", None), score_of(metric, example, pred)
        record = getattr(pred, "record", None)
        parts = [_outcome(example, record, answer, score)]
        if pred_name is not None and pred_trace and record is not None:
            _, inputs, outputs = pred_trace[0]
            parts.insert(0, feedback_on(pred_name.removeprefix(PREFIX), example, record, dict(inputs), dict(outputs)))
        return dspy.Prediction(score=score, feedback=" ".join(part for part in parts if part))

    return scored


def as_example_of(gold: Any) -> Example:
    """The example behind one that DSPy's optimizers carry about; see `keqa.optimize.scoring.example_for_metrics`."""
    return Example(
        gold.root,
        gold.question,
        tuple(gold.answers),
        gold.answer_type,
        tuple(gold.choices),
        tuple(gold.quizzes),
        tuple(gold.quiz_answers),
    )


def feedback_on(
    name: str, example: Example, record: QuestionRecord, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> str:
    """What one call should have given."""
    if name in _OF_QUESTION:
        return _OF_QUESTION[name](example, record, outputs)
    if name not in _OF_QUIZ:
        return ""
    field, write = _OF_QUIZ[name]
    quiz = str(inputs.get(field, ""))
    one = next((one for one in settled_quizzes(example, record) if one.quiz.resolved == quiz), None)
    return "" if one is None else write(one, inputs, outputs)


def _decompose(example: Example, record: QuestionRecord, outputs: Mapping[str, Any]) -> str:
    parts = [f"{d.message[0].upper()}{d.message[1:]}." for d in record.degradations if d.stage == "references"]
    written = [str(quiz) for quiz in outputs.get("quizzes") or []]
    if example.quizzes and len(written) != len(example.quizzes):
        noun = "quiz" if len(example.quizzes) == 1 else "quizzes"
        parts.append(f"This question takes {len(example.quizzes)} {noun}, not {len(written)}.")
    if example.quizzes:
        numbered = " ".join(f"{number}. {text}" for number, text in enumerate(example.quizzes, start=1))
        parts.append(f"A good decomposition is: {numbered}")
    unanswered = [q.resolved or q.text for q in record.quizzes if q.answer is None or q.abstained]
    if unanswered:
        parts.append(f"These quizzes could not be answered: {'; '.join(unanswered)}")
    if any("#" not in quiz and _refers_back(quiz) for quiz in written[1:]):
        parts.append("A later quiz says 'he', 'she', 'it' or 'that' where it must write #1, #2 for an earlier answer.")
    return " ".join(parts)


def _answer_quiz(one: Settled, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> str:
    answer = str(outputs.get("answer", ""))
    if is_abstention(answer, one.choices):
        return f"It said that it does not know. The answer is {one.golds[0]!r}; the program then looks it up."
    return _on_form(answer, one) or (
        f"{answer!r} is wrong, the answer is {one.golds[0]!r}. Where the answer is not known, "
        "saying so is better than a guess, since the program then looks it up."
    )


def _answer(one: Settled, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> str:
    answer = str(outputs.get("answer", ""))
    found = _on_form(answer, one)
    if found:
        return found
    wrong = f"{answer!r} is wrong, the answer is {one.golds[0]!r}"
    verdicts = {str(text): _tells(str(text), one) for text in inputs.get("passages") or []}
    telling = next((text for text, tells in verdicts.items() if tells), None)
    if telling is not None:
        return f"{wrong}, and this passage tells it: {telling}"
    known = None not in verdicts.values()
    return f"{wrong}. No passage tells it, so it had to come from memory." if known else f"{wrong}."


def _judge_consistency(one: Settled, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> str:
    first, second = (one.agrees(str(inputs.get(name, ""))) for name in ("first_answer", "second_answer"))
    if not first and not second:
        return f"Both answers are wrong (it is {one.golds[0]!r}), so nothing can be said about this judgement."
    same = first and second
    said = bool(outputs.get("same"))
    verdict = "right" if said == same else "wrong"
    why = "both give it" if same else f"only the {'first' if first else 'second'} answer gives it"
    return f"Judging {said} was {verdict}: the answer is {one.golds[0]!r}, and {why}."


def _judge_utility(one: Settled, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> str:
    tells, said = _tells(str(inputs.get("passage", "")), one), bool(outputs.get("helpful"))
    if tells is None:
        return ""
    if tells == said:
        does = "does" if tells else "does not"
        return f"Judging {said} fits: the answer is {one.golds[0]!r}, which the passage {does} hold."
    if tells:
        return f"The passage holds the answer, {one.golds[0]!r}, and was judged not helpful."
    return (
        f"The passage does not hold the answer, {one.golds[0]!r}, and was judged helpful. It may be about the same "
        "subject, or tell something that is misleading or out of date."
    )


def _summarize(example: Example, record: QuestionRecord, outputs: Mapping[str, Any]) -> str:
    settled = settled_quizzes(example, record)
    wrong = [s for s in settled if s.quiz.answer is not None and not s.agrees(s.quiz.answer)]
    answer = str(outputs.get("answer", ""))
    whole = Settled(record.quizzes[0], example.answers, example.answer_type, example.choices)
    told = "; ".join(f"{s.quiz.resolved} {s.quiz.answer} (it is {s.golds[0]})" for s in wrong)
    if told and answer and whole.agrees(answer):
        return f"{answer!r} is right by luck: it was concluded from wrong answers to quizzes: {told}"
    if told:
        return f"The answer is {example.answers[0]!r}. The summary was misled by wrong answers to quizzes: {told}"
    found = _on_form(answer, whole)
    if found:
        return found
    gold = "; ".join(f"{quiz} {text}" for quiz, text in gold_quizzes(example))
    known = f" The facts are: {gold}." if gold else ""
    return f"{answer!r} does not follow: the answer is {example.answers[0]!r}.{known}"


_OF_QUESTION: dict[str, Callable[[Example, QuestionRecord, Mapping[str, Any]], str]] = {
    "decomposition.decompose": _decompose,
    "summarizing.summarize": _summarize,
}
_OF_QUIZ: dict[str, tuple[str, Callable[[Settled, Mapping[str, Any], Mapping[str, Any]], str]]] = {
    "examination.quiz": ("quiz", _answer_quiz),
    "examination.same": ("quiz", _judge_consistency),
    "picking.judge": ("quiz", _judge_utility),
    "answering.answer": ("question", _answer),
    "documents.quiz": ("quiz", _answer_quiz),
    "documents.answer": ("question", _answer),
}
"""By the predictor, the input that is the quiz, and what is said where its gold answer is known."""


def _outcome(example: Example, record: QuestionRecord | None, answer: str | None, score: float) -> str:
    golds = " or ".join(repr(gold) for gold in example.answers)
    if record is not None and record.failure is not None:
        return f"The question has no answer, since {record.failure.stage} failed: {record.failure.message}"
    return f"The program answered the question with {answer!r}; the gold answer is {golds}; the score is {score:.2f}."


def _on_form(answer: str, one: Settled) -> str:
    """What to say of an answer that is right; empty for a wrong one."""
    if not answer or not one.agrees(answer):
        return ""
    if any(same_answer(answer, gold, one.answer_type, one.choices) for gold in one.golds):
        return f"{answer!r} is right."
    return f"{answer!r} is right, but must be written {one.golds[0]!r}: this form is wanted in all answers of its kind."


def _tells(passage: str, one: Settled) -> bool | None:
    """Whether a passage holds a gold answer; None for a yes, a no or a choice, which no single passage has to hold."""
    return contains_answer(passage, one.golds) if one.answer_type == "short" else None


def _refers_back(quiz: str) -> bool:
    words = {word.strip(".,?!").lower() for word in quiz.split()}
    return bool(words & {"he", "she", "it", "they", "his", "her", "its", "their", "that", "this"})
