"""The light boundary model: what it sees and says, and that its file holds nothing but bounded numbers."""

import json
import math
import re

import numpy as np
import pytest
from fixtures.boundary import make_model

from keqa.errors import ConfigurationError
from keqa.programs.boundary import BoundaryError, PromptedModel, model_from, read_model
from keqa.programs.boundary.light import (
    LightModel,
    Regression,
    Signal,
    certainty,
    consistency,
    masked,
    root_digest,
    signal_values,
)
from keqa.programs.gate import Draws

FOUR = Draws.of(("Oslo", "oslo.", "Bergen", None), (0.8, 0.4, 0.2, None), (0.9, None, 0.2, None))


def logistic(odds):
    return pytest.approx(1 / (1 + math.exp(-odds)))


@pytest.mark.parametrize(
    ("quiz", "shape"),
    [
        ("Who governs Marton?", "who governs <name>?"),
        ("To whom is Ann Lee O'Neil married?", "to whom is <name> married?"),
        ("When did St. Marton win in 1994 and 2001?", "when did <name>. <name> win in <number> and <number>?"),
    ],
)
def test_names_and_numbers_are_masked(quiz, shape):
    assert masked(quiz) == shape


def test_the_signals_of_a_draft_which_is_the_first_draw_alone():
    draws = Draws.of(("Oslo", "Bergen"), (0.5, 0.1), (0.25, 0.1))
    texts = {"abstained": 0.0, "length": math.log(2)}
    likely = {"probability": 0.5, "log probability": math.log(0.501), "first token": 0.25}
    found = signal_values("draft", draws, True)
    assert found == pytest.approx(texts | likely | {"log first token": math.log(0.251)})
    assert signal_values("draft", draws, False) == pytest.approx(texts)
    assert signal_values("quiz", draws, False) == {}


def test_the_signals_of_draws_which_are_compared_by_their_exact_answers():
    entropy = math.log(2) * 1.5
    plain = {
        "consistency": 0.5,
        # The abstention agrees with nothing: three types of answers, of four draws.
        "certainty by types": 1 - entropy / math.log(3),
        "certainty by samples": 1 - entropy / math.log(4),
        # One of six pairs says the same.
        "lexical similarity": 1 / 6,
        "abstained": 0.25,
    }
    # Where only the first token's probability is missing, that of the answer stands in.
    likely = {"probability": 0.35, "log probability": math.log(0.351), "first token": (0.9 + 0.4 + 0.2) / 4}
    assert signal_values("draws", FOUR, True) == pytest.approx(plain | likely)
    assert signal_values("draws", FOUR, False) == pytest.approx(plain)
    assert (consistency(FOUR), certainty(FOUR)) == (0.5, pytest.approx(0.25))


@pytest.mark.parametrize("answers", [(), (None,)])
def test_what_is_no_answer_is_no_likely_one(answers):
    least = {"probability": 0.0, "log probability": math.log(0.001), "first token": 0.0}
    draws = Draws.of(answers, (1.0,) * len(answers), (1.0,) * len(answers))
    found = signal_values("draft", draws, True)
    assert found == pytest.approx(least | {"abstained": 1.0, "length": 0.0, "log first token": math.log(0.001)})
    of_draws = signal_values("draws", draws, True)
    assert {name: of_draws[name] for name in least} == pytest.approx(least)
    assert (of_draws["consistency"], of_draws["abstained"], certainty(draws)) == (0.0, len(answers), len(answers))


@pytest.mark.parametrize(("a", "b", "odds"), [(2.0, -1.0, 1.0), (6.0, -1.0, 7.0), (2.0, 0.0, -3.0)])
def test_a_probability_is_the_calibrated_score_of_signals_and_words(a, b, odds):
    head = Regression(
        bias=0.5,
        signals={"a": Signal(mean=2, scale=4, weight=3), "b": Signal(mean=-1, scale=0.5, weight=-1)},
        words=[1.0, -2.0],
        slope=2.0,
        offset=-1.0,
    )
    assert head.probability({"a": a, "b": b, "another": 9.0}, np.array([1.0, 0.25])) == logistic(odds)


@pytest.mark.parametrize(("offset", "least"), [(-1e6, 0.0), (-701, 0.0), (-700, 0.0), (-699, 1e-304), (1e6, 1.0)])
def test_a_score_may_be_of_any_size(offset, least):
    found = Regression(bias=0.0, signals={}, words=[], slope=1.0, offset=offset).probability({}, np.array([]))
    assert (found, found == 0) == (pytest.approx(least, abs=0 if least == 0 else 1e-303), least == 0)


