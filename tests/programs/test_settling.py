"""How far a question is taken: from memory, by one reading, or apart; what that asks, and what the record says."""

import json

import pytest
from fixtures.choosers import NeverKnown, chooser
from fixtures.replies import Replies

import keqa
from keqa.errors import ConfigurationError, RetrievalError
from keqa.programs.abstention import record_signals
from keqa.programs.boundary.chooser import Chooser, Features, Seen, read_chooser
from keqa.programs.calls.errors import UnansweredError
from keqa.programs.fingerprint import program_spec
from keqa.programs.keqa import KEQA
from keqa.programs.prediction import sources_of
from keqa.programs.records import QuestionRecord
from keqa.retrievers.base import Passage

QUESTION = "Where was the author of The Grey Harbour born?"
PLAN = ["Who wrote The Grey Harbour?", "Where was #1 born?"]
TEXTS = ("The Grey Harbour is a novel by Ann Ok, born in Bergen.", "It rains in Oslo.")
PAPERS = {"listwise": True, "tries": 1}


def replies(plan=PLAN, memory="Oslo", helpful=(True, False), summary="Bergen", **said):
    """A language model whose memory says Oslo and whose reading of the first passage says Bergen."""

    def read(inputs, config):
        return {"answer": "Ann Ok" if "Who" in inputs["question"] else "Bergen"}

    usual = {
        "DecomposeQuestion": {"quizzes": json.dumps(plan)},
        "AnswerQuiz": {"answer": memory},
        "JudgeUtilities": {"helpful": json.dumps(dict(enumerate(helpful, 1)))},
        "AnswerWithKnowledge": read,
        "Summarize": {"explanation": "So.", "answer": summary},
    }
    return Replies(**usual | said)


DOWN, UNKNOWN = ConnectionError("down"), {"answer": "UNKNOWN"}


@pytest.fixture
def made(programmed, retriever):
    """Makes a program, and gives its engine and its retriever with it."""

    def make(own=False, probability=None, said=None, **settings):
        searched = retriever(*TEXTS, own=own)
        program, engine = programmed(KEQA(searched, **PAPERS | settings), said or replies())
        engine.probability = probability
        return program, engine, searched

    return make


@pytest.mark.parametrize(
    ("settle", "calls", "searches", "answer", "source"),
    [
        ("draft", {"AnswerQuiz": 1}, 0, "Oslo", "memory"),
        ("reading", {"JudgeUtilities": 1, "AnswerWithKnowledge": 1}, 1, "Bergen", "passages"),
        ("quizzes", {"DecomposeQuestion": 1, "AnswerQuiz": 2, "Summarize": 1}, 0, "Bergen", "summary"),
    ],
)
def test_a_question_is_settled_in_the_way_that_is_set(made, settle, calls, searches, answer, source):
    program, engine, searched = made(settle=settle)
    record = program(QUESTION).record
    assert engine.count == calls
    assert len(searched.queries) == record.cost.retrievals == searches
    assert (record.answer, record.answer_source, record.settled_by) == (answer, source, settle)
    if settle != "quizzes":
        assert [(quiz.index, quiz.resolved, quiz.answer) for quiz in record.quizzes] == [(1, QUESTION, answer)]


@pytest.mark.parametrize(
    ("settings", "read", "searches"),
    [
        ({"settle": "reading"}, [["novel"]], 1),
        ({"settle": "reading", "expand": 2}, [["novel", "author"]], 2),
        ({"expand": 2}, [["novel"], ["author"]], 2),
    ],
)
def test_what_the_best_passage_leads_to_is_read_for_the_whole_question(scripted, settings, read, searches):
    texts = {"novel": "The Grey Harbour is a novel by Ann Ok.", "author": "Ann Ok comes from Bergen.", "city": "Oslo."}
    passages = [Passage(name, "", text) for name, text in texts.items()]
    lm, _ = scripted(replies(memory="UNKNOWN"))
    program = KEQA(keqa.open_encyclopedia(passages), lms=keqa.build_roles(lm), pick=False, top_k=1, tries=1, **settings)
    record = program(QUESTION).record
    assert [[one.passage_id for one in quiz.passages] for quiz in record.quizzes] == read
    assert record.cost.retrievals == searches


