"""Chain-of-Query: the queries that lead to an answer, each with its own answer (SearChain, Xu et al., 2024)."""

import dspy

UNSOLVED = "unsolved"
"""What stands for the answer to a query that the LM cannot give."""


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
