import dataclasses

import numpy as np
import pytest

from keqa.errors import ConfigurationError, InputError, RetrievalError
from keqa.retrievers import Passage, embedding
from keqa.retrievers.embedding import Encoder, EncoderSettings

PASSAGES = [Passage("1", "Zebra", "It has stripes."), Passage("2", "", "No title.")]


def test_what_the_model_says_is_taken_and_kept(library):
    settings = Encoder.choose("prompted").settings
    assert settings == EncoderSettings("prompted", "prompted", "read: ", "ask: ", ": ", "cosine", 16)


def test_prefixes_and_separator_reach_the_model(library):
    encoder = Encoder.choose("prompted", passage_prefix="passage: ", query_prefix="query: ", separator=" [SEP] ")
    library.CALLS.clear()
    encoder.passages(PASSAGES)
    encoder.queries(["What has stripes?"])
    assert library.CALLS == [
        ("prompted", "passage: ", ["Zebra [SEP] It has stripes.", "No title."]),
        ("prompted", "query: ", ["What has stripes?"]),
    ]


def test_an_empty_prefix_takes_the_models_own_away(library):
    assert Encoder.choose("prompted", query_prefix="").settings.query_prefix == ""


def test_each_side_of_a_pair_has_its_own_model_and_the_inner_product_counts(library):
    encoder = Encoder.choose("dpr-passage", query_model="dpr-question")
    library.CALLS.clear()
    rows = encoder.passages(PASSAGES)
    encoder.queries(["stripes"])
    assert [name for name, _, _ in library.CALLS] == ["dpr-passage", "dpr-question"]
    assert encoder.settings.similarity == "dot"
    assert np.linalg.norm(rows[0]) > 1.5


@pytest.mark.parametrize(
    ("model", "given", "kept"),
    [("some/model", None, "cosine"), ("some/dot", None, "dot"), ("some/dot", "cosine", "cosine")],
)
def test_how_vectors_are_compared(library, model, given, kept):
    assert Encoder.choose(model, similarity=given).settings.similarity == kept


def test_what_cannot_be_is_refused(library):
    with pytest.raises(InputError, match=r"'euclid'.*cosine or dot"):
        Encoder.choose("some/model", similarity="euclid")
    with pytest.raises(ConfigurationError, match="length 16 and wide-question of 24: they are no pair"):
        Encoder.choose("dpr-passage", query_model="wide-question")


def test_only_the_model_of_questions_is_opened_to_search(library, tmp_path):
    chosen = Encoder.choose("dpr-passage", query_model="dpr-question")
    settings = dataclasses.replace(chosen.settings, model="absent/passage")
    opened = Encoder.recognised(settings, chosen.query_probe(), tmp_path, "dpr-question")
    assert np.array_equal(opened.queries(["stripes"]), chosen.queries(["stripes"]))
    with pytest.raises(ConfigurationError, match="opened for questions"):
        opened.passages(PASSAGES)


def test_another_model_under_the_same_name_is_found_out(library, tmp_path):
    other, own = Encoder.choose("other/model"), Encoder.choose("some/model")
    with pytest.raises(RetrievalError, match=r"'some/model' is not the one .* or build the index again"):
        Encoder.recognised(own.settings, other.query_probe(), tmp_path, "some/model")
    with pytest.raises(ConfigurationError, match=r"needs the model that it was built with.*'absent/model'"):
        Encoder.recognised(own.settings, other.query_probe(), tmp_path, "absent/model")


def test_vectors_that_cannot_be_compared_are_a_failure(library, monkeypatch):
    encoder = Encoder.choose("some/model")
    monkeypatch.setattr(library.SentenceTransformer, "encode_query", lambda *_, **__: np.full((1, 16), np.nan))
    with pytest.raises(RetrievalError, match="no usable vectors"):
        encoder.queries(["x"])


def test_a_folder_is_kept_by_its_absolute_path_and_any_other_name_as_it_is(library, tmp_path, monkeypatch):
    for folder in ("our/dpr-passage", "our/dpr-question", "local/minilm"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "our")
    settings = Encoder.choose("../our/dpr-passage/", query_model="dpr-question").settings
    assert settings.model == str(tmp_path / "our" / "dpr-passage")
    assert settings.query_model == str(tmp_path / "our" / "dpr-question")
    one = Encoder.choose("dpr-passage", query_model="./dpr-passage").settings
    assert (one.query_model, one.similarity) == (str(tmp_path / "our" / "dpr-passage"), "cosine")
    assert Encoder.choose("some/model").settings.model == "some/model"
    # This name is that of the package, whatever folders there are.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(embedding, "_packaged", lambda: "somewhere")
    assert Encoder.choose("local/minilm").settings.model == "local/minilm"
