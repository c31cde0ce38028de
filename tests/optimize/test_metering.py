"""What a compilation costs is known to the next run, however this one ended."""

from __future__ import annotations

import threading

import dspy
import pytest
from dspy.utils.usage_tracker import UsageTracker

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


def test_requests_of_many_threads_are_all_counted(tmp_path):
    with Journal.open(tmp_path / "j", {}) as journal:
        meter = Meter(journal)
        threads = [threading.Thread(target=lambda: [meter.add_usage("lm", USED) for _ in range(75)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Meter(journal).earlier == meter.spent == cost(300, 3000, 900)


class Around(UsageTracker):
    """Who counts around a compilation, such as ``dspy.track_usage()``."""

    def __init__(self):
        super().__init__()
        self.told = []

    def add_usage(self, lm, usage_entry):
        self.told.append((lm, usage_entry))


def test_who_counts_around_a_compilation_is_told_of_each_request(tmp_path):
    around = Around()
    with Journal.open(tmp_path / "j", {}) as journal, dspy.context(usage_tracker=around):
        meter = Meter(journal)
        meter.add_usage("openai/one", USED)
        meter.add_usage("openai/two", {"prompt_tokens": None})
        meter.add_failed()
        meter.keep()
        kept = journal.get("spent")
    assert around.told == [("openai/one", USED), ("openai/two", {"prompt_tokens": None}), ("", {})]
    # A request without a reply, or without a word on its usage, counts and took no tokens that are known.
    assert meter.spent == CallCost(calls=3, samples=3, prompt_tokens=10, completion_tokens=3)
    assert kept == {"calls": 3, "prompt_tokens": 10, "completion_tokens": 3}


def test_a_run_that_asked_nothing_keeps_nothing(tmp_path):
    with Journal.open(tmp_path / "j", {}) as journal:
        Meter(journal).keep()
        assert len(journal) == 0


def test_a_forged_count_is_refused(tmp_path):
    with Journal.open(tmp_path / "j", {}) as journal:
        journal.put("spent", {"calls": "many"})
    with Journal.open(tmp_path / "j", {}) as journal, pytest.raises(StorageError, match=r"damaged at .*calls: Input"):
        Meter(journal)
