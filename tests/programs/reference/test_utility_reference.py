"""R_u by itself, within the program, and in the hands of DSPy's optimizers."""

import asyncio
import copy
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import dspy
import numpy as np
import pytest
from fixtures.one_quiz import REPLIES
from fixtures.replies import Replies

from keqa.data.question import question_digest
from keqa.errors import ConfigurationError, MissingExtraError
from keqa.programs import KEQA
from keqa.programs.calls.predictor import NOTHING, asking_for, leaving_out
from keqa.programs.reference.embedding import HashingEmbedder
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.saving import load, save


class Angle:
    """Embeds the first number of a text as an angle, so that near numbers are similar."""

    name = "angle"

    def __init__(self):
        self.batches: list[list[str]] = []
        self.error: Exception | None = None

    def embed(self, texts):
        self.batches.append(list(texts))
        if self.error is not None:
            raise self.error
        angles = [float(text.split()[0]) / 100 for text in texts]
        return np.array([[np.cos(angle), np.sin(angle)] for angle in angles], np.float32)


def entry(place: int, helpful: bool, root: str | None = None):
    return UtilityEntry(root or f"q{place}", f"{place} quiz", f"{place} passage", helpful)


def places(demos: list[dspy.Example]):
    return [int(demo.quiz.split()[0]) for demo in demos]


def lookup(reference: UtilityReference, place: int = 0):
    return places(reference(f"{place} quiz", f"{place} passage"))


@pytest.fixture
def ten():
    """Places 1 to 10, of which those from 8 on did not help."""
    return UtilityReference(Angle(), k=4).fit([entry(place, place < 8) for place in range(1, 11)])


@pytest.mark.parametrize(
    ("settings", "entries", "found"),
    [
        # One label only, fewer entries than k, a single one of a label, and what several questions share.
        ({}, [entry(place, True) for place in (3, 1, 2)], [3, 2, 1]),
        ({"k": 4}, [entry(place, place != 9) for place in range(1, 10)], [9, 3, 2, 1]),
        ({}, [entry(1, True, "a"), entry(1, True, "b"), entry(2, False, "b")], [2, 1]),
        # Two of each label, unless the nearest are wanted whatever their labels (KEQA's R_u).
        ({}, [entry(place, place < 20) for place in [*range(1, 11), 90, 91]], [91, 90, 6, 5, 4, 3, 2, 1]),
        ({"least": 0}, [entry(place, place < 20) for place in [*range(1, 11), 90, 91]], [8, 7, 6, 5, 4, 3, 2, 1]),
        # Where both labels are near the nearest alone decide.
        ({}, [entry(place, place % 2 == 0) for place in range(1, 30)], [8, 7, 6, 5, 4, 3, 2, 1]),
        ({}, [], []),
        ({"variant": "none"}, [entry(1, True)], []),
    ],
)
def test_what_is_shown(settings, entries, found):
    reference = UtilityReference(Angle(), **settings).fit(entries)
    assert lookup(reference) == found


def test_own_entries_are_left_out_with_what_others_share_of_them(ten):
    ten.fit([*ten.entries, entry(1, True, "shared"), entry(2, True, "other")])
    with leaving_out("shared"):
        assert lookup(ten) == [9, 8, 3, 2]
        with leaving_out("q2", "q8"):
            assert lookup(ten) == [10, 9, 4, 3]
        assert lookup(ten) == [9, 8, 3, 2]
    assert lookup(ten) == [9, 8, 2, 1]
    with leaving_out("nobody"):
        assert lookup(ten) == [9, 8, 2, 1]
    with leaving_out(*(f"q{place}" for place in range(1, 11))):
        assert lookup(ten) == []
    # As many others take their places.
    two = UtilityReference(Angle(), k=2).fit([entry(place, True) for place in range(1, 6)])
    with leaving_out("q1", "q2"):
        assert lookup(two) == [4, 3]


def test_random_demonstrations_are_the_same_whenever_the_same_is_asked(ten):
    random = UtilityReference(Angle(), k=4, variant="random").fit(ten.entries)
    again = UtilityReference(Angle(), k=4, variant="random").fit(ten.entries)
    drawn = [lookup(random, place) for place in range(20)]
    assert drawn == [lookup(again, place) for place in range(20)]
    assert len({tuple(one) for one in drawn}) > 10
    assert all(len(set(one)) == 4 and sum(place >= 8 for place in one) == 2 for one in drawn)
    with leaving_out(f"q{drawn[0][-1]}"):
        assert set(lookup(random, 0)) & set(drawn[0]) == set(drawn[0][:-1])
    assert random.embedder.batches == [[*(f"{p} quiz" for p in range(1, 11)), *(f"{p} passage" for p in range(1, 11))]]


