"""A background document written from memory, in place of a retrieved one (GenRead, Yu et al., 2023; KS-LLM, 4.1)."""

import dspy


class GenerateDocument(dspy.Signature):
    """Write from memory a background document that helps to answer the question, in full sentences.

    It reads like an encyclopedia: it states facts about what the question names, and does not mention the question.
    """

    question: str = dspy.InputField()
    title: str = dspy.OutputField(desc="what the document is about, by name")
    document: str = dspy.OutputField()
