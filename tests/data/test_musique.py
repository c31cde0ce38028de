from keqa.data import BENCHMARKS, ContextPassage, Example, SupportingFact
from keqa.data.records import LeftOut

musique = BENCHMARKS["musique"].convert

UP = {
    "id": "2hop__1_2",
    "question": "Who is the spouse of the director of Up?",
    "answer": "Amanda Docter",
    "answer_aliases": ["Amanda", ""],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "Down", "paragraph_text": "Down is a direction.", "is_supporting": False},
        {"idx": 1, "title": "Up", "paragraph_text": "Up was directed by Pete Docter.", "is_supporting": True},
    ],
    "question_decomposition": [
        {"id": 1, "question": "Who directed Up?", "answer": "Pete Docter", "paragraph_support_idx": 1},
        {"id": 2, "question": "#1 >> spouse", "answer": "Amanda Docter", "paragraph_support_idx": None},
    ],
}


def test_a_record():
    assert musique(UP) == Example(
        id="2hop__1_2",
        question="Who is the spouse of the director of Up?",
        answers=("Amanda Docter", "Amanda"),
        quizzes=("Who directed Up?", "#1 >> spouse"),
        quiz_answers=("Pete Docter", "Amanda Docter"),
        supporting_facts=(SupportingFact("Up", 1, "Up was directed by Pete Docter."),),
        context=(
            ContextPassage("Down", "Down is a direction.", "distractor"),
            ContextPassage("Up", "Up was directed by Pete Docter.", "supporting"),
        ),
    )


def test_the_unanswerable_are_left_out():
    assert musique({**UP, "answerable": False}) == LeftOut("unanswerable")


def test_a_decomposition_that_cannot_be_resolved_is_dropped_and_the_question_stays():
    hops = [UP["question_decomposition"][0], {"question": "#3 >> spouse", "answer": "Amanda Docter"}]
    example = musique({**UP, "question_decomposition": hops})
    assert (example.quizzes, example.quiz_answers) == ((), ())
    assert example.answers == ("Amanda Docter", "Amanda")
