"""``dspy.BestOfN`` and ``dspy.Refine`` over a user's module with a program in it: each attempt draws again."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from conftest import SayingEngine, ScriptedEngine, over
from dspy.lm15 import Message, Request, Response
from fixtures import one_quiz
from servers.openai_server import OpenAIServer, markers

import keqa
from keqa.programs import KEQA

QUESTION = "Who is it?"
ADVICE = {"qa.answering.answer": "Say it in one word.", "qa.decomposition.decompose": "One quiz is enough."}


class Advising(ScriptedEngine):
    """Answers, and advises as ``dspy.Refine`` asks it to."""

    def __init__(self) -> None:
        def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
            return {**one_quiz.REPLIES, "AnswerQuiz": {"answer": f"Ann {len(self.calls)}"}}[name]

        super().__init__(reply)

    def complete(self, request: Request) -> Response:
        if "assign blame" not in str(request.system):
            return super().complete(request)
        advice = markers(discussion="It is too long.", advice=json.dumps(ADVICE))
        return SayingEngine(lambda request: advice).complete(request)


def served(engine: ScriptedEngine) -> OpenAIServer:
    """A real server over an engine."""

    def reply(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
        text = {message["role"]: message["content"] for message in messages}
        request = Request(model="m", system=text["system"], messages=(Message.user(text["user"]),))
        return [engine.complete(request).message.text or "" for _ in range(n)]

    return OpenAIServer(reply, api_key="any")


@pytest.fixture(params=["in this process", "built", "of DSPy"])
def asked(request) -> Iterator[tuple[dspy.LM, Advising]]:
    """A language model in this process, or one that is served."""
    engine, settings = Advising(), {"cache": False, "num_retries": 0}
    if request.param == "in this process":
        yield dspy.LM("scripted/advising", **over(engine)), engine
        return
    make = keqa.build_lm if request.param == "built" else dspy.LM
    with served(engine) as server:
        yield make("openai/gpt-4o", api_base=server.api_base, api_key="any", **settings), engine


def nowhere_near(arguments: dict[str, Any], prediction: dspy.Prediction) -> float:
    """A reward that no attempt earns."""
    return 0.0


@pytest.mark.parametrize("kind", ["BestOfN", "Refine"])
@pytest.mark.parametrize("bound", ["globally", "by the parent", "by role"])
def test_each_attempt_draws_again_and_a_repeated_one_the_same(scripted, retriever, kind, bound):
    engine = Advising()
    lm = dspy.LM("scripted/m", **over(engine))

    def attempts() -> list[list[int]]:
        nesting = one_quiz.Nesting(
            KEQA(retriever("text"), lms=keqa.Roles(lm, lm, lm) if bound == "by role" else None, tries=3)
        )
        if bound == "by the parent":
            nesting.set_lm(lm)
        seen: list[list[int]] = []

        def reward(arguments: dict[str, Any], prediction: dspy.Prediction) -> float:
            assert None not in {config.seed for _, _, config in engine.calls}
            # They are asked side by side.
            seen.append(sorted(config.seed for name, _, config in engine.calls if name == "AnswerQuiz"))
            engine.calls.clear()
            return 0.0

        best = getattr(dspy, kind)(module=nesting, N=3, reward_fn=reward, threshold=1.0)
        # Refine asks for advice what is set globally.
        with dspy.context(lm=lm if bound == "globally" or kind == "Refine" else None):
            assert best(question=QUESTION).answer == "Ann"
        return seen

    seen = attempts()
    assert [len(seeds) for seeds in seen] == [3, 3, 3]
    assert len({seed for seeds in seen for seed in seeds}) == 9
    assert attempts() == seen


@pytest.mark.server
def test_what_refine_advises_reaches_the_predictors(asked, retriever):
    lm, engine = asked
    nesting = one_quiz.Nesting(KEQA(retriever("text"), tries=3))
    with dspy.context(lm=lm):
        dspy.Refine(module=nesting, N=2, reward_fn=nowhere_near, threshold=1.0)(question=QUESTION)
    hints = [(name, inputs.get("hint_")) for name, inputs, _ in engine.calls]
    # The first attempt has no advice yet.
    assert hints[0] == ("DecomposeQuestion", None)
    again = hints[[name for name, _ in hints].index("DecomposeQuestion", 1) :]
    assert ("DecomposeQuestion", "One quiz is enough.") in again
    assert None not in {hint for _, hint in again}


@pytest.mark.parametrize("boundary", [None, "its own"])
def test_a_rollout_leaves_each_role_its_language_model_and_the_boundary_as_it_is(boundary):
    made = {role: dspy.LM(f"openai/{role}", temperature=0.0, max_tokens=9) for role in ("task", "consistency")}
    lms = SimpleNamespace(**made, utility=made["task"], **({} if boundary is None else {"boundary": boundary}))
    program = KEQA(None, lms=lms)
    rollout = made["task"].copy(rollout_id=7, temperature=1.0)
    program.set_lm(rollout)
    bound = program.lms
    drawn = {role: getattr(bound, role) for role in ("task", "consistency", "utility")}
    assert {role: (lm.model, lm.kwargs["rollout_id"], lm.kwargs["temperature"]) for role, lm in drawn.items()} == {
        "task": ("openai/task", 7, 1.0),
        "consistency": ("openai/consistency", 7, 1.0),
        "utility": ("openai/task", 7, 1.0),
    }
    assert drawn["utility"] is drawn["task"] is program.get_lm() is rollout
    assert bound.boundary == boundary
    assert program.examination.same.lm is drawn["consistency"]
