"""Plan and draft in one call, read and cite in one call: what is asked, what is kept, and what the record says."""

import json
from math import log

import pytest
from fixtures.boundary import judging
from fixtures.replies import Replies

import keqa
from keqa.errors import ConfigurationError
from keqa.programs.boundary import Judgement
from keqa.programs.calls.probabilities import item_likelihoods
from keqa.programs.fingerprint import program_spec
from keqa.programs.gates import BoundaryGate
from keqa.programs.keqa import KEQA
from keqa.retrievers.base import Passage, Place

TWO_HOPS = "Where was the author of The Grey Harbour born?"
PLAN = ["Who wrote The Grey Harbour?", "Where was #1 born?"]
TEXTS = ("The Grey Harbour is a novel by Ann Ok.", "Ann Ok was born in Bergen.", "It rains in Bergen.")


def replies(drafts, *, quizzes=PLAN, cited=None, read=None, **said):
    """A language model that writes these drafts, and cites and answers by words of the question."""
    found = {"Who wrote": ([1], "Ann Ok"), "born": ([2], "Bergen")} if read is None else read

    def reading(inputs, config):
        citations, answer = next(said for words, said in found.items() if words in inputs["question"])
        return {"citations": str(citations if cited is None else cited), "answer": answer}

    usual = {
        "DraftQuizzes": {"quizzes": json.dumps(quizzes), "drafts": json.dumps(drafts)},
        "AnswerAndCite": reading,
        "AnswerQuiz": {"answer": "Oslo"},
        "JudgeUtility": {"helpful": "True"},
        "AnswerWithKnowledge": {"answer": "Top"},
        "Summarize": lambda i, c: {"explanation": "So.", "answer": i["answered_quizzes"].rstrip('"]').split("? ")[-1]},
    }
    return Replies(**usual | said)


@pytest.fixture
def made(programmed, retriever):
    """Makes a program with both forms, or with what a test says."""

    def make(drafts=("Ann Ok", "Bergen"), texts=TEXTS, own=False, probability=None, said=None, **settings):
        program = KEQA(retriever(*texts, own=own), **{"draft": True, "cite": True, **settings})
        program, engine = programmed(program, said or replies(drafts))
        engine.probability = probability
        return program, engine

    return make


@pytest.mark.parametrize(
    ("drafts", "calls", "sources"),
    [
        (("Ann Ok", "Bergen"), {"DraftQuizzes": 1, "Summarize": 1}, ["memory", "memory"]),
        (("Ann Ok", "UNKNOWN"), {"DraftQuizzes": 1, "AnswerAndCite": 1, "Summarize": 1}, ["memory", "passages"]),
        (("UNKNOWN", "UNKNOWN"), {"DraftQuizzes": 1, "AnswerAndCite": 2, "Summarize": 1}, ["passages", "passages"]),
        # The second draft was written with another author than the one that was found.
        (("Bo Ek", "Oslo"), {"DraftQuizzes": 1, "Summarize": 1}, ["memory", "memory"]),
        (("UNKNOWN", "Oslo"), {"DraftQuizzes": 1, "AnswerAndCite": 2, "Summarize": 1}, ["passages", "passages"]),
    ],
)
def test_a_question_costs_a_plan_its_unknown_quizzes_and_a_summary(made, drafts, calls, sources):
    program, engine = made(drafts)
    record = program(TWO_HOPS).record
    assert engine.count == calls
    assert [quiz.source for quiz in record.quizzes] == sources
    assert record.answer == ("Oslo" if drafts[0] == "Bo Ek" else "Bergen")
    assert record.cost.by_step.keys() == {"drafting.draft", "summarizing.summarize"} | (
        {"citing.cite"} if "passages" in sources else set()
    )
    assert record.cost.samples == sum(calls.values())


def test_a_draft_that_is_the_quiz_once_more_is_none(made):
    program, _ = made(["Who wrote the Grey Harbour", "UNKNOWN"])
    first, _ = program(TWO_HOPS).record.quizzes
    assert (first.known, first.answer, first.source) == (False, "Ann Ok", "passages")


def test_an_answer_that_is_the_quiz_once_more_is_none(made):
    program, _ = made(said=replies((), cited=[1], read={"": ([1], TWO_HOPS)}), decompose=False, examine=False)
    assert program(TWO_HOPS).record.quizzes[0].source != "passages"


