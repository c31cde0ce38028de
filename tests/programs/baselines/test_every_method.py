"""What holds for every method: it answers in an event loop, is copied, compiled, saved, and fails with a type."""

from operator import attrgetter
from typing import Any

import pytest

from keqa.errors import ConfigurationError
from keqa.programs import KEQA
from keqa.programs.baselines import FLARE, KSLLM, IRCoT, ReAct, Rowen, SearChain, SelfRAG, SlimPLM
from keqa.programs.registry import METHODS, arguments_of
from keqa.programs.stages.stage import Stage

PREDICTORS = {
    ReAct: "act answer",
    IRCoT: "extend answer",
    FLARE: "extend answer",
    SearChain: "plan same answer answering.answer summarizing.summarize",
    SelfRAG: "retrieve recall read reflection.relevance reflection.support reflection.usefulness",
    SlimPLM: "propose judge rewrite recall read",
    Rowen: "recall read verify translate same rephrasing.rephrase",
}
EXAMINING = (SelfRAG, Rowen, SlimPLM)


@pytest.mark.parametrize("method", PREDICTORS)
def test_predictors_are_named_and_bound_in_copies_too(method, scripted, retriever):
    lm, _ = scripted(lambda name, inputs, config: {})
    program = method(retriever("text"))
    program.set_lm(lm)
    for copied in (program, program.deepcopy(), program.reset_copy()):
        assert {name for name, _ in copied.named_predictors()} == set(PREDICTORS[method].split())
        assert {predictor.lm for predictor in copied.predictors()} == {lm}


@pytest.mark.parametrize("method", dict.fromkeys([KEQA, *(one.cls for one in METHODS.values() if not one.gate)]))
def test_all_stages_of_a_program_share_its_bound(method):
    """Asked by itself, or by code of the user's, a stage exceeds it no more than the program does."""
    program = method(**({"retriever": None} if "retriever" in arguments_of(method) else {}), workers=3)
    stages = [stage for _, stage in program.named_sub_modules(Stage)]
    assert {id(stage.bound) for stage in stages} == {id(program.bound)}
    assert program.bound.workers == 3


def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    asked = inputs.get("question", "")
    return {
        "DecideRetrieval": {"retrieve": True},
        "JudgeRelevance": {"relevant": True},
        "JudgeSupport": {"support": "fully"},
        "RateUsefulness": {"usefulness": 5},
        "TranslateQuestion": {"translated": f"{asked} In Chinese?"},
        "RephraseQuestion": {"rephrased": f"Who, put {config.seed}?"},
        "JudgeConsistency": {"same": False},
        "JudgeHeuristicAnswer": {"known": False},
        "RewriteQueries": {"queries": '["Who?"]'},
        "ReasonFromMemory": {"reasoning": "because", "answer": "Cy" if "Chinese" in asked else "Bo"},
        "ReasonWithKnowledge": {"reasoning": "because", "answer": "Ann"},
    }[name]


def thinking(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    if name == "ReasonWithKnowledge":
        return {"reasoning": "because", "answer": "Ann"}
    return {"thought": "Ann wrote It." if inputs["thoughts"] == "[]" else "So the answer is Ann."}


@pytest.mark.parametrize(
    ("method", "replies", "counts"),
    [(IRCoT, thinking, {"extend": 2, "answer": 2}), *((method, reply, {"read": 2}) for method in EXAMINING)],
)
def test_bootstrapping_finds_demonstrations_for_their_predictors(
    bootstrapped, scripted, retriever, method, replies, counts
):
    program = method(retriever("one"))
    program.set_lm(scripted(replies)[0])
    compiled = bootstrapped(program, [f"Who? {i}" for i in range(2)])
    assert {name: len(attrgetter(name)(compiled).demos) for name in counts} == counts
    assert compiled(question="Who?").answer == "Ann"


@pytest.mark.parametrize(
    ("method", "wrong", "message"),
    [
        (Rowen, {"language": " "}, "must name a language, such as 'Chinese'"),
        (Rowen, {"min_consistency": 0}, "must be a number above 0 and at most 1, such as 0.8 or '4/5', not 0"),
        (FLARE, {"theta": 1.2}, "must be a number from 0 to 1, not 1.2"),
        (SelfRAG, {"support_weight": -1}, "must be a number from 0 to 1,000, not -1"),
        (SearChain, {"max_rounds": 0}, "must be a whole number from 1 to 100, not 0"),
        (KSLLM, {"form": "KS-X"}, "must be 'KS-LLM', 'KS-Q', 'KS-T' or 'KS-S', not 'KS-X'"),
    ],
)
def test_settings_that_cannot_work_are_refused(retriever, method, wrong, message):
    with pytest.raises(ConfigurationError, match=f"{next(iter(wrong))} {message}"):
        method(retriever("text"), **wrong)
