"""Every use of DSPy that KEQA should stand, tried one by one: OK, or what fails.

    python examples/dspy_compatibility.py

No network and no key is needed: a scripted language model answers, and where a model in this process matters the one
that comes with KEQA. Each row is a short program to copy from; they are in the folder dspy_uses.
"""

import contextlib
import io
import logging
import tempfile
from collections.abc import Callable

import dspy
from dspy_uses import calling, optimizing, retrieving, rollouts, saving, streaming

import keqa

ROWS = [
    calling.configure_and_context,
    calling.nested_with_its_predictors,
    calling.evaluate,
    calling.parallel_and_batch,
    calling.acall_and_asyncify,
    calling.usage_callbacks_and_history,
    calling.cache,
    calling.adapters,
    calling.deepcopy_and_reset_copy,
    optimizing.bootstrap,
    optimizing.random_search,
    optimizing.gepa,
    optimizing.mipro,
    optimizing.simba,
    optimizing.copro,
    optimizing.knn,
    optimizing.better_together,
    saving.nested_with_its_own_lms,
    saving.parent_save_and_load,
    saving.load_keeps_the_reference,
    streaming.streamify,
    streaming.streamify_async_with_a_local_lm,
    calling.majority,
    streaming.serializer_of_streaming,
    rollouts.best_of_n_and_refine,
    rollouts.best_of_n_and_refine_in_a_parent,
    rollouts.best_of_n_with_an_lm_a_role,
    rollouts.rollouts_differ,
    retrieving.wrong_retrievers_are_refused,
    retrieving.retrievers_of_other_makes,
    retrieving.faults_in_a_retriever_surface,
    optimizing.no_question_is_shown_its_own_labels,
    optimizing.bootstrap_finetune,
    optimizing.better_together_with_weights,
    calling.history,
    calling.as_tool,
    optimizing.compile_with_an_optimizer_and_a_metric,
    optimizing.compile_in_a_parent,
    retrieving.searches_in_traces,
    rollouts.a_plain_lm_draws_in_one_request,
]


def outcome(row: Callable[[], None]) -> str:
    """Try a use, without what optimizers print."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            row()
    except Exception as error:
        message = str(error).splitlines()[0] if str(error) else ""
        return f"{type(error).__name__}: {message}"[:120]
    return "OK"


if __name__ == "__main__":
    logging.disable(logging.ERROR)
    print(f"DSPy {dspy.__version__}, KEQA {keqa.__version__}\n")
    with tempfile.TemporaryDirectory() as kept:
        # Nothing comes from an earlier run, and nothing is left behind.
        dspy.configure_cache(disk_cache_dir=kept)
        found = [(str(row.__doc__).rstrip("."), outcome(row)) for row in ROWS]
    for name, result in found:
        print(f"OK     {name}" if result == "OK" else f"FAILS  {name}: {result}")
    print(f"\n{sum(result == 'OK' for _, result in found)} of {len(found)} uses are OK")
