import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.retrievers import Passage, intake
from keqa.retrievers.intake import PassageIntake, SeenIds
from keqa.retrievers.manifest import LeftOut


def test_seen_ids_grow():
    seen = SeenIds()
    assert [seen.unique(str(n)) for n in range(20_000)] == [str(n) for n in range(20_000)]
    assert seen.unique("19999") == "19999~2"
    assert [seen.unique("a") for _ in range(20_000)] == ["a", *(f"a~{n}" for n in range(2, 20_001))]


@given(st.lists(st.sampled_from(["a", "a~2", "a~2~2", "b"]), min_size=1, max_size=30))
def test_every_passage_goes_in_once_under_an_id_of_its_own(ids):
    taken = PassageIntake(Passage(one, "", "text") for one in ids)
    out = [passage.id for passage in taken]
    assert len(set(out)) == len(out) == taken.count == len(ids)
    assert taken.renamed == sum(new != old for new, old in zip(out, ids, strict=True))
    assert out == ids or taken.renamed


def test_what_comes_after_the_passages_that_show_the_language_goes_in_too(monkeypatch):
    monkeypatch.setattr(intake, "HEAD", 2)
    found = PassageIntake(Passage(str(n), "", f"text {n}") for n in range(5))
    assert ([one.id for one in found.head], [one.id for one in found], found.count) == (["0", "1"], list("01234"), 5)


def test_what_was_left_out_before_and_now_is_counted_together():
    before = LeftOut({".png": 2}, {"damaged": 1}, ("a", "b"), {".png": "c"})
    now = LeftOut({".png": 1, ".odt": 1}, {"damaged": 2, "binary": 1}, tuple(map(str, range(99))), {".odt": "d"})
    both = LeftOut({".png": 3, ".odt": 1}, {"damaged": 3, "binary": 1}, ("a", "b", *map(str, range(98))))
    assert (before.joined(now), before.joined(now).examples) == (both, {".png": "c", ".odt": "d"})
    assert (before.joined(LeftOut()), LeftOut().joined(now)) == (before, now)


def test_texts_and_mappings_are_passages_too():
    given = ["A text.", {"text": "The lighthouse.", "title": "Skarn", "id": 7}, Passage("p", "", "Mine.")]
    found = list(PassageIntake(given))
    assert [(one.title, one.text) for one in found] == [("", "A text."), ("Skarn", "The lighthouse."), ("", "Mine.")]
    assert [one.id for one in found][1:] == ["7", "p"]
    assert found[0].id == next(iter(PassageIntake(["A text."]))).id


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("notes/", r"passages are expected, not 'notes/': keqa\.read_corpus reads those of files"),
        ({"text": "a"}, "passages are expected, not {'text': 'a'}"),
        (
            ["a", {"bode": "b"}],
            "passage 2, {'bode': 'b'}, has no text: one of long_text, page_content, text, c",
        ),
        ([None], "passage 1, None, has no text"),
    ],
)
def test_what_is_no_passage_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        list(PassageIntake(given))
