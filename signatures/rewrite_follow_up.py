"""A follow-up question made to stand alone, before it is decomposed or searched for.

The conversation is a list of lines, not a `dspy.History`: adapters render a history as turns of this very prompt, with its
own outputs, which the turns of a conversation do not have, and leave it out of demonstrations.
"""

import dspy


class RewriteFollowUp(dspy.Signature):
    """Rewrite the follow-up question so that it can be understood without the conversation before it.

    Write the names that its pronouns and allusions stand for, and complete what it leaves out. Ask for nothing else.
    A question that stands alone stays as it is.
    """

    history: list[str] = dspy.InputField(desc="the earlier questions in their order, each with its answer")
    question: str = dspy.InputField()
    standalone: str = dspy.OutputField(desc="the question alone")