def test_where_the_second_search_fails_what_the_first_found_is_read(made):
    program, _, searched = made(settle="reading", expand=2)
    found = searched.search

    def search(query, k):
        if query != QUESTION:
            raise RetrievalError("down")
        return found(query, k)

    searched.search = search
    record = program(QUESTION).record
    assert (record.answer, len(record.quizzes[0].passages)) == ("Bergen", 2)
    assert {(one.stage, one.action) for one in record.degradations} >= {("retrieve", "read what was found before")}


@pytest.mark.parametrize(
    ("way", "chances"),
    [
        ({"settle": "draft"}, {}),
        (
            {"settle": "cascade", "chooser": chooser(0.9, {"draft": 0.9, "reading": 0.6}, onward=[0.1])},
            {"reading": 0.6},
        ),
    ],
)
def test_over_documents_of_ones_own_memory_is_no_answer(made, way, chances):
    program, engine, searched = made(**way, own=True)
    record = program(QUESTION).record
    assert (record.answer, record.settled_by, len(searched.queries)) == ("Bergen", "reading", 1)
    assert record.chances == pytest.approx(chances)
    assert not {"AnswerQuiz", "AnswerQuizIfSure"} & engine.count.keys()


def test_a_draft_that_fails_is_no_answer(made):
    program, _, _ = made(settle="draft", said=lambda name, inputs, config: "")
    with pytest.raises(UnansweredError) as failed:
        program(QUESTION)
    assert failed.value.record.settled_by is None


READ, APART = {"draft": 0.3, "reading": 0.6}, {"draft": 0.3, "reading": 0.5, "quizzes": 0.8}
DRAFT = {"AnswerQuiz": 1}
READING = DRAFT | {"JudgeUtilities": 1, "AnswerWithKnowledge": 1}
ALL = READING | {"AnswerQuiz": 3, "DecomposeQuestion": 1, "Summarize": 1}


@pytest.mark.parametrize(
    ("chooses", "calls", "searches", "answer", "source", "way", "chances"),
    [
        (chooser(0.9, READ, onward=[0.7]), DRAFT, 0, "Oslo", "memory", "draft", {"draft": 0.9}),
        (chooser(0.9), DRAFT, 0, "Oslo", "memory", "draft", {"draft": 0.9}),
        (chooser(0.4, READ, onward=[0.7]), READING, 1, "Bergen", "passages", "reading", READ),
        (
            *(chooser(0.4, {"draft": 0.7, "reading": 0.6}, APART, onward=[0.7, 0.6]), READING, 1, "Oslo", "memory"),
            *("draft", {"draft": 0.7, "reading": 0.6}),
        ),
        (chooser(0.4, READ, APART, onward=[0.7, 0.7]), ALL, 1, "Molde", "summary", "quizzes", APART),
        (
            *(chooser(0.4, READ, {**APART, "reading": 0.9}, onward=[0.7, 0.7]), ALL, 1, "Bergen", "fallback"),
            *("reading", {**APART, "reading": 0.9}),
        ),
        (
            *(chooser(0.4, READ, {**APART, "draft": 0.9}, onward=[0.7, 0.7]), ALL, 1, "Oslo", "memory"),
            *("draft", {**APART, "draft": 0.9}),
        ),
    ],
)
def test_a_cascade_takes_each_step_that_is_worth_it(made, chooses, calls, searches, answer, source, way, chances):
    program, engine, searched = made(settle="cascade", chooser=chooses, said=replies(summary="Molde"))
    record = program(QUESTION).record
    assert engine.count == calls
    assert len(searched.queries) == searches
    assert (record.answer, record.answer_source, record.settled_by) == (answer, source, way)
    assert record.chances == pytest.approx(chances)
    assert [(one.text, one.quizzes) for one in sources_of(record)] == ([(TEXTS[0], [])] if way == "reading" else [])
    assert QuestionRecord.model_validate_json(record.model_dump_json()) == record


