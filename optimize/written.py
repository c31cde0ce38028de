"""How good written answers are, as ALCE measures it, for run files and as a metric to compile by."""

from collections.abc import Sequence
from statistics import harmonic_mean
from typing import Any

from keqa.metrics.accuracy import contains_answer
from keqa.metrics.answers import f1
from keqa.metrics.citations import Cited, Entails, citation_quality, list_quality
from keqa.programs.keqa import KEQA
from keqa.programs.records import QuestionRecord, Written
from keqa.programs.stages.support import words_lacking
from keqa.programs.stages.writing import findings_of


def by_words(passages: Sequence[str], sentence: str) -> bool:
    """Whether passages have all names, numbers and other words of a sentence: a judge without a language model."""
    return not words_lacking(sentence, passages)


def written_scores(written: Written, golds: Sequence[str], entails: Entails = by_words) -> dict[str, float]:
    """What a written answer is worth, from 0 to 1: its citations, and the gold answers in it.

    ``citation recall`` and ``citation precision`` are ALCE's; ``answer contained`` says whether a gold answer stands
    in it as whole words. The gold answers of a list are its members: ``list recall`` and ``list precision`` count them.
    """
    texts = [f"{one.title}\n{one.text}" for one in written.passages]
    given = [Cited(one.bare, [texts[number - 1] for number in one.citations]) for one in written.given]
    quality = citation_quality(given, entails)
    scores = {"citation recall": quality.recall, "citation precision": quality.precision}
    if golds:
        scores["answer contained"] = float(contains_answer(written.plain, golds))
    if golds and written.style == "list":
        recall, precision = list_quality([one.bare for one in written.given], golds)
        scores |= {"list recall": recall, "list precision": precision}
    return scores


def written_quality(example: Any, prediction: Any, trace: Any = None) -> float:
    """A metric of DSPy's form for a program with a `style`: the answer is told, and the citations carry it.

    It is the mean of whether a gold answer stands in the text (of a list, the F1 of its members) and of the harmonic
    mean of citation recall and precision, by the words of the passages. Nothing written is worth 0; what is answered in
    short in any style, for yes or no or by a choice, is right or wrong.
    """
    answer_type = getattr(example, "answer_type", "short")
    if answer_type != "short":
        return f1(prediction.answer, example.answers, answer_type, example.choices)
    record: QuestionRecord | None = getattr(prediction, "record", None)
    written = None if record is None else record.written
    if written is None or not written.text:
        return 0.0
    scores = written_scores(written, example.answers)
    shares = [("citation recall", "citation precision"), ("list recall", "list precision")]
    cited, listed = (harmonic_mean([scores.get(name, 0.0) for name in names]) for names in shares)
    right = listed if written.style == "list" else scores.get("answer contained", 0.0)
    return (right + cited) / 2


def written_call(program: KEQA, record: QuestionRecord) -> tuple[str, dict[str, Any]] | None:
    """The call that a written answer teaches: the name of its predictor, and its fields without what was left out."""
    written, writing = record.written, program.writing
    if writing is None or written is None or not written.text or any(one.supported is False for one in written.given):
        return None
    passages = {number: writing.shown(passage) for number, passage in enumerate(written.passages, 1)}
    fields: dict[str, Any] = {"passages": passages, "question": record.standalone or record.question}
    if written.style == "list":
        return "writing.items", fields | {"items": [one.text for one in written.given]}
    if written.style == "table":
        (_, *subjects), *rows = written.table
        return "writing.compare", fields | {"subjects": subjects, "rows": [" | ".join(row) for row in rows]}
    # Where there was no short answer, the text is taken for it.
    known = record.unanswered is None and record.answer != written.plain and written.style == "sentence"
    findings = findings_of(fields["question"], record.quizzes, record.answer if known else None)
    return "writing.write", fields | {"findings": findings, "style": written.style, "text": written.text}
