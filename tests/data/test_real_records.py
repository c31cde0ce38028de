"""What the real files hold beside question and answers, and what is refused."""

from collections import Counter

import pytest

from keqa.data import ContextPassage, SupportingFact, Triple, load
from keqa.errors import InputError


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("sogouqa:sogouqa_zh/SogouQA.json", "SogouQA.json, record 22: there is no question"),
        ("sogouqa:sogouqa_zh/WebQA.json", "WebQA.json, record 12: there is no question"),
        ("webqa:webqa_zh/me_test.ann.json", "me_test.ann.json, record 473: the answer '$' is nothing but punctuation"),
        ("mmlu:mmlu/dev", "college_physics_dev.csv, line 4: the question of line 1 again"),
    ],
)
def test_the_records_that_cannot_be_used(shared_data, spec, problem):
    assert [str(one).endswith(problem) for one in load(shared_data(spec)).problems] == [True]


@pytest.mark.parametrize(
    ("spec", "polar"),
    [
        ("hotpotqa:hotpotqa/hotpot_dev_distractor_v1.json", 0),
        ("hotpotqa-fullwiki:hotpotqa/hotpot_dev_fullwiki_v1.json", 0),
        ("2wikimultihopqa:2wikimultihopqa/train.json", 0),
        ("strategyqa:strategyqa/strategyqa_train.json", 500),
        ("freshqa:freshqa/freshqa.csv", 0),
    ],
)
def test_yes_no_is_told_by_the_data_set_and_never_by_the_gold_answer(shared_data, spec, polar):
    assert Counter(e.answer_type for e in load(shared_data(spec)).examples)["yes/no"] == polar


def test_the_verdicts_of_freshqa_are_scored_as_such(shared_data):
    assert Counter(e.scored_as for e in load(shared_data("freshqa:freshqa/freshqa.csv")).examples)["yes/no"] == 10


@pytest.mark.parametrize(
    ("spec", "name", "value"),
    [
        (
            "hotpotqa:hotpotqa",
            "supporting_facts",
            (SupportingFact("Rory Kostjasyn", 1), SupportingFact("Melbourne Storm", 0)),
        ),
        (
            "2wikimultihopqa:2wikimultihopqa",
            "triples",
            (
                Triple("Eric Khoo Heng-Pheng", "date of death", "13 January 2014"),
                Triple("Jeon Myeong-un", "date of death", "19 November 1947"),
            ),
        ),
        (
            "strategyqa:strategyqa/strategyqa_train.json",
            "supporting_facts",
            (
                SupportingFact(text="Apartheid lasted from 1948 until the early 1990s."),
                SupportingFact(text="Actress Elle Fanning was born on April 9, 1998."),
                SupportingFact("Elle Fanning", 1),
                SupportingFact("Apartheid", 1),
                SupportingFact("Elle Fanning", 5),
                SupportingFact("Apartheid", 153),
            ),
        ),
        (
            "openbookqa:openbookqa/Additional/test_complete.jsonl",
            "supporting_facts",
            (SupportingFact(text="fog is formed by water vapor condensing in the air"),),
        ),
        (
            "webqa:webqa_zh",
            "context",
            (ContextPassage("", "武则天最初是唐太宗李世民的后宫中的才人，曾受宠幸", "supporting"),),
        ),
    ],
)
def test_the_evidence_of_the_first_question(shared_data, spec, name, value):
    assert getattr(load(shared_data(spec)).examples[0], name) == value


@pytest.mark.parametrize(
    ("spec", "roles", "begins"),
    [
        ("hotpotqa:hotpotqa", {"distractor": 8, "supporting": 2}, "Rory Kostjasyn (born 6 June 1987) is a former"),
        ("nq:nq/nq-open-oracle.jsonl", {"supporting": 1}, ""),
        ("rgb-en:rgb/en_fact.json", {"supporting": 2, "counterfactual": 2}, ""),
    ],
)
def test_the_passages_of_the_first_question(shared_data, spec, roles, begins):
    context = load(shared_data(spec)).examples[0].context
    found = Counter(passage.role for passage in context)
    assert {role: found[role] for role in roles} == roles
    assert context[0].text.startswith(begins)


def test_musique_has_the_paragraphs_behind_the_hops(shared_data):
    examples = load(shared_data("musique:musique")).examples
    facts = [(fact.title, fact.position) for fact in examples[0].supporting_facts]
    assert facts == [("Mach number", 4), ("Vinko Dvořák", 5)]
    assert {len(example.context) for example in examples} == {20}
    assert all(len(e.quizzes) == len(e.quiz_answers) == int(e.id[0]) for e in examples)
    assert all(e.quiz_answers[-1] == e.answers[0] for e in examples)


def test_ids_stay_from_file_to_file_and_from_language_to_language(shared_data):
    ids = [set(load(shared_data(f"nq:nq/{name}")).ids) for name in ("NQ-open.dev.jsonl", "nq-open-oracle.jsonl")]
    assert ids[0] == ids[1]
    english, chinese = (shared_data(f"xquad-{one}:squad/xquad.{one}.json") for one in ("en", "zh"))
    assert load(english).ids == load(chinese).ids
    assert load(english, sample=20).ids == load(chinese, sample=20).ids


def test_an_answer_of_rgb_with_two_parts(shared_data):
    examples = {e.id: e for e in load(shared_data("rgb-zh:rgb/zh_fact.json")).examples}
    assert examples["13"].answers == ("澳大利亚, 悉尼",)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("nq:musique/musique_ans_v1.0_dev.jsonl", r"line 1: answer must be list or tuple, not str"),
        ("musique:nq/NQ-open.dev.jsonl", "line 1: there is no question_decomposition"),
        ("hotpotqa:2wikimultihopqa/dev.json", "record 1: it has evidences, as a record of 2WikiMultihopQA"),
        ("2wikimultihopqa:hotpotqa/hotpot_train_v1.1.json", "record 1: there is no evidences"),
        ("strategyqa:hotpotqa/hotpot_train_v1.1.json", "record 1: answer must be bool, not str"),
        ("squad:webqa_zh/me_test.ann.json", "an object with the list data is expected, as SQuAD has it"),
        ("webqa:squad/xquad.en.json", "record 1: an object is expected, not str"),
        ("triviaqa:nq/NQ-open.dev.jsonl", "line 1: answer must be dict, not list"),
        ("triviaqa:squad/xquad.en.json", "an object with the list Data is expected"),
        ("webquestions:triviaqa/test.jsonl", "line 1: there is neither qText, utterance nor url"),
        ("chinese-simpleqa:nq/NQ-open.dev.jsonl", "line 1: there is no primary_category"),
        ("openbookqa:nq/NQ-open.dev.jsonl", "line 1: question must be dict, not str"),
        ("mmlu:freshqa/freshqa.csv", "line 1: there are 20 cells, 6 are expected"),
        ("cmmlu:freshqa/freshqa.csv", "no line has the columns , Question, A, B, C, D, Answer"),
        ("freshqa:cmmlu/test/agronomy.csv", "no line has the columns id, split, question, answer_0"),
        ("sogouqa:hotpotqa/hotpot_train_v1.1.json", "record 1: there is no passages"),
        ("rgb-en:nq/NQ-open.dev.jsonl", "line 1: there is no id"),
        ("nq:freshqa/freshqa.csv", "line 1: malformed JSON"),
    ],
)
def test_a_file_of_another_format_is_refused(shared_data, wrong, message):
    spec = shared_data(wrong)
    with pytest.raises(InputError, match=message) as caught:
        load(spec)
    assert spec.partition(":")[2] in str(caught.value)
