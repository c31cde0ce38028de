"""Chains of thoughts and of queries, continued step by step."""

from typing import Literal

import dspy


# The next sentence of a chain of thought (IRCoT, Trivedi et al., 2023; FLARE, Jiang et al., 2023).
class ExtendReasoning(dspy.Signature):
    """Reason towards the answer one sentence at a time: write the one sentence that follows the thoughts so far.

    It states the next fact, from the passages or, where they do not tell, from memory.
    Once the thoughts settle the question, write: So the answer is ... .
    """

    passages: list[str] = dspy.InputField()
    question: str = dspy.InputField()
    answer_type: Literal["short", "yes/no", "choice"] = dspy.InputField(default="short")
    choices: list[str] = dspy.InputField(default=[], desc="where given, answer with one of them")
    thoughts: list[str] = dspy.InputField(default=[], desc="the sentences so far")
    thought: str = dspy.OutputField(desc="one sentence")


UNSOLVED = "unsolved"
"""What stands for the answer to a query that the LM cannot give."""


# Chain-of-Query: the queries that lead to an answer, each with its own answer (SearChain, Xu et al., 2024).
class PlanQueryChain(dspy.Signature):
    """Plan the chain of queries that leads from the verified ones to the answer of the question.

    Each query asks for one piece of knowledge and is complete in itself. Answer each from memory, as briefly as possible.
    Write unsolved where you do not know the answer. A query that needs an unsolved answer waits for the next plan.
    Where the verified queries settle the question, plan none.
    """

    question: str = dspy.InputField()
    verified: list[str] = dspy.InputField(default=[], desc="each query with its answer, as sources confirm it")
    queries: list[str] = dspy.OutputField(desc="the further queries")
    answers: list[str] = dspy.OutputField(desc="for each query its answer, or unsolved")
