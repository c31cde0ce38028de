"""Language models by role, whatever DSPy does to a program or to a user's module that contains it."""

import json
from typing import Any

import dspy
import pytest
from fixtures.one_quiz import REPLIES, Nesting
from fixtures.replies import Replies

import keqa
from keqa.programs import KEQA
from keqa.programs.boundary import PromptedModel
from keqa.programs.gates import BoundaryGate

TASK_KEY, JUDGE_KEY = "sk-task-0123456789", "sk-judge-0123456789"
OF_THE_TASK = {"DecomposeQuestion", "AnswerQuiz", "AnswerWithKnowledge", "Summarize"}
OF_JUDGES = {"JudgeConsistency", "JudgeUtility"}


@pytest.fixture
def engines(scripted):
    """The language models of the task and of the judges, each with its engine."""
    return [scripted(Replies(**REPLIES, AnswerQuiz=lambda i, c: {"answer": f"Ann {c.seed}"})) for _ in range(2)]


@pytest.fixture
def nesting(engines, retriever) -> Nesting:
    assert dspy.settings.lm is None
    (task, _), (judge, _) = engines
    return Nesting(KEQA(retriever("text"), lms=keqa.Roles(task=task, consistency=judge, utility=judge), tries=3))


def check(module: Any, engines: Any) -> None:
    """Each is asked what its role asks, all of it, and nothing else."""
    for _, engine in engines:
        engine.calls.clear()
    assert module(question="Who is it?").answer == "Ann"
    assert [set(engine.count) for _, engine in engines] == [OF_THE_TASK, OF_JUDGES]


@pytest.mark.parametrize("change", ["none", "deepcopy", "reset_copy", "load_state", "load"])
def test_a_nested_program_asks_its_own_language_models(engines, nesting, change, tmp_path):
    if change in ("deepcopy", "reset_copy"):
        program, nesting = nesting.qa, getattr(nesting, change)()
        assert nesting.qa.summarizing.summarize is not program.summarizing.summarize
        assert (nesting.qa.bound, nesting.qa.retriever) == (program.bound, program.retriever)
    elif change == "load_state":
        nesting.load_state(nesting.dump_state())
    elif change == "load":
        nesting.save(tmp_path / "parent.json")
        nesting.load(tmp_path / "parent.json", allow_unsafe_lm_state=True)
    check(nesting, engines)


@pytest.mark.parametrize("before", [True, False])
def test_the_language_model_that_a_parent_sets_judges_the_boundary_as_well(scripted, engines, retriever, before):
    roles = keqa.Roles(*[engines[0][0]] * 3) if before else None
    nesting = Nesting(KEQA(retriever("text"), lms=roles, gate=BoundaryGate(PromptedModel())))
    replies = REPLIES | {"JudgeKnowledge": {"mastery": True, "certainty": True}, "AnswerQuiz": {"answer": "Ann"}}
    lm, engine = scripted(Replies(**replies))
    nesting.set_lm(lm)
    assert nesting(question="Who is it?").answer == "Ann"
    assert engine.count["JudgeKnowledge"] == 1
    assert not engines[0][1].calls


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: dspy.LabeledFewShot(k=1),
        lambda: dspy.BootstrapFewShot(metric=lambda *_: True, max_bootstrapped_demos=2, max_labeled_demos=0),
        lambda: dspy.BootstrapFewShotWithRandomSearch(
            metric=lambda *_: True, num_candidate_programs=1, max_labeled_demos=0, num_threads=1
        ),
        lambda: dspy.SIMBA(metric=lambda *_: 1.0, bsize=2, num_candidates=2, max_steps=1, num_threads=1),
    ],
)
def test_optimizers_leave_each_role_its_language_model(engines, nesting, optimizer):
    made = optimizer()
    train = [dspy.Example(question=f"Who is it? {place}", answer="Ann").with_inputs("question") for place in range(2)]
    if isinstance(made, dspy.SIMBA):
        # It asks the language model of the settings for advice, and finds that of a program in the program alone.
        with dspy.context(lm=engines[0][0]):
            compiled = made.compile(nesting.qa, trainset=train, seed=1)
    else:
        compiled = made.compile(nesting, trainset=train)
    if isinstance(made, dspy.BootstrapFewShot):
        assert len(compiled.qa.summarizing.summarize.demos) == 2
    check(compiled, engines)


@pytest.fixture
def served() -> keqa.Roles:
    """Two language models where nothing listens."""
    base = "http://127.0.0.1:9/v1"
    task, judge = (
        keqa.build_lm(name, api_base=base, api_key=key)
        for name, key in (("openai/gpt-4o", TASK_KEY), ("mistral/judge", JUDGE_KEY))
    )
    return keqa.Roles(task=task, consistency=judge, utility=judge)


def test_a_parents_saved_state_names_no_server_model_or_key(served, tmp_path):
    Nesting(KEQA(None, lms=served)).save(tmp_path / "parent.json")
    text = (tmp_path / "parent.json").read_text()
    assert {part["lm"] for part in json.loads(text).values() if "demos" in part} == {None}
    for secret in (TASK_KEY, JUDGE_KEY, "127.0.0.1", "gpt-4o", "mistral"):
        assert secret not in text


def test_the_task_with_several_language_models_has_no_one(served):
    program = KEQA(None, lms=served)
    program.answering.answer.lm = served.utility
    with pytest.raises(ValueError, match="several language models"):
        program.get_lm()
    assert program.reset_copy().answering.answer.lm is served.utility
