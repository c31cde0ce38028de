"""Other instructions for the jobs of the signatures, so that a reworded prompt still works."""

REWORDINGS: dict[str, tuple[str, ...]] = {
    "DecomposeQuestion": (
        "Split the question into simple quizzes; #1 stands for the answer to the first.",
        "List the quizzes that lead to the answer.",
    ),
    "AnswerQuiz": ("Answer the quiz with a short phrase.", "Give a brief answer to the quiz without any sources."),
    "AnswerWithKnowledge": ("Use the passages to answer the question briefly.", "Find the answer in the passages."),
    "Summarize": ("Combine the answered quizzes into an explanation and a final answer.", "Conclude from the quizzes."),
    "ReasonWithKnowledge": ("Think step by step with the passages, then answer.",),
    "AnswerQuestion": ("Reply to the question with a short phrase.",),
    "ReasonFromMemory": ("Think step by step, then answer.",),
    "ConstructTriples": ("List the triples that the question is about.",),
    "RewriteFollowUp": (
        "Make the follow-up question complete in itself.",
        "Write the question so that somebody who did not read the conversation understands it.",
    ),
    "DecideRetrieval": (
        "Do you have to look something up to answer the question?",
        "Decide whether to search before answering.",
    ),
    "JudgeHeuristicAnswer": ("Is what the heuristic answer says of the question surely right?",),
    "JudgeKnowledge": (
        "Do you know the answer to the quiz, and would you always give the same?",
        "Judge whether the quiz can be answered correctly and with certainty.",
    ),
    "StateConfidence": ("How sure are you that the proposed answer is right, from 0 to 100?",),
    "JudgeRelevance": (
        "Does the passage tell anything that the question asks for?",
        "Decide whether the passage is relevant.",
    ),
    "JudgeSupport": ("Does the passage support the answer fully, partially or not at all?",),
    "RateUsefulness": ("From 1 to 5, how well does the answer respond to the question?",),
    "RephraseQuestion": ("Reword the question without changing what it asks.",),
    "RewriteQueries": ("List the search queries that would verify the heuristic answer.",),
    "ExpandSubject": (
        "What is the question about? Write what you know of it as triples, subject | relation | object.",
    ),
    "GenerateDocument": ("Generate a background document to answer the given question.",),
    "AnswerWithEvidence": (
        "Use the evidence and the triples to answer the question briefly.",
        "Answer from the evidence sentences.",
    ),
    "ExtendReasoning": ("Write the next sentence of the reasoning.", "Go on with the thoughts by one sentence."),
    "PlanQueryChain": ("List the queries still to be asked, each with its answer or unsolved.",),
    "ChooseAction": ("Choose the next search, or finish once the question is settled.",),
    "AnswerFromTrajectory": ("Conclude from the trajectory what the answer is.",),
    "JudgeConsistency": (
        "Do both answers to the quiz say the same thing?",
        "Decide whether the two answers agree in meaning.",
    ),
    "JudgeUtility": (
        "Would the passage help someone answer the quiz correctly?",
        "Decide whether the passage is useful for the quiz.",
    ),
    "JudgeUtilities": (
        "For each passage, would it help someone answer the quiz correctly?",
        "Decide which of the passages are useful for the quiz.",
    ),
}
"""By signature."""
