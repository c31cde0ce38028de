"""What labels say of sources, and what the story and the judge's verdicts make of that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.programs.keqa import KEQA
from keqa.programs.reference.index import Entry
from keqa.programs.reference.reliability import Reliability, SourceRecord, source_of
from keqa.programs.reference.utility_reference import UtilityReference, leaving_out


@pytest.mark.parametrize(
    ("passage", "source"),
    [
        ("Ann governs Oslo. Source: Herald.", "Herald"),
        ("Ann governs Oslo.\nsource: The Daily Atlas", "The Daily Atlas"),
        ("Source: Herald. Ann governs Oslo.", None),
        ("The resource: Herald.", None),
        ("Ann governs Oslo. Source: .", None),
        ("", None),
    ],
)
def test_a_source_stands_at_the_end_of_a_passage(passage, source):
    assert source_of(passage) == source


@given(st.text())
def test_any_text_has_a_source_or_none(text):
    found = source_of(text)
    assert found is None or (found == found.strip() and 0 < len(found) <= 80)


def entries(source, helpful, labelled, root="q"):
    return [Entry(f"{root}{one}", "Who?", f"Text {one}. Source: {source}.", one < helpful) for one in range(labelled)]


LABELS = [*entries("Herald", 3, 41), *entries("Atlas", 12, 40), *entries("Ledger", 11, 40)]


def test_a_source_that_helps_less_often_than_the_others_is_unreliable():
    found = Reliability(LABELS)
    assert found.of("New. Source: Herald.") == SourceRecord("Herald", 3, 41, unreliable=True)
    assert str(found.of("New. Source: Herald.")) == "Herald: 3 of 41 of its passages helped"
    assert found.of("New. Source: Atlas.") == SourceRecord("Atlas", 12, 40, unreliable=False)
    assert found.of("New. Source: Gazette.") is found.of("New.") is None


def test_few_labels_prove_nothing():
    few = [*entries("Herald", 0, 4), *entries("Atlas", 3, 10)]
    assert Reliability(few).of("Source: Herald.").unreliable is False
    assert Reliability(entries("Herald", 0, 40)).of("Source: Herald.").unreliable is False


def test_labels_of_the_question_in_work_do_not_count():
    found = Reliability(LABELS)
    assert found.of("Source: Herald.", ["q0", "q40", "other"]) == SourceRecord("Herald", 2, 39, unreliable=True)
    reference = UtilityReference().fit(LABELS)
    with leaving_out("q0"):
        assert (reference.source_of("Source: Herald.").helped, reference.source_of("Source: Atlas.").helped) == (2, 11)
    assert reference.source_of("Source: Herald.").helped == 3
    assert UtilityReference(variant="none").fit(LABELS).source_of("Source: Herald.") is None


def test_other_labels_are_counted_anew():
    reference = UtilityReference().fit(LABELS)
    assert reference.source_of("Source: Atlas.").labelled == 40
    assert reference.fit(entries("Atlas", 1, 2)).source_of("Source: Atlas.").labelled == 2


def asked(scripted, retriever, *passages, helpful=lambda passage: True, **settings):
    def reply(name, inputs, config):
        return {"helpful": helpful(inputs["passage"])} if name == "JudgeUtility" else {"answer": "Ann"}

    lm, _ = scripted(reply)
    reference = UtilityReference().fit(LABELS)
    program = KEQA(retriever(*passages), decompose=False, examine=False, reference=reference, **settings)
    program.set_lm(lm)
    return [(one.kept, one.why) for one in program("Who?").record.quizzes[0].passages]


STALE, FRESH = "Bob governs Oslo. Source: Herald.", "Ann governs Oslo. Source: Atlas."
SAID = "judged helpful; Herald: 3 of 41 of its passages helped"


def test_the_story_says_what_is_known_of_a_source(scripted, retriever):
    assert asked(scripted, retriever, STALE, FRESH, "No source.") == [
        (True, SAID),
        (True, "judged helpful; Atlas: 12 of 40 of its passages helped"),
        (True, "judged helpful"),
    ]


def test_a_reliable_source_is_preferred_where_that_is_wanted(scripted, retriever):
    found = asked(scripted, retriever, STALE, FRESH, prefer_reliable=True)
    assert found[0] == (False, f"{SAID}, and others are preferred")
    assert found[1][0] is True


def test_an_unreliable_one_stays_where_nothing_else_helped(scripted, retriever):
    def only_stale(passage):
        return "Bob" in passage

    found = asked(scripted, retriever, STALE, FRESH, helpful=only_stale, prefer_reliable=True)
    assert found[0] == (True, SAID)
    assert found[1][0] is False