def test_what_a_cascade_found_before_its_quizzes_stands_in_the_record(made):
    chooses = chooser(0.4, READ, APART, onward=[0.7, 0.7])
    record = made(settle="cascade", chooser=chooses, probability=0.5)[0](QUESTION).record
    whole = record.whole
    assert (whole.resolved, whole.answer, whole.source, whole.gate) == (QUESTION, "Bergen", "passages", "chooser")
    assert (whole.known, whole.stopped) == (False, "right with 0.40, and a reading is worth 0.70")
    assert whole.samples[0].model_dump(include={"text", "probability"}) == {
        "text": "Oslo",
        "probability": pytest.approx(0.5),
    }
    assert record.fallback is None
    assert len(record.quizzes) == 2


@pytest.mark.parametrize(
    ("said", "chances", "found"),
    [
        (replies(Summarize=DOWN), READ, ("Bergen", "reading", "fallback", 2)),
        (replies(Summarize=DOWN), {"draft": 0.7, "reading": 0.6}, ("Oslo", "draft", "memory", 2)),
        # The reading failed as well.
        (replies(Summarize=DOWN, AnswerWithKnowledge=DOWN), READ, ("Oslo", "draft", "memory", 2)),
    ],
)
def test_an_answer_stands_also_where_a_later_step_fails(made, said, chances, found):
    chooses = chooser(0.4, chances, APART, onward=[0.7, 0.8])
    record = made(settle="cascade", chooser=chooses, said=said)[0](QUESTION).record
    assert (record.answer, record.settled_by, record.answer_source, len(record.quizzes)) == found
    last = record.degradations[-1]
    assert (last.stage, last.quiz, last.action) == ("summarize", None, "took the answer of an earlier step")
    assert record.touched


def test_where_no_step_has_an_answer_and_the_last_one_fails_there_is_none(made):
    def read(inputs, config):
        return UNKNOWN if inputs["question"] == QUESTION else {"answer": "Ann Ok"}

    said = replies(Summarize=DOWN, AnswerFromDocuments=read)
    chooses = chooser(0.4, READ, APART, onward=[0.7, 0.7])
    with pytest.raises(UnansweredError) as failed:
        made(settle="cascade", chooser=chooses, own=True, said=said)[0](QUESTION)
    record = failed.value.record
    assert (record.answer, record.settled_by, record.whole.source, len(record.quizzes)) == (None, None, "unanswered", 2)


@pytest.mark.parametrize(
    ("plan", "calls"),
    [
        # It is its own only quiz, or one of them, or asked by itself in the end.
        ([QUESTION], {"DecomposeQuestion": 1}),
        (["Who wrote The Grey Harbour?", QUESTION], {"DecomposeQuestion": 1, "AnswerQuiz": 2, "Summarize": 1}),
        (["Who wrote #2?", "Where was #1 born?"], {"DecomposeQuestion": 1}),
    ],
)
def test_nothing_is_asked_or_searched_for_twice(made, plan, calls):
    chooses = chooser(0.4, READ, APART, onward=[0.7, 0.7])
    way = {"settle": "cascade", "chooser": chooses, "summarize_single": True}
    program, engine, searched = made(**way, said=replies(plan, summary="Molde"))
    record = program(QUESTION).record
    assert engine.count == READING | calls
    assert searched.queries == [QUESTION]
    apart = "Summarize" in calls
    assert (record.answer, record.settled_by) == (("Molde", "quizzes") if apart else ("Bergen", "reading"))


def test_a_reading_that_finds_nothing_leaves_the_draft(made):
    chooses = chooser(0.4, {"draft": 0.3, "reading": 0.9}, onward=[0.7])
    said = replies(helpful=(False, False))
    program, engine, _ = made(settle="cascade", chooser=chooses, said=said)
    record = program(QUESTION).record
    # The draft is the closed-book answer, and what was not read is not believed.
    assert engine.count == {"AnswerQuiz": 1, "JudgeUtilities": 1}
    assert (record.answer, record.settled_by, record.chances) == ("Oslo", "draft", {"draft": pytest.approx(0.3)})


