import dspy
import instructions
import pytest
from dspy.teleprompt.gepa import InstructionProposer

from keqa.lms import build_lm


@pytest.mark.slow
def test_the_stand_in_for_a_reflecting_lm_adds_a_sentence_to_each_instruction():
    first, second = instructions.sentences()[:2]
    with instructions.scripted_reflection() as address:
        lm = build_lm("hosted_vllm/scripted", api_base=address, cache=False)
        assert lm("Reply with one word: ready") == ["ready"]
        examples = {"answer": [{"Inputs": {"question": "Who?"}, "Generated Outputs": {}, "Feedback": "No."}]}
        with dspy.context(lm=lm):
            said = InstructionProposer()({"answer": "Answer\n\nbriefly."}, examples, ["answer"])
            again = InstructionProposer()({"answer": said["answer"]}, examples, ["answer"])
    assert said == {"answer": f"Answer\n\nbriefly. {first}"}
    assert again == {"answer": f"Answer\n\nbriefly. {first} {second}"}
