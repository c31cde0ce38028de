import pytest

from keqa.data import BENCHMARKS, ContextPassage
from keqa.errors import InputError

nq_open, triviaqa, webquestions = (BENCHMARKS[name].convert for name in ("nq", "triviaqa", "webquestions"))


@pytest.mark.parametrize("name", ["answer", "answers", "golden_answers"])
def test_layouts_of_nq(name):
    example = nq_open({"question": "who directed up", name: ["Pete Docter", "Docter", "...", "Docter"]})
    assert example.id.startswith("q-")
    assert example.answers == ("Pete Docter", "Docter")


def test_passages_of_nq():
    passages = [{"title": "Up", "text": "Up is  a film.", "isgold": True}, {"text": "Down is none."}]
    example = nq_open({"question": "what is up", "answers": ["a film"], "ctxs": passages})
    assert example.context == (
        ContextPassage("Up", "Up is a film.", "supporting"),
        ContextPassage("", "Down is none.", "unknown"),
    )


ORIGINAL = {
    "QuestionId": "tc_1",
    "Question": "Who directed Up?",
    "Answer": {
        "Value": "Pete Docter",
        "Aliases": ["Peter Docter", "Pete Docter", "???"],
        "NormalizedAliases": ["pete docter"],
        "HumanAnswers": ["Docter"],
    },
    "QuestionPartOfVerifiedEval": True,
}
HUB = {
    "question_id": "tc_1",
    "question": "Who directed Up?",
    "answer": {"value": "Pete Docter", "aliases": ["Peter Docter", "???"], "normalized_value": "pete docter"},
    "entity_pages": {"title": []},
}


def test_triviaqa_in_its_original_layout(write_json):
    document = {"Data": [ORIGINAL, {**ORIGINAL, "QuestionId": "tc_2", "Answer": None}], "VerifiedEval": True}
    loaded = BENCHMARKS["triviaqa"].load(write_json("verified-wikipedia-dev.json", document))
    assert loaded.ids == ["tc_1"]
    assert loaded.examples[0].answers == ("Pete Docter", "Peter Docter", "Docter")
    assert [str(problem).rpartition("dev.json, ")[2] for problem in loaded.problems] == ["record 2: there is no Answer"]


def test_triviaqa_of_the_hub():
    example = triviaqa(HUB)
    assert (example.id, example.answers) == ("tc_1", ("Pete Docter", "Peter Docter"))


def test_triviaqa_in_flashrags_layout(write_json):
    row = {"id": "test_0", "question": "Who directed Up?", "golden_answers": ["Pete Docter", "Docter"]}
    for path in (write_json("test.jsonl", [row]), write_json("test.json", [row])):
        example = BENCHMARKS["triviaqa"].load(path).examples[0]
        assert (example.id, example.answers) == ("test_0", ("Pete Docter", "Docter"))


@pytest.mark.parametrize(
    ("target", "answers"),
    [
        ('(list (description "Jazmyn Bieber") (description "Jaxon Bieber"))', ("Jazmyn Bieber", "Jaxon Bieber")),
        ("(list (description London))", ("London",)),
        (r'(list (description "Dwight \"Ike\" Eisenhower"))', ('Dwight "Ike" Eisenhower',)),
        ("(list (description 1968) (description ...))", ("1968",)),
    ],
)
def test_webquestions_in_its_original_layout(target, answers):
    example = webquestions({"url": "http://x", "utterance": "who is it?", "targetValue": target})
    assert (example.question, example.answers) == ("who is it?", answers)


@pytest.mark.parametrize(
    "record",
    [
        {"qId": "wqs1", "qText": "who directed up?", "answers": ["Pete Docter"]},
        {"url": "http://x", "question": "who directed up?", "answers": ["Pete Docter"]},
    ],
)
def test_copies_of_webquestions(record):
    example = webquestions(record)
    assert example.id == record.get("qId", "q-cad6bd43c376f57a")
    assert (example.question, example.answers) == ("who directed up?", ("Pete Docter",))


def test_webquestions_without_an_answer():
    with pytest.raises(InputError, match="there is no answer"):
        webquestions({"utterance": "who?", "targetValue": "(list)"})


def test_the_train_part_of_triviaqa(write_json):
    folder = write_json("wikipedia-train.json", {"Data": [ORIGINAL]}).parent
    assert BENCHMARKS["triviaqa"].load(folder, split="train").ids == ["tc_1"]
