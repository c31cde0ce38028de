"""What a compilation costs is known to the next run, however this one ended."""

from __future__ import annotations

import pytest

from keqa.errors import StorageError
from keqa.optimize.metering import Meter
from keqa.programs.records import CallCost
from keqa.storage.journal import Journal


def cost(calls, read, written):
    return CallCost(calls=calls, prompt_tokens=read, completion_tokens=written)


USED = {"prompt_tokens": 10, "completion_tokens": 3}


def test_a_kill_loses_no_more_than_the_last_requests(tmp_path):
    with Journal.open(tmp_path / "j", {}) as journal:
        meter = Meter(journal)
        for _ in range(120):
            meter.add_usage("lm", USED)
        assert meter.spent == cost(120, 1200, 360)
    # Nothing was kept at the end, as where the process is killed.
    with Journal.open(tmp_path / "j", {}) as journal:
        again = Meter(journal)
        assert again.earlier == cost(100, 1000, 300)
        again.add_usage("lm", USED)
        again.keep()
        assert Meter(journal).earlier == cost(101, 1010, 303)


def test_a_forged_count_is_refused(tmp_path):
    with Journal.open(tmp_path / "j", {}) as journal:
        journal.put("spent", {"calls": "many"})
    with Journal.open(tmp_path / "j", {}) as journal, pytest.raises(StorageError, match=r"damaged at .*calls: Input"):
        Meter(journal)
