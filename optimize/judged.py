"""What gold answers say of the calls of a run: which were right, which wrong, and what each should have given.

All who learn from calls read this one judgement: demonstrations, the metric for DSPy's optimizers, the data of
fine-tuning, and the feedback that GEPA reflects on. A call is judged by what its predictor writes:

=========  ========================================================================================================
answer     says what the gold answer of its question or quiz says; it is then shown in the gold answer's form
same       both answers right are the same, exactly one right differ; of two wrong ones, or where no gold answer is
           known, a verdict teaches nothing, so it counts as wrong
helpful    a passage helps where it states the gold answer; one need not hold a yes, a no or a choice
quizzes    as many as the gold decomposition has
=========  ========================================================================================================
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_origin

import dspy

from keqa.data.example import Example
from keqa.data.question import quiz_key
from keqa.metrics.answers import is_abstention, same_answer
from keqa.optimize.alignment import Settled, gold_number, gold_quizzes, settled_quizzes
from keqa.programs.build import complete
from keqa.programs.calls.predictor import Predictor
from keqa.programs.program import Program
from keqa.programs.records import QuestionRecord, QuizRecord
from keqa.programs.stage import is_the_question

Call = tuple[Any, Mapping[str, Any], Mapping[str, Any]]
"""Predictor, inputs and outputs, as in a trace of DSPy's."""

Step = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""A call: the name of the predictor in the program, its inputs and its outputs."""

_PRONOUNS = frozenset({"he", "she", "it", "they", "his", "her", "its", "their", "that", "this"})


@dataclass(frozen=True)
class Judged:
    """A call, whether it was right (None where gold answers do not show it), its fields in gold form, and a sentence.

    The sentence tells a reflecting language model what the call should have given; it may be empty.
    """

    call: Call
    right: bool | None
    fields: Mapping[str, Any]
    sentence: str = ""

    @property
    def in_form(self) -> Call:
        """The call with its outputs in the gold answer's form."""
        predictor, inputs, outputs = self.call
        if not self.right:
            return self.call
        form = {name: self.fields.get(name, value) for name, value in dict(outputs).items()}
        return predictor, inputs, dspy.Prediction(**form)


def judged(calls: Iterable[Call], example: Example, record: QuestionRecord | None = None) -> list[Judged]:
    """Judge calls that were made for a question; its record, where there is one, tells more than a few calls do."""
    calls = list(calls)
    known = _asked(calls, example) if record is None else _recorded(record, example)
    return [_judged(call, known, example, record) for call in calls]


def teaching(found: Sequence[Judged]) -> list[Judged]:
    """The calls to learn from: right ones, and unknown ones whose predictor is not known to be right or wrong here."""
    certain = {id(one.call[0]) for one in found if one.right is not None}
    return [one for one in found if one.right or (one.right is None and id(one.call[0]) not in certain)]


def lessons(
    program: Program, steps: Iterable[Step], example: Example, record: QuestionRecord | None = None
) -> list[tuple[str, Mapping[str, Any]]]:
    """What calls of a program's own predictors teach: the name of the predictor, and the fields in gold form."""
    predictors = dict(program.named_predictors())
    names = {id(predictor): name for name, predictor in predictors.items()}
    made = [(predictors[name], inputs, outputs) for name, inputs, outputs in steps]
    return [(names[id(one.call[0])], one.fields) for one in teaching(judged(made, example, record))]


