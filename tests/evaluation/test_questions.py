import json

import pytest
from fixtures.run_files import towns

from keqa.errors import InputError
from keqa.evaluation.questions import of_name, of_testbed, of_training, without_learned
from keqa.programs.calls.predictor import NOTHING


@pytest.fixture
def mine(tmp_path):
    """Writes a file of questions, of which a text is written as it is."""

    def write(*rows, name="mine.jsonl"):
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
        return str(tmp_path / name)

    return write


def ids(questions):
    return [example.id for example in questions.examples]


@pytest.mark.parametrize(("split", "limit"), [("half", None), ("test", 0), ("test", 10_000)])
def test_questions_that_the_testbed_has_not(split, limit):
    with pytest.raises(InputError, match="the testbed"):
        of_testbed(split, limit)


def test_rowen_answers_in_another_language_than_that_of_a_benchmark(tmp_path, mine):
    line = {"id": "z", "primary_category": "影视", "question": "《飞屋环游记》的导演是谁？", "answer": "彼特·道格特"}
    found = of_name(f"Chinese-SimpleQA:{mine(line)}")
    assert found.settings == of_name("chinese-simpleqa", tmp_path / "mine.jsonl").settings
    assert found.settings == {
        "rowen": {"language": "English", "reason": False},
        "self-rag": {"reason": False},
        "slimplm": {"reason": False},
    }
    nq = of_name(f"nq:{mine({'question': 'who?', 'answer': ['Ann']})}")
    assert nq.settings == {name: {"reason": False} for name in ("rowen", "self-rag", "slimplm")}


def test_what_cannot_be_used_of_a_file_is_told(mine):
    found = of_name(mine(towns(3)[0], "not JSON", [1], {"question": "Who?"}, *towns(3)[1:]))
    assert ids(found) == ["t0", "t1", "t2"]
    assert (found.dataset, found.split, found.seed) == ("mine.jsonl", "", 0)
    places = [told.rpartition("mine.jsonl, ")[2].split(":")[0] for told in found.problems]
    assert places == ["line 2", "line 3", "line 4"]


def test_a_limit_takes_the_first_of_a_sample(mine):
    file = mine(*towns(50))
    few, all_ = (of_name(file, sample=10, seed=1, limit=limit) for limit in (3, None))
    assert (few.seed, ids(few), len(ids(all_))) == (1, ids(all_)[:3], 10)


@pytest.mark.parametrize("folder", [True, False])
def test_a_benchmark_of_a_file_or_folder_is_called_by_its_name(mine, tmp_path, folder):
    rows = [{"question": f"who governs town {n}", "answer": [f"Mayor{n}"]} for n in range(3)]
    path = mine(*rows, name="NQ-open.dev.jsonl")
    found = of_name("nq", tmp_path, limit=2) if folder else of_name(f"nq:{path}", limit=2)
    assert (found.dataset, len(list(found.examples))) == ("nq", 2)


def test_training_questions_say_how_many_hops_their_data_set_has(mine):
    nq = mine(*({"question": f"Who governs Town{n}?", "answer": [f"Mayor{n}"]} for n in range(3)), name="nq.jsonl")
    one = of_training([f"nq:{nq}"], sample=2)
    assert [example.one_hop for example in one.examples] == [True, True]
    assert not any(name.startswith("nq/") for name in ids(one))
    record = {"_id": "h", "question": "Who?", "answer": "Ann", "supporting_facts": []}
    hotpot = mine(json.dumps([record]), name="hotpot.json")
    both = of_training([f"nq:{nq}", f"hotpotqa:{hotpot}"])
    assert [example.one_hop for example in both.examples] == [True, True, True, False]
    assert ids(both)[-1] == "hotpotqa/h"


@pytest.mark.parametrize("sources", [["mine.jsonl"], ["nq", "nq:there"], ["testbed"]])
def test_only_benchmarks_and_each_once(sources):
    with pytest.raises(InputError, match=r"no benchmark|named twice"):
        of_training(sources)


def test_a_sample_without_what_was_learned_from_is_filled_with_the_next(mine):
    file = mine(*towns(8))
    whole = of_name(file, sample=8)
    learned = NOTHING.and_from([whole.examples[0], whole.examples[2]], [])
    found = without_learned(of_name(file, sample=3 + 2), learned, 3)
    assert ids(found) == [ids(whole)[place] for place in (1, 3, 4)]
    assert found.left_out == {"learned from": 2}
    untouched = without_learned(of_name(file, sample=3), NOTHING, 3)
    assert (ids(untouched), untouched.left_out) == (ids(of_name(file, sample=3)), {})
    with pytest.raises(InputError, match=r"all 8 questions of mine\.jsonl"):
        without_learned(whole, NOTHING.and_from(whole.examples, []), 8)
