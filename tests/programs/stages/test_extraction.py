from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import ConfigurationError
from keqa.programs import KEQA
from keqa.programs.reference.utility_reference import Entry, UtilityReference
from keqa.programs.stages.extraction import KeyDemonstrations, KeySentences
from keqa.programs.stages.selection import lexical_similarity
from keqa.retrievers.base import Hit, Passage, Retriever

LONG = (
    "Carmouth is a harbour. Its mayor is Ann Berg. It was founded in 1204. The mayor of Carmouth sits in the old hall."
)


def test_the_sentences_closest_to_the_query_stay_in_their_order(retriever):
    short = KeySentences(retriever(LONG, "One sentence only"), 2)
    assert isinstance(short, Retriever)
    hits = short.search("mayor of Carmouth")
    assert [hit.passage.text for hit in hits] == [
        "Carmouth is a harbour. The mayor of Carmouth sits in the old hall.",
        "One sentence only",
    ]
    assert [(hit.passage.id, hit.score) for hit in hits] == [("p0", 10.0), ("p1", 9.0)]
    founded, mayor = short.search_many(["When was it founded?", "Ann Berg"], k=1)
    assert "1204" in founded[0].passage.text
    assert mayor[0].passage.text.endswith("Its mayor is Ann Berg.")


def test_a_passage_of_as_many_sentences_stays_as_it_is_written(retriever):
    text = "Carmouth is a harbour.\n  Its mayor is Ann Berg."
    assert KeySentences(retriever(text), 2).search("mayor")[0].passage.text == text


def test_another_similarity(retriever):
    last = KeySentences(retriever(LONG), 1, lambda query, candidates: list(range(len(candidates))))
    assert last.search("?")[0].passage.text == "The mayor of Carmouth sits in the old hall."


def test_judge_answer_and_record_see_the_same_short_passage(scripted, retriever):
    replies: dict[str, Any] = {"JudgeUtility": {"helpful": True}, "AnswerWithKnowledge": {"answer": "Ann Berg"}}
    lm, engine = scripted(lambda name, inputs, config: replies[name])
    program = KEQA(retriever(LONG), decompose=False, examine=False, extract_sentences=1)
    program.set_lm(lm)
    record = program("Who is its mayor?").record
    short = "Its mayor is Ann Berg."
    assert engine.asked("JudgeUtility")[0]["passage"] == short
    assert engine.asked("AnswerWithKnowledge")[0]["passages"] == f'["{short}"]'
    assert record.quizzes[0].passages[0].text == short


def test_without_a_retriever_there_is_nothing_to_cut():
    assert KEQA(None, extract_sentences=2).extract_sentences == 2


def test_at_least_one_sentence(retriever):
    with pytest.raises(ConfigurationError, match="extract_sentences"):
        KEQA(retriever("a"), extract_sentences=0)


class Kinds:
    """Answers for KEQA without decomposition and examination; every passage helps."""

    def __call__(self, name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
        return {"JudgeUtility": {"helpful": True}, "AnswerWithKnowledge": {"answer": "Ann Berg"}}[name]


MAYOR = "Who is the mayor?"
GARBURG = "Garburg: Garburg is a port. Its mayor is Bo Lind. It was founded in 1333. A fire burnt the mill."
FIRE = "What burnt the mill?"


@pytest.fixture
def judged(scripted, retriever):
    """Asks about a passage with a reference of whole passages, and gives the prompts of the judge."""

    def ask(reference, **settings):
        lm, engine = scripted(Kinds())
        program = KEQA(retriever(LONG), decompose=False, examine=False, reference=reference, **settings)
        program.set_lm(lm)
        program("Who is its mayor?")
        return [prompt for (name, _, _), prompt in zip(engine.calls, engine.prompts, strict=True) if "Judge" in name]

    return ask


@pytest.mark.parametrize("variant", ["similar", "random"])
def test_what_the_reference_shows_is_cut_to_what_is_closest_to_its_own_quiz(judged, variant):
    entries = [Entry("r", MAYOR, GARBURG, True), Entry("s", FIRE, GARBURG, False)]
    reference = UtilityReference(variant=variant).fit(entries)
    (prompt,) = judged(reference, extract_sentences=1)
    assert GARBURG not in prompt
    assert "Garburg: Its mayor is Bo Lind.\n" in prompt
    assert "Garburg: A fire burnt the mill.\n" in prompt
    # What is saved is what it was fitted to.
    assert reference.entries == tuple(entries)
    (whole,) = judged(reference)
    assert whole.count(GARBURG) == 2


def test_what_an_extracting_program_has_built_is_shown_as_it_is(judged):
    short = "Garburg: Its mayor is Bo Lind. A fire burnt the mill."
    (prompt,) = judged(UtilityReference().fit([Entry("r", MAYOR, short, True)]), extract_sentences=2)
    assert short in prompt


def test_without_demonstrations_the_judge_has_its_own(judged):
    (prompt,) = judged(UtilityReference(variant="none").fit([Entry("r", MAYOR, GARBURG, True)]), extract_sentences=1)
    assert "Garburg" not in prompt


def test_a_demonstration_is_cut_once_and_only_when_it_is_shown():
    compared = []

    def similarity(wanted, candidates):
        compared.append(tuple(wanted))
        return lexical_similarity(wanted, candidates)

    shorten = KeyDemonstrations(1, similarity)
    demo = dspy.Example(quiz=MAYOR, passage=GARBURG, helpful=True)
    for _ in range(3):
        assert [dict(one) for one in shorten([demo])] == [
            {"quiz": MAYOR, "passage": "Garburg: Its mayor is Bo Lind.", "helpful": True}
        ]
    assert compared == [(MAYOR,)]
    assert (
        shorten([{"quiz": FIRE, "passage": GARBURG, "helpful": False}])[0].passage == "Garburg: A fire burnt the mill."
    )
    assert compared == [(MAYOR,), (FIRE,)]
    assert demo.passage == GARBURG


def test_a_colon_far_into_a_passage_ends_no_title():
    text = f"Garburg is a port with {'many ' * 20}ships. Its mayor: Bo Lind. It is old."
    (found,) = KeyDemonstrations(1)([{"quiz": MAYOR, "passage": text}])
    assert found.passage == "Its mayor: Bo Lind."


NAMES = st.sampled_from(["", "Garburg", "J. K. Berg", "St. Orm"])
SENTENCES = st.lists(
    st.sampled_from(["It is old.", "Bo is the mayor!", "Who is it?", "A fire. "]), min_size=1, max_size=6
)


@given(NAMES, SENTENCES, st.sampled_from([MAYOR, FIRE]), st.integers(1, 4))
def test_a_demonstration_is_cut_as_the_passage_would_be_that_is_found(title, parts, quiz, keep):
    passage = Passage("p", title, " ".join(parts))

    class One:
        def search(self, query, k=10):
            return [Hit(passage, 1.0)]

    (hit,) = KeySentences(One(), keep).search(quiz)
    (demo,) = KeyDemonstrations(keep)([{"quiz": quiz, "passage": passage.rendered}])
    assert demo.passage == hit.passage.rendered
    (again,) = KeyDemonstrations(keep)([{"quiz": quiz, "passage": demo.passage}])
    assert again.passage == demo.passage
