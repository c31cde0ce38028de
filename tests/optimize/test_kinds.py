"""Demonstrations of single quizzes: their kinds, and answers of other types than short ones."""

from __future__ import annotations

import pytest

from keqa.data.example import Example
from keqa.metrics.answers import f1
from keqa.optimize.asking import Trace
from keqa.optimize.demos import from_records, kind_of
from keqa.programs.keqa import KEQA
from keqa.programs.records import ClusterRecord, Degradation, PassageVerdict, QuestionRecord, QuizRecord, SampleRecord

CHOICES = ("Known", "Unknown", "New York")
WHICH = Example("c", "Which is it?", ("Unknown",), "choice", CHOICES)
TRUE = Example("y", "Is it so?", ("yes",), "yes/no")
SHORT = Example("s", "Who leads Marton?", ("Robert Torman", "R. T. of Marton"))
TEXT = "Yes: unknown, or R. T. of Marton."
PASSAGE = PassageVerdict(passage_id="1", title="", text=TEXT, score=2, verdict="helpful", kept=True, why="")


@pytest.mark.parametrize(
    ("answer", "answer_type", "kind"),
    [
        ("Oslo", "short", "text, one word"),
        ("New York", "short", "text, words"),
        ("1926", "short", "number, one word"),
        ("9 October 1968", "short", "number, words"),
        ("Yes", "yes/no", "yes/no yes"),
        ("no", "yes/no", "yes/no no"),
        ("B", "choice", "choice"),
    ],
)
def test_kinds(answer, answer_type, kind):
    assert kind_of(answer, answer_type) == kind


def drawn(*texts, error=None):
    """Samples, each a cluster of its own; None for one that failed."""
    said = [text for text in texts if text is not None]
    return {
        "tries": len(texts),
        "samples": [
            SampleRecord(error=error or "down") if text is None else SampleRecord(text=text, cluster=said.index(text))
            for text in texts
        ],
        "clusters": [
            ClusterRecord(answer=text, size=1, members=[n]) for n, text in enumerate(texts) if text is not None
        ],
    }


def story(example, final, score=1.0, **quiz):
    record = QuestionRecord(
        question=example.question,
        answer_type=example.answer_type,
        choices=list(example.choices),
        quizzes=[QuizRecord(index=1, text=example.question, resolved=example.question, **quiz)],
        answer=final,
    )
    return Trace(example, record, score)


def pools(trace, closed_book=lambda one: 0.0, **settings):
    program = KEQA(None, **{"decompose": False} | settings)
    return from_records(program, [trace], metric=f1, threshold=0.5, closed_book=closed_book)


@pytest.mark.parametrize(
    ("example", "tried", "gold", "kind"),
    [
        (WHICH, "b", "Unknown", "choice"),
        (TRUE, "Yes, it is", "yes", "yes/no yes"),
        (SHORT, "Torman", "Robert Torman", "text, words"),
        (SHORT, "R. T.", "R. T. of Marton", "text, words"),
    ],
)
def test_a_try_is_written_as_the_gold_answer_that_it_says(example, tried, gold, kind):
    (one,) = pools(story(example, tried, answer=tried, source="memory", **drawn("zzz", tried)))["examination.quiz"]
    asked = {"quiz": example.question, "answer_type": example.answer_type, "choices": list(example.choices)}
    assert (dict(one.demo), one.kind, one.root) == ({**asked, "answer": gold}, kind, example.id)


@pytest.mark.parametrize(
    ("example", "said", "gold", "kind"),
    [
        (WHICH, "B", "Unknown", "choice"),
        (TRUE, "true", "yes", "yes/no yes"),
        (SHORT, "Torman", "Robert Torman", "text, words"),
        # The passage tells an alias, and something else was taken from it.
        (SHORT, "zzz", "R. T. of Marton", "text, words, corrected"),
    ],
)
def test_an_answer_from_passages_is_written_as_the_gold_answer_that_it_says(example, said, gold, kind):
    told = {"answer": said, "source": "passages", "passages": [PASSAGE]}
    (one,) = pools(story(example, said, **told, **drawn("zzz")))["answering.answer"]
    assert (one.demo["answer"], one.kind, one.root) == (gold, kind, example.id)
    assert (one.demo["question"], one.demo["answer_type"]) == (example.question, example.answer_type)
    assert (one.demo["choices"], one.demo["passages"]) == (list(example.choices), [PASSAGE.text])


