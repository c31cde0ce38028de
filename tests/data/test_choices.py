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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answerKey": "E"}, "answerKey is 'E', and there are the choices A, B"),
        ({"answerKey": None}, "there is no answerKey"),
        ({"question": "There is fog around"}, "question must be dict, not str"),
        ({"question": {"stem": "There is fog around"}}, "there is no choices"),
        ({"question": {**FOG["question"], "stem": None}}, "there is no question"),
        (
            {"question": {"stem": "?", "choices": {"label": ["A", "B"], "text": ["rain"]}}},
            "answerKey is 'B', and there",
        ),
    ],
)
def test_what_is_malformed_in_openbookqa(change, message):
    with pytest.raises(InputError, match=message):
        openbookqa({**FOG, **change})


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


def test_choices_of_mmlu_are_a_list():
    with pytest.raises(InputError, match="choices must be list or tuple, not int"):
        mmlu({"question": "Two?", "choices": 4, "subject": "algebra", "answer": "B"})


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
