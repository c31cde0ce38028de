"""The same questions with several language models: what each of them knows, and what it has to look up.

    python examples/compare_models.py [LM ...]

Models are named by their LiteLLM strings (``openai/gpt-4o-mini``, ``ollama_chat/qwen3``); nothing else changes. The
two judges can be a model of their own, as here, where the one that comes with KEQA judges for all of them: leave
``consistency_lm`` and ``utility_lm`` out to let each model judge itself.
"""

import sys

import keqa

testbed = keqa.Testbed()
encyclopedia = keqa.open_encyclopedia(testbed.passages)

for lm in sys.argv[1:] or ["keqa/tiny"]:
    roles = keqa.build_roles(lm, consistency_lm="keqa/tiny", utility_lm="keqa/tiny")
    known = quizzes = retrievals = 0
    for outcome in keqa.KEQA(encyclopedia, lms=roles).answer_many(testbed.dev[:6]):
        quizzes += len(outcome.record.quizzes)
        known += sum(quiz.known is True for quiz in outcome.record.quizzes)
        retrievals += outcome.record.cost.retrievals
    print(f"{lm}: {known} of {quizzes} quizzes known, {retrievals} retrievals")