@pytest.mark.parametrize(
    ("tries", "shown"),
    [
        (drawn(None, None), 0),
        (drawn(None, "zzz"), 1),
        (drawn("B"), 0),
        # None of the tries said anything: memory does not have it.
        ({"tries": 2, "samples": [SampleRecord(text="", abstained=True)] * 2}, 1),
        ({"tries": 2, "samples": [SampleRecord(error="down"), SampleRecord(text="", abstained=True)]}, 1),
        ({"tries": 2, "samples": []}, 1),
    ],
)
def test_passages_are_compared_with_what_memory_has(tries, shown):
    told = {"answer": "B", "source": "passages", "passages": [PASSAGE]}
    assert len(pools(story(WHICH, "B", **told, **tries))["answering.answer"]) == shown


@pytest.mark.parametrize(("without", "shown"), [(None, 0), (0.0, 1), (0.99, 1), (1.0, 0)])
def test_what_was_not_tried_is_asked_for(without, shown):
    told = {"answer": "B", "source": "passages", "passages": [PASSAGE]}
    asked = []

    def closed_book(one):
        asked.append(one.quiz.text)
        return without

    found = pools(story(WHICH, "B", **told), closed_book)
    assert (len(found["answering.answer"]), asked) == (shown, [WHICH.question])


def test_verdicts_on_options_are_those_of_options():
    found = pools(story(WHICH, "B", answer="B", source="memory", **drawn("A", "unknown", "Known", "B")))
    shown = [(one.demo["first_answer"], one.demo["second_answer"], one.kind) for one in found["examination.same"]]
    assert shown == [("unknown", "A", "False")]
    assert {one.root for one in found["examination.same"]} == {"c"}


PARTY = {"quizzes": ("Which party governs Marton?", "Who leads #1?"), "quiz_answers": ("The Reds", "Robert Torman")}
TWO = Example("t", "Who leads the party that governs Marton?", ("Robert Torman",), **PARTY)


def concluded(**changes):
    """A question of two quizzes that came out right."""
    texts = [("Which party governs Marton?", "Reds"), ("Who leads the Reds?", "Torman")]
    quizzes = [
        QuizRecord(index=n, text=text, resolved=text, answer=answer, source="memory", **drawn(answer))
        for n, (text, answer) in enumerate(texts, start=1)
    ]
    told = {"question": TWO.question, "quizzes": quizzes, "answer": "Torman", "answer_source": "summary"}
    return Trace(TWO, QuestionRecord(**told | {"explanation": "So."} | changes), 0.67)


def degraded(stage, *, harmless):
    return Degradation(stage=stage, cause="x", message="m", action="a", harmless=harmless)


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({}, True),
        ({"degradations": [degraded("decompose", harmless=False)]}, False),
        ({"degradations": [degraded("references", harmless=False)]}, False),
        ({"degradations": [degraded("decompose", harmless=True), degraded("retrieve", harmless=False)]}, True),
        ({"quizzes": concluded().record.quizzes[:1]}, False),
        ({"quizzes": [one.model_copy(update={"index": one.index + 1}) for one in concluded().record.quizzes]}, False),
    ],
)
def test_whose_decomposition_is_shown(changes, own):
    found = pools(concluded(**changes), decompose=True)["decomposition.decompose"]
    mine = {"question": TWO.question, "quizzes": ["Which party governs Marton?", "Who leads the Reds?"]}
    gold = {"question": TWO.question, "quizzes": list(TWO.quizzes)}
    shown = [(dict(one.demo), one.kind, one.root) for one in found]
    # The gold one is of another shape: its second quiz refers to the first.
    assert shown == [(mine, "short, 2 quizzes, apart", "t")] * own + [(gold, "short, 2 quizzes, chained", "t")]


@pytest.mark.parametrize(
    ("changes", "answered"),
    [
        ({}, ["Which party governs Marton? Reds", "Who leads the Reds? Torman"]),
        ({"answer_source": "memory"}, None),
        ({"explanation": ""}, None),
        ({"answer": None}, None),
    ],
)
def test_whose_summary_is_shown(changes, answered):
    found = pools(concluded(**changes), decompose=True)["summarizing.summarize"]
    assert [one.demo["answered_quizzes"] for one in found] == ([] if answered is None else [answered])
    for one in found:
        assert (one.kind, one.root, one.demo["explanation"]) == ("short, 2 quizzes", "t", "So.")
        assert (one.demo["question"], one.demo["answer"]) == (TWO.question, "Robert Torman")