def test_documents_that_say_nothing_are_taken_apart_or_told(made):
    said = replies(AnswerFromDocuments=UNKNOWN)
    stops = made(settle="cascade", chooser=chooser(0.9, READ, onward=[0.1]), own=True, said=said)[0](QUESTION).record
    assert (stops.answer_source, stops.settled_by, stops.chances.get("draft")) == ("unanswered", "reading", None)
    chooses = chooser(0.9, READ, APART, onward=[0.1, 0.7])
    program, engine, searched = made(settle="cascade", chooser=chooses, own=True, said=said)
    apart = program(QUESTION).record
    assert (apart.answer_source, apart.guessed, apart.chances) == ("unanswered", False, {})
    assert [quiz.source for quiz in apart.quizzes] == ["unanswered", "blocked"]
    assert (engine.count["DecomposeQuestion"], searched.queries.count(QUESTION)) == (1, 1)


def test_a_search_that_fails_is_no_reason_to_believe_memory(made):
    chooses = chooser(0.4, {"draft": 0.9, "reading": 0.1}, onward=[0.7])
    program, _, searched = made(settle="cascade", chooser=chooses, said=replies(memory="unknown"))
    searched.error = RuntimeError("down")
    with pytest.raises(UnansweredError):
        program(QUESTION)


def test_a_draft_that_fails_leaves_the_reading(made):
    said = replies(AnswerQuiz="")
    record = made(settle="cascade", chooser=chooser(0.9, READ, onward=[0.1]), said=said)[0](QUESTION).record
    assert (record.answer, record.settled_by, record.touched) == ("Bergen", "reading", True)


FIRST = {"JudgeUtilities": 1, "AnswerWithKnowledge": 1}


@pytest.mark.parametrize(
    ("helpful", "calls", "searches", "answer", "way"),
    [
        ((True, False), FIRST, 1, "Bergen", "reading"),
        # Nothing was found for the question, and something for its quizzes, which memory settles here.
        (
            (False, False),
            {"JudgeUtilities": 1, "AnswerQuiz": 3, "DecomposeQuestion": 1, "Summarize": 1},
            1,
            "Molde",
            "quizzes",
        ),
    ],
)
def test_without_a_chooser_a_cascade_takes_apart_what_passages_do_not_tell(made, helpful, calls, searches, answer, way):
    program, engine, searched = made(settle="cascade", said=replies(helpful=helpful, summary="Molde"))
    record = program(QUESTION).record
    assert (engine.count, len(searched.queries)) == (calls, searches)
    assert (record.answer, record.settled_by, record.chances) == (answer, way, {})
    assert (record.whole and record.whole.source) == (None if way == "reading" else "closed_book")


@pytest.mark.parametrize(("told", "source", "plans"), [("Bergen", "passages", 0), ("UNKNOWN", "unanswered", 1)])
def test_over_documents_of_ones_own_nothing_is_read_twice(made, told, source, plans):
    said = replies([QUESTION], AnswerFromDocuments={"answer": told})
    program, engine, searched = made(settle="cascade", own=True, said=said)
    record = program(QUESTION).record
    assert (record.answer_source, record.settled_by, searched.queries) == (source, "reading", [QUESTION])
    assert engine.count["DecomposeQuestion"] == plans


def test_a_chooser_fits_what_it_is_for(made):
    program = made()[0]
    with pytest.raises(ConfigurationError, match="an arbiter sees two answers"):
        program.arbiter = chooser(0.5)
    with pytest.raises(ConfigurationError, match="chooser must be a chooser, or its file"):
        program.chooser = 3


def test_a_chooser_is_saved_with_its_program_and_opens_no_file(made, tmp_path):
    chooses = chooser(0.9, READ, onward=[0.7])
    file = tmp_path / "chooser.json"
    file.write_text(json.dumps(chooses.written()))
    program = KEQA(None, settle="cascade", chooser=file, arbiter=chooses)
    assert program.chooser == read_chooser(file) == chooses
    keqa.save(program, tmp_path / "program")
    assert len(json.dumps(program_spec(program))) < 5000
    saved = tmp_path / "program" / "program.json"
    state = json.loads(saved.read_text())
    for strange in (str(file), {"format": "keqa-chooser"}):
        state["settings"]["chooser"] = strange
        saved.write_text(json.dumps(state))
        with pytest.raises(ConfigurationError, match=r"opens no file|no chooser that can be used"):
            keqa.load(tmp_path / "program", None)


