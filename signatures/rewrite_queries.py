"""Search queries from a question and what a proxy claims in answer to it (SlimPLM, query rewriting)."""

import dspy


class RewriteQueries(dspy.Signature):
    """Write the search queries that check the heuristic answer to the question, claim by claim.

    Each query asks for one fact and is complete in itself: it names what the heuristic answer names.
    """

    question: str = dspy.InputField()
    heuristic_answer: str = dspy.InputField()
    queries: list[str] = dspy.OutputField()
