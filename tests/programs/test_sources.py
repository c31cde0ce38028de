from keqa.programs.prediction import disagreements_of, sources_of, with_supporting_sentences
from keqa.programs.records import PassageVerdict, QuestionRecord, QuizRecord


def passage(name, text, *, kept=True, **place):
    return PassageVerdict(
        passage_id=name, title="Report", text=text, score=1, verdict="helpful", kept=kept, why="", **place
    )


OLD = passage("a/r.pdf#1", "The mayor of Carmouth is Ann Lee.", file="a/r.pdf", page=3, heading="Town", date="2019")
NEW = passage("b/r.pdf#1", "Snow fell. The mayor of Carmouth is Bo Kim.", file="b/r.pdf", page=1)
UNKEPT = passage("c.txt#1", "The mayor of Carmouth is Cy Doe.", kept=False)
TEXT = "Who is the mayor of Carmouth?"
QUIZ = QuizRecord(index=1, text=TEXT, source="passages", answer="Ann Lee", passages=[OLD, NEW, UNKEPT])
RECORD = with_supporting_sentences(
    QuestionRecord(question="Who is it?", quizzes=[QUIZ], answer="Ann Lee", answer_source="summary")
)


def test_a_record_names_the_sentences_that_carried_an_answer():
    found = [one.sentences for one in RECORD.quizzes[0].passages]
    assert found == [["The mayor of Carmouth is Ann Lee."], ["The mayor of Carmouth is Bo Kim."], []]
    assert QuestionRecord.model_validate_json(RECORD.model_dump_json()) == RECORD


def test_the_sentence_with_the_answer_to_a_quiz_carries_it():
    told = passage("d.txt#1", "The mayor of Carmouth wears a chain. It was won by Ann Lee.")
    quiz = QUIZ.model_copy(update={"passages": [told]})
    record = with_supporting_sentences(RECORD.model_copy(update={"quizzes": [quiz], "fallback": quiz}))
    assert record.quizzes[0].passages[0].sentences == ["It was won by Ann Lee."]
    assert record.fallback.passages == record.quizzes[0].passages


def test_two_files_of_one_title_are_told_apart():
    first, second = sources_of(RECORD)
    assert first.label == "Report (a/r.pdf, page 3, Town)"
    assert second.label == "Report (b/r.pdf, page 1)"
    assert (first.quizzes, first.sentences, first.date) == ([1], ["The mayor of Carmouth is Ann Lee."], "2019")


def test_a_record_of_a_corpus_is_told_apart_by_its_id():
    (source,) = sources_of(
        RECORD.model_copy(update={"quizzes": [QUIZ.model_copy(update={"passages": [passage("7", "Text.")]})]})
    )
    assert source.label == "Report (7)"
    assert source.model_copy(update={"title": ""}).label == "7"


def test_sources_that_disagree_are_named_once():
    (found,) = disagreements_of(RECORD)
    assert str(found) == (
        "Sources may disagree: Report (a/r.pdf, page 3, Town), 2019 says “The mayor of Carmouth is Ann Lee.” and "
        "Report (b/r.pdf, page 1) says “The mayor of Carmouth is Bo Kim.”"
    )
    same = QUIZ.model_copy(update={"passages": [OLD, NEW.model_copy(update={"file": "a/r.pdf"})]})
    record = with_supporting_sentences(RECORD.model_copy(update={"quizzes": [same]}))
    assert disagreements_of(record) == []
    assert disagreements_of(RECORD.model_copy(update={"answer_source": "memory"})) == []


def test_a_quiz_from_memory_keeps_its_record():
    quiz = QUIZ.model_copy(update={"source": "memory"})
    record = RECORD.model_copy(update={"quizzes": [quiz]})
    assert with_supporting_sentences(record) is record
