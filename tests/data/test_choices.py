import pytest

from keqa.data import BENCHMARKS, Example, SupportingFact
from keqa.errors import InputError

cmmlu, mmlu, openbookqa = (BENCHMARKS[name].convert for name in ("cmmlu", "mmlu", "openbookqa"))

FOG = {
    "id": "7",
    "question": {
        "stem": "There is fog around",
        "choices": [{"text": "a marsh", "label": "A"}, {"text": "the plains", "label": "B"}],
    },
    "fact1": "fog is formed by water vapor",
    "answerKey": "B",
}
FOG_HUB = {
    "id": "7",
    "question_stem": "There is fog around",
    "choices": {"text": ["a marsh", "the plains"], "label": ["A", "B"]},
    "fact1": "fog is formed by water vapor",
    "answerKey": "B",
}


@pytest.mark.parametrize("record", [FOG, FOG_HUB, {**FOG_HUB, "choices": FOG["question"]["choices"]}])
def test_openbookqa(record):
    assert openbookqa(record) == Example(
        id="7",
        question="There is fog around",
        answers=("the plains",),
        answer_type="choice",
        choices=("a marsh", "the plains"),
        supporting_facts=(SupportingFact(text="fog is formed by water vapor"),),
    )


def test_mmlu_and_its_copy_on_the_hub_are_one_example():
    plain = {"question": "Two?", "A": "one", "B": "two", "C": "three", "D": "four", "answer": "B"}
    hub = {"question": "Two?", "choices": ["one", "two", "three", "four"], "answer": 1}
    examples = [mmlu({**record, "subject": "algebra"}) for record in (plain, hub)]
    assert examples[0] == examples[1]
    assert examples[0].id.startswith("algebra/q-")
    assert (examples[0].answers, examples[0].choices) == (("two",), ("one", "two", "three", "four"))


@pytest.mark.parametrize("answer", ["E", "", "BC", 4, -1, None, True])
def test_an_answer_that_is_no_option(answer):
    record = {"question": "Two?", "choices": ["one", "two", "three", "four"], "subject": "algebra", "answer": answer}
    with pytest.raises(InputError, match="the answer must be a letter from A to D, not"):
        mmlu(record)


@pytest.fixture
def folder(write_json):
    write_json("mmlu/test/algebra_test.csv", 'Two?,one,two,three,four,B\n"Three, then?",one,two,three,four,C\n')
    write_json("mmlu/test/zoology_test.csv", "Two?,one,two,three,four,B\n")
    return write_json("mmlu/dev/algebra_dev.csv", "Four?,one,two,three,four,D\n").parents[1]


def test_a_folder_of_subjects(folder):
    loaded = BENCHMARKS["mmlu"].load(folder)
    assert [(example.id.partition("/")[0], example.answers[0]) for example in loaded.examples] == [
        ("algebra", "two"),
        ("algebra", "three"),
        ("zoology", "two"),
    ]
    assert BENCHMARKS["mmlu"].load(folder, split="test") == loaded
    assert BENCHMARKS["mmlu"].load(folder / "test") == loaded
    assert BENCHMARKS["mmlu"].load(folder, split="dev").examples[0].answers == ("four",)
    assert BENCHMARKS["mmlu"].load(folder / "dev" / "algebra_dev.csv").examples[0].question == "Four?"


@pytest.mark.parametrize("split", ["train", "test/algebra_test.csv"])
def test_a_folder_that_is_not_there(folder, split):
    with pytest.raises(InputError, match=r"is no folder of \.csv files"):
        BENCHMARKS["mmlu"].load(folder, split=split)


def test_cmmlu(write_json):
    path = write_json(
        "cmmlu/anatomy.csv", "\ufeff,Question,A,B,C,D,Answer\n12,二？,一,二,三,四,B\n,三？,一,二,三,四,C\n"
    )
    loaded = BENCHMARKS["cmmlu"].load(path)
    assert loaded.examples == [Example("anatomy/12", "二？", ("二",), "choice", ("一", "二", "三", "四"))]
    assert [(problem.line, problem.message) for problem in loaded.problems] == [(3, "there is no index")]


def test_a_row_of_cmmlu_without_a_choice():
    row = {"": "1", "Question": "二？", "A": "一", "B": " ", "C": "三", "D": "四", "Answer": "A", "subject": "anatomy"}
    with pytest.raises(InputError, match=r"the choices\[1\] is empty"):
        cmmlu(row)


def test_options_beyond_four():
    row = {"question": "Six?", "choices": ["1", "2", "3", "4", "5", "6"], "answer": "F", "subject": "algebra"}
    assert mmlu(row).answers == mmlu({**row, "answer": 5}).answers == ("6",)
    with pytest.raises(InputError, match="the answer must be a letter from A to F, not 'G'"):
        mmlu({**row, "answer": "G"})


def test_the_train_part_of_mmlu(write_json, folder):
    write_json("mmlu/auxiliary_train/race.csv", "Five?,five,six,,,A\n")
    (example,) = BENCHMARKS["mmlu"].load(folder, split="train").examples
    assert (example.id.partition("/")[0], example.answers, example.choices) == ("race", ("five",), ("five", "six"))
    # The hub's copy of it has no subject.
    row = {"question": "Two?", "subject": "", "choices": ["one", "two", "three", "four"], "answer": 1}
    assert mmlu(row).id.startswith("auxiliary_train/q-")


MLEC = {
    "qid": "Clinic_7",
    "qtype": "A1型题",
    "qtext": "哪种疾病？",
    "qimage": "",
    "options": {"A": "甲", "B": "乙", "C": "丙", "D": "丁", "E": "戊"},
    "answer": "E",
}


def test_mlec_has_five_options(write_json):
    folder = write_json("mlec/Clinic_test.json", [MLEC, {**MLEC, "qid": "Clinic_8", "qimage": "8.png"}]).parent
    write_json("mlec/TCM_test.json", [{**MLEC, "qid": "TCM_1", "answer": "A"}])
    write_json("mlec/TCM_dev.json", [{**MLEC, "qid": "TCM_2", "answer": "B"}])
    mlec = BENCHMARKS["mlec"]
    loaded = mlec.load(folder)
    assert [(one.id, one.answers) for one in loaded.examples] == [("Clinic/Clinic_7", ("戊",)), ("TCM/TCM_1", ("甲",))]
    assert loaded.examples[0].choices == ("甲", "乙", "丙", "丁", "戊")
    assert loaded.left_out == {"with an image or table": 1}
    assert mlec.load(folder, split="val").ids == ["TCM/TCM_2"]
    assert mlec.load(folder / "TCM_dev.json").ids == ["TCM/TCM_2"]
    with pytest.raises(InputError, match=r"holds no file such as Clinic_train\.json"):
        mlec.load(folder, split="train")
    with pytest.raises(InputError, match="is one file, which is one split"):
        mlec.load(folder / "TCM_dev.json", split="dev")
