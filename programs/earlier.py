"""What earlier questions of a conversation settled: a quiz that comes again is not asked again.

Its record, with its passages, stands in the new question's record, and says which question found it. The same index and
program must have answered; who keeps conversations sees to that.
"""

from collections.abc import Iterable, Mapping

from keqa.data.question import Question
from keqa.programs.records import QuestionRecord, QuizRecord
from keqa.programs.today import depends_on_the_day

Key = tuple[str, str, tuple[str, ...]]
Findings = Mapping[Key, QuizRecord]
"""Settled quizzes by what they ask: text, kind of answer and options."""


def key_of(asked: Question) -> Key:
    """What a quiz asks, in whatever case and with or without its question mark."""
    text = " ".join(asked.question.casefold().split()).lstrip("¿¡").rstrip(" ?!.？！。؟")
    return text, asked.answer_type, tuple(asked.choices)


def findings_of(records: Iterable[QuestionRecord]) -> Findings:
    """What questions settled: the quizzes that have an answer which is no guess, the latest of those that ask alike.

    What depends on the day is asked again: a conversation may be resumed on another one.
    """
    found: dict[Key, QuizRecord] = {}
    for record in records:
        if record.standalone is None and any(one.stage == "rewrite" and one.touches for one in record.degradations):
            # What may not stand alone asks of somebody else elsewhere in the conversation.
            continue
        asked = record.standalone or record.question
        failed = {note.quiz for note in record.degradations if note.touches}
        if 0 in failed and record.settled_by in ("draft", "reading") and record.fallback is None:
            # The question itself is the only quiz then, and has no number while it is answered.
            failed.add(1)
        for quiz in (*record.quizzes, *([record.fallback] if record.fallback is not None else [])):
            if quiz.answer is None or quiz.abstained or not _settled(quiz) or quiz.index in failed:
                continue
            text = quiz.resolved or quiz.text
            if depends_on_the_day(text):
                continue
            whole = Question(text, record.answer_type, record.choices) if text == asked else Question(text)
            found[key_of(whole)] = quiz.model_copy(update={"earlier": quiz.earlier or asked})
    return found


def _settled(quiz: QuizRecord) -> bool:
    from_memory = quiz.source == "memory" and quiz.known is True
    return from_memory or (quiz.source == "passages" and quiz.supported is not False)