@pytest.mark.parametrize("reads", ["draft", "draws"])
def test_each_aspect_has_weights_of_its_own_with_probabilities_and_without(reads):
    def made(heads):
        model = make_model(reads)
        return LightModel(reads=reads, embedder=model.embedder, heads=heads)

    def says(offset):
        written = make_model(reads).written()["heads"]["mastery"]
        return {
            variant: {**head, "slope": 0.0, "offset": offset + (variant == "texts")}
            for variant, head in written.items()
        }

    model = made({"mastery": says(1.0), "certainty": says(3.0)})
    for draws, odds in ((Draws.of(("Bo", None), (0.5, None), (0.5, None)), (1, 3)), (Draws.of(("Bo",)), (2, 4))):
        judged = model.judge("Who?", draws, "What passages say is not read.")
        assert (judged.mastery, judged.certainty) == tuple(map(logistic, odds))
    # What was trained without them reads none, whatever is drawn.
    written = model.written()["heads"]
    plain = {aspect: {"texts": head["texts"]} for aspect, head in written.items()}
    assert model.uses_probabilities
    for other in (made(plain), made({**plain, "mastery": written["mastery"]})):
        assert not other.uses_probabilities
        assert other.judge("Who?", Draws.of(("Bo",), (0.5,), (0.5,))).mastery == logistic(2)


def test_where_it_cannot_judge(monkeypatch):
    for reads in ("draft", "draws"):
        with pytest.raises(BoundaryError, match=f"reads {reads}, and nothing was drawn"):
            make_model(reads).judge("Who?", Draws())
    with pytest.raises(BoundaryError, match="has 64 places, the model weights for 3"):
        make_model(words=[0.0] * 3).judge("Who?", Draws.of(("Bo",)))

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
    assert again.spec() == model.spec() == make_model().spec() != make_model("draws").spec()
    assert again.spec().keys() == {"kind", "reads", "weights"}
    assert re.fullmatch("[0-9a-f]{20}", again.spec()["weights"])
    assert "words" not in repr(model)


LIGHT, PROMPTED = make_model(), PromptedModel(k=64, instruction="x" * 100_000)


@pytest.mark.parametrize(
    ("model", "path", "new", "message"),
    [
        (PROMPTED, "embedder", "someone/model", "someone/model"),
        *((PROMPTED, "k", k, "k:") for k in (-1, 65)),
        (PROMPTED, "show", "all", "show:"),
        (PROMPTED, "instruction", "x" * 100_001, "instruction:"),
        (PROMPTED, "code", 1, "code:"),
        (LIGHT, "format", "keqa-program", "is no boundary model"),
        (LIGHT, "version", 2, "another version"),
        (LIGHT, "kind", "heavy", "another version"),
        (LIGHT, "reads", "everything", "reads"),
        (LIGHT, "embedder", "someone/model", "none of the built-in ones"),
        (LIGHT, "embedder", "../folder", "none of the built-in ones"),
        (LIGHT, "code", "x", "code"),
        (LIGHT, "heads", {}, "mastery and certainty"),
        (LIGHT, "heads/mastery/other", {}, "heads.mastery.other"),
        (LIGHT, "heads/mastery/texts/bias", "1", "bias"),
        (LIGHT, "heads/mastery/texts/bias", True, "bias"),
        (LIGHT, "heads/mastery/texts/bias", 1e300, "bias"),
        (LIGHT, "heads/mastery/texts/words", [0.0] * 16_385, "words"),
        (LIGHT, "heads/mastery/texts/signals/length/scale", 0.0, "scale"),
        (
            make_model(),
            "heads/mastery/texts/signals/other",
            {"mean": 0.0, "scale": 1.0, "weight": 1.0},
            "the signals of this",
        ),
        (LIGHT, "roots", ["a question"], "roots"),
    ],
)
def test_what_a_file_may_not_hold(model, path, new, message):
    value = model.written()
    inner = value
    *parts, last = path.split("/")
    for part in parts:
        inner = inner[part]
    inner[last] = new
    with pytest.raises(ConfigurationError, match=message):
        model_from(value, "m.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is missing"),
        ("[]", "is no boundary model"),
        ('{"format": "keqa-boundary", "version": NaN}', "NaN is not a number"),
        (" " * ((8 << 20) + 1), "more than 8,388,608 bytes"),
    ],
)
def test_files_that_are_none(tmp_path, content, message):
    if content is not None:
        (tmp_path / "m.json").write_text(content)
    with pytest.raises(ConfigurationError, match=message):
        read_model(tmp_path / "m.json")
