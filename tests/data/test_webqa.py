from keqa.data import BENCHMARKS, ContextPassage, Example
from keqa.data.records import LeftOut

simpleqa, sogouqa, webqa = (BENCHMARKS[name].convert for name in ("chinese-simpleqa", "sogouqa", "webqa"))

EVIDENCES = {
    "Q1#00": {"answer": ["no_answer"], "evidence": "不知道"},
    "Q1#01": {"answer": ["道格特"], "evidence": "道格特导演了它"},
    "Q1#02": {"answer": ["彼特·道格特"], "evidence": "彼特·道格特导演了它"},
    "Q1#03": {"answer": ["彼特·道格特"], "evidence": "是彼特·道格特"},
}
EXAMPLE = Example(
    "Q1",
    "谁导演了它？",
    ("彼特·道格特", "道格特"),
    context=(
        ContextPassage("", "不知道", "distractor"),
        ContextPassage("", "道格特导演了它", "supporting"),
        ContextPassage("", "彼特·道格特导演了它", "supporting"),
        ContextPassage("", "是彼特·道格特", "supporting"),
    ),
)
PASSAGES = [
    {"passage": evidence["evidence"], "answer": evidence["answer"][0].replace("no_answer", "")}
    for evidence in EVIDENCES.values()
]


def test_the_answer_of_most_evidences_comes_first(write_json):
    path = write_json("me_test.ir.json", {"Q1": {"question": "谁导演了它？", "evidences": EVIDENCES}, "Q2": "broken"})
    loaded = BENCHMARKS["webqa"].load(path)
    assert loaded.examples == [EXAMPLE]
    assert [(problem.unit, problem.line, problem.message) for problem in loaded.problems] == [
        ("record", 2, "an object is expected, not str")
    ]


def test_sogouqa_alike():
    assert sogouqa({"id": "Q1", "question": "谁导演了它？", "passages": PASSAGES}) == EXAMPLE


def test_questions_that_no_passage_answers_are_left_out():
    assert sogouqa({"id": "Q1", "question": "谁？", "passages": PASSAGES[:1]}) == LeftOut("unanswerable")
    unanswered = {"Q1#00": EVIDENCES["Q1#00"]}
    assert webqa({"id": "Q1", "question": "谁？", "evidences": unanswered}) == LeftOut("unanswerable")


SIMPLEQA = {"id": "z1", "primary_category": "文化", "question": "《飞屋环游记》的导演是谁？", "answer": "彼特·道格特"}


def test_a_record_of_simpleqa():
    assert simpleqa(SIMPLEQA) == Example("z1", "《飞屋环游记》的导演是谁？", ("彼特·道格特",))
