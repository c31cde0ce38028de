import pytest
from fixtures.findings import FINDINGS

from keqa.programs.abstention import WITHHELD, Abstention, Confidence, abstained, record_signals, words_of
from keqa.programs.baselines import ClosedBook
from keqa.programs.boundary.light import Regression, Signal
from keqa.programs.fingerprint import program_spec
from keqa.programs.records import PassageVerdict, QuestionRecord, QuizRecord, SampleRecord


def passage(text, kept=True):
    verdict = "helpful" if kept else "not helpful"
    return PassageVerdict(passage_id="p", title="", text=text, score=1.0, verdict=verdict, kept=kept, why="")


REMEMBERED = QuizRecord(index=1, text="Who?", resolved="Who?", consistency=0.75, answer="Ann", source="memory")
READ = QuizRecord(
    index=2,
    text="Where does #1 live?",
    resolved="Where does Ann live?",
    samples=[SampleRecord(text="oslo"), SampleRecord(text="Bergen")],
    passages=[passage("Ann lives in Oslo."), passage("Ann sings."), passage("Oslo is old.", kept=False)],
    answer="Oslo",
    source="passages",
)
RECORD = QuestionRecord(question="Who?", quizzes=[REMEMBERED, READ], answer="Oslo", answer_source="summary")


def test_signals_of_memory_and_of_passages():
    found = record_signals(RECORD)
    assert found == pytest.approx(
        {
            "memory, least": 0.75,
            "memory, mean": 0.75,
            "stated in passages, least": 0.5,
            "stated in passages, mean": 0.5,
            "agrees with memory": 0.5,
            "passages kept": 1.0986122886681098,
            "from passages": 0.5,
            "unsupported": 0.0,
            "quizzes": 1.0986122886681098,
            "fell back": 0.0,
            "a quiz unanswered": 0.0,
            "degraded": 0.0,
            "length": 0.6931471805599453,
        }
    )


def test_signals_of_other_records():
    # What the gate measured is taken before the votes, and kept between 0 and 1.
    quiz = REMEMBERED.model_copy(update={"certainty": 7.5})
    assert record_signals(RECORD.model_copy(update={"quizzes": [quiz]}))["memory, least"] == 1.0
    # A method without quizzes is known by its passages.
    record = QuestionRecord(question="Who?", passages=[passage("It is Ann.")], answer="Ann", answer_source="passages")
    found = record_signals(record)
    assert (found["stated in passages, mean"], found["from passages"], found["quizzes"]) == (1.0, 1.0, 0.0)
    assert found.keys() == record_signals(RECORD).keys()
    # What answered the question itself counts where the quizzes did not settle it.
    fallback = QuizRecord(index=0, text="Who?", answer="Oslo", source="closed_book")
    found = record_signals(RECORD.model_copy(update={"fallback": fallback}))
    assert (found["unsupported"], found["fell back"], found["memory, least"]) == (1.0, 1.0, 1.0)


def confidence(bias):
    """One whose log odds are the bias and the least share that memory holds an answer with."""
    signals = {
        name: Signal(mean=0.0, scale=1.0, weight=float(name == "memory, least")) for name in record_signals(RECORD)
    }
    return Confidence(Regression(bias=bias, signals=signals, words=[0.0] * 256, slope=1.0, offset=0.0))


def test_confidence():
    assert confidence(0.25).of(RECORD) == pytest.approx(0.7310585786300049)
    assert confidence(9).of(RECORD.model_copy(update={"answer": "unknown"})) == 0.0
    assert words_of(RECORD) == "who? who? where does #<number> live?"
    # The words of a follow-up are those of the question that was answered.
    assert words_of(QuestionRecord(question="And she?", standalone="Where does Ann live?")) == "where does <name> live?"


def withholding(threshold, bias=0.25):
    return Abstention(confidence(bias), threshold, 0.1, 0.1, "digest")


def test_an_answer_is_given_from_the_threshold_on_and_withheld_below():
    explained, exact = RECORD.model_copy(update={"explanation": "Ann lives in Oslo."}), confidence(0.25).of(RECORD)
    given = withholding(exact).applied(explained)
    assert (given.answer, given.answer_source, given.withheld, given.confidence) == ("Oslo", "summary", None, exact)
    assert given.explanation == "Ann lives in Oslo."
    # It stays in the record, and nothing beside it gives it away.
    held = withholding(0.74).applied(explained)
    assert (held.answer, held.answer_source, held.withheld, held.explanation) == (WITHHELD, "withheld", "Oslo", "")
    assert abstained(held)
    assert QuestionRecord.model_validate_json(held.model_dump_json()) == held


@pytest.mark.parametrize("unknown", [RECORD.model_copy(update={"answer": "unknown"}), *FINDINGS.values()])
def test_an_answer_that_abstains_itself_stays_as_it_is(unknown):
    assert withholding(0.5).applied(unknown) == unknown.model_copy(update={"confidence": 0.0})


def test_a_guess_that_is_withheld_is_none_any_more():
    held = withholding(0.74).applied(RECORD.model_copy(update={"guessed": True}))
    assert (held.answer, held.guessed) == (WITHHELD, False)


def test_a_program_withholds_and_its_prediction_has_no_sources(programmed):
    program, _ = programmed(ClosedBook(), lambda name, inputs, config: {"answer": "Ann"})
    before = program_spec(program)
    program.abstention = withholding(0.99)
    prediction = program("Who governs Oslo?")
    assert (prediction.answer, prediction.sources) == (WITHHELD, [])
    assert (prediction.record.withheld, prediction.record.answer_source) == ("Ann", "withheld")
    described = {"threshold": 0.99, "risk": 0.1, "delta": 0.1, "calibrated_on": "digest"}
    assert program_spec(program) == {**before, "abstention": described}
    assert program.deepcopy().abstention == program.abstention
