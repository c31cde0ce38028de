"""What a chooser sees of a question and its answers, written whole in features.json.

After a change that is wanted, KEQA_WRITE_FEATURES=1 writes it again.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from keqa.programs.boundary import chooser
from keqa.programs.boundary.chooser import PLACES, WAYS, Features, Seen

GOLDEN = Path(__file__).parent / "features.json"
SEEN = {
    "memory alone": Seen("who wrote it?", "", ("I do not know",)),
    "a year of two films": Seen(
        "Which film came out first, The Mill (1931) or Night Train?",
        "The Mill was directed by Ann Lee in 1931. Night Train by Bo Kim is of 1940. It is possibly The Mill, not Night"
        " Train. So the answer is The Mill.",
        ("The Mill", "Mill", "Night Train (1940)"),
        0.25,
        ("The Mill of 1931", "Night Train"),
    ),
    "a day and no answer": Seen(
        "What is the birthday of the man who built Ann's bridge？",
        "Ann's bridge was built by Carl. Carl was born on 3 May 1900.",
        ("3 May 1900", "May 1900", "not mentioned in the passages"),
        1e-9,
    ),
    "a number and a verdict": Seen(
        "Are there 12?", "There are twelve. twelve.", ("12 of them", "yes"), 1.0, ("12", "no")
    ),
    "long and in the chain": Seen(
        "How many of the houses that stood in the old town, which the river took, were the mayor's own?",
        "The mayor's own were seven houses. The river took them.",
        ("seven houses", "seven", "a b c d e f g h i j k l"),
    ),
}


def written(seen, monkeypatch):
    terms = []
    monkeypatch.setattr(chooser, "_hashed", lambda some: (terms.append(list(some)), np.zeros(PLACES))[1])
    features, places = Features(seen), range(len(seen.answers))
    signals = [{name: round(value, 6) for name, value in features.signals(place).items()} for place in places]
    if len(places) > 2:
        # What belongs to one way alone is the same once more.
        signals = [
            {
                name: value
                for name, value in one.items()
                if not name.startswith(tuple(f"{way}: " for way in WAYS) + tuple(f"{way} by" for way in WAYS))
            }
            for one in signals
        ]
    for place in places:
        features.terms(place)
    return {"signals": signals, "terms": terms}


def test_what_is_seen_of_questions_and_answers(monkeypatch):
    found = {name: written(seen, monkeypatch) for name, seen in SEEN.items()}
    if os.environ.get("KEQA_WRITE_FEATURES"):
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in found.items())
        GOLDEN.write_text(f"{{\n{lines}\n}}\n")
    expected = json.loads(GOLDEN.read_text())
    assert list(found) == list(expected)
    for name, one in found.items():
        assert one == expected[name], name


def test_terms_are_hashed_to_places_of_either_sign_and_length_one():
    assert chooser._hashed([]).tolist() == [0] * PLACES
    twice = chooser._hashed(["a", "a", "c", "\ud800"])
    placed = {place: round(float(twice[place]), 4) for place in np.flatnonzero(twice).tolist()}
    assert placed == {1320: -0.4533, 3651: 0.7675, 3951: -0.4533}
    # Each field counts alike, an empty one for nothing.
    found = Features(SEEN["memory alone"]).terms(0)
    assert np.square(found).sum() == pytest.approx(3, abs=0.2)


@pytest.mark.parametrize(
    ("question", "chain", "borne_out"),
    [
        ("which is older, mill or train?", "Mill is of 1900. Train is of 1950.", 1),
        ("which is older, mill or train?", "Mill is of 1950. Train is of 1900.", -1),
        ("which is younger, mill or train?", "Mill is of 1950. Train is of 1900.", 1),
        ("which came out last, mill or train?", "Mill is of 1900. Train is of 1950.", -1),
        # A film stands for who directed it, and the last year of a sentence counts.
        (
            "whose director was born first, mill or train?",
            "Mill was made by Cy. Cy lived from 1800 to 1900. Train 1950.",
            1,
        ),
        ("which is older, mill or train?", "Mill is of 1900. Train is of 1950. Thus 1999 is later than Mill.", 1),
        ("which is older, mill or train?", "Mill is of 1900. Train is of 1900.", 0),
        ("which is older, mill or train?", "Mill is of 1900. Train is old.", 0),
        ("is mill older than train?", "Mill is of 1900. Train is of 1950.", 0),
        ("which is larger, mill or train?", "Mill is of 1900. Train is of 1950.", 0),
    ],
)
def test_years_bear_out_which_of_two_is_earlier(question, chain, borne_out):
    assert chooser._dates_bear_out(question, chooser._SENTENCE.split(chain), chooser._Answer("The Mill")) == borne_out
