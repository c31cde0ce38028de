"""Of a reply counts what it states, however politely."""

import json
import time

import pytest
from fixtures.replies import Replies

import keqa
from keqa.metrics.answers import is_abstention
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
from keqa.programs.framing import stated

ASKED = "Where is the town of Isburg?"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (f"The answer to the question “{ASKED}” is Berlin.", "Berlin"),
        (f"{ASKED} Berlin", "Berlin"),
        (f"{ASKED} (today: Monday, 2026-11-30) Berlin", "Berlin"),
        ("According to passages 1 and 3, Berlin", "Berlin"),
        ("Passage 1 says that it is Berlin.", "Berlin"),
        ("Based on the information provided in the passages, the answer to your question is: Berlin", "Berlin"),
        ("It seems that the answer is Berlin.", "Berlin"),
        ("It is in Berlin, as stated in document 12.", "It is in Berlin"),
        ("Berlin (Source: Passage 1)", "Berlin"),
        ("Es war Österreich.", "Österreich"),
        ("He was John F. Kennedy Jr.", "John F. Kennedy Jr."),
        ("Berlin 【1†source】", "Berlin"),
        ("Berlin\n\nThis is stated in the documents.", "Berlin"),
        ("Great question! Berlin. I hope this helps! Let me know if you have any other questions.", "Berlin"),
        ("Yes. The documents state that.", "Yes"),
        ("The answer is: A, B and C", "A, B and C"),
        ("Great question! The answer is Berlin. The answer is based on a map.", "Berlin. The answer is based on a map"),
        ("Article 5 states that it is 12 days", "12 days"),
        ("According to the documents, 4,80 euros.", "4,80 euros"),
        ("Die Antwort auf die Frage lautet: Berlin", "Berlin"),
        ("Selon les documents fournis, Berlin", "Berlin"),
        ("La respuesta es Berlin.", "Berlin"),
        ("根据提供的文档，答案是柏林。", "柏林"),
        ("資料によると、ベルリン", "ベルリン"),
        ("- Berlin", "Berlin"),
        ('"Berlin"', "Berlin"),
        ("**Berlin**", "Berlin"),
        (r"The answer is $\boxed{\text{Berlin}}$.", "Berlin"),
        ("“I think, therefore I am”", "I think, therefore I am"),
        ("According to the documents, Acme Inc.", "Acme Inc."),
        ("Sure, the answer is the U.S.", "the U.S."),
        ("Of course! Berlin", "Berlin"),
        ("Laut den Unterlagen ist es Berlin.", "Berlin"),
        ("Gemäß den Dokumenten: Berlin", "Berlin"),
        ("Según los documentos, es Berlin.", "Berlin"),
        ("Here is the answer: Berlin. Let me know if you need anything else.", "Berlin"),
        ("Answer: The excerpts are from Berlin.", "The excerpts are from Berlin"),
    ],
)
def test_what_stands_around_an_answer_is_no_part_of_it(reply, said):
    assert stated(reply, ASKED) == said


@pytest.mark.parametrize(
    "answer",
    [
        "Berlin.",
        "Acme Inc.",
        "Information Technology",
        "Documents, passports and visas",
        "Documents: passports and visas",
        "The text is given in Annex 3.",
        "State of the Union",
        "Article 5",
        "Articles 5, 7 and 9",
        "Sure",
        "The answer",
        "From the sources of the Danube",
        "Found in 1871.",
        "It is based on the documents of 1871",
        "The rule says that guests pay 5 euros.",
        "- passports\n- visas",
        "“Yes” and “No”",
        "-3",
        "No. This is not stated in the documents.",
        f"According to the documents, {'a' * 2_000}",
        # A condition, and what somebody has to do.
        "Provided that the form is signed.",
        "Provided the documents are complete, yes",
        "Given that it rains, indoors",
        "If the answer is known, after a day",
        "Show your documents, then sign the book.",
        # Where something stands, and as what.
        "It is described in Article 5, paragraph 2.",
        "GDPR (Article 17)",
        "Passports serve as documents.",
        "Dates are stored as text",
        "It chooses based on the context",
        "Use the format which is described in the documents",
        "The information provided is confidential",
        "“Sure,” the voice answered.",
        "The course, typically a long one",
        # Titles.
        "Believe Me, Xantippe",
        "It Was Written",
        "It was built by Ida Holm.",
        "The Answer Is Blowin' in the Wind",
        "Think, talk, act",
        "Given, West Virginia",
        "Help! I Need Somebody",
        "Let It Be. Yesterday.",
        # Lists and code.
        "File\nEdit\nHelp",
        "- id\n- question\n- answer",
        "id\nquestion\nanswer",
        "search(context, question)",
        "SMS (short texts)",
        "```\nfound\nthe answer:\n```",
        "- 3 °C",
        "根据文件的要求，须签字",
        "根据上下文推断词义",
    ],
)
def test_an_answer_stays_as_it_is(answer):
    assert stated(answer, ASKED) == answer


@pytest.mark.parametrize(
    "refusal",
    [
        "According to the documents, there is no information about it.",
        "The answer is not stated in the passages.",
        "Based on the provided context, I cannot answer the question. I hope this helps!",
        "Laut den Dokumenten ist das nicht bekannt.",
        "Answer: The excerpts are silent on the pension plan.",
        "Laut den Dokumenten k. A.",
    ],
)
def test_a_refusal_stays_one(refusal):
    assert is_abstention(stated(refusal, ASKED))


def test_what_answers_in_words_of_the_question_stays():
    said = "The notice period in days is 30."
    assert stated(said, "notice period in days") == said
    assert stated("“Notice period in days”? 30", "notice period in days?") == "30"


@pytest.mark.parametrize(
    "part", ["according to the ", "(source ", "as ", " ", "the answer is ", "(", "passage 1 and ", ", ", " – "]
)
def test_no_reply_takes_long(part):
    start = time.process_time()
    stated(part * (1_000 // len(part)), part * (200_000 // len(part)))
    stated(part * (1_000 // len(part)), ASKED)
    assert time.process_time() - start < 1


def stating(answer, *quizzes):
    """Replies of which all that have an answer have the same."""
    names = ("AnswerQuestion", "AnswerQuiz", "AnswerWithKnowledge", "ReasonFromMemory", "ReasonWithKnowledge")
    return Replies(
        **{name: {"answer": answer} for name in names},
        DecomposeQuestion={"quizzes": json.dumps(quizzes)},
        JudgeConsistency={"same": "True"},
        Summarize={"explanation": "So.", "answer": answer},
    )


@pytest.fixture(params=[keqa.KEQA, AlwaysRetrieve, ClosedBook])
def program(request, retriever):
    return request.param(*([] if request.param is ClosedBook else [retriever("Berlin is a city.")]))


@pytest.mark.parametrize("wording", ["The answer is Berlin.", "- Berlin", "It is Berlin."])
def test_what_is_stated_is_the_answer_of_every_method(programmed, program, wording):
    record = programmed(program, stating(wording, ASKED, "Where is #1?"))[0](ASKED).record
    assert record.answer == "Berlin"
    further = ["Where is Berlin?"] if isinstance(program, keqa.KEQA) else []
    assert [one.resolved for one in record.quizzes][1:] == further


def test_one_of_the_choices_is_itself(programmed, program):
    asked, _ = programmed(program, stating('"a"'))
    record = asked("What does print(repr('a')) write?", choices=["a", '"a"', "'a'"]).record
    assert record.answer == '"a"'
