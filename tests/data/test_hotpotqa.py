import pytest

from keqa.data import BENCHMARKS, ContextPassage, Example, SupportingFact, Triple
from keqa.errors import InputError

hotpotqa, two_wiki = (BENCHMARKS[name].convert for name in ("hotpotqa", "2wikimultihopqa"))

UP = {
    "_id": "h1",
    "question": "When was the director of Up born?",
    "answer": "October 9, 1968",
    "type": "bridge",
    "level": "easy",
    "supporting_facts": [["Up (film)", 0], ["Pete Docter", 1]],
    "context": [
        ["Up (film)", ["Up was directed by Pete Docter.", " It is a film."]],
        ["Down", ["Down is a direction."]],
        ["Pete Docter", ["Pete Docter directs.", " He was born on October 9, 1968."]],
    ],
}
# The same as the hub's columns.
UP_HUB = {
    **{name: UP[name] for name in ("question", "answer", "type", "level")},
    "id": "h1",
    "supporting_facts": {"title": ["Up (film)", "Pete Docter"], "sent_id": [0, 1]},
    "context": {
        "title": [title for title, _ in UP["context"]],
        "sentences": [sentences for _, sentences in UP["context"]],
    },
}
EXAMPLE = Example(
    id="h1",
    question="When was the director of Up born?",
    answers=("October 9, 1968",),
    scored_as="hotpotqa",
    supporting_facts=(SupportingFact("Up (film)", 0), SupportingFact("Pete Docter", 1)),
    context=(
        ContextPassage("Up (film)", "Up was directed by Pete Docter. It is a film.", "supporting"),
        ContextPassage("Down", "Down is a direction.", "distractor"),
        ContextPassage("Pete Docter", "Pete Docter directs. He was born on October 9, 1968.", "supporting"),
    ),
)
EVIDENCES = [["Up", "director", "Pete Docter"], ["Pete Docter", "date of birth", "October 9, 1968"]]
TRIPLES = (Triple("Up", "director", "Pete Docter"), Triple("Pete Docter", "date of birth", "October 9, 1968"))


@pytest.mark.parametrize("record", [UP, UP_HUB])
def test_both_layouts_of_hotpotqa_are_one_example(record):
    assert hotpotqa(record) == EXAMPLE


def test_the_hub_may_give_objects_for_columns():
    columns = UP_HUB["context"]
    listed = [
        {"title": title, "sentences": sentences}
        for title, sentences in zip(columns["title"], columns["sentences"], strict=True)
    ]
    assert hotpotqa({**UP_HUB, "context": listed}) == EXAMPLE


@pytest.mark.parametrize("answer", ["yes", "No", "no", "October 9, 1968"])
def test_the_gold_answer_says_nothing_about_the_type(answer):
    assert hotpotqa({**UP, "answer": answer}).answer_type == "short"
    assert two_wiki({**UP, "answer": answer, "evidences": EVIDENCES}).answer_type == "short"


@pytest.mark.parametrize(
    "evidences",
    [
        EVIDENCES,
        [dict(zip(("fact", "relation", "entity"), evidence, strict=True)) for evidence in EVIDENCES],
    ],
)
def test_evidences_become_triples(evidences):
    assert two_wiki({**UP, "evidences": evidences}).triples == TRIPLES


def test_the_file_of_aliases_is_used_where_it_lies_beside(write_json):
    path = write_json("2wiki/dev.json", [{**UP, "evidences": EVIDENCES, "answer_id": "Q1"}])
    assert BENCHMARKS["2wikimultihopqa"].load(path).examples[0].answers == ("October 9, 1968",)
    write_json(
        "2wiki/id_aliases.jsonl",
        [{"Q_id": "Q1", "aliases": ["9 October 1968"], "demonyms": []}, {"Q_id": "Q2", "aliases": ["x"]}],
    ).rename(path.parent / "id_aliases.json")
    for folder_or_file in (path, path.parent):
        loaded = BENCHMARKS["2wikimultihopqa"].load(folder_or_file)
        assert loaded.examples[0].answers == ("October 9, 1968", "9 October 1968")


def test_a_broken_file_of_aliases_is_named(write_json):
    path = write_json("dev.json", [{**UP, "evidences": EVIDENCES, "answer_id": "Q1"}])
    write_json("id_aliases.json", '{"Q_id": "Q1", "aliases": []}\n{"id": "Q2"}\n')
    with pytest.raises(InputError, match=r"id_aliases.json, line 2: an object with Q_id and aliases is expected"):
        BENCHMARKS["2wikimultihopqa"].load(path)


@pytest.mark.parametrize("evidences", [[["Up", "director"]], ["Up"], [{"fact": "Up"}]])
def test_a_triple_has_three_parts(evidences):
    with pytest.raises(InputError, match=r"evidences must hold|a part of evidences must be text"):
        two_wiki({**UP, "evidences": evidences})
