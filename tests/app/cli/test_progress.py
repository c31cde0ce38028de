import copy
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import dspy

from keqa.cli.console import Bars

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def test_calls_of_many_threads_are_all_counted_and_not_kept():
    with Bars() as bars:
        tracker = dspy.settings.usage_tracker
        tracemalloc.start()
        with ThreadPoolExecutor(8) as pool:
            # As DSPy does it: a copy in each thread.
            list(pool.map(lambda _: [copy.deepcopy(tracker).add_usage("lm", USAGE) for _ in range(500)], range(40)))
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        bars.report("keqa", 1, 2)
        assert bars.calls == 20_000
    # A dictionary a call would be 4 MB.
    assert kept < 200_000
