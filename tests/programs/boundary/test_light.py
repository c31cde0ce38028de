"""The light boundary model: what it says, and that its file holds nothing but bounded numbers."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from fixtures.boundary import make_model

from keqa.errors import ConfigurationError
from keqa.programs.boundary import BoundaryError, read_model
from keqa.programs.boundary.files import model_from
from keqa.programs.boundary.light import LightModel, Regression, Signal
from keqa.programs.boundary.model import root_digest
from keqa.programs.draws import Draws


@pytest.mark.parametrize(("a", "b", "odds"), [(2.0, -1.0, 1.0), (6.0, -1.0, 7.0), (2.0, 0.0, -3.0)])
def test_a_probability_is_the_calibrated_score_of_signals_and_words(a, b, odds):
    head = Regression(
        bias=0.5,
        signals={"a": Signal(mean=2, scale=4, weight=3), "b": Signal(mean=-1, scale=0.5, weight=-1)},
        words=[1.0, -2.0],
        slope=2.0,
        offset=-1.0,
    )
    found = head.probability({"a": a, "b": b, "another": 9.0}, np.array([1.0, 0.25]))
    assert found == pytest.approx(1 / (1 + math.exp(-odds)))


@pytest.mark.parametrize(("offset", "least"), [(-1e6, 0.0), (-701, 0.0), (-700, 0.0), (-699, 1e-304), (1e6, 1.0)])
def test_a_score_may_be_of_any_size(offset, least):
    head = Regression(bias=0.0, signals={}, words=[], slope=1.0, offset=offset)
    assert head.probability({}, np.array([])) == pytest.approx(least, abs=0 if least == 0 else 1e-303)
    assert (head.probability({}, np.array([])) == 0) == (least == 0)


@pytest.mark.parametrize("reads", ["draft", "draws"])
def test_each_aspect_has_weights_of_its_own_with_probabilities_and_without(reads):
    def says(offset):
        written = make_model(reads).written()["heads"]["mastery"]
        return {
            variant: {**head, "slope": 0.0, "offset": offset + (variant == "texts")}
            for variant, head in written.items()
        }

    model = LightModel(**{**fields(make_model(reads)), "heads": {"mastery": says(1.0), "certainty": says(3.0)}})
    for signals, odds in ((Draws.of(("Bo", None), (0.5, None), (0.5, None)), (1, 3)), (Draws.of(("Bo",)), (2, 4))):
        judged = model.judge("Who?", signals, "What passages say is not read.")
        assert (judged.mastery, judged.certainty) == tuple(pytest.approx(1 / (1 + math.exp(-one))) for one in odds)
    # What was trained without them reads none, whatever is drawn.
    written = model.written()["heads"]
    plain = {aspect: {"texts": head["texts"]} for aspect, head in written.items()}
    assert model.uses_probabilities
    for heads in (plain, {**plain, "mastery": written["mastery"]}):
        other = LightModel(**{**fields(model), "heads": heads})
        assert not other.uses_probabilities
        assert other.judge("Who?", Draws.of(("Bo",), (0.5,), (0.5,))).mastery == pytest.approx(1 / (1 + math.exp(-2)))


def fields(model):
    return {name: getattr(model, name) for name in ("reads", "embedder", "roots", "about")}


def test_a_likely_draft_is_known():
    model = make_model()
    likely, unlikely = (model.judge("Who?", Draws.of(("Bo",), (p,), (p,))).mastery for p in (1.0, 0.0))
    assert (likely, unlikely) == (pytest.approx(1 / (1 + math.exp(-3))), pytest.approx(1 / (1 + math.exp(2))))
    # Further draws are not read.
    assert model.judge("Who?", Draws.of(("Bo", "Al"), (1.0, 0.1), (1.0, 0.1))).mastery == likely


def test_without_probabilities_the_texts_are_judged():
    judged = make_model().judge("Who?", Draws.of(("Bo",)))
    assert judged.mastery == pytest.approx(1 / (1 + math.exp(2 - math.log(2))))


def test_a_model_that_reads_the_quiz_reads_its_kind():
    model = make_model("quiz")
    assert not model.uses_probabilities
    kinds = [model.judge(quiz, Draws()).mastery for quiz in ("Who governs Halden?", "When was it built?")]
    assert kinds[0] > 0.9 > 0.5 > kinds[1]


@pytest.mark.parametrize("reads", ["draft", "draws"])
def test_a_model_that_reads_draws_cannot_judge_without(reads):
    with pytest.raises(BoundaryError, match=f"reads {reads}, and nothing was drawn"):
        make_model(reads).judge("Who?", Draws())


def test_weights_of_another_length_are_no_judgement():
    with pytest.raises(BoundaryError, match="has 64 places, the model weights for 3"):
        make_model(words=[0.0] * 3).judge("Who?", Draws.of(("Bo",)))


def test_an_embedder_that_fails_is_no_judgement(monkeypatch):
    def fails(self, texts):
        raise RuntimeError("out of memory")

    model = make_model()
    monkeypatch.setattr("keqa.programs.reference.embedding.HashingEmbedder.embed", fails)
    with pytest.raises(BoundaryError, match="the embedder hashing-64 failed: out of memory"):
        model.judge("A quiz that nobody remembers?", Draws.of(("Bo",)))


def test_a_file_there_and_back(tmp_path):
    model = make_model(roots=[root_digest("q1")], about={"lm": "x"})
    (tmp_path / "model.json").write_text(json.dumps(model.written()))
    again = read_model(tmp_path / "model.json")
    assert again == model
    assert again.spec() == model.spec() == make_model().spec()
    assert again.spec() != make_model("draws").spec()
    assert again.spec().keys() == {"kind", "reads", "weights"}
    assert re.fullmatch("[0-9a-f]{20}", again.spec()["weights"])
    assert "words" not in repr(model)


def change(value, path, new):
    *parts, last = path.split("/")
    for part in parts:
        value = value[part]
    value[last] = new


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        ("format", "keqa-program", "is no boundary model"),
        ("version", 2, "another version"),
        ("kind", "heavy", "another version"),
        ("reads", "everything", "reads"),
        ("embedder", "someone/model", "none of the built-in ones"),
        ("embedder", "../folder", "none of the built-in ones"),
        ("code", "x", "code"),
        ("heads", {}, "mastery and certainty"),
        ("heads/mastery/other", {}, "heads.mastery.other"),
        ("heads/mastery/texts/bias", "1", "bias"),
        ("heads/mastery/texts/bias", True, "bias"),
        ("heads/mastery/texts/bias", 1e300, "bias"),
        ("heads/mastery/texts/words", [0.0] * 16_385, "words"),
        ("heads/mastery/texts/signals/length/scale", 0.0, "scale"),
        ("heads/mastery/texts/signals/other", {"mean": 0.0, "scale": 1.0, "weight": 1.0}, "the signals of this"),
        ("roots", ["a question"], "roots"),
    ],
)
def test_what_a_file_may_not_hold(path, new, message):
    value = make_model().written()
    change(value, path, new)
    with pytest.raises(ConfigurationError, match=message):
        model_from(value, "m.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "is no boundary model"),
        ("{", "cannot be read"),
        ('{"format": "keqa-boundary", "version": NaN}', "NaN is not a number"),
        (" " * ((8 << 20) + 1), "more than 8,388,608 bytes"),
    ],
)
def test_files_that_are_none(tmp_path, content, message):
    (tmp_path / "m.json").write_text(content)
    with pytest.raises(ConfigurationError, match=message):
        read_model(tmp_path / "m.json")
    with pytest.raises(ConfigurationError, match="is missing"):
        read_model(tmp_path / "none.json")