def takes_for_right(draft):
    """A gate whose boundary model takes one draft for right."""

    def judge(quiz, draws, reference):
        assert draws.drawn == 1
        return Judgement(*[float(draws.leading == draft)] * 2)

    return BoundaryGate(judging(judge, "draft"), threshold="1/2")


def test_a_draft_that_builds_on_another_answer_is_outdated(made):
    program, engine = made(("Bo Ek", "Oslo"), probability=None, gate=takes_for_right("Oslo"))
    first, second = program(TWO_HOPS).record.quizzes
    assert (first.known, first.answer, first.source) == (False, "Ann Ok", "passages")
    assert (second.known, second.stopped) == (False, "its draft was written with another answer to quiz 1")
    assert (second.drafted, [one.text for one in second.samples], second.clusters) == (True, ["Oslo"], [])
    assert second.answer == "Bergen"
    assert engine.count["AnswerAndCite"] == 2


def test_a_boundary_model_judges_the_one_draft(made):
    program, engine = made(gate=takes_for_right("Ann Ok"))
    first, second = program(TWO_HOPS).record.quizzes
    assert (first.known, first.certainty, first.stopped) == (True, 1.0, "one draft decides: mastery 1.00 reaches 1/2")
    assert (second.known, second.stopped) == (False, "one draft decides: mastery 0.00 is below 1/2")
    assert engine.count["AnswerQuiz"] == 0


@pytest.mark.parametrize(
    ("probability", "known", "stopped"),
    [
        (0.9, True, "the draft's probability 0.90 reaches 4/5"),
        (0.7, False, "the draft's probability 0.70 is below 4/5"),
        (None, True, "the draft is an answer, and no probability says how sure"),
    ],
)
def test_a_drafts_probability_decides_where_there_is_one(made, probability, known, stopped):
    record = made(probability=probability)[0](TWO_HOPS).record
    assert {(quiz.known, quiz.stopped, quiz.drafted) for quiz in record.quizzes} == {(known, stopped, True)}
    certainties = [quiz.certainty for quiz in record.quizzes]
    assert certainties == [None if probability is None else pytest.approx(probability)] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[[ ## quizzes ## ]]\n["a b"]\n\n[[ ## drafts ## ]]\n["New York", "no"]\n', [(0.5, 0.25), (0.25, 0.25)]),
        ('{"quizzes": ["a b"], "drafts": ["New York", "no"]}', [(0.5, 0.25), (0.25, 0.25)]),
        ("[[ ## drafts ## ]]\n[1643, 1685]\n", [(None, None), (None, None)]),
    ],
)
def test_the_probability_of_a_draft_is_that_of_its_own_tokens(text, expected):
    pieces = [piece for word in text.split(" ") for piece in (" ", word)][1:]
    tokens = [(piece, log(1.0 if piece == " " or "York" in piece else 0.25)) for piece in pieces]
    assert item_likelihoods(tokens, "drafts", 2) == expected


def test_a_draft_that_is_no_option_is_none(made):
    said = replies(["Norway"], quizzes=["Is it Bergen?"])
    program, engine = made(said=said, tries=3)
    record = program("Is it Bergen?", "yes/no").record
    assert (record.quizzes[0].drafted, engine.count["AnswerQuiz"]) == (False, 3)
    program, engine = made(said=replies(["Yes."], quizzes=["Is it Bergen?"]))
    assert program("Is it Bergen?", "yes/no").record.quizzes[0].drafted
    assert engine.count.total() == 1


@pytest.mark.parametrize(
    ("drafts", "known"), [(("UNKNOWN",), [False, False]), (("Ann Ok", "Bergen", "UNKNOWN"), [True, True])]
)
def test_a_refusal_more_or_less_makes_no_difference(made, drafts, known):
    program, engine = made(drafts)
    record = program(TWO_HOPS).record
    assert (record.degradations, [quiz.known for quiz in record.quizzes]) == ([], known)
    assert not engine.count["AnswerQuiz"]


@pytest.mark.parametrize("drafts", [("Ann Ok",), ("UNKNOWN", "Bergen", "Oslo"), ()])
def test_quizzes_without_their_drafts_are_examined_as_the_paper_does(made, drafts):
    program, engine = made(drafts, tries=3)
    record = program(TWO_HOPS).record
    assert [(one.stage, one.cause, one.touches) for one in record.degradations] == [
        ("decompose", "MissingDrafts", False)
    ]
    assert engine.count["AnswerQuiz"] == 6
    assert [quiz.drafted for quiz in record.quizzes] == [False, False]


