import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keqa import data
from keqa.data import BENCHMARKS, Example, load
from keqa.data.records import LeftOut
from keqa.errors import InputError

RECORD = {"question": "who directed up", "answer": ["Pete Docter"]}
HAS = {"aliases", "choices", "decomposition", "quiz answers", "supporting facts", "triples", "context"}


def test_the_benchmarks_of_the_papers_are_known():
    assert list(BENCHMARKS) == [
        *("nq", "triviaqa", "webquestions", "triviaqa-rc", "triviaqa-verified", "freshqa"),
        *("hotpotqa", "hotpotqa-fullwiki", "2wikimultihopqa", "musique", "strategyqa"),
        *("openbookqa", "mmlu", "cmmlu", "mlec"),
        *("squad", "squad2", "xquad-en", "xquad-zh", "chinesesquad", "cmrc2018"),
        *("webqa", "sogouqa", "chinese-simpleqa", "rgb-en", "rgb-zh"),
    ]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_says_what_it_is(name):
    benchmark = BENCHMARKS[name]
    assert benchmark.name == name
    assert benchmark.title
    assert benchmark.licence
    assert benchmark.expected
    assert set(benchmark.has) <= HAS


@pytest.mark.parametrize("name", ["cmmlu", "rgb-en", "rgb-zh"])
def test_data_that_may_not_be_sold_says_so(name):
    assert "no commercial use" in BENCHMARKS[name].licence


def test_a_folder_with_the_authors_files(write_json):
    folder = write_json("NQ-open.dev.jsonl", [RECORD]).parent
    write_json("NQ-open.train.jsonl", [RECORD, {**RECORD, "question": "who directed down"}])
    assert len(load(f"nq:{folder}").examples) == 1
    assert len(load(f"nq:{folder}", split="validation").examples) == 1
    assert len(load(f"nq:{folder}", split="train").examples) == 2


@pytest.mark.parametrize(
    ("path", "split", "message"),
    [
        ("absent.jsonl", None, "absent.jsonl is not there; expected: NQ-open, lines of JSON objects"),
        ("", "train", "NQ-open.train.jsonl is not there"),
        ("", "verified", "NQ-open has the splits dev, train, not 'verified'"),
        ("NQ-open.dev.jsonl", "dev", "is one file, which is one split: leave the split 'dev' out"),
    ],
)
def test_what_is_not_there(write_json, path, split, message):
    folder = write_json("NQ-open.dev.jsonl", [RECORD]).parent
    with pytest.raises(InputError, match=re.escape(message)):
        load(f"nq:{folder / path}", split=split)


def test_records_that_a_program_holds():
    loaded = BENCHMARKS["nq"].from_rows([RECORD, {"question": "who"}])
    assert [example.answers for example in loaded.examples] == [("Pete Docter",)]
    assert [str(problem) for problem in loaded.problems] == ["example 2: there is no answer"]
    with pytest.raises(InputError, match=r"^the data given for nq holds no question that can be used"):
        BENCHMARKS["nq"].from_rows([])


# What the code of the loaders calls fields, with any JSON in them.
CODE = "".join(path.read_text() for path in Path(data.__file__).parent.glob("*.py"))
NAMES = sorted(set(re.findall(r'"([A-Za-z_]{1,24})"', CODE)))
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "A", "yes", "Who?", "\ud800"])
OBJECTS = st.dictionaries(st.sampled_from(NAMES), LEAVES | st.lists(LEAVES, max_size=3), max_size=6)
VALUES = LEAVES | OBJECTS | st.lists(LEAVES | OBJECTS | st.lists(LEAVES, max_size=3), max_size=3)


@pytest.mark.parametrize("name", BENCHMARKS)
@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=30))
def test_any_record_is_an_example_or_left_out_or_an_input_error(name, record):
    with suppress(InputError):
        assert isinstance(BENCHMARKS[name].convert(record), Example | LeftOut)
