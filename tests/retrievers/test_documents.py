"""Evidence documents as a retriever: which one is found, for whom, and what a file of them may be."""

import json

import pytest

from keqa.errors import InputError, RetrievalError
from keqa.retrievers import CachingRetriever, HybridRetriever, Passage, build_index, documents, open_index
from keqa.retrievers.caching import KeptHits
from keqa.retrievers.documents import DocumentsRetriever, NoDocumentError, id_asked, question_asked
from keqa.retrievers.engines import facts_of

CARMOUTH = [{"title": "Carmouth", "text": "Ann."}]
LINES = [
    {"id": "a", "question": "Who governs Carmouth?", "passages": CARMOUTH, "origin": "x"},
    {"id": "b", "question": "Who governs Skarn?", "title": "Skarn", "text": "Bo."},
    {"id": "c", "question": "Where?", "passages": [{"title": "", "text": "Here."}, {"title": "T", "text": "There."}]},
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "some, documents.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES)) + "\n\n")
    return path


def texts(hits):
    return [(hit.passage.id, hit.passage.title, hit.passage.text) for hit in hits]


def test_the_document_of_the_question_asked_whatever_is_searched_for(file, monkeypatch):
    found = open_index(f"documents:{file}")
    assert texts(found.search("who governs  SKARN?")) == [("b", "Skarn", "Bo.")]
    with question_asked("Who governs Carmouth?"):
        (one, other) = found.search_many(["Who governs Skarn?", "Ann"])
        assert texts(one) == texts(other) == [("a", "Carmouth", "Ann.")]
    with question_asked("Where?"):
        assert texts(found.search("x")) == [("c#1", "", "Here."), ("c#2", "T", "There.")]
        assert [hit.score for hit in found.search("x")] == [1, 0.5]
        assert texts(found.search("x", 1)) == [("c#1", "", "Here.")]
    many = [{"title": "", "text": f"{n}."} for n in range(12)]
    file.write_text(json.dumps({"id": "m", "question": "Many?", "passages": many}))
    opened = DocumentsRetriever(str(file))
    assert (len(opened.search("Many?")), len(opened.search_many(["Many?"])[0])) == (10, 10)
    monkeypatch.setattr(documents, "MAX_LINE", 1 << 20)
    file.write_text("\n" + "x" * (1 << 20) + "\n")
    with pytest.raises(RetrievalError, match=r"some, documents\.jsonl, line 2: longer than 1 MiB$"):
        DocumentsRetriever(str(file))


@pytest.mark.parametrize("beside", [False, True])
def test_a_cache_keeps_documents_of_two_questions_apart(file, tmp_path, beside):
    found, more, kept = open_index(f"documents:{file}"), set(), []
    if beside:
        build_index([Passage("p", "", "Of a mayor.")], tmp_path / "index")
        found, more = HybridRetriever([open_index(tmp_path / "index"), found]), {"Of a mayor."}
    with CachingRetriever(found, tmp_path / "kept.sqlite") as cached:
        for question, answer in [("Who governs Carmouth?", "Ann."), ("Who governs Skarn?", "Bo.")] * 2:
            with question_asked(question):
                hits = cached.search("mayor")
                assert {hit.passage.text for hit in hits} == {answer, *more}
                kept.append(isinstance(hits, KeptHits))
    assert kept == [False, False, True, True]


def test_several_documents_of_a_question_are_asked_for_by_id(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"id": i, "question": "Q?", "text": f"text {i}"}) + "\n" for i in "xy"))
    found = DocumentsRetriever(str(path))
    with id_asked("y"):
        assert texts(found.search("Q?")) == [("y", "", "text y")]
    with pytest.raises(NoDocumentError, match=r"has 2 documents for the question 'Q\?'.*such as 'x'"):
        found.search("Q?")
    with pytest.raises(NoDocumentError, match=r"pairs\.jsonl has no document for the question 'Who\?'"):
        found.search("Who?")


def test_what_it_is(file):
    (facts,) = facts_of(f"documents:{file}")
    said = [facts[name] for name in ("engine", "name", "passages", "origins")]
    assert said == ["documents", "some, documents", 3, ("x", "")]
    before = open_index(f"documents:{file}").manifest
    file.write_text(file.read_text().replace("Bo.", "Bea."))
    assert open_index(f"documents:{file}").manifest != before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no document: keqa documents makes them"),
        ("[]\n", "line 1: .*valid dictionary"),
        ('{"question": "Q?"}\n', "line 1: passages.0.text: Field required"),
        ('{"question": "Q?", "passages": []}\n', "line 1: passages: List should have at least 1 item"),
        (
            '{"question": "Q?", "passages": ["x", "y"]}\n',
            "line 1: passages.0: Input should be a valid dictionary[^;]*$",
        ),
        ('\n{"question": " ", "text": "x"}\n', "line 2: question: nothing is in it"),
        ('{"question": "Q?", "text": "x", "id": 3}\n', "line 1: id: Input should be a valid string"),
        ('{"id": "a", "question": "Q?", "text": "x"}\n' * 2, "line 2: its id 'a' is that of another line"),
        ("{", "line 1"),
    ],
)
def test_what_is_no_document_is_refused_by_its_line(tmp_path, content, message):
    path = tmp_path / "documents.jsonl"
    path.write_text(content)
    with pytest.raises(RetrievalError, match=message):
        open_index(f"documents:{path}")

    with pytest.raises(RetrievalError, match="is not there: keqa documents makes"):
        open_index(f"documents:{tmp_path / 'none.jsonl'}")
    with pytest.raises(InputError, match="join it with no other"):
        open_index(f"{tmp_path / 'own'},documents:{path}")