def _judged(call: Call, known: Mapping[str, Settled], example: Example, record: QuestionRecord | None) -> Judged:
    predictor, inputs, outputs = call
    values = {**dict(inputs), **dict(outputs)}
    if not isinstance(predictor, Predictor):
        return Judged(call, None, values)
    signature = predictor.signature
    asks, writes = signature.input_fields, signature.output_fields
    one = known.get(quiz_key(str(values.get("question") or values.get("quiz") or "")))
    if "answered_quizzes" in asks:
        one = Settled.whole(example)
    right, sentence = None, ""
    if "quizzes" in writes:
        right, sentence = _decomposition(values, example, record)
    elif "same" in writes:
        right, sentence = (False, "") if one is None else _same(values, one)
    elif one is not None and "helpful" in writes and "passage" in asks:
        right, sentence = _helpful(values, one)
    elif one is not None and "answer" in writes:
        right = bool(values.get("answer")) and one.agrees(str(values["answer"]))
        if "answered_quizzes" in asks:
            sentence = _summary(values, one, example, record)
        else:
            sentence = _from_memory(values, one) if "quiz" in asks else _answer(values, one)
    try:
        fields = complete(signature, values)
    except KeyError:
        # What lacks a field is a wrong reply, whatever else it says.
        return Judged(call, False, values, sentence)
    if right and one is not None and "answer" in writes:
        fields["answer"] = one.in_form(str(fields["answer"]))
    return Judged(call, right, fields, sentence)


def _decomposition(
    values: Mapping[str, Any], example: Example, record: QuestionRecord | None
) -> tuple[bool | None, str]:
    noted = [] if record is None else record.degradations
    parts = [f"{one.message[0].upper()}{one.message[1:]}." for one in noted if one.stage == "references"]
    written, gold = [str(quiz) for quiz in values.get("quizzes") or []], example.quizzes
    if gold and len(written) != len(gold):
        parts.append(f"This question takes {len(gold)} {'quiz' if len(gold) == 1 else 'quizzes'}, not {len(written)}.")
    if gold:
        numbered = " ".join(f"{number}. {text}" for number, text in enumerate(gold, start=1))
        parts.append(f"A good decomposition is: {numbered}")
    quizzes = [] if record is None else record.quizzes
    unanswered = [quiz.resolved or quiz.text for quiz in quizzes if quiz.answer is None or quiz.abstained]
    if unanswered:
        parts.append(f"These quizzes could not be answered: {'; '.join(unanswered)}")
    words = ({word.strip(".,?!").lower() for word in quiz.split()} for quiz in written[1:] if "#" not in quiz)
    if not all(map(_PRONOUNS.isdisjoint, words)):
        parts.append("A later quiz says 'he', 'she', 'it' or 'that' where it must write #1, #2 for an earlier answer.")
    return len(written) == len(gold) if gold else None, " ".join(parts)


def _from_memory(values: Mapping[str, Any], one: Settled) -> str:
    answer = str(values.get("answer", ""))
    if is_abstention(answer, one.choices):
        return f"It said that it does not know. The answer is {one.golds[0]!r}; the program then looks it up."
    return _on_form(answer, one) or (
        f"{answer!r} is wrong, the answer is {one.golds[0]!r}. Where the answer is not known, "
        "saying so is better than a guess, since the program then looks it up."
    )


def _answer(values: Mapping[str, Any], one: Settled) -> str:
    answer = str(values.get("answer", ""))
    found = _on_form(answer, one)
    if found:
        return found
    wrong = f"{answer!r} is wrong, the answer is {one.golds[0]!r}"
    passages = values.get("passages") or []
    # Numbered passages are those of a call that cites them.
    texts = passages.values() if isinstance(passages, Mapping) else passages
    verdicts = {str(text): one.stated_in(str(text)) for text in texts}
    telling = next((text for text, tells in verdicts.items() if tells), None)
    if telling is not None:
        return f"{wrong}, and this passage tells it: {telling}"
    return f"{wrong}." if None in verdicts.values() else f"{wrong}. No passage tells it, so it had to come from memory."


def _same(values: Mapping[str, Any], one: Settled) -> tuple[bool, str]:
    texts = [str(values.get(name, "")) for name in ("first_answer", "second_answer")]
    first, second = map(one.agrees, texts)
    verdict = bool(values.get("same"))
    right = one.same(*texts) is verdict
    if not first and not second:
        return right, f"Both answers are wrong (it is {one.golds[0]!r}), so nothing can be said about this judgement."
    fits = "right" if verdict == (first and second) else "wrong"
    why = "both give it" if first and second else f"only the {'first' if first else 'second'} answer gives it"
    return right, f"Judging {verdict} was {fits}: the answer is {one.golds[0]!r}, and {why}."


