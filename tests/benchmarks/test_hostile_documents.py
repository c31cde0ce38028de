"""Nothing that reads what strangers wrote takes more than its length."""

import sys

import hostile_documents
import pytest

pytestmark = [
    *(pytest.mark.process, pytest.mark.slow),
    pytest.mark.skipif(sys.platform != "linux", reason="what another process takes is read from /proc"),
]


@pytest.mark.parametrize("name", hostile_documents.PATTERNS)
def test_eight_times_as_much_takes_eight_times_as_long(name, tmp_path):
    ratio, costs = hostile_documents.grown(name, 4 << 10, tmp_path)
    assert ratio < hostile_documents.MOST_RATIO, costs