# Embedding, saving and copies.


def test_its_state_is_json_and_comes_back(ten):
    state = json.loads(json.dumps(ten.dump_state()))
    settings = {"embedder": "angle", "k": 4, "least": 2, "variant": "similar"}
    assert state == {**settings, "entries": state["entries"]}
    assert state["entries"][0] == {"root": "q1", "quiz": "1 quiz", "passage": "1 passage", "helpful": True}
    other = UtilityReference(Angle(), k=1, variant="none").load_state(state)
    assert (other.entries, other.settings()) == (ten.entries, ten.settings())
    assert lookup(other) == lookup(ten)
    assert other.index.signature == ten.index.signature
    assert other.fit(other.entries[1:]).index.signature != ten.index.signature
    # A state brings its embedder.
    state = UtilityReference("hashing").fit([entry(1, True)]).dump_state()
    assert isinstance(UtilityReference(Angle()).load_state(state).embedder, HashingEmbedder)


WRONG = ({"entries": None}, {"entries": [{"root": "a"}]}, {"entries": [[1, 2]]}, {"k": 0}, {"k": "8"}, {"least": -1})


@pytest.mark.parametrize("change", [*WRONG, {"variant": "nearest"}])
def test_a_state_that_is_none_is_refused(ten, change):
    with pytest.raises(ConfigurationError):
        UtilityReference(Angle()).load_state(ten.dump_state() | change)
    state = ten.dump_state()
    del state["embedder"]
    with pytest.raises(ConfigurationError, match="the state of a utility reference has embedder, k"):
        UtilityReference(Angle()).load_state(state)
    with pytest.raises(ConfigurationError, match="variant must be 'similar', 'random' or 'none', not 'close'"):
        UtilityReference(variant="close")


def test_vectors_made_once_serve_again_and_those_of_something_else_are_refused(ten):
    angle = Angle()
    vectors = ten.index.vectors()
    other = UtilityReference(angle, k=4).fit(ten.entries, vectors)
    assert angle.batches == [["1 quiz", "1 passage"]]
    assert np.array_equal(other.index.vectors(), vectors)
    assert lookup(other) == lookup(ten)
    for wrong in (vectors[1:], vectors[::-1], vectors[:, :-1]):
        with pytest.raises(ConfigurationError, match="the vectors are not those"):
            UtilityReference(Angle()).fit(ten.entries, wrong)


def test_copies_share_the_index_and_not_the_settings(ten):
    angle = ten.embedder
    before = len(angle.batches)
    other = copy.deepcopy(ten)
    other.variant = "none"
    assert (lookup(other), lookup(ten)) == ([], [9, 8, 2, 1])
    other.fit([entry(5, True)])
    assert len(ten.entries) == 10
    assert len(angle.batches) == before + 2


def test_lookups_hold_in_many_threads_while_it_is_fitted_anew(ten):
    reference = UtilityReference(k=4).fit(ten.entries)
    expected = [reference(f"{place} quiz", f"{place} passage") for place in range(10)]

    def right(step: int):
        if step % 150 == 0:
            reference.fit(ten.entries)
        return bool(reference(f"{step % 10} quiz", f"{step % 10} passage") == expected[step % 10])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(right, range(800)))


# In the program.


@pytest.fixture
def program(programmed, retriever, ten):
    replies = Replies(**{**REPLIES, "DecomposeQuestion": {"quizzes": '["0 quiz"]'}})
    built, engine = programmed(KEQA(retriever("0 one", "50 two"), examine=False, reference=ten), replies)
    return SimpleNamespace(keqa=built, engine=engine, reference=ten)


def judged(engine):
    """The places demonstrated, by the passage judged."""
    found = {}
    for (name, inputs, _), prompt in zip(engine.calls, engine.prompts, strict=True):
        if name == "JudgeUtility":
            found[inputs["passage"]] = [int(p) for p in range(1, 11) if f"\n{p} passage" in prompt]
    return found


def test_each_judgement_has_its_own_demonstrations_or_where_there_are_none_the_predictors(program):
    program.keqa("Who is it?")
    assert judged(program.engine) == {"0 one": [1, 2, 8, 9], "50 two": [6, 7, 9, 10]}
    assert program.reference.embedder.batches[1:] == [["0 quiz", "0 one", "50 two"]]
    program.reference.fit([])
    program.keqa.picking.judge.demos = [dspy.Example(passage="7 passage", quiz="q", helpful=True)]
    program.keqa("Who is it?")
    assert judged(program.engine) == {"0 one": [7], "50 two": [7]}


