from keqa.data import BENCHMARKS, Example, SupportingFact

strategyqa = BENCHMARKS["strategyqa"].convert

RECORD = {
    "qid": "s1",
    "term": "Up",
    "question": "Was the director of Up alive in 1969?",
    "answer": True,
    "facts": ["Pete Docter was born in 1968."],
    "decomposition": ["Who directed Up?", "When was #1 born?", "Is #2 before 1969?"],
    "evidence": [
        [[["Up (2009 film)-1"]], [["Pete Docter-2", "Up (2009 film)-1"], "no_evidence"], ["operation"]],
        [["no_evidence"], [["Half-Life-3"]], ["operation"]],
    ],
}


def test_a_record():
    assert strategyqa(RECORD) == Example(
        id="s1",
        question="Was the director of Up alive in 1969?",
        answers=("yes",),
        answer_type="yes/no",
        quizzes=("Who directed Up?", "When was #1 born?", "Is #2 before 1969?"),
        supporting_facts=(
            SupportingFact(text="Pete Docter was born in 1968."),
            SupportingFact("Up (2009 film)", 1),
            SupportingFact("Pete Docter", 2),
            SupportingFact("Half-Life", 3),
        ),
    )


def test_the_hub_has_the_facts_as_one_text():
    example = strategyqa({"qid": "s1", "question": "Was it?", "answer": False, "facts": "Pete was born. Up was made."})
    assert example.answers == ("no",)
    assert example.supporting_facts == (SupportingFact(text="Pete was born. Up was made."),)