def test_where_the_plan_fails_the_question_is_examined_by_itself(made):
    program, engine = made(said=replies((), DraftQuizzes="no {form"), tries=3)
    record = program(TWO_HOPS).record
    assert [quiz.text for quiz in record.quizzes] == [TWO_HOPS]
    assert (engine.count["AnswerQuiz"], record.answer_source) == (3, "memory")
    assert record.degradations[-1].action == "took the question for the single quiz"


def test_a_quiz_of_the_question_without_some_words_is_a_part_of_it(made):
    parts = [f"Where was the author of The Grey Harbour of {place} born?" for place in ("Oslo", "Ulm")]
    program, _ = made(said=replies(["Bergen", "Bonn"], quizzes=parts))
    record = program("Where was the author of The Grey Harbour of Oslo and Ulm born?").record
    assert [quiz.text for quiz in record.quizzes] == parts


def test_a_long_question_is_compared_with_its_quizzes_as_a_whole_alone(made):
    # Likeness takes the square of their lengths.
    asked = "Where was Ann Ok born? " + "ab ba " * 100
    program, _ = made(said=replies(["Bergen", "Oslo"], quizzes=[asked.replace("was", "is"), "Ann Ok"]))
    assert len(program(asked).record.quizzes) == 2


# Reading and citing.


@pytest.mark.parametrize(
    ("citations", "answer", "causes"),
    [
        ([], "Bergen", {"NoCitation"}),
        ([7], "Bergen", {"UnknownCitation", "NoCitation"}),
        ([2], "UNKNOWN", set()),
        ([], "UNKNOWN", set()),
    ],
)
@pytest.mark.parametrize(
    ("way", "said"), [("largest_cluster", "Oslo"), ("closed_book", "Oslo"), ("top_passage", "Top")]
)
def test_without_answer_or_citation_nothing_helped(made, citations, answer, causes, way, said):
    reply = replies((), cited=citations, read={"": (citations, answer)})
    program, _ = made(said=reply, decompose=False, tries=3, on_nothing_helpful=way, threshold=1, top_p=0.5)
    program.gate = keqa.programs.gates.AlwaysRetrieveGate()
    record = program(TWO_HOPS).record
    assert record.answer == said
    assert [one.verdict for one in record.quizzes[0].passages] == ["not cited"] * 3
    assert {one.cause for one in record.degradations} == causes


def test_a_number_that_is_not_there_is_ignored(made):
    record = made(said=replies((), cited=[2, 9, 2]), decompose=False, examine=False)[0](TWO_HOPS).record
    verdicts = [(one.passage_id, one.verdict, one.kept) for one in record.quizzes[0].passages]
    assert verdicts == [("p0", "not cited", False), ("p1", "cited", True), ("p2", "not cited", False)]
    (note,) = record.degradations
    assert (note.quiz, note.message, note.touches) == (1, "no passage has the number 9", False)


@pytest.mark.parametrize("told", [True, False])
def test_passages_of_unreliable_sources_are_read_where_the_others_do_not_tell(made, told):
    class Doubting:
        def source_of(self, passage):
            return type("Source", (), {"unreliable": "rains" not in passage, "__str__": lambda self: "doubted"})()

        def __call__(self, quiz, passage):
            return ()

    cited = {"born": ([1], "Bergen")} if told else {"": ([], "UNKNOWN")}
    program, engine = made(
        said=replies((), read=cited), decompose=False, examine=False, prefer_reliable=True, reference=Doubting()
    )
    record = program(TWO_HOPS).record
    read = [list(json.loads(inputs["passages"]).values()) for inputs in engine.asked("AnswerAndCite")]
    assert read == [[TEXTS[2]]] if told else read == [[TEXTS[2]], [TEXTS[0], TEXTS[1]]]
    assert [one.passage_id for one in record.quizzes[0].passages if one.kept] == (["p2"] if told else [])
    assert ("more reliable" in record.quizzes[0].passages[0].why) is told


