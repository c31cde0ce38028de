import re

import pytest

from keqa.data import BENCHMARKS, load
from keqa.errors import InputError

RECORD = {"question": "who directed up", "answer": ["Pete Docter"]}
HAS = {"aliases", "choices", "decomposition", "quiz answers", "supporting facts", "triples", "context"}


def test_the_benchmarks_of_the_papers_are_known():
    assert list(BENCHMARKS) == [
        *("nq", "triviaqa", "webquestions", "triviaqa-rc", "triviaqa-verified"),
        *("squad", "squad2", "xquad-en", "xquad-zh", "chinesesquad", "cmrc2018"),
        *("freshqa", "hotpotqa", "hotpotqa-fullwiki", "2wikimultihopqa", "musique", "strategyqa"),
        *("openbookqa", "mmlu", "cmmlu", "ceval", "xiezhi", "mlec"),
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


@pytest.mark.parametrize("name", ["cmmlu", "ceval", "xiezhi", "rgb-en", "rgb-zh"])
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
