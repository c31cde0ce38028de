"""What a prediction says of how it came about: samples, clusters, verdicts on passages, failures and cost.

    python examples/read_a_record.py ["A question?"]

The record is typed, and JSON by ``record.model_dump_json()``; the same is in every line of a run file.
"""

import sys

import keqa

question = sys.argv[1] if len(sys.argv) > 1 else "What is the residence of the author of The Restless Song?"
program = keqa.KEQA(keqa.open_encyclopedia(keqa.Testbed().passages), lms=keqa.build_roles("keqa/tiny"))
record = program(question).record

for quiz in record.quizzes:
    print(f"Quiz {quiz.index}: {quiz.text} -> {quiz.resolved}")
    for cluster in quiz.clusters:
        print(f"  {cluster.size} of {quiz.tries} samples mean {cluster.answer!r}")
    print(f"  consistency {quiz.consistency_exact}, threshold {quiz.threshold_exact}: known is {quiz.known}")
    for verdict in quiz.passages:
        print(f"  {'kept' if verdict.kept else 'left out'}: {verdict.title} ({verdict.why})")
    print(f"  answer {quiz.answer!r}, from {quiz.source}")
for degradation in record.degradations:
    print("Something failed on the way:", degradation.message, "so", degradation.action)
print("Answer:", record.answer)
for role, cost in record.cost.by_role.items():
    print(f"{role}: {cost.samples} samples, {cost.prompt_tokens} tokens read, {cost.completion_tokens} written")
