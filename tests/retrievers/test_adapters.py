"""Retrievers of other makes are searched as they are, and what is no retriever is refused before any question."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pytest

import keqa
from keqa.errors import ConfigurationError, InputError
from keqa.programs.fingerprint import retriever_spec
from keqa.retrievers import Hit, Passage, as_retriever
from keqa.retrievers.adapters import AdaptedRetriever, as_passage

TEXTS = ["Ann lives in Bergen.", "Bo lives in Oslo.", "Cleo lives in Rome."]


# Stand-ins with the interface of classes whose packages are not installed.
@dataclass
class Document:
    """As ``langchain_core.documents.Document``."""

    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None


class LangChainRetriever:
    """As ``langchain_core.retrievers.BaseRetriever``: a Runnable, not callable."""

    def invoke(self, input: str, config: Any = None, **kwargs: Any) -> list[Document]:
        return [Document(TEXTS[0], {"title": "Ann", "source": "/home/a.txt"}, "d1"), Document(TEXTS[1])]


class VectorStore:
    """As ``langchain_core.vectorstores.VectorStore``, whose `search` takes something else in second place."""

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [Document(text) for text in TEXTS[:k]]

    def search(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        raise AssertionError("not this one")


class TextNode:
    """As ``llama_index.core.schema.TextNode``."""

    def __init__(self, text: str, name: str, **metadata: Any) -> None:
        self.text, self.node_id, self.metadata = text, name, metadata or {"title": name.title()}

    def get_content(self, metadata_mode: Any = None) -> str:
        return self.text


@dataclass
class NodeWithScore:
    """As ``llama_index.core.schema.NodeWithScore``."""

    node: TextNode
    score: float | None = None

    def get_content(self, metadata_mode: Any = None) -> str:
        return self.node.get_content()


class LlamaIndexRetriever:
    """As ``llama_index.core.retrievers.BaseRetriever``."""

    def retrieve(self, str_or_query_bundle: str) -> list[NodeWithScore]:
        return [NodeWithScore(TextNode(TEXTS[0], "ann"), 0.9), NodeWithScore(TextNode(TEXTS[1], "bo"), 0.5)]


class VectorStoreIndex:
    """As ``llama_index.core.VectorStoreIndex``."""

    def as_retriever(self, **kwargs: Any) -> LlamaIndexRetriever:
        return LlamaIndexRetriever()


class Notes:
    def search(self, query: str, k: int = 10) -> list[Hit]:
        return [Hit(Passage(query, "", query), 3.0)][:k]


class Search(dspy.Module):
    def forward(self, query: str, k: int = 1) -> dspy.Prediction:
        return dspy.Prediction(passages=TEXTS[:k])


class SearchOfItsOwn(Search):
    def __init__(self) -> None:
        super().__init__()
        self.forward = lambda query: dspy.Prediction(passages=TEXTS)


def embedder(queries: Sequence[str]) -> np.ndarray:
    return np.array([[float(name in query) for name in ("Ann", "Bo", "Cleo")] for query in queries]) + 0.1


async def coroutine(query: str) -> list[str]:
    return TEXTS


def shown(hits: Sequence[Hit]) -> list[tuple[str, str, str, float]]:
    return [(hit.passage.id, hit.passage.title, hit.passage.text, hit.score) for hit in hits]


def test_a_retriever_stays_what_it_is_and_search_many_is_added(retriever):
    own = retriever("text")
    assert as_retriever(own) is own
    adapted = as_retriever(Notes())
    assert [[hit.passage.id for hit in hits] for hits in adapted.search_many(["a", "b"], 1)] == [["a"], ["b"]]
    assert isinstance(adapted, keqa.Retriever)
    assert retriever_spec(adapted) == retriever_spec(Notes())
    with pytest.raises(InputError, match="at least one passage"):
        adapted.search("q", 0)


@pytest.mark.parametrize(
    "source",
    [
        lambda query: TEXTS,
        lambda query, k: TEXTS[:k],
        lambda query, how_many: TEXTS[:how_many],
        lambda query, *, top_k=1: TEXTS[:top_k],
        lambda query, *, k: TEXTS[:k],
        lambda query, timeout=5.0: TEXTS[: int(timeout)],
        lambda query: iter(TEXTS),
        VectorStore(),
        Search(),
        SearchOfItsOwn(),
    ],
)
def test_what_is_called_with_and_without_a_number_gives_as_many_as_are_asked_for(source, caplog):
    assert [hit.passage.text for hit in as_retriever(source).search("where?", 2)] == TEXTS[:2]
    assert caplog.messages == []


def test_what_a_function_may_return():
    passage = Passage("p", "Ann", TEXTS[0])
    found = [
        Hit(passage, 4.0),
        (passage, 3.0),
        {"id": 7, "title": "Bo", "text": TEXTS[1], "score": np.float32(2)},
        ("Cleo lives in Rome.", np.float64(1)),
        {"text": "  ", "score": 0.5},
    ]
    *first, last = shown(as_retriever(lambda query: found).search("q", 10))
    assert first == [("p", "Ann", TEXTS[0], 4.0), ("p", "Ann", TEXTS[0], 3.0), ("7", "Bo", TEXTS[1], 2.0)]
    assert last[1:] == ("", TEXTS[2], 1.0)
    # Without scores of all, the order is the score; ids are made of the texts.
    one, two = (as_retriever(lambda query: TEXTS).search("q", 2) for _ in range(2))
    assert (shown(one), [hit.score for hit in one]) == (shown(two), [1.0, 0.5])
    assert len({hit.passage.id for hit in one}) == 2
    assert as_retriever(lambda query: []).search("q") == []


def test_frameworks(monkeypatch):
    from dspy.dsp import colbertv2

    first, second = as_retriever(LangChainRetriever()).search("q", 2)
    assert (first.passage, first.score) == (Passage("d1", "Ann", TEXTS[0]), 1.0)
    assert (second.passage.title, second.passage.text) == ("", TEXTS[1])
    nodes = [("ann", "Ann", TEXTS[0], 0.9), ("bo", "Bo", TEXTS[1], 0.5)]
    assert shown(as_retriever(LlamaIndexRetriever()).search("q", 5)) == nodes
    found = as_retriever(dspy.Embeddings(TEXTS, embedder, k=2))
    assert [(hit.passage.id, hit.passage.text) for hit in found.search("Where is Bo?", 1)] == [("1", TEXTS[1])]
    scored = as_retriever(dspy.retrievers.EmbeddingsWithScores(TEXTS, embedder, k=2)).search("Where is Bo?", 2)
    assert (scored[0].passage.text, round(scored[0].score, 3)) == (TEXTS[1], 1.0)
    topk = [{"pid": 3, "rank": 1, "score": 21.5, "long_text": "Ann | Ann lives in Bergen."}]
    monkeypatch.setattr(colbertv2, "colbertv2_get_request", lambda url, query, k: topk[:k])
    retriever = as_retriever(dspy.ColBERTv2(url="http://localhost:9/wiki"))
    assert shown(retriever.search("q", 5)) == [("3", "Ann", TEXTS[0], 21.5)]
    retriever = as_retriever(dspy.Retrieve(k=1))
    with dspy.context(rm=lambda query, k: [dspy.Prediction(long_text=text) for text in TEXTS[:k]]):
        assert [hit.passage.text for hit in retriever.search("q", 2)] == TEXTS[:2]
    with pytest.raises(AssertionError, match="No RM is loaded"):
        retriever.search("q", 2)


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("index", r"open an index with keqa\.open_index\('index'\)"),
        (Path("my/index"), r"open an index with keqa\.open_index\('my/index'\)"),
        (VectorStore, r"it is a class: make one first, as VectorStore\(\.\.\.\)"),
        *((one, "it cannot be called as") for one in (lambda: TEXTS, lambda query, k, filter: 0, lambda *, query: 0)),
        (coroutine, r"it is a coroutine function: .* such as lambda query: asyncio\.run\(f\(query\)\)"),
        *((one, "it has no method search") for one in (False, 0, object())),
        (TEXTS, r"make an index with keqa\.build_index\(passages, folder\), and open it"),
        (VectorStoreIndex(), "give the retriever that its method as_retriever makes"),
        (dspy.LM("openai/none"), "it is a language model"),
        (dspy.Predict("question -> answer"), "it cannot be called as"),
    ],
)
def test_what_is_no_retriever_is_refused_by_every_program(source, advice):
    for kind in (as_retriever, keqa.KEQA, keqa.AlwaysRetrieve):
        with pytest.raises(ConfigurationError, match=advice) as refused:
            kind(source)
        said = str(refused.value)
        # By its type, and not by its place in the memory.
        assert ("\n" in said, " at 0x" in said) == (False, False)
        assert kind == as_retriever or said.startswith(f"{kind.__name__}: retriever must be an index")


PLACE = keqa.Place("a.pdf", 3, "Fees", "2020-01-01")
NODE = TextNode(TEXTS[0], "a", file_name="a.pdf", file_path="/a", page_label="3", last_modified_date="2020-01-01")
WITHIN = {"source": "a.pdf", "page": 3, "date": "2020-01-01", "section": "Fees", "title": "Handbook"}


@pytest.mark.parametrize(
    ("found", "place"),
    [
        (Document(TEXTS[0], WITHIN), PLACE),
        ((Document(TEXTS[1], {"source": "b.md"}), 0.5), keqa.Place("b.md")),
        (NODE, keqa.Place("a.pdf", 3, "", "2020-01-01")),
        (NodeWithScore(NODE, 0.9), keqa.Place("a.pdf", 3, "", "2020-01-01")),
        ({"text": TEXTS[0], "file": "a.pdf", "page": 3, "heading": "Fees", "date": "2020-01-01"}, PLACE),
        ({"text": TEXTS[0], "metadata": WITHIN}, PLACE),
        (dspy.Prediction(long_text=TEXTS[0], place=PLACE), PLACE),
        ({"text": TEXTS[0]}, keqa.Place()),
    ],
)
def test_the_place_of_what_is_found(found, place):
    (hit,) = as_retriever(lambda query: [found]).search("q")
    assert hit.passage.place == place


def test_every_name_that_a_corpus_may_call_its_text_by():
    names = "long_text, page_content, text, contents, content, passage, paragraph_text, body"
    for name in names.split(", "):
        assert as_passage({name: TEXTS[0]}).text == TEXTS[0]
    with pytest.raises(ConfigurationError, match=f"which has no text: one of {names} is expected, and to be text"):
        as_retriever(lambda query: [{"title": "Ann", "txt": TEXTS[0]}]).search("q")


@pytest.mark.parametrize(
    "found", [None, TEXTS[0], 3, [3], [{"title": "Ann"}], {"Ann": 1}, dspy.Prediction(context=TEXTS)]
)
def test_what_came_back_has_to_be_passages(found):
    with pytest.raises(ConfigurationError, match="returned"):
        as_retriever(lambda query: found).search("q")


def test_two_functions_and_two_corpora_are_two_retrievers():
    one, two = (lambda query: TEXTS), (lambda query: TEXTS[::-1])
    small, large = (dspy.Embeddings(TEXTS[:size], embedder) for size in (2, 3))
    specs = [retriever_spec(as_retriever(source)) for source in (one, two, small, large)]
    assert specs[0] == retriever_spec(as_retriever(one))
    assert (specs[0] != specs[1], specs[2] != specs[3]) == (True, True)
    assert isinstance(as_retriever(small), AdaptedRetriever)
