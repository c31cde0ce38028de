"""What the benchmark of fine-tuning on real questions learns from and asks."""

import json

import dspy
import finetuning_real
import pytest

from keqa.data import Example
from keqa.data.example import ContextPassage
from keqa.signatures import AnswerQuiz, DecomposeQuestion, JudgeUtility

MUSIQUE = {
    "id": "2hop__1",
    "question": "Who governs the birthplace of Elin?",
    "answer": "Ann Berg",
    "answer_aliases": ["Berg"],
    "answerable": True,
    "question_decomposition": [
        {"question": "Where was Elin born?", "answer": "Carmouth"},
        {"question": "Who governs #1?", "answer": "Ann Berg"},
    ],
    "paragraphs": [
        {"title": "Elin", "paragraph_text": "Elin was born in Carmouth.", "is_supporting": True},
        {"title": "Elin Sea", "paragraph_text": "Elin is a sea, born of ice.", "is_supporting": False},
        {"title": "Bread", "paragraph_text": "Bread is baked.", "is_supporting": False},
    ],
}


@pytest.fixture
def data(tmp_path):
    for split in ("train", "dev"):
        path = tmp_path / "musique" / f"musique_ans_v1.0_{split}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({**MUSIQUE, "id": f"2hop__{split}"}) + "\n")
    paragraphs = [
        {"context": f"Town {n} lies on river {n}.", "qas": [_asked(f"On which river is town {n}?", n)]}
        for n in range(9)
    ]
    (tmp_path / "squad").mkdir()
    (tmp_path / "squad" / "xquad.en.json").write_text(json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}]}))
    lines = [
        {"question": f"who founded city {n}", "answers": [f"Bo {n}"], "ctxs": [{"title": "C", "text": f"By Bo {n}."}]}
        for n in range(9)
    ]
    (tmp_path / "nq").mkdir()
    (tmp_path / "nq" / "nq-open-oracle.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def _asked(question, number):
    return {"id": f"q{number}", "question": question, "answers": [{"text": f"river {number}", "answer_start": 14}]}


def test_no_question_is_both_learned_from_and_asked(data):
    learned, asked = ({one[0] for one in finetuning_real.readings(data, train)} for train in (True, False))
    assert (len(learned) + len(asked), learned & asked) == (18, set())
    assert learned
    assert asked


def test_calls_of_every_prompt_with_their_right_replies(data):
    calls = finetuning_real.calls(data, True, 100, 0)
    by_name = {}
    for call in calls:
        by_name.setdefault(call.signature.__name__, []).append(call)
    assert set(by_name) == {
        "DecomposeQuestion",
        "AnswerQuiz",
        "AnswerWithKnowledge",
        "JudgeUtility",
        "JudgeConsistency",
        "Summarize",
    }
    several, single = by_name["DecomposeQuestion"]
    assert several.outputs["quizzes"] == ["Where was Elin born?", "Who governs #1?"]
    assert single.outputs["quizzes"] == [single.inputs["question"]]
    # The most similar distractor, which does not name the answer.
    assert [(call.inputs["passage"], call.outputs["helpful"]) for call in by_name["JudgeUtility"]] == [
        ("Elin: Elin was born in Carmouth.", True),
        ("Elin Sea: Elin is a sea, born of ice.", False),
    ]
    (summary,) = by_name["Summarize"]
    assert summary.inputs["answered_quizzes"] == ["Where was Elin born? Carmouth", "Who governs Carmouth? Ann Berg"]
    assert len(finetuning_real.conversations(calls, 0)) == len(calls)


@pytest.mark.parametrize(
    ("signature", "outputs", "said", "right"),
    [
        (AnswerQuiz, {"answer": ["Oslo", "Kristiania"]}, {"answer": "kristiania"}, 1.0),
        (AnswerQuiz, {"answer": ["Oslo"]}, {"answer": "Bergen"}, 0.0),
        (JudgeUtility, {"helpful": False}, {"helpful": False}, 1.0),
        (DecomposeQuestion, {"quizzes": ["A?", "B #1?"]}, {"quizzes": ["C?", "D of #1?"]}, 1.0),
        (DecomposeQuestion, {"quizzes": ["A?", "B #1?"]}, {"quizzes": ["C?", "D?"]}, 0.0),
        (DecomposeQuestion, {"quizzes": ["A?"]}, {"quizzes": ["A?", "B?"]}, 0.0),
    ],
)
def test_what_is_right(signature, outputs, said, right):
    assert finetuning_real.right(finetuning_real.Call(signature, {}, outputs), dspy.Prediction(**said)) == right


def test_a_hop_without_a_paragraph_that_names_its_answer_teaches_nothing_of_utility():
    example = Example(
        id="e",
        question="Q?",
        answers=("A",),
        quizzes=("Where?",),
        quiz_answers=("Oslo",),
        context=(ContextPassage("T", "Nothing.", "supporting"), ContextPassage("U", "None.", "distractor")),
    )
    assert list(finetuning_real._utilities([example], [], None)) == []
