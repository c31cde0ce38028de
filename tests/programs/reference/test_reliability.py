"""What labels say of sources, and what the story and the judge's verdicts make of that."""

import pytest
from fixtures.replies import Replies

from keqa.programs.calls.predictor import leaving_out
from keqa.programs.keqa import KEQA
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.reliability import Reliability, SourceRecord, source_of
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.retrievers.base import Passage, Place


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


def entries(source, helpful, labelled, root="q"):
    return [
        UtilityEntry(f"{root}{one}", "Who?", f"Text {one}. Source: {source}.", one < helpful) for one in range(labelled)
    ]


LABELS = [*entries("Herald", 3, 41), *entries("Atlas", 12, 40), *entries("Ledger", 11, 40)]


def test_a_source_that_helps_less_often_than_the_others_is_unreliable():
    found = Reliability(LABELS)
    assert found.of("New. Source: Herald.") == SourceRecord("Herald", 3, 41, unreliable=True)
    assert str(found.of("New. Source: Herald.")) == "Herald: 3 of 41 of its passages helped"
    assert found.of("New. Source: Atlas.") == SourceRecord("Atlas", 12, 40, unreliable=False)
    assert found.of("New. Source: Gazette.") is found.of("New.") is None


def test_labels_of_the_question_in_work_do_not_count():
    found = Reliability(LABELS)
    assert found.of("Source: Herald.", ["q0", "q40", "other"]) == SourceRecord("Herald", 2, 39, unreliable=True)
    reference = UtilityReference().fit(LABELS)
    with leaving_out("q0"):
        assert (reference.source_of("Source: Herald.").helped, reference.source_of("Source: Atlas.").helped) == (2, 11)
    assert reference.source_of("Source: Herald.").helped == 3
    assert UtilityReference(variant="none").fit(LABELS).source_of("Source: Herald.") is None
    # Other labels are counted anew.
    assert reference.fit(entries("Atlas", 1, 2)).source_of("Source: Atlas.").labelled == 2


def dated(year, helpful, labelled):
    """As many labels of passages that name no source, of documents changed in one year."""
    return [
        UtilityEntry(f"{year}-{one}", "Who?", f"Text {one}.", one < helpful, date=str(year)) for one in range(labelled)
    ]


AGES = [*dated("2015-03-01", 2, 40), *dated("2021-06-30T08:15", 30, 41)]


def test_old_passages_that_help_less_often_than_new_ones_are_unreliable():
    found = Reliability(AGES)
    assert found.of_date("1999") == SourceRecord("passages dated before 2021-06-30", 2, 40, unreliable=True, of="")
    assert str(found.of_date("2015-03-01")) == "passages dated before 2021-06-30: 2 of 40 helped"
    later = SourceRecord("passages dated 2021-06-30 or later", 30, 41, unreliable=False, of="")
    assert found.of_date("2024-01-01") == later
    assert [str(one) for one in found.unreliable()] == ["passages dated before 2021-06-30: 2 of 40 helped"]
    assert found.of_date("") is found.of_date("last week") is None


def test_few_labels_prove_nothing_nor_do_dates_that_are_alike():
    few = [*entries("Herald", 0, 4), *entries("Atlas", 3, 10)]
    assert Reliability(few).of("Source: Herald.").unreliable is False
    assert Reliability(entries("Herald", 0, 40)).of("Source: Herald.").unreliable is False
    assert Reliability([]).of_date("2020") is Reliability(LABELS).of_date("2020") is None
    assert Reliability(dated("2020", 0, 50)).of_date("2020").unreliable is False
    assert Reliability([*dated("2015", 0, 3), *dated("2020", 3, 4)]).of_date("2015").unreliable is False
    # Where all labels of the others helped, they are a few labels all the same.
    assert Reliability([*dated("2015", 1, 1), *dated("2020", 0, 1)]).unreliable() == []
    assert Reliability([*dated("2015", 4, 4), *dated("2020", 0, 4)]).unreliable() == []
    alike = Reliability([*dated("2015", 20, 40), *dated("2020", 21, 41)])
    assert [alike.of_date(year).unreliable for year in ("2015", "2020")] == [False, False]


def test_dates_of_the_question_in_work_do_not_count_and_are_saved():
    reference = UtilityReference().fit(AGES)
    with leaving_out("2015-03-01-0"):
        assert (reference.age_of("2015").helped, reference.age_of("2015").labelled) == (1, 39)
    assert (reference.age_of("2015").helped, reference.age_of("")) == (2, None)
    assert UtilityReference(variant="none").fit(AGES).age_of("2015") is None
    again = UtilityReference().load_state(reference.dump_state())
    assert again.entries == reference.entries
    assert again.age_of("2015") == reference.age_of("2015")
    assert "date" not in UtilityReference().fit(LABELS).dump_state()["entries"][0]


STALE, FRESH = "Bob governs Oslo. Source: Herald.", "Ann governs Oslo. Source: Atlas."
SAID = "judged helpful; Herald: 3 of 41 of its passages helped"
NEEDLESS = "not judged, since more reliable passages help"


@pytest.fixture
def asked(programmed):
    """What became of some passages, and which of them the judge was asked about."""

    def ask(*passages, labels=LABELS, helpful="governs", **settings):
        def search(query):
            dated = [one if isinstance(one, tuple) else (one, "") for one in passages]
            return [Passage(text, "", text, Place(date=date)) for text, date in dated]

        replies = Replies(
            JudgeUtilities={"helpful": dict.fromkeys(map(str, range(1, len(passages) + 1)), True)},
            JudgeUtility=lambda i, c: {"helpful": helpful in i["passage"]},
            AnswerWithKnowledge={"answer": "Ann"},
        )
        reference = UtilityReference().fit(labels)
        program = KEQA(search, decompose=False, examine=False, reference=reference, unanswered="guess", **settings)
        program, engine = programmed(program, replies)
        found = [(one.kept, one.why) for one in program("Who?").record.quizzes[0].passages]
        return found, [one["passage"] for one in engine.asked("JudgeUtility")]

    return ask


def test_the_story_says_what_is_known_of_a_source(asked):
    assert asked(STALE, FRESH, "It governs.")[0] == [
        (True, SAID),
        (True, "judged helpful; Atlas: 12 of 40 of its passages helped"),
        (True, "judged helpful"),
    ]


def test_a_reliable_source_is_preferred_where_that_is_wanted(asked):
    found, judged = asked(STALE, FRESH, prefer_reliable=True)
    assert found[0] == (False, f"{NEEDLESS}; Herald: 3 of 41 of its passages helped")
    assert (found[1][0], judged) == (True, [FRESH])
    # In one call the unreliable one is judged and left out.
    found, judged = asked(STALE, FRESH, prefer_reliable=True, listwise=True)
    assert (found[0], found[1][0], judged) == ((False, f"{SAID}, and others are preferred"), True, [])
    # It stays where nothing else helped.
    found, judged = asked(STALE, FRESH, prefer_reliable=True, helpful="Bob")
    assert (found[0], found[1][0], judged) == ((True, SAID), False, [FRESH, STALE])


def test_a_newer_passage_is_preferred_where_old_ones_seldom_help(asked):
    passages = [("Bob governs Oslo.", "2012-01-01"), ("Ann governs Oslo.", "2023-01-01"), ("It governs.", "")]
    assert asked(*passages, labels=AGES, prefer_reliable=True)[0] == [
        (False, f"{NEEDLESS}; passages dated before 2021-06-30: 2 of 40 helped"),
        (True, "judged helpful; passages dated 2021-06-30 or later: 30 of 41 helped"),
        (True, "judged helpful"),
    ]