def test_what_the_documents_do_not_say_is_a_finding(made):
    texts = ("Ann Ok was born in Bergen.",)
    reply = replies((), read={"": ([1], "Trondheim")})
    record = made(said=reply, own=True, texts=texts, decompose=False)[0]("Where was Ann Ok born?").record
    assert (record.answer_source, record.quizzes[0].supported) == ("unanswered", False)
    reply = replies((), read={"": ([], "UNKNOWN")})
    record = made(said=reply, own=True, texts=texts, decompose=False)[0]("Where was Ann Ok born?").record
    (missing,) = record.unanswered.missing
    assert missing.why == "none of the 1 passages found tells it, by the reply"
    reply = replies((), AnswerAndCite="no\nform")
    record = made(said=reply, own=True, texts=texts, decompose=False)[0]("Where was Ann Ok born?").record
    (missing,) = record.unanswered.missing
    assert missing.why == "the passages found (1) were read, but no reply could be used"
    reply = replies((), read={"": ([1], "Bergen")})
    program, engine = made(said=reply, own=True, texts=texts, decompose=False)
    assert program("Where was Ann Ok born?").answer == "Bergen"
    assert engine.count == {"AnswerAndCite": 1}


@pytest.mark.parametrize(("citations", "kept"), [([], ["p0"]), ([9], ["p0"]), ([2], ["p0"]), ([1, 2], ["p0", "p1"])])
def test_over_documents_of_ones_own_the_words_of_an_answer_say_what_carries_it(made, citations, kept):
    texts = ("Ann Ok was born in Bergen.", "Ann Ok likes to sail.", "It rains in Bergen.")
    reply = replies((), read={"": (citations, "Bergen")})
    record = made(said=reply, own=True, texts=texts, decompose=False)[0]("Where was Ann Ok born?").record
    assert (record.answer, [one.passage_id for one in record.quizzes[0].passages if one.kept]) == ("Bergen", kept)
    reply = replies((), read={"": ([], "Ann Ok")})
    echo = made(said=reply, own=True, texts=texts, decompose=False)[0]("Where was Ann Ok born?").record
    assert echo.answer_source == "unanswered"


@pytest.mark.parametrize("first", ["Where was Ann Ok born?", "Where is Ann Ok born?", "Wher was Ann Ok born?"])
@pytest.mark.parametrize("second", ["Where was Ann Ok born?", "UNKNOWN", "Where is #2?", "Ann Ok"])
def test_a_plan_with_the_question_itself_takes_nothing_apart(made, first, second):
    asked = "Where was Ann Ok born?"
    program, engine = made(said=replies(["Bergen", "Oslo"], quizzes=[first, second]))
    record = program(asked).record
    assert ([quiz.text for quiz in record.quizzes], record.answer, engine.count.total()) == ([asked], "Bergen", 1)


def test_an_older_passage_that_a_newer_one_contradicts_is_not_read(made):
    program, engine = made(said=replies((), read={"": ([1], "25 euros")}), own=True, decompose=False)
    program.retriever.passages = [
        Passage("old", "Policy", "The daily allowance is 20 euros.", Place("a.md", date="2020-01-01")),
        Passage("new", "Policy", "The daily allowance is 25 euros.", Place("b.md", date="2024-01-01")),
    ]
    record = program("What is the daily allowance?").record
    (inputs,) = engine.asked("AnswerAndCite")
    assert "20 euros" not in inputs["passages"]
    assert "2024-01-01" in inputs["passages"]
    assert record.answer == "25 euros"
    assert record.quizzes[0].passages[0].older_than == "new"


# As settings.


def test_off_they_leave_no_trace(made):
    plain, _ = made(draft=False, cite=False)
    assert not {"draft", "cite"} & program_spec(plain)["settings"].keys()
    assert not {name for name, _ in plain.named_predictors()} & {"drafting.draft", "citing.cite"}
    both, _ = made()
    assert program_spec(both)["settings"]["draft"] is True
    both.change(draft=False, cite=False)
    assert program_spec(both) == program_spec(plain)


@pytest.mark.parametrize(
    "settings",
    [
        {"decompose": False, "pick": False},
        {"examine": False, "select": True},
        {"examine": False, "extract_sentences": 2},
    ],
)
def test_beside_what_they_need_they_have_no_effect(made, settings):
    program, _ = made(**settings)
    assert (program.drafting, program.citing) == (None, None)


def test_a_saved_program_is_given_back_without_them_where_that_is_wanted(made, tmp_path):
    program, _ = made()
    keqa.save(program, tmp_path / "program")
    assert keqa.load(tmp_path / "program", None, draft=False).drafting is None
    with pytest.raises(ConfigurationError, match="other prompts"):
        KEQA(None).take(program.described(), whole=False)
