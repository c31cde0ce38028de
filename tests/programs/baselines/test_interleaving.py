"""What holds for every method that reasons and searches by turns: it can be copied, compiled, saved and loaded."""

from __future__ import annotations

import json

import dspy
import pytest

from keqa.programs.baselines import FLARE, IRCoT, ReAct, SearChain

PREDICTORS = {
    ReAct: {"act", "answer"},
    IRCoT: {"extend", "answer"},
    FLARE: {"extend", "answer"},
    SearChain: {"plan", "same", "answer", "answering.answer", "summarizing.summarize"},
}


@pytest.mark.parametrize("method", PREDICTORS)
def test_predictors_are_named_bound_and_copied(method, scripted, retriever):
    lm, _ = scripted(lambda name, inputs, config: {})
    program = method(retriever("text"))
    program.set_lm(lm)
    for copied in (program, program.deepcopy(), program.reset_copy()):
        assert {name for name, _ in copied.named_predictors()} == PREDICTORS[method]
        assert {predictor.lm for predictor in copied.predictors()} == {lm}


@pytest.mark.parametrize("method", PREDICTORS)
def test_what_was_compiled_is_saved_and_loaded(method, retriever, tmp_path):
    program = method(retriever("text"))
    for name, predictor in program.named_predictors():
        predictor.signature = predictor.signature.with_instructions(f"Do {name}.")
        predictor.demos = [dspy.Example(**{next(iter(predictor.signature.input_fields)): name})]
    program.save(tmp_path / "program.json")
    state = json.loads((tmp_path / "program.json").read_text())
    assert {part["lm"] for name, part in state.items() if name != "metadata"} == {None}
    other = method(retriever("text"))
    other.load(tmp_path / "program.json")
    for name, predictor in other.named_predictors():
        assert predictor.signature.instructions == f"Do {name}."
        assert dict(predictor.demos[0]) == {next(iter(predictor.signature.input_fields)): name}


def test_bootstrapping_finds_demonstrations_of_every_turn(scripted, retriever):
    def reply(name, inputs, config):
        if name == "ReasonWithKnowledge":
            return {"reasoning": "because", "answer": "Ann"}
        return {"thought": "Ann wrote It." if inputs["thoughts"] == "[]" else "So the answer is Ann."}

    lm, _ = scripted(reply)
    program = IRCoT(retriever("text"))
    program.set_lm(lm)
    train = [dspy.Example(question=f"Who? {i}", answer="Ann").with_inputs("question") for i in range(2)]
    optimizer = dspy.BootstrapFewShot(
        metric=lambda example, prediction, trace=None: example.answer == prediction.answer,
        max_bootstrapped_demos=2,
        max_labeled_demos=0,
    )
    compiled = optimizer.compile(program, trainset=train)
    assert {name: len(predictor.demos) for name, predictor in compiled.named_predictors()} == {"extend": 2, "answer": 2}