@pytest.mark.parametrize("way", ["blocking", "async", "batch", "notebook"])
def test_what_is_left_out_reaches_every_thread(program, way):
    async def inside():
        program.keqa("Who is it?")

    ways = {
        "blocking": lambda: program.keqa("Who is it?"),
        "batch": lambda: list(program.keqa.answer_many(["Who is it?"] * 3)),
        "async": lambda: asyncio.run(program.keqa.acall(question="Who is it?")),
        "notebook": lambda: asyncio.run(inside()),
    }
    with leaving_out("q1", "q10"):
        ways[way]()
    assert judged(program.engine) == {"0 one": [2, 3, 8, 9], "50 two": [6, 7, 8, 9]}


def test_a_question_that_was_learned_from_is_not_shown_its_own_labels(program):
    program.keqa.learned = NOTHING.and_from([SimpleNamespace(id="q1", question="Who is it?", choices=())], [])
    program.keqa("who is  it?")
    assert judged(program.engine) == {"0 one": [2, 3, 8, 9], "50 two": [6, 7, 9, 10]}


def test_a_failing_embedder_costs_the_passages_and_is_recorded(program):
    program.reference.embedder.error = OSError("model gone")
    record = program.keqa("Who is it?").record
    assert {verdict.verdict for verdict in record.quizzes[0].passages} == {"failed"}
    first = record.degradations[0]
    assert (first.stage, first.cause, first.message) == ("judge_utility", "OSError", "model gone")
    assert record.answer == "Ann"
    # What only the user can mend surfaces.
    program.reference.embedder.error = MissingExtraError("dense", "The embedder")
    with pytest.raises(MissingExtraError):
        program.keqa("Who is it?")


def test_a_training_question_that_is_asked_again_is_not_shown_its_own_labels():
    married = question_digest("To whom is Oslo's mayor married?")
    entries = [
        UtilityEntry("q1", "Who governs Oslo?", "Ann governs Oslo.", True, married),
        UtilityEntry("q2", "Who governs Oslo?", "Bo was born in Oslo.", False, question_digest("Who governs Oslo?")),
    ]
    reference = UtilityReference(k=2, least=0).fit(entries)
    passage = "Ann governs Oslo."
    assert len(reference("Who governs Oslo?", passage)) == 2
    with asking_for("to whom is  Oslo's mayor married?"):
        assert [demo.helpful for demo in reference("Who governs Oslo?", passage)] == [False]
    with asking_for("Who governs Oslo?"):
        assert [demo.helpful for demo in reference("Who governs Oslo?", passage)] == [True]
    with asking_for("Who governs Rome?"):
        assert len(reference("Who governs Oslo?", passage)) == 2
    # What knows no questions is as it was.
    again = UtilityReference(k=2, least=0).fit([replace(entry, question="") for entry in entries])
    with asking_for("Who governs Oslo?"):
        assert len(again("Who governs Oslo?", passage)) == 2
    state = UtilityReference().fit([*entries, UtilityEntry("q2", "quiz", "other", False)]).dump_state()
    assert [one.get("question") for one in state["entries"]] == [married, question_digest("Who governs Oslo?"), None]
    assert UtilityReference().load_state(state).entries[:2] == tuple(entries)
    # Entries alone do not say which questions they come from.
    again.fit(entries)
    with asking_for("Who governs Oslo?"):
        assert len(again("Who governs Oslo?", passage)) == 1


class _Letters:
    """Embeds a text by its first letter, which a text made of two would lose of the second."""

    name = "letters"

    def embed(self, texts):
        rows = np.zeros((len(texts), 26), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[ord(text[0].lower()) - ord("a")] = 1
        return rows


def test_a_pair_is_embedded_as_two_texts_or_as_one(tmp_path):
    entries = [UtilityEntry("1", "Ann?", "Zebra.", True), UtilityEntry("2", "Bo?", "Yak.", True)]
    apart, joint = (UtilityReference(_Letters(), k=1, least=0, form=form).fit(entries) for form in ("apart", "joint"))
    assert (apart.index.vectors().shape, joint.index.vectors().shape) == ((2, 52), (2, 26))
    # The passage speaks for the second, the quiz for the first: as one text only the quiz begins it.
    assert [one.quiz for one in joint("Ann?", "Yak.")] == ["Ann?"]
    assert "form" not in apart.settings()
    assert joint.settings()["form"] == "joint"
    hashed = UtilityReference(form="joint").fit(entries)
    again = UtilityReference().load_state(hashed.dump_state())
    assert again.settings() == hashed.settings()
    assert UtilityReference().load_state(UtilityReference().fit(entries).dump_state()).form == "apart"
    save(KEQA(None, reference=hashed), tmp_path / "program")
    assert load(tmp_path / "program", None, method="keqa").picking.reference.form == "joint"
