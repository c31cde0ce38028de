"""MLflow draws a question whole: the program, what its language model was asked, and each search with what it found."""

import asyncio
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import dspy
import pytest

from keqa.programs.keqa import KEQA

# MLflow's warnings are of MLflow and its database alone.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("mlflow"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    """Knows where Ann lives, and in which country that is not."""
    if name == "DecomposeQuestion":
        return {"quizzes": '["In which city does Ann live?", "In which country is #1?"]'}
    if name == "JudgeConsistency":
        return {"same": False}
    if name == "JudgeUtility":
        return {"helpful": "Norway" in inputs["passage"]}
    if name == "AnswerQuiz":
        return {"answer": "Bergen" if "city" in inputs["quiz"] else f"Land {config.seed}"}
    return {"answer": "Norway", "explanation": "Bergen is there."}


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory) -> Iterator[Any]:
    """MLflow with an empty database of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
        why = "MLflow is not installed: pip install --constraint constraints.txt mlflow-skinny"
        found = pytest.importorskip("mlflow", reason=why)
        found.set_tracking_uri(f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db")
        yield found
        found.set_tracking_uri(None)


@pytest.fixture
def traces(mlflow, request) -> Iterator[Any]:
    """Turns MLflow's autolog on, and reads the spans of each trace of this test."""
    import mlflow.dspy
    from mlflow.utils.autologging_utils.safety import revert_patches

    mlflow.set_experiment(request.node.name)
    usage = dspy.settings.track_usage
    mlflow.dspy.autolog()
    yield lambda: [trace.data.spans for trace in mlflow.search_traces(return_type="list")]
    mlflow.dspy.autolog(disable=True)
    # It leaves its patches of DSPy's optimizers behind, and the counting of tokens on.
    revert_patches("dspy")
    dspy.configure(track_usage=usage)


@pytest.fixture
def program(programmed, retriever):
    program, engine = programmed(
        KEQA(retriever("Bergen is a city in Norway.", "Rome is a city in Italy."), top_k=2), reply
    )
    return program, engine


ASKED = "In which country does Ann live?"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_question_is_one_trace_with_its_searches(traces, program, asynchronous):
    program, engine = program
    prediction = asyncio.run(program.acall(question=ASKED)) if asynchronous else program(question=ASKED)
    assert prediction.answer == "Norway"

    (spans,) = traces()
    by_name = groupby(sorted(spans, key=name_of), key=name_of)
    found = {name: list(group) for name, group in by_name}
    (whole,) = found["KEQA.forward"]
    assert (whole.parent_id, whole.inputs["question"], whole.outputs["answer"]) == (None, ASKED, "Norway")
    assert {one.parent_id for one in spans} <= {None, *(one.span_id for one in spans)}
    assert [one for one in spans if one.parent_id is None] == [whole]

    (search,) = found["Tool.search"]
    assert search.parent_id == whole.span_id
    assert search.inputs == {"query": "In which country is Bergen?", "k": 2}
    assert search.outputs == [
        {"title": "", "passage_id": "p0", "text": "Bergen is a city in Norway.", "score": 10.0},
        {"title": "", "passage_id": "p1", "text": "Rome is a city in Italy.", "score": 9.0},
    ]

    stages = {"Decomposition", "Examination", "Picking", "Answering", "Summarizing"}
    assert {f"{stage}.forward" for stage in stages} < found.keys()
    asked = ["\n".join(message["content"] for message in one.inputs["messages"][1:]) for one in found["LM.__call__"]]
    assert sorted(asked) == sorted(engine.prompts)
    assert {one.status.status_code.value for one in spans} == {"OK"}


def name_of(span: Any) -> str:
    return str(span.name)
