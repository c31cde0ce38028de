"""What a baseline was set up with, written down and taken up again."""

from __future__ import annotations

import inspect
import json

import pytest

from keqa.programs import baselines
from keqa.programs.baselines import ClosedBook, Rowen
from keqa.programs.baselines.settings import settings_of


@pytest.mark.parametrize("name", [name for name in baselines.__all__ if name != "ClosedBook"])
def test_a_method_made_from_its_settings_has_the_same(name):
    cls = getattr(baselines, name)
    settings = settings_of(cls(None, workers=3, max_question_chars=90, top_k=2))
    assert set(settings) == set(inspect.signature(cls.__init__).parameters) - {"self", "retriever", "lms"}
    assert (settings["workers"], settings["max_question_chars"], settings["top_k"]) == (3, 90, 2)
    assert settings_of(cls(None, **json.loads(json.dumps(settings)))) == settings


def test_closed_book_searches_nowhere():
    assert settings_of(ClosedBook(reason=True)) == {"reason": True, "max_question_chars": 8000, "workers": 16}


def test_shares_stay_exact():
    settings = settings_of(Rowen(None, min_consistency="1/3", cross_model_weight="0.25"))
    assert (settings["min_consistency"], settings["cross_model_weight"]) == ("1/3", "1/4")