def test_a_chooser_of_another_version_is_refused():
    written = chooser(0.9).written()
    written["steps"][0]["right"]["signals"] = {"moon": {"mean": 0.0, "scale": 1.0, "weight": 1.0}}
    with pytest.raises(ConfigurationError, match="weighs what this version does not see"):
        KEQA(None, chooser=written)


@pytest.mark.parametrize(
    ("memory", "right", "kept", "answers"),
    [
        ("Oslo", 0.8, "memory over evidence", ["Oslo", "memory"]),
        ("Oslo", 0.2, "evidence over memory", ["Bergen", "passages"]),
        # They agree, or there is one alone.
        ("Bergen", 0.8, None, ["Bergen", "passages"]),
        ("unknown", 0.8, None, ["Bergen", "passages"]),
    ],
)
@pytest.mark.parametrize("drafted", [False, True])
def test_an_arbiter_keeps_memory_or_evidence(made, memory, right, kept, answers, drafted):
    drafts = {"quizzes": json.dumps([QUESTION]), "drafts": json.dumps([memory])}
    said = replies([QUESTION], memory, DraftQuizzes=drafts)
    arbiter = chooser(0.5, {"draft": right, "reading": 0.5})
    # A draft so improbable, or one try of two, is not known.
    program, engine, _ = made(arbiter=arbiter, said=said, draft=drafted, probability=0.1, gate=NeverKnown())
    [quiz] = program(QUESTION).record.quizzes
    assert [quiz.answer, quiz.source] == answers
    assert engine.count["AnswerQuiz"] == (not drafted)
    # By which the arbiter was taught, whether or not the gate goes by it.
    assert quiz.samples[0].probability == pytest.approx(0.1)
    if kept is None:
        assert quiz.weighed is None
    else:
        assert (quiz.weighed.memory, quiz.weighed.evidence, quiz.weighed.kept) == (memory, "Bergen", kept)
        assert (quiz.weighed.memory_right, quiz.weighed.evidence_right) == pytest.approx((right, 0.5))


def test_an_arbiter_sees_all_that_memory_said(made, monkeypatch):
    seen, told, choose = [], iter(["Oslo", "Rome"]), Chooser.choose
    monkeypatch.setattr(Chooser, "choose", lambda self, one: seen.append(one) or choose(self, one))
    said = replies(
        [QUESTION], AnswerQuiz=lambda inputs, config: {"answer": next(told)}, JudgeConsistency={"same": False}
    )
    # Draws side by side come in any order.
    made(arbiter=chooser(0.5, {"draft": 0.9, "reading": 0.1}), said=said, tries=2, workers=1)[0](QUESTION)
    assert [(one.answers, one.further) for one in seen] == [(("Oslo", "Bergen"), ("Rome",))]


def test_over_documents_of_ones_own_evidence_is_kept(made):
    program = made(arbiter=chooser(0.5, {"draft": 0.9, "reading": 0.1}), own=True, gate=NeverKnown())[0]
    assert {(quiz.source, quiz.weighed) for quiz in program(QUESTION).record.quizzes} == {("passages", None)}


def test_what_was_settled_from_memory_counts_for_a_risk_as_a_known_quiz_does(made):
    record = made(settle="cascade", chooser=chooser(0.9, READ, onward=[0.7]))[0](QUESTION).record
    signals = record_signals(record)
    assert [signals[name] for name in ("memory, least", "from passages", "unsupported")] == [pytest.approx(0.9), 0, 0]


def test_each_answer_is_compared_with_the_others_and_none_with_itself():
    found = Features(Seen("Who wrote it?", "Ann wrote it.", ("Ann", "Ann", "Bo"))).signals(0)
    same = {name.partition(": same")[0]: value for name, value in found.items() if name.endswith(": same")}
    alike = {"others": 1, "draft: others": 1, "draft by reading": 1, "draft by quizzes": 0}
    # Each way has weights of its own, which count where it is the answer's.
    names = ("reading: others", "reading by draft", "reading by quizzes", "quizzes: others", "quizzes by draft")
    assert same == {**alike, **dict.fromkeys((*names, "quizzes by reading"), 0)}
