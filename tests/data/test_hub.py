import sys
from types import SimpleNamespace

import pytest

from keqa.data import BENCHMARKS, load
from keqa.errors import InputError, MissingExtraError

# One row a benchmark, in the columns that its copy on the hub has, and what it becomes.
ROWS = {
    "nq": ({"question": "who directed up", "answer": ["Pete Docter"]}, ("Pete Docter",)),
    "triviaqa": (
        {
            "question": "Who directed Up?",
            "question_id": "tc_1",
            "question_source": "http://x",
            "entity_pages": {"doc_source": [], "filename": [], "title": [], "wiki_context": []},
            "search_results": {"description": [], "filename": [], "rank": [], "title": [], "url": []},
            "answer": {
                "aliases": ["Pete Docter", "Docter"],
                "normalized_aliases": ["pete docter", "docter"],
                "matched_wiki_entity_name": "",
                "normalized_matched_wiki_entity_name": "",
                "normalized_value": "pete docter",
                "type": "WikipediaEntity",
                "value": "Pete Docter",
            },
        },
        ("Pete Docter", "Docter"),
    ),
    "webquestions": ({"url": "http://x", "question": "who directed up?", "answers": ["Pete"]}, ("Pete",)),
    "hotpotqa": (
        {
            "id": "h1",
            "question": "Who directed Up?",
            "answer": "Pete",
            "type": "bridge",
            "level": "easy",
            "supporting_facts": {"title": ["Up"], "sent_id": [0]},
            "context": {"title": ["Up"], "sentences": [["Up is a film.", " Pete directed it."]]},
        },
        ("Pete",),
    ),
    "2wikimultihopqa": (
        {
            "id": "w1",
            "question": "Who directed Up?",
            "answer": "Pete",
            "type": "inference",
            "evidences": [["Up", "director", "Pete"]],
            "supporting_facts": {"title": ["Up"], "sent_id": [0]},
            "context": {"title": ["Up"], "sentences": [["Pete directed it."]]},
        },
        ("Pete",),
    ),
    "musique": (
        {
            "id": "2hop__1_2",
            "paragraphs": [{"idx": 0, "title": "Up", "paragraph_text": "Pete directed it.", "is_supporting": True}],
            "question": "When was the director of Up born?",
            "question_decomposition": [
                {"id": 1, "question": "Who directed Up?", "answer": "Pete", "paragraph_support_idx": 0},
                {"id": 2, "question": "When was #1 born?", "answer": "1968", "paragraph_support_idx": None},
            ],
            "answer": "1968",
            "answer_aliases": [],
            "answerable": True,
        },
        ("1968",),
    ),
    "strategyqa": (
        {"qid": "s1", "term": "Up", "description": "a film", "question": "Was it?", "answer": True, "facts": "It was."},
        ("yes",),
    ),
    "squad": (
        {
            "id": "q1",
            "title": "Up",
            "context": "Pete directed Up.",
            "question": "Who directed Up?",
            "answers": {"text": ["Pete"], "answer_start": [0]},
        },
        ("Pete",),
    ),
    "openbookqa": (
        {
            "id": "7",
            "question_stem": "Fog is around",
            "choices": {"text": ["a marsh", "the plains"], "label": ["A", "B"]},
            "answerKey": "A",
            "fact1": "fog is water",
            "humanScore": 1.0,
            "clarity": 2.0,
            "turkIdAnonymized": "x",
        },
        ("a marsh",),
    ),
    "mmlu": (
        {"question": "Two?", "subject": "algebra", "choices": ["one", "two", "three", "four"], "answer": 1},
        ("two",),
    ),
    "chinese-simpleqa": (
        {
            "id": "z1",
            "primary_category": "文化",
            "secondary_category": "电影",
            "question": "谁导演了它？",
            "answer": "道格特",
            "urls": ["http://x"],
        },
        ("道格特",),
    ),
}
SAME_COLUMNS = {
    "hotpotqa-fullwiki": "hotpotqa",
    "squad2": "squad",
    "xquad-en": "squad",
    "xquad-zh": "squad",
    "chinesesquad": "squad",
    "cmrc2018": "squad",
}


def row_of(name):
    return ROWS[SAME_COLUMNS.get(name, name)]


@pytest.fixture
def hub(monkeypatch):
    """Stand in for the package ``datasets``; returns what it was asked for."""
    asked = []

    def load_dataset(repository, config, *, split):
        asked.append((repository, config, split))
        return [row_of(name)[0] for name, one in BENCHMARKS.items() if one.hub and one.hub.repository == repository][:1]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return asked


@pytest.mark.parametrize("name", [name for name, benchmark in BENCHMARKS.items() if benchmark.hub])
def test_a_row_of_the_hub(hub, name):
    loaded = load(name)
    assert [example.answers for example in loaded.examples] == [row_of(name)[1]]
    assert loaded.problems == []
    source = BENCHMARKS[name].hub
    assert hub == [(source.repository, source.config, source.splits[0])]


@pytest.mark.slow
def test_arrow_keeps_the_columns_as_they_are_read():
    datasets = pytest.importorskip("datasets")
    for name, (row, answers) in ROWS.items():
        table = datasets.Dataset.from_list([row])
        assert BENCHMARKS[name].from_rows(table).examples[0].answers == answers


@pytest.mark.parametrize(
    ("split", "asked"), [(None, "validation"), ("dev", "validation"), ("validation", "validation"), ("train", "train")]
)
def test_splits_of_the_hub(hub, split, asked):
    load("nq", split=split)
    assert hub == [("google-research-datasets/nq_open", None, asked)]


def test_a_split_that_the_hub_has_not(hub):
    with pytest.raises(InputError, match="NQ-open on the hub has the splits validation, train, not 'test'"):
        load("nq", split="test")
    assert hub == []


@pytest.mark.parametrize("name", ["cmmlu", "mlec", "freshqa", "webqa", "sogouqa", "rgb-en"])
def test_what_is_not_on_the_hub(hub, name):
    with pytest.raises(InputError, match=f"not on the Hugging Face hub as plain data; load a file of it as '{name}:"):
        load(name)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        MissingExtraError, match=r"NQ-open from the Hugging Face hub needs .* pip install 'keqa\[hub\]'"
    ):
        load("nq")


def test_a_hub_that_cannot_be_reached(monkeypatch):
    def load_dataset(repository, config, *, split):
        raise ConnectionError("Couldn't reach\n the hub")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    message = (
        r"nq_open \(validation\) could not be loaded .* hub: ConnectionError: Couldn't reach the hub\. .* 'nq:PATH'"
    )
    with pytest.raises(InputError, match=message):
        load("nq")
