"""Every loader on every real file: questions and problems, the first question with its evidence, what is refused."""

import json
from collections import Counter
from pathlib import Path

import pytest
from fixtures.examples import plain

from keqa.data.benchmarks import BENCHMARKS, load
from keqa.data.example import as_examples
from keqa.data.question import broken_references, numbered_quizzes
from keqa.metrics.answers import exact_match

# A line a file: benchmark and path below ../shared/data, what is asked for, what is found, and the first question.
FILES = [json.loads(line) for line in Path(__file__).with_name("real_files.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("expected", FILES, ids=lambda one: f"{one['file']}-{one.get('split', '')}")
def test_a_real_file(shared_data, expected):
    loaded = load(shared_data(expected["file"]), split=expected.get("split"))
    counts = {"questions": len(loaded.examples), "problems": len(loaded.problems), "left_out": loaded.left_out}
    assert counts == {name: expected.get(name, default) for name, default in zip(counts, (0, 0, {}), strict=True)}
    found = loaded.examples[0]
    first = {"answer_type": "short", "choices": [], "quizzes": [], "quiz_answers": []} | expected["first"]
    for name, value in first.items():
        assert getattr(found, name) == (tuple(value) if isinstance(value, list) else value)
    assert len(set(loaded.ids)) == expected["questions"]
    assert "wrong" not in expected or str(loaded.problems[0]).endswith(expected["wrong"])
    # What a question has beside others, and of which role its passages are.
    for name, evidence in expected.get("has", {}).items():
        assert evidence in plain(getattr(found, name))
    roles = Counter(passage.role for passage in found.context)
    assert roles.items() >= expected.get("roles", {}).items()
    # Yes or no is told by the data set, and never by the gold answer.
    if "polar" in expected:
        assert sum(one.answer_type == "yes/no" for one in loaded.examples) == expected["polar"]
        assert sum(one.scored_as == "yes/no" for one in loaded.examples) == expected["scored_polar"]
    # What is loaded is what everything else takes, and each gold answer is right.
    assert as_examples(loaded.examples) == loaded.examples
    for example in loaded.examples:
        assert all(exact_match(gold, example.answers, example.answer_type, example.choices) for gold in example.answers)
        assert not [problem for problem in broken_references(numbered_quizzes(example.quizzes)) if problem.fatal]


def test_every_benchmark_but_a_few_has_a_real_file():
    without = {"squad", "squad2", "ceval", "mlec", "triviaqa-rc", "triviaqa-verified"}
    assert {one["file"].split(":")[0] for one in FILES} == set(BENCHMARKS) - without
