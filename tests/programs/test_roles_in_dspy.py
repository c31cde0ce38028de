"""Language models by role, whatever DSPy does to a program or to a user's module that contains it.

Two real servers on this machine, one for the task and one for the judges, count what they are asked. The models' names
are of providers with public addresses, where a request would go that has lost its server's.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import dspy
import pytest
from conftest import ScriptedEngine
from fixtures import one_quiz
from servers.openai_server import OpenAIServer, markers

import keqa
from keqa.programs import KEQA

TASK_KEY, JUDGE_KEY = "sk-task-0123456789", "sk-judge-0123456789"
OF_THE_TASK = {"DecomposeQuestion", "AnswerQuiz", "AnswerWithKnowledge", "Summarize"}
OF_JUDGES = {"JudgeConsistency", "JudgeUtility"}


class Servers:
    """The two servers, and what each was asked by signature."""

    def __init__(self) -> None:
        self.asked: dict[str, Counter[str]] = {"task": Counter(), "judge": Counter()}
        self.bodies: list[dict[str, Any]] = []
        self._engines = {role: ScriptedEngine(self._reply(role)) for role in self.asked}
        self.task = OpenAIServer(self._served("task"), api_key=TASK_KEY)
        self.judge = OpenAIServer(self._served("judge"), api_key=JUDGE_KEY)

    def _reply(self, role: str) -> Any:
        def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
            self.asked[role][name] += 1
            return {**one_quiz.REPLIES, "AnswerQuiz": {"answer": f"Ann {self.asked[role][name]}"}}[name]

        return reply

    def _served(self, role: str) -> Any:
        def served(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
            self.bodies.append(body)
            text = {message["role"]: message["content"] for message in messages}
            request = dspy.lm15.Request(
                model="m", system=text["system"], messages=(dspy.lm15.Message.user(text["user"]),)
            )
            return [self._engines[role].complete(request).message.text or markers() for _ in range(n)]

        return served

    def clear(self) -> None:
        """Forget what was asked."""
        for counter in self.asked.values():
            counter.clear()
        self.bodies.clear()

    def check(self) -> None:
        """Each server was asked what its role asks, all of it, and nothing else."""
        assert set(self.asked["task"]) == OF_THE_TASK
        assert set(self.asked["judge"]) == OF_JUDGES
        assert {call.status for server in (self.task, self.judge) for call in server.calls} == {200}


@pytest.fixture
def servers(monkeypatch) -> Iterator[Servers]:
    """Started; a request to any other address fails at once."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    # What would reach a provider's own address: nothing listens on this proxy.
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Servers()
    with made.task, made.judge:
        yield made


@pytest.fixture
def lms(servers) -> keqa.Roles:
    settings: dict[str, Any] = {"num_retries": 0, "cache": False}
    task = keqa.build_lm("openai/gpt-4o", api_base=servers.task.api_base, api_key=TASK_KEY, **settings)
    judge = keqa.build_lm("mistral/judge", api_base=servers.judge.api_base, api_key=JUDGE_KEY, **settings)
    return keqa.Roles(task=task, consistency=judge, utility=judge)


@pytest.fixture
def unasked() -> keqa.Roles:
    """Two language models where nothing listens."""
    task, judge = (
        keqa.build_lm(name, api_base="http://127.0.0.1:9/v1", api_key="any") for name in ("openai/a", "openai/b")
    )
    return keqa.Roles(task=task, consistency=judge, utility=judge)


class Nesting(dspy.Module):
    """A user's module with a program in it."""

    def __init__(self, program: KEQA) -> None:
        super().__init__()
        self.qa = program

    def forward(self, question: str) -> dspy.Prediction:
        return dspy.Prediction(answer=self.qa(question=question).answer)


def asked(module: Any) -> str:
    return str(module(question="Who is it?").answer)


@pytest.fixture
def nesting(lms, retriever) -> Nesting:
    assert dspy.settings.lm is None
    return Nesting(KEQA(retriever("text"), lms=lms, tries=3))


@pytest.mark.process
@pytest.mark.parametrize("change", ["none", "deepcopy", "reset_copy", "load_state", "load"])
def test_a_nested_program_asks_its_own_servers(servers, nesting, change, tmp_path):
    if change in ("deepcopy", "reset_copy"):
        nesting = getattr(nesting, change)()
    elif change == "load_state":
        nesting.load_state(nesting.dump_state())
    elif change == "load":
        nesting.save(tmp_path / "parent.json")
        nesting.load(tmp_path / "parent.json", allow_unsafe_lm_state=True)
    assert asked(nesting) == "Ann"
    servers.check()


@pytest.mark.process
def test_a_parents_saved_state_names_no_server_model_or_key(servers, nesting, tmp_path):
    nesting.save(tmp_path / "parent.json")
    text = (tmp_path / "parent.json").read_text()
    found = json.loads(text)
    assert {part["lm"] for part in found.values() if "demos" in part} == {None}
    for secret in (TASK_KEY, JUDGE_KEY, "127.0.0.1", "gpt-4o", "mistral"):
        assert secret not in text


@pytest.mark.process
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
def test_optimizers_leave_each_role_its_server(servers, lms, nesting, optimizer):
    made = optimizer()
    train = [dspy.Example(question=f"Who is it? {place}", answer="Ann").with_inputs("question") for place in range(2)]
    if isinstance(made, dspy.SIMBA):
        # It asks the language model of the settings for advice, and finds that of a program in the program alone.
        with dspy.context(lm=lms.task):
            compiled = made.compile(nesting.qa, trainset=train, seed=1)
    else:
        compiled = made.compile(nesting, trainset=train)
    if isinstance(made, dspy.BootstrapFewShot):
        assert len(compiled.qa.summarizing.summarize.demos) == 2
    servers.clear()
    assert asked(compiled) == "Ann"
    servers.check()


def test_the_task_with_several_language_models_has_no_one(unasked):
    program = KEQA(None, lms=unasked)
    program.answering.answer.lm = unasked.utility
    with pytest.raises(ValueError, match="several language models"):
        program.get_lm()
    assert program.reset_copy().answering.answer.lm is unasked.utility
