"""KEQA as a part of another DSPy program: a module that answers a list of questions and writes a short report.

    python examples/inside_a_module.py

It is a `dspy.Module` like any other: it can be nested, given to `dspy.Evaluate`, and compiled with what it is part of.
"""

import dspy

import keqa


class FactSheet(dspy.Module):
    """Answers several questions on one subject."""

    def __init__(self, keqa_program: keqa.KEQA) -> None:
        super().__init__()
        self.ask = keqa_program

    def forward(self, questions: list[str]) -> dspy.Prediction:
        """Return one line a question; what has no answer says so."""
        # They come in the order in which they finish.
        outcomes = sorted(self.ask.answer_many(questions), key=lambda outcome: outcome.position)
        return dspy.Prediction(lines=[f"{outcome.item} {outcome.answer or 'not known'}" for outcome in outcomes])


testbed = keqa.Testbed()
program = keqa.KEQA(keqa.open_encyclopedia(testbed.passages), lms=keqa.build_roles("keqa/tiny"))
sheet = FactSheet(program)
for line in sheet(questions=[question.question for question in testbed.dev[:3]]).lines:
    print(line)

devset = [dspy.Example(question=q.question, answer=q.answers[0]).with_inputs("question") for q in testbed.dev[3:7]]
evaluate = dspy.Evaluate(devset=devset, metric=dspy.evaluate.answer_exact_match, num_threads=4)
print("exact match:", evaluate(program).score)