def _helpful(values: Mapping[str, Any], one: Settled) -> tuple[bool | None, str]:
    stated, verdict = one.stated_in(str(values.get("passage", ""))), bool(values.get("helpful"))
    gold = repr(one.golds[0])
    if stated is None:
        return None, ""
    if stated == verdict:
        does = "does" if stated else "does not"
        return True, f"Judging {verdict} fits: the answer is {gold}, which the passage {does} hold."
    if stated:
        return False, f"The passage holds the answer, {gold}, and was judged not helpful."
    return False, (
        f"The passage does not hold the answer, {gold}, and was judged helpful. It may be about the same subject, or "
        "tell something that is misleading or out of date."
    )


def _summary(values: Mapping[str, Any], whole: Settled, example: Example, record: QuestionRecord | None) -> str:
    answer, gold = str(values.get("answer", "")), repr(example.answers[0])
    settled = [] if record is None else settled_quizzes(example, record)
    misled = "; ".join(
        f"{one.quiz.resolved} {one.quiz.answer} (it is {one.golds[0]})"
        for one in settled
        if one.quiz.answer is not None and not one.agrees(one.quiz.answer)
    )
    if misled and answer and whole.agrees(answer):
        return f"{answer!r} is right by luck: it was concluded from wrong answers to quizzes: {misled}"
    if misled:
        return f"The answer is {gold}. The summary was misled by wrong answers to quizzes: {misled}"
    facts = "; ".join(f"{quiz} {text}" for quiz, text in gold_quizzes(example))
    follows = f"{answer!r} does not follow: the answer is {gold}.{f' The facts are: {facts}.' if facts else ''}"
    return _on_form(answer, whole) or follows


def _on_form(answer: str, one: Settled) -> str:
    """What to say of an answer that is right; empty for a wrong one."""
    if not answer or not one.agrees(answer):
        return ""
    if any(same_answer(answer, gold, one.answer_type, one.choices) for gold in one.golds):
        return f"{answer!r} is right."
    return f"{answer!r} is right, but must be written {one.golds[0]!r}: this form is wanted in all answers of its kind."


def _recorded(record: QuestionRecord, example: Example) -> dict[str, Settled]:
    """The question and the quizzes of a record whose gold answers are known, by their text."""
    found = {quiz_key(str(one.quiz.resolved)): one for one in settled_quizzes(example, record)}
    return {**found, quiz_key(example.question): Settled.whole(example)}


def _asked(calls: Sequence[Call], example: Example) -> dict[str, Settled]:
    """What calls asked, by its text, with the gold answers of what a gold quiz asks as well."""
    answers: dict[str, list[str]] = {}
    for _, inputs, outputs in calls:
        text = str(inputs.get("question") or inputs.get("quiz") or "")
        answers.setdefault(text, []).extend([str(outputs["answer"])] if "answer" in outputs else [])
    found: dict[str, Settled] = {}
    forms: dict[int, str] = {}
    # Each round may settle the quizzes that refer to answers of the round before, right ones in whatever form.
    for turn in range(len(example.quizzes) + 1):
        own = dict(forms) if turn else {}
        for text, given in answers.items():
            if not text or quiz_key(text) in found:
                continue
            if is_the_question(text, example.question):
                found[quiz_key(text)] = Settled.whole(example)
                continue
            number = gold_number(text, example, own)
            if number is not None:
                quiz = QuizRecord(index=1, text=text, resolved=text)
                one = found[quiz_key(text)] = Settled(quiz, (example.quiz_answers[number - 1],))
                forms.update((number, answer) for answer in given if one.agrees(answer))
    return found


def judges(program: Program) -> frozenset[str]:
    """The predictors that say a verdict and nothing else, of which demonstrations must show each equally often."""
    outputs = {name: predictor.signature.output_fields for name, predictor in program.named_predictors()}
    return frozenset(name for name, fields in outputs.items() if all(map(is_verdict, fields.values())))


def is_verdict(field: Any) -> bool:
    """Whether an output has one of a few values."""
    return field.annotation is bool or get_origin(field.annotation) is Literal
