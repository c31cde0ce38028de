import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keqa.errors import ConfigurationError
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


def test_similar_texts_are_closer_and_function_words_or_odd_characters_no_trouble():
    asked = "Who is the mayor of Carmouth?"
    assert similarity(asked, "Who is the mayor of Brenfield?") > similarity(asked, "When was Carmouth founded?") > 0
    assert similarity(asked, "WHO IS THE MAYOR OF CARMOUTH") == pytest.approx(1, abs=1e-6)
    assert similarity("the harbours of Carmouth", "a harbour in Carmouth") > 0.4
    assert similarity("卡茅斯的市长是谁", "卡茅斯的市长叫什么") > similarity("卡茅斯的市长是谁", "天气很好")
    assert similarity("to be or not to be", "to be or not to be") == pytest.approx(1, abs=1e-6)
    assert not EMBEDDER.embed(["", "?!"]).any()
    assert np.isfinite(EMBEDDER.embed(["\ud800 x"])).all()


@pytest.mark.process
def test_another_process_gives_the_same_vectors_and_loads_no_model_library():
    code = (
        "import sys; from keqa.programs.reference.embedding import open_embedder; "
        "print(open_embedder('hashing').embed(['Ann, Bö']).tobytes().hex(), *sys.modules)"
    )
    vectors, *loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert vectors == EMBEDDER.embed(["Ann, Bö"]).tobytes().hex()
    assert not {"torch", "sentence_transformers", "faiss", "sklearn"} & {*loaded}


def test_what_was_met_is_remembered_and_the_rest_embedded_in_one_batch():
    counting = Counting()
    remembering = Remembering(counting, size=3)
    assert remembering.embed(["a", "bb", "a"]).tolist() == [[1, 1], [2, 1], [1, 1]]
    assert remembering.embed(["ccc", "a"]).tolist() == [[3, 1], [1, 1]]
    remembering.embed(["dddd"])
    remembering.embed(["a", "bb"])
    assert counting.batches == [["a", "bb"], ["ccc"], ["dddd"], ["bb"]]
    assert remembering.name == "counting"

    assert [row[0] for row in Remembering(Counting(), size=2).embed(["a", "bb", "ccc"])] == [1, 2, 3]


def test_remembering_holds_in_many_threads():
    remembering = Remembering(Counting(), size=4)
    wrong = []

    def work(start):
        for step in range(300):
            texts = ["x" * (1 + (start + step + more) % 9) for more in range(3)]
            if [int(row[0]) for row in remembering.embed(texts)] != [len(text) for text in texts]:
                wrong.append(texts)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert wrong == []


@pytest.mark.parametrize("name", ["hashing-0", "hashing-16385", "hashing-99999999999999999999"])
def test_a_length_that_no_vector_has_is_refused(name):
    with pytest.raises(ConfigurationError, match="hashed vectors have a length from 1 to 16,384"):
        open_embedder(name)


def test_a_model_that_is_not_there_is_refused_with_what_needs_none(monkeypatch):
    def away(name):
        raise ConfigurationError(f"{name!r} cannot be opened")

    monkeypatch.setattr("keqa.programs.reference.embedding.open_model", away)
    with pytest.raises(ConfigurationError, match=r"'absent/model' cannot be opened; or hashing, which needs no model"):
        open_embedder("absent/model")
