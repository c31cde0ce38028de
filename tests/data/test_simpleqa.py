import pytest

from keqa.data import BENCHMARKS, Example
from keqa.errors import InputError

simpleqa = BENCHMARKS["chinese-simpleqa"].convert

RECORD = {"id": "z1", "primary_category": "文化", "question": "《飞屋环游记》的导演是谁？", "answer": "彼特·道格特"}


def test_a_record():
    assert simpleqa(RECORD) == Example("z1", "《飞屋环游记》的导演是谁？", ("彼特·道格特",))


@pytest.mark.parametrize("missing", ["id", "primary_category", "question", "answer"])
def test_what_is_missing_is_reported(missing):
    with pytest.raises(InputError, match=f"there is no {missing}"):
        simpleqa({name: value for name, value in RECORD.items() if name != missing})
