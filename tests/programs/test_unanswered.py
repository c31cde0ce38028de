"""What the documents do not say is a finding of its own, and never a guess."""

import datetime
import json
import pickle
from itertools import chain, repeat
from types import SimpleNamespace

import dspy
import pytest
from dspy.lm15 import ServerError
from fixtures.choosers import chooser
from fixtures.replies import Replies

import keqa
from keqa.errors import NotInDocumentsError, RetrievalError, StageError
from keqa.programs import today
from keqa.programs.calls.ask import predict
from keqa.programs.calls.errors import UnansweredError
from keqa.programs.calls.session import within
from keqa.programs.keqa import KEQA
from keqa.programs.records import FoundQuiz, MissingQuiz, Statement, Unanswered, Written
from keqa.programs.stages.documents import contradicting
from keqa.programs.stages.picking import unjudged
from keqa.programs.unanswered import lines_of, listed, message_of, without_guess
from keqa.retrievers.base import Hit, Passage, Place

MERIDIAN = "Who is the CFO of Meridian Rail?"
SALARY = "What is the salary of Jonas Albrecht?"


def replies(helpful=(), answers=None, quizzes=None, memory=("12 June 2023", "Oslo", "40,000", "Ann", "17"), **said):
    """A language model that remembers nothing for sure, and finds passages helpful that hold one of some texts."""
    drawn, told = iter(memory * 20), answers or {}

    def read(inputs, config):
        return {"answer": next((answer for asked, answer in told.items() if asked in inputs["question"]), "UNKNOWN")}

    usual = {
        "DecomposeQuestion": lambda i, c: {"quizzes": json.dumps(quizzes or [i["question"]])},
        "AnswerQuiz": lambda i, c: {"answer": next(drawn)},
        "AnswerWithKnowledge": read,
        "JudgeConsistency": {"same": "False"},
        "JudgeUtility": lambda i, c: {"helpful": str(any(text in i["passage"] for text in helpful))},
        "Summarize": {"explanation": "So.", "answer": next(iter(told.values()), "UNKNOWN")},
        "JudgeSupport": {"support": "no"},
        "TranslateQuery": lambda i, c: {"translated": i["question"]},
    }
    return Replies(**usual | said)


@pytest.fixture
def own(programmed, retriever):
    """Makes a program over documents of one's own."""
    return lambda *texts, reply=None, **settings: programmed(
        KEQA(retriever(*texts, own=True), **settings), reply or replies()
    )


@pytest.mark.parametrize(
    ("texts", "kind", "message"),
    [
        ((), "nothing found", f"Not in your documents: nothing was found on “{SALARY}”."),
        (("Trains to Bremen are paid.",), "nothing found", f"Not in your documents: nothing was found on “{SALARY}”."),
        (
            ("Jonas Albrecht works in Bremen.",),
            "nothing supports an answer",
            f"Not in your documents: nothing that was found answers “{SALARY}”.",
        ),
    ],
)
def test_over_documents_of_ones_own_nothing_is_guessed(own, texts, kind, message):
    prediction = own(*texts)[0](SALARY)
    found = prediction.unanswered
    assert (prediction.answer, prediction.record.answer_source, prediction.sources) == (message, "unanswered", [])
    assert (found.kind, found.asked, found.message, found.found) == (kind, SALARY, message, [])
    assert [(one.quiz, one.asked, one.kind, one.searched) for one in found.missing] == [(0, SALARY, kind, [SALARY])]
    assert found.missing[0].read == [f"p{place}" for place in range(len(texts))]
    assert not prediction.record.guessed
    # It is not asked from memory where the documents speak of what is asked.
    drawn = [one.text for one in prediction.record.quizzes[0].samples]
    assert (found.guess, bool(drawn)) == (drawn[0] if drawn else None, kind == "nothing found")


@pytest.mark.parametrize("beside", ["{}\n\nThanks, Nils Petermann", "My boss is ill. {}", "{} Thanks!"])
def test_names_beside_a_question_are_not_what_it_is_about(own, beside):
    asked = "What is the salary of a janitor?"
    program, _ = own("The salary of a janitor is 40,000.", reply=replies(answers={asked: "40,000"}), pick=False)
    # The judge would say no.
    assert program(beside.format(asked)).answer == "40,000"


@pytest.mark.parametrize(
    ("asked", "passage", "language"),
    [
        ("Wie viel Gehalt bekommt ein Hausmeister?", "The salary of a janitor is 40,000.", "English"),
        ("看门人的工资是多少？", "The salary of a janitor is 40,000.", "English"),
        ("What does the janitor earn?", "Das Gehalt von einem Hausmeister ist in der Liste: 40.000.", "German"),
        ("Who is janitor Kim?", "看门人的工资是四万元。", "Chinese"),
        # In its own language, or where nothing tells which that is, a question is searched for as it is.
        ("What does the janitor earn?", "The salary of a janitor is 40,000.", ""),
        ("Wie viel Gehalt bekommt ein Hausmeister?", "Hausmeister | 40,000 | A7", ""),
        ("Meridian Rail CFO", "Das Gehalt von einem Hausmeister ist in der Liste: 40.000.", ""),
    ],
)
def test_documents_in_another_language_are_searched_in_theirs(own, asked, passage, language):
    said = replies(TranslateQuery=lambda i, c: {"translated": f"In {i['language']}"})
    program, engine = own(passage, reply=said, settle="reading", pick=False)
    searched = [asked, *([f"In {language}"] if language else [])]
    assert program(asked).unanswered.missing[0].searched == searched
    assert (program.retriever.queries, engine.count["TranslateQuery"]) == (searched, len(searched) - 1)


@pytest.mark.parametrize(
    ("words", "reply", "judged", "reads", "answer"),
    [
        (["vessel", "departs"], "at nine", "fully", 2, "at nine"),
        # A judge that does not agree, or says nothing, and words that the passages lack, of which none is asked.
        (["vessel", "departs"], "at nine", "partially", 2, None),
        (["vessel", "departs"], "at nine", "no", 2, None),
        (["vessel", "departs"], "at nine", "", 2, None),
        (["vessel", "departs"], "at ten", "fully", 2, None),
        # Nothing else is found, or no words are written.
        (["boat"], "at nine", "fully", 1, None),
        ([" "], "at nine", "fully", 1, None),
        ([], "at nine", "fully", 1, None),
    ],
)
def test_what_documents_call_otherwise_is_searched_in_other_words(own, words, reply, judged, reads, answer):
    asked, texts = "When do ships leave?", ("The harbour office is open.", "Vessel Aurora departs at nine.")
    said = replies(
        RewordQuery={"words": json.dumps(words)},
        AnswerFromDocuments=lambda i, c: {"answer": reply if "Vessel" in i["passages"] else "UNKNOWN"},
        JudgeSupport={"support": judged},
    )
    program, engine = own(*texts, reply=said, settle="reading", pick=False, expand=1)
    searched = [asked, " ".join([asked, *words])]
    program.retriever.found = {asked: [0], f"{asked} boat": [0], f"{asked} vessel departs": [0, 1]}
    found = program(asked)
    assert engine.count["AnswerFromDocuments"] == reads
    assert bool(engine.count["JudgeSupport"]) == (reply == "at nine" and reads == 2)
    if answer is None:
        missing, read = found.unanswered.missing[0], ["p0", "p1"][:reads]
        assert (missing.searched, missing.read) == (searched if any(map(str.strip, words)) else [asked], read)
        assert [one.kept for one in found.record.quizzes[0].passages] == [True, False][:reads]
    else:
        assert (found.answer, [one["text"] for one in found.sources]) == (answer, [texts[1]])
        (quiz,) = found.record.quizzes
        assert quiz.support == f"found by “{searched[1]}”; the passages have its words alone; judged: fully"
        assert [one.kept for one in quiz.passages] == [True, False]


def test_what_other_words_found_may_be_said_in_those_of_the_question(own):
    said = replies(
        RewordQuery={"words": '["vessel", "departs"]'},
        AnswerFromDocuments=lambda i, c: {"answer": "Ships leave at nine." if "Vessel" in i["passages"] else "UNKNOWN"},
        JudgeSupport={"support": "fully"},
    )
    texts = ("The office is open.", "Vessel Aurora departs at nine.")
    program, _ = own(*texts, reply=said, settle="reading", pick=False, expand=1)
    program.retriever.found = {"When do ships leave?": [0], "When do ships leave? vessel departs": [1]}
    assert program("When do ships leave?").answer == "Ships leave at nine."


def test_what_passages_speak_of_is_searched_in_no_other_words(own):
    program, engine = own("The harbour office is open in summer.", settle="reading", pick=False, expand=1)
    assert program("When is the harbour office open?").unanswered
    assert program("Who is janitor Kim?").unanswered
    assert engine.count["RewordQuery"] == 0


@pytest.mark.parametrize(
    ("passage", "said", "tongues", "answer"),
    [
        ("Badges are blue.", "3,80 €", ["German"], "3,80 €"),
        # It lacks most words of an answer in the question's language, which is for the judge.
        ("Badges are blue.", "The subsidy is 3.80", ["German"], "The subsidy is 3.80"),
        ("Badges are blue.", "UNKNOWN", ["German", "Spanish"], None),
        ("The subsidy of a lunch is high.", "3,80 €", [], None),
    ],
)
def test_an_index_in_several_languages_is_searched_in_the_others(own, passage, said, tongues, answer):
    asked, text = "How much is the subsidy for lunch?", "Der Zuschuss zum Mittagessen beträgt 3,80 €."
    reply = replies(
        TranslateQuery=lambda i, c: {"translated": f"In {i['language']}"},
        AnswerFromDocuments=lambda i, c: {"answer": said if "Zuschuss" in i["passages"] else "UNKNOWN"},
        JudgeSupport={"support": "fully"},
    )
    program, engine = own(passage, text, "We meet on Monday.", reply=reply, settle="reading", pick=False, expand=1)
    # Hardly any passage is in Polish.
    program.retriever.manifest = SimpleNamespace(languages={"en": 70, "de": 25, "es": 4, "pl": 1})
    program.retriever.found = {asked: [0], "In German": [2, 1], "In Spanish": []}
    found = program(asked)
    assert [one for one in program.retriever.queries if one.startswith("In ")] == [f"In {one}" for one in tongues]
    assert engine.count["TranslateQuery"] == len(tongues)
    if answer is None:
        assert found.unanswered.missing[0].searched == [asked, *(f"In {one}" for one in tongues)]
    else:
        assert (found.answer, [one["text"] for one in found.sources][-1:]) == (answer, [text])
        assert found.record.quizzes[0].support.startswith("found by “In German”; ")


def test_what_a_retriever_of_ones_own_calls_its_languages_may_be_anything(own):
    reply = replies(AnswerFromDocuments={"answer": "UNKNOWN"}, RewordQuery={"words": "[]"})
    program, engine = own("Badges are blue.", reply=reply, settle="reading", pick=False, expand=1)
    program.retriever.manifest = SimpleNamespace(languages="english and german")
    assert program("How much is the subsidy for lunch?").unanswered
    assert engine.count["TranslateQuery"] == 0


def test_what_a_translation_finds_in_the_language_of_the_question_has_to_have_words_of_an_answer(own):
    asked = "How much is the subsidy for lunch?"
    reply = replies(
        TranslateQuery={"translated": "Wie hoch?"},
        AnswerFromDocuments=lambda i, c: {"answer": "It is 3.80" if "Monday" in i["passages"] else "UNKNOWN"},
        RewordQuery={"words": "[]"},
        JudgeSupport={"support": "fully"},
    )
    program, engine = own("Badges are blue.", "We meet on Monday.", reply=reply, settle="reading", pick=False, expand=1)
    program.retriever.manifest = SimpleNamespace(languages={"en": 70, "de": 30})
    program.retriever.found = {asked: [0], "Wie hoch?": [1]}
    assert program(asked).unanswered
    assert engine.count["JudgeSupport"] == 0


def test_a_word_that_no_passage_has_is_put_in_others_of_its_language_where_the_index_has_that(own):
    asked, text = "Wie hoch ist der Überstundenzuschlag?", "Überstunden werden mit einem Zuschlag von 25 % vergütet."
    words = {"Wie hoch ist der Überstundenzuschlag?": ["Überstunden", "Zuschlag"]}
    reply = replies(
        answers={asked: "25 %"},
        TranslateQuery={"translated": "What is the overtime premium?"},
        RewordQuery=lambda i, c: {"words": json.dumps(words.get(i["question"], []))},
        JudgeSupport={"support": "fully"},
    )
    program, _ = own(text, reply=reply, settle="reading", pick=False, expand=1)
    program.retriever.manifest = SimpleNamespace(languages={"en": 70, "de": 30})
    program.retriever.found = {asked: [], "What is the overtime premium?": [], f"{asked} Überstunden Zuschlag": [0]}
    assert program(asked).answer == "25 %"


def test_the_older_of_two_versions_is_left_out_in_whatever_language_one_asks(own):
    said = replies(TranslateQuery={"translated": "What is the hotel limit?"})
    program, _ = own(reply=said, settle="reading", pick=False)
    for date, limit in (("2023-01-15", 120), ("2025-02-01", 150)):
        text = f"The hotel limit is {limit} euros a night."
        program.retriever.passages.append(Passage(date, "Travel policy", text, Place("policy.md", None, "", date)))
    passages = program("Wie hoch ist die Hotelgrenze?").record.quizzes[0].passages
    assert [(one.older_than, one.kept) for one in passages] == [("2025-02-01", False), ("", True)]


def test_a_question_that_cannot_be_translated_is_searched_for_as_it_is(own):
    asked = "Wie viel Gehalt bekommt ein Hausmeister?"
    said = replies(answers={asked: "40,000"}, TranslateQuery={}, JudgeSupport={"support": "fully"})
    record = own("The salary is 40,000.", reply=said, settle="reading", pick=False)[0](asked).record
    assert (record.answer, record.degradations[-1].action) == ("40,000", "searched for the question as it is")


@pytest.mark.parametrize(("said", "cited"), [("40,000", [1]), ("A lot of money", [0, 1])])
def test_what_is_read_without_picking_is_cited_by_the_words_of_the_answer(own, said, cited):
    reply = replies(answers={SALARY: said})
    texts = ("Jonas Albrecht lives in Bremen.", "The salary of Jonas Albrecht is 40,000.")
    prediction = own(*texts, reply=reply, pick=False, decompose=False)[0](SALARY)
    kept = [place for place, one in enumerate(prediction.record.quizzes[0].passages) if one.kept]
    assert kept == cited
    assert prediction.answer.startswith(said if cited == [1] else "Not in your documents")


@pytest.mark.parametrize(
    "said",
    [
        "According to the documents, 40,000.",
        "Based on the provided context, it is 40,000",
        "40,000 (according to passage 2).",
        "40,000, as stated in the text.",
        "Passage 2 states that it is 40,000.",
        "Certainly! The answer to the question is 40,000.",
        "Final answer: 40,000",
        "Laut den bereitgestellten Dokumenten 40,000",
        "Die Antwort auf die Frage lautet 40,000.",
        "Selon les documents fournis, 40,000",
        "La respuesta es 40,000.",
        "根据提供的文档，答案是40,000。",
    ],
)
def test_that_something_was_read_and_answers_is_no_word_of_the_answer(own, said):
    reply = replies(answers={SALARY: said})
    texts = ("Jonas Albrecht lives in Bremen.", "The salary of Jonas Albrecht is 40,000.")
    record = own(*texts, reply=reply, pick=False, decompose=False)[0](SALARY).record
    assert (record.answer, [one.kept for one in record.quizzes[0].passages]) == ("40,000", [False, True])
    wrong = replies(answers={SALARY: said.replace("40,000", "90,000")})
    assert own(*texts, reply=wrong, pick=False, decompose=False)[0](SALARY).record.answer_source == "unanswered"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("40,000. Such pay is customary among engineers.", "40,000."),
        ("40,000. Jonas Albrecht lives in Bremen. A lovely town!", "40,000. Jonas Albrecht lives in Bremen."),
        ("A fortune. The salary of Jonas Albrecht is 40,000.", None),
        ("40,000. The passages do not say in which currency.", None),
        ("40,000 francs. Jonas Albrecht lives in Bremen.", None),
        ("40,000. Actually no, 45,000.", None),
        ("40,000. Perhaps outdated.", None),
        ("40,000. Jonas Albrecht, who builds harbours, lives there.", None),
        ("- 40,000\n- 12 apartments\n", None),
    ],
)
def test_remarks_that_no_passage_carries_are_left_out(own, said, answer):
    reply = replies(answers={SALARY: said})
    texts = ("Jonas Albrecht lives in Bremen.", "The salary of Jonas Albrecht is 40,000.")
    record = own(*texts, reply=reply, pick=False, decompose=False)[0](SALARY).record
    assert (record.answer if record.answer_source != "unanswered" else None) == answer


def test_the_papers_way_is_to_guess_and_is_marked_as_a_guess(own):
    prediction = own("Jonas Albrecht works in Bremen.", unanswered="guess")[0](SALARY)
    # Samples that are drawn side by side come in any order.
    drawn = prediction.record.quizzes[0].samples[0].text
    assert (prediction.answer, prediction.record.answer_source) == (drawn, "largest_cluster")
    assert prediction.record.guessed
    assert prediction.unanswered is None


def test_it_is_raised_where_that_is_wanted(own):
    program, _ = own("Jonas Albrecht works in Bremen.", unanswered="raise")
    with pytest.raises(NotInDocumentsError, match="nothing that was found answers") as raised:
        program(SALARY)
    assert raised.value.record.answer_source == "unanswered"
    assert pickle.loads(pickle.dumps(raised.value)).unanswered == raised.value.unanswered
    (outcome,) = program.answer_many([SALARY])
    assert isinstance(outcome.error, NotInDocumentsError)
    assert outcome.record.unanswered.kind == "nothing supports an answer"


def test_which_quiz_is_missing_and_what_is_known_of_the_others(own):
    quizzes = ["Where does Jonas Albrecht live?", "Who is the mayor of #1?", "How old is #2?"]
    reply = replies(("lives",), {"Where does Jonas": "Bremen"}, quizzes)
    program, _ = own("Jonas Albrecht lives in Bremen.", reply=reply)
    found = program("How old is the mayor of the place where Jonas Albrecht lives?").unanswered
    (missing,), (known,) = found.missing, found.found
    assert (missing.quiz, missing.asked, missing.kind) == (2, "Who is the mayor of Bremen?", found.kind)
    assert (known.quiz, known.asked, known.answer) == (1, "Where does Jonas Albrecht live?", "Bremen")
    assert found.message == (
        "Not in your documents: nothing that was found answers “Who is the mayor of Bremen?”. "
        "Known: Where does Jonas Albrecht live? Bremen."
    )


def test_a_question_that_is_answered_as_a_whole_is_answered(own):
    quizzes = ["Where does Jonas Albrecht live?", "Who is the mayor of #1?"]
    whole = "Who is the mayor of the place where Jonas Albrecht lives?"
    program, _ = own("Jonas Albrecht lives under mayor Ann Ok.", reply=replies(("lives",), {whole: "Ann Ok"}, quizzes))
    prediction = program(whole)
    assert (prediction.answer, prediction.record.answer_source) == ("Ann Ok", "fallback")
    assert prediction.unanswered is None


@pytest.mark.parametrize(
    ("question", "answer", "cited"),
    [
        # All words of it stand in none, those of the answer in one each, and of a yes nowhere.
        ("How much may a hotel cost?", "120 EUR", ["A hotel may cost 120 euros."]),
        ("Who lives in Bremen?", "Ann and Ben", ["Ann lives in Bremen.", "Ben lives in Bremen."]),
        ("May a trainee work remotely?", "Yes", ["A trainee may work remotely."]),
        # A word of it that stands elsewhere is none of its sources.
        ("May a trainee work remotely?", "No", ["A trainee may work remotely."]),
        ("May a trainee work remotely?", "A trainee may not work remotely", ["A trainee may work remotely."]),
        # What is said beside a verdict, names, and numbers of their own tell more than other words.
        ("Is my room paid?", "No – up to 120 EUR is.", ["A hotel may cost 120 euros."]),
        ("Who lives in Bremen?", "Ann and Ben, with no canteen", ["Ann lives in Bremen.", "Ben lives in Bremen."]),
        # A capital at its beginning makes no name, so that other words count as well.
        ("Who?", "Cost remotely", ["A hotel may cost 120 euros.", "A trainee may work remotely."]),
    ],
)
def test_sources_are_the_passages_that_speak_of_an_answer(own, question, answer, cited):
    texts = ("A hotel may cost 120 euros.", "Ann lives in Bremen.", "A trainee may work remotely.")
    reply = replies(answers={question: answer}, JudgeSupport={"support": "fully"})
    program, _ = own(
        "Work is fun.",
        "Is there no canteen? Yes, and not a bar.",
        *texts,
        "Ben lives in Bremen.",
        reply=reply,
        pick=False,
    )
    assert [one["text"] for one in program(question).sources] == cited


@pytest.mark.parametrize(
    ("question", "answer", "cited"),
    [
        # Nothing speaks of a vacation, and 28 of something else comes first.
        ("How many vacation days are there?", "28 days", ["leave"]),
        ("What are meals?", "EUR 32 (earlier, they were 28)", ["meals"]),
        # Neither the year of another contract nor the day of a meeting is a part of what was worked out.
        ("When does the contract of Portline end?", "3 April 2027", ["signed"]),
        # A year may stand above a passage, and a number in another one of its file.
        ("When do the servers move?", "9 May 2026", ["mail"]),
        ("What is paid for the tonnes?", "7 for 640", ["supply", "supply"]),
        # A count stands nowhere, though its number does.
        ("How many meals are there?", "28", ["meals"]),
        ("How many meals does everybody get?", "28", ["meals", "leave"]),
        ("How long may staff stay away from work on leave?", "about 28", ["leave"]),
        # What has most words of the question is read for a yes, and not only what has its name.
        ("Are we allowed to work from Spain?", "Yes", ["abroad", "transports"]),
        # A word of the question in the nearest is not enough where none speaks of it.
        (
            "May I bring a dog to a meeting in the country?",
            "No",
            "meals fares leave signed other mail abroad transports supply supply".split(),
        ),
        # Of what is no name, and of a number, those of other files count that share a word with the question.
        ("How much are meals and fares?", "32 and 28", ["meals", "fares"]),
        ("Who signed, and for what contract?", "portline, greenbean", ["signed", "other"]),
        ("What is it about?", "everybody and kilogram", ["leave", "supply"]),
        ("When does a lease contract stop?", "3 April 2027", ["signed", "other"]),
    ],
)
def test_sources_have_the_words_of_an_answer_together(own, question, answer, cited):
    reply = replies(answers={question: answer}, JudgeSupport={"support": "fully"})
    program, _ = own(reply=reply, settle="reading", pick=False)
    texts = {
        "meals": "Meals are EUR 32 a day.",
        "fares": "Fares are 28 a day.",
        "leave": "Everybody has 28 days of leave.",
        "signed": "The contract of Portline was signed on 3 April 2024 for three years.",
        "other": "The contract of GreenBean ends in 2027.",
        "mail": "The servers move on 9 May.",
        "abroad": "To work in another country of the EU is allowed.",
        "transports": "Transports in Spain cost 0.26 EUR.",
    }
    files = [(name, text, f"{name}.md") for name, text in texts.items()]
    files += [("goods", "The tonnes are 640.", "supply.md"), ("prices", "A kilogram is USD 7.", "supply.md")]
    for name, text, file in files:
        place = Place(file, None, "", "2026-04-27" if name == "mail" else "")
        program.retriever.passages.append(Passage(name, "", text, place))
    assert [one["file"].removesuffix(".md") for one in program(question).sources] == cited


def test_an_answer_is_given_without_marks_of_citations_and_of_what_is_bold(own):
    reply = replies(answers={"Who": "**Ann Ok** [1], by 2**3 votes"}, JudgeSupport={"support": "fully"})
    program, _ = own("Ann Ok lives there, by 2**3 votes.", reply=reply, pick=False)
    assert program("Who lives there?").answer == "Ann Ok, by 2**3 votes"


@pytest.mark.parametrize("pick", [False, True])
@pytest.mark.parametrize("thoughts", ["", "<think>\nOkay, the user"])
def test_a_reply_that_was_cut_off_in_its_thoughts_is_no_finding(own, thoughts, pick):
    judging = replies()
    reply = {"reply": lambda name, *call: judging(name, *call) if name == "JudgeUtility" else thoughts, "pick": pick}
    program, engine = own("A hotel may cost 120 euros.", **reply)
    engine.finish_reason = "length"
    with pytest.raises(StageError, match="max-tokens"):
        program("How much may a hotel cost?")


@pytest.mark.parametrize(
    ("marked", "given", "way"),
    [(True, None, "say"), (False, None, "guess"), (False, "say", "say"), (True, "guess", "guess")],
)
def test_what_is_done_goes_by_the_documents(retriever, marked, given, way):
    assert KEQA(retriever(own=marked), unanswered=given).way_out == way
    assert KEQA(None, unanswered=given).way_out == (given or "guess")


@pytest.mark.parametrize(
    ("items", "read", "more", "said"),
    [
        (1, 2, False, "1 item in 2 passages looked at"),
        (2, 1, True, "2 items in 1 passage looked at; there may be more, as no further passage was looked at"),
    ],
)
def test_how_long_a_list_is_and_from_what_is_said_of_it(items, read, more, said):
    given = [Statement(text=str(n), given=n < items) for n in range(items + 1)]
    assert listed(Written(style="list", statements=given, looked_at=read, more=more)) == said


def test_the_testbed_and_a_function_are_told_apart():
    assert KEQA(keqa.open_encyclopedia()).way_out == "guess"
    assert KEQA(lambda query: [Passage("1", "", "It.")]).way_out == "say"


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ("Who leads it?", "Not in your documents: "),
        ("Wer leitet Projekt Hafen?", "Nicht in Ihren Dokumenten: "),
        ("Was kostet ein Mittagessen in der Kantine?", "Nicht in Ihren Dokumenten: "),
        ("Was the harbour built in 1871?", "Not in your documents: "),
        ("Qui dirige le projet ?", "Pas dans vos documents : "),
        ("¿Quién dirige el proyecto?", "No está en sus documentos: "),
        ("Chi guida il progetto?", "Non è nei suoi documenti: "),
        ("Quem lidera o projeto?", "Não está nos seus documentos: "),
        ("Welke persoon leidt het project?", "Niet in uw documenten: "),
        ("Kto kieruje projektem?", "Nie ma tego w Państwa dokumentach: "),
        ("Кто руководит проектом?", "Этого нет в ваших документах: "),
        ("谁领导这个项目？", "您的文档中没有："),
        ("プロジェクトを率いるのは誰ですか", "文書にはありません："),
        ("من يقود المشروع؟", "ليس في مستنداتك: "),
        ("Hvem leder projektet?", "Not in your documents: "),
        ("Was verdient Jonas Albrecht?", "Nicht in Ihren Dokumenten: "),
        ("Was Ida Holm an engineer?", "Not in your documents: "),
        ("Quando comincia la riunione?", "Non è nei suoi documenti: "),
        ("W którym roku urodził się Jonas?", "Nie ma tego w Państwa dokumentach: "),
        ("Who wrote 三体?", "Not in your documents: "),
    ],
)
def test_it_is_said_in_the_language_of_the_question(question, begins):
    assert message_of(question, [MissingQuiz(quiz=0, asked=question, kind="nothing found")]).startswith(begins)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            "Who leads it?",
            "Your documents do not settle it: the sources contradict each other on “Who leads it?” "
            "(“A, page 1” (a.md) / “B” (b.pdf, page 3)). Known: X? Y.",
        ),
        (
            "Wer leitet es?",
            "Ihre Dokumente entscheiden es nicht: die Quellen widersprechen sich bei „Wer leitet es?“ "
            "(„A, page 1“ (a.md) / „B“ (b.pdf, Seite 3)). Bekannt: X? Y.",
        ),
        (
            "谁领导它？",
            "您的文档无法确定：关于“谁领导它？”，各来源相互矛盾 (“A, page 1” (a.md) / “B” (b.pdf, 页 3))。已知：X? Y。",
        ),
    ],
)
def test_nothing_of_the_message_is_in_another_language(asked, message):
    said = ["“A, page 1” (a.md)", "“B” (b.pdf, page 3)"]
    missing = MissingQuiz(quiz=1, asked=asked, kind="sources contradict each other", answers=said)
    assert message_of(asked, [missing], [FoundQuiz(quiz=2, asked="X?", answer="Y", source="memory")]) == message


def test_passages_that_were_kept_are_not_said_to_be_about_something_else(own):
    program, _ = own("Sabine Krüger leitet die Personalabteilung.", reply=replies(("Personal",)))
    (missing,) = program("Who is the head of human resources?").unanswered.missing
    said = ("nothing supports an answer", "the passages kept (1) do not tell it, by the reply")
    assert (missing.kind, missing.why) == said


def test_what_the_documents_speak_of_is_read_and_not_remembered(own):
    told = {"Who built": "Ida Holm"}
    sure = replies(("lighthouse",), told, memory=("William Hague",))
    lighthouse = "Who built the lighthouse of Skarn?"
    program, engine = own("The lighthouse of Skarn was built by Ida Holm.", reply=sure)
    record = program(lighthouse).record
    assert (record.answer, record.answer_source, engine.count["AnswerQuizIfSure"]) == ("Ida Holm", "passages", 0)
    assert record.quizzes[0].stopped == "not asked from memory: the documents speak of skarn"
    program.look_first = False
    assert program(lighthouse).record.answer_source == "memory"
    # Of what no document speaks, the language model is examined.
    program.look_first = True
    record = program("Who wrote Hamlet?").record
    assert (record.answer, record.answer_source, record.guessed) == ("William Hague", "memory", False)


def test_an_answer_that_no_passage_has_is_judged_and_not_given(own):
    reply = replies(("works",), {SALARY: "Jonas Mercury", "Where": "bremen", "Does": "yes"})
    program, engine = own("Jonas Albrecht works in Bremen.", reply=reply)
    record = program(SALARY).record
    assert record.unanswered.kind == "nothing supports an answer"
    assert record.unanswered.guess == "Jonas Mercury"
    assert record.unanswered.missing[0].why == "the passages kept (1) do not support what was drawn from them"
    # The guess stands in the story alone.
    assert record.quizzes[0].support == "the passages lack “mercury”; judged: no"
    assert "Mercury" not in record.unanswered.model_dump_json(exclude={"guess"})
    quiz = program("Where does Jonas Albrecht work?").record.quizzes[0]
    assert (quiz.supported, quiz.support) == (True, "the passages have its words")
    assert engine.count["JudgeSupport"] == 1
    assert program("Does Jonas Albrecht work?", answer_type="yes/no").unanswered is not None


def test_words_decide_where_what_the_judge_says_is_of_no_use(own):
    reply = replies(("works",), {SALARY: "Jonas Mercury", "Does": "yes"}, JudgeSupport={"support": "[]"})
    program, _ = own("Jonas Albrecht works in Bremen.", reply=reply)
    record = program(SALARY).record
    assert record.unanswered.kind == "nothing supports an answer"
    assert record.quizzes[0].support == "the passages lack “mercury”; the judge said nothing that can be read"
    said = "lack words of what was drawn from them, and the judge’s reply could not be read"
    assert record.unanswered.missing[0].why == f"the passages kept (1) {said}"
    assert program("Does Jonas Albrecht work?", answer_type="yes/no").answer == "yes"


@pytest.mark.parametrize(("text", "asked"), [("Jonas Albrecht works in Bremen.", 0), ("Jonas Albrecht ist Lotse.", 1)])
def test_nobody_is_asked_where_most_of_the_words_are_lacking(own, text, asked):
    program, engine = own(text, reply=replies(("works", "Lotse"), {SALARY: "Mercury"}))
    assert program(SALARY).record.unanswered.kind == "nothing supports an answer"
    assert engine.count["JudgeSupport"] == asked


@pytest.mark.parametrize(
    ("told", "answered"),
    [
        ("It is not known who did it: the files were lost.", True),
        ("The passages do not say it.", False),
        ("UNKNOWN", False),
    ],
)
def test_what_the_passages_themselves_say_is_no_refusal(own, told, answered):
    text = "The files were lost, so it is not known who did it. Ships unknown."
    program, _ = own(text, reply=replies(("files",), {"Who": told}))
    prediction = program("Who sank the ships?")
    assert (prediction.unanswered is None, prediction.answer == told) == (answered, answered)


@pytest.mark.parametrize(
    ("asked", "text", "said", "why"),
    [
        ("Are trains paid?", "Trains are paid.", "Yes", "its words prove nothing"),
        ("Are trains paid?", "Trains have no limit.", "No", "its words prove nothing"),
        ("Werden Züge bezahlt?", "Züge werden bezahlt.", "Ja", "its words prove nothing"),
        ("Are flights paid?", "Flights are not paid.", "Flights are paid.", "the passages have its words, and a “not”"),
        ("Who built it?", "It wasn’t Ida Holm.", "Ida Holm", "the passages have its words, and a “not”"),
        ("Are flights paid?", "Flights are paid. Trains are not.", "Flights are not paid.", "the passages have its"),
        (SALARY, "The salary of Jonas Weber is 40,000.", "40,000", "the passages have its words, and speak of nobody"),
        (SALARY, "The salary of Jonas Albrecht is 40,000.", "Passage 1 promises 40,000.", "lack “promises”"),
        ("食堂供应什么？", "食堂不供应晚餐。", "晚餐", "the passages have its words, and a “not”"),
        ("能不能带宠物？", "不可以带宠物。", "可以带宠物", "the passages have its words, and a “not”"),
        ("能不能带宠物？", "不可以带宠物。", "不可以。", "its words prove nothing"),
        ("有几家工厂？", "工厂于2021年4月12日建成。", "4", "as parts of other numbers"),
        ("How many mills are there?", "The mills: 2021-04-12.", "4", "as parts of other numbers"),
        ("How long does it wait?", "It waits 5 minutes 30 seconds.", "5 seconds", "the passages have its number and"),
        ("What is paid?", "Annex 3, and 12.5 percent are paid.", "12 percent", "the passages have its words as parts"),
        ("What is paid?", "$1.5 billion for 2 million.", "1.5 million", "as parts of other numbers"),
        ("Revenue of 2023?", "2024 less than the 212 of 2023.", "In 2024 it was 212.", "and speak of nobody"),
        ("Who leads?", "Frau Mohn leads.", "Herr Mohn", "the passages have its words, and speak of a man"),
        ("谁负责?", "张伟女士负责。", "张伟先生", "the passages have its words, and speak of a man"),
        ("When does it open?", "It opens at 10:30 am.", "10:00 a.m.", "the passages lack “00”"),
        ("When is it open?", "From 10 am to 3 pm.", "10 am to 3 am", "as parts of other numbers"),
        ("When is it open?", "From 10 am to 3 pm on three days.", "3 am to 3 pm", "as parts of other numbers"),
        ("When does it open?", "From 11:00 to 18:00, on day 10. I am sure.", "10 am", "as parts of other numbers"),
        ("How many?", "20 women and two men.", "20 men", "the passages have its number and its words apart"),
        ("What was gained?", "North -210, South 40.", "210", "the passages have its words as parts of other numbers"),
        ("What was gained?", "North -€210, South 40.", "210", "the passages have its words as parts of other numbers"),
        # They have no year.
        ("What was gained?", "North -2100, South 40.", "2100", "as parts of other numbers"),
        ("What was gained?", "North -€2100, South 40.", "€2100", "as parts of other numbers"),
        ("What is the rent?", "The rent is 1,250.50 euros.", "1,250 euros", "as parts of other numbers"),
        ("When does it open?", "Elle ouvre à 9 h 30 et ferme à 12 h 15.", "12 h 30", "as parts of other numbers"),
        ("When does it end?", "1 May 2024 to 31 July 2026.", "31 July 2024", "as parts of other numbers"),
        ("When does it end?", "Signed in April 2024, it ends in 2027.", "April 2027", "as parts of other numbers"),
        ("Which section?", "Section 3.2.1, of 3 parts: 2.", "Section 3.2", "as parts of other numbers"),
        ("Which version?", "It runs v3.2.1.", "3.2", "as parts of other numbers"),
        ("What is the ratio?", "From 1 to 3.", "1:3", "as parts of other numbers"),
        ("How many?", "Twenty women and two men.", "Twenty men", "the passages have its number and its words apart"),
        ("How many coffees are on the price list?", "Open from 8 to 16.", "Eight", "do not speak of what is asked"),
        ("Since when is he there?", "Start: 2019-11-01", "Since November 2019", "the passages lack “since”"),
        ("Which policy?", "HH-2023-0417 and HH-2022-0391", "HH-2022-0417", "as parts of other numbers"),
        ("Who leads it?", "It is led by Anna Schmidt.", "Anna Schmitt", "the passages have a word like “schmitt”"),
        ("How many mills are there?", "The mills: 4/12/2021.", "Four", "as parts of other numbers"),
    ],
)
@pytest.mark.parametrize(("support", "given"), [("no", False), ("fully", True)])
def test_words_that_prove_nothing_are_for_the_judge(own, asked, text, said, why, support, given):
    reply = replies((text,), {asked: said}, JudgeSupport={"support": support})
    program, engine = own(text, reply=reply)
    record = program(asked).record
    assert (record.answer == said, engine.count["JudgeSupport"]) == (given, 1)
    assert why in record.quizzes[0].support


def test_the_number_of_a_row_counts_nothing(own):
    program, engine = own(reply=replies(answers={"How many coffees": "8"}), settle="reading", pick=False)
    place = Place("coffees.csv", None, "row 8")
    program.retriever.passages.append(Passage("8", "Malvarrosa", "All listed coffees are light.", place))
    assert program("How many coffees are listed?").unanswered
    assert engine.count["JudgeSupport"] == 1


SCHMITT = "Which of those of Ms Schmitt?"


def test_a_choice_whose_words_stand_in_a_passage_is_judged(own):
    asked, text = "Which colour has the door?", "The door of the red house is blue."
    program, engine = own(text, reply=replies((text,), {asked: "red"}))
    assert program(asked, answer_type="choice", choices=["red", "blue"]).unanswered is not None
    assert engine.count["JudgeSupport"] > 0


NIGHT = "A night must not cost more than 120 euros, and hotels are not paid at the sea."
MILLS = "The mills of Ms Schmitt were built on 12.04.2021, in the books 2021-04-12."


@pytest.mark.parametrize(
    ("text", "said", "asked"),
    [
        # A bound tells the value, and what is asked not to be is not so.
        (NIGHT, "120 euros", "What does a night cost?"),
        (NIGHT, "At the sea", "Which hotels are not paid?"),
        *[(MILLS, said, SCHMITT) for said in ("2021", "12.04.2021", "2021-04-12")],
        ("Around Ms Schmitt live 1.250.000 people.", "1250000", SCHMITT),
        ("Schmitt: claim S-102: open. Claim S-103: open.", "S-102 and S-103", SCHMITT),
        ("Schmitt pays by 31 May 2024.", "31 May", SCHMITT),
        ("Schmitt: \N{MINUS SIGN}5 °C", "\N{MINUS SIGN}5 °C", SCHMITT),
        ("Schmitt pays 20%-30%.", "30%", SCHMITT),
        ("Schmitt, revenue of 2023: 212 million.", "The revenue of 2023 was 212 million.", SCHMITT),
        ("Schmitt pays $1.5 million, at 12.00 %.", "$1,500,000 at 12 percent", SCHMITT),
        ("Schmitt pays EUR 450,000.", "€450k", SCHMITT),
        *[
            ("Schmitt is there from 10:00 to 15:00.", said, SCHMITT)
            for said in ("10am–3pm", "10h00 - 15h00", "10 am", "from 10 to 15")
        ],
        ("Schmitt is there from 8 bis 16 Uhr.", "4 p.m.", SCHMITT),
        ("Schmitt is there 10am-3pm, or 08:30-9:00.", "10 am to 3 pm, 8:30", SCHMITT),
        *[("Schmitt is there 8–16 Uhr.", said, SCHMITT) for said in ("8 Uhr bis 16 Uhr", "8 Uhr")],
        ("Schmitt, with COVID-19, had 0.5 million members.", "500,000 members with COVID", SCHMITT),
        *[("Schmitt pays 2,000–10,000 EUR.", said, SCHMITT) for said in ("2,000 to 10,000 EUR", "10,000 euros")],
        *[("Schmitt pays 20 EUR–30 EUR.", said, SCHMITT) for said in ("20 to 30 EUR", "30 EUR")],
        *[("Schmitt: am 30.06.2025 oder 3/7/2025", said, SCHMITT) for said in ("30.06.", "3/7")],
        *[("Schmitt commence à 9 h 30.", said, SCHMITT) for said in ("9h30", "9 h 30", "9:30")],
        ("Schmitt signed on 5 March 2024.", "March 2024", SCHMITT),
        ("Schmitt has 30 working days.", "30 days", SCHMITT),
        ("Schmitt: the lease of 2023 ends in 2027.", "2027", "When does the lease of 2023 of Ms Schmitt end?"),
        *[("Schmitt: 2024年5月31日", said, SCHMITT) for said in ("5月31日", "2024年5月")],
        ("Schmitt: 30-May-2024, 2024-05-31T10:00", "30-May-2024, 2024-05-31T10:00", SCHMITT),
        ("Schmitt 的保单号HH‑2023‑0417自2024年5月31日起生效。", "HH-2023-0417, 2024-05-31", SCHMITT),
    ],
)
def test_what_stands_in_a_passage_needs_no_judge(own, text, said, asked):
    program, engine = own(text, reply=replies((text,), {asked: said}))
    assert (program(asked).answer, engine.count["JudgeSupport"]) == (said, 0)


@pytest.mark.parametrize("form", [{}, {"cite": True}])
def test_the_numbers_of_a_prompt_are_no_part_of_an_answer(own, form):
    reply = replies(("40",), {SALARY: "40,000 (Passage 1)"})
    reply.replies["AnswerAndCite"] = {"answer": "40,000 [1]", "citations": [1]}
    program, engine = own("The salary of Jonas Albrecht is 40,000.", reply=reply, **form)
    assert (program(SALARY).answer, engine.count["JudgeSupport"]) == ("40,000", 0)


def test_a_refusal_whose_words_are_scattered_is_one(own):
    text = "Dogs are not allowed. The stated price holds."
    assert own(text, reply=replies(("Dogs",), {"What": "Not stated."}))[0]("What is the notice period?").unanswered


def test_title_place_and_date_stand_above_a_passage_over_documents_of_ones_own(scripted):
    place = Place("rules/travel.md", None, "Hotels", "2024-05-31")
    passage = Passage("1", "Travel rules", "A night in Bremen costs 120 euros at most.", place)
    lm, engine = scripted(replies(("120",), {"night": "120 euros"}))
    program = KEQA(lambda query: [passage], lms=keqa.build_roles(lm))
    assert program("What may a night in Bremen cost?").answer == "120 euros"
    headed = "Travel rules | rules/travel.md, Hotels | 2024-05-31\nA night in Bremen costs 120 euros at most."
    assert engine.asked("JudgeUtility")[0]["passage"] == headed
    assert json.loads(engine.asked("AnswerFromDocuments")[0]["passages"]) == [headed]
    program.unanswered = "guess"
    assert program("What may a night in Bremen cost?").answer == "120 euros"
    assert "2024-05-31" not in engine.prompts[-1]
    assert engine.count["AnswerWithKnowledge"] == 1


@pytest.mark.parametrize(
    ("form", "prompts"),
    [
        ({}, ["AnswerFromDocuments", "JudgeSupport"]),
        ({"cite": True}, ["AnswerAndCite", "JudgeSupport"]),
        ({"summarize_single": True}, ["AnswerFromDocuments", "Summarize"]),
        ({"style": "sentence"}, ["AnswerFromDocuments", "WriteAnswer"]),
    ],
)
@pytest.mark.parametrize(
    ("question", "dated"),
    [
        ("When is the next meeting in Bremen?", True),
        ("Wer hat diese Woche in Bremen Urlaub?", True),
        ("下次在 Bremen 的会议是什么时候?", True),
        ("Which week had the most visitors in Bremen?", False),
        ("How many days of leave did it actually take in Bremen?", False),
        ("Wer arbeitet hier in Bremen?", False),
        ("这个项目出现在 Bremen 的哪里?", False),
    ],
)
def test_what_depends_on_the_day_is_asked_with_the_day(own, monkeypatch, form, prompts, question, dated):
    monkeypatch.setattr(today, "date", SimpleNamespace(today=lambda: datetime.date(2026, 11, 30)))
    reply = replies(("Bremen",), {"Bremen": "Thursday, 10 December"}, JudgeSupport={"support": "fully"})
    reply.replies["AnswerAndCite"] = {"answer": "Thursday, 10 December", "citations": [1]}
    reply.replies["WriteAnswer"] = {"text": "It is on 10 December [1]."}
    program, engine = own("The meeting in Bremen is on 10 December.", reply=reply, **form)
    assert program(question).answer == "Thursday, 10 December"
    asked = f"{question} (today: Monday, 2026-11-30)" if dated else question
    assert [engine.asked(prompt)[0]["question"] for prompt in prompts] == [asked, asked]


@pytest.mark.parametrize("own", [False, True])
def test_over_a_benchmark_and_in_a_compilation_no_day_is_told(programmed, retriever, own):
    asked, text = "When is the next meeting?", "It is on 10 December [1]."
    reply = replies(("meeting",), {"meeting": "10 December"}, WriteAnswer={"text": text})
    program, engine = programmed(KEQA(retriever("The meeting is on 10 December.", own=own), style="sentence"), reply)
    with within(caller=predict if own else None):
        assert program(asked).record.written.text == text
    assert engine.asked("WriteAnswer")[0]["question"] == asked


@pytest.mark.parametrize(
    ("day", "months"),
    [
        ((2026, 11, 30), ("2026-11 November 2026", "2026-12 December 2026")),
        ((2026, 12, 31), ("2026-12 December 2026", "2027-01 January 2027")),
    ],
)
def test_what_depends_on_the_day_is_searched_with_its_months(own, monkeypatch, day, months):
    monkeypatch.setattr(today, "date", SimpleNamespace(today=lambda: datetime.date(*day)))
    asked, texts = "When is the next board meeting?", ("Board meeting: 2026-01-10", "Board meeting: 2026-12-10")
    reply = replies(
        AnswerFromDocuments=lambda i, c: {"answer": "2026-12-10" if texts[1] in i["passages"] else "UNKNOWN"}
    )
    program, _ = own(*texts, reply=reply, settle="reading", pick=False, expand=1)
    program.retriever.found = {asked: [0], f"{asked} 2026-12 December 2026": [1]}
    assert (program(asked).answer, program.retriever.queries[2:]) == (
        "2026-12-10",
        [f"{asked} {one}" for one in months],
    )
    found = program.retriever.search

    def search(query, k):
        if query.endswith(months[1]):
            raise RetrievalError("down")
        return found(query, k)

    program.retriever.search = search
    program.retriever.found[program.retriever.queries[1]] = [1]
    record = program(asked).record
    assert (record.answer, record.degradations[-1].action) == ("2026-12-10", "read what was found before")
    searches = len(program.retriever.queries)
    program.retriever.search = found
    program("What is the current board meeting fee?")
    program.unanswered = "guess"
    program(asked)
    assert not [one for one in program.retriever.queries[searches:] if one.endswith(months)]


@pytest.mark.parametrize(
    ("asked", "answer", "text", "other", "contested"),
    [
        ("When is the next board meeting?", "2026-12-10", "Board meeting: {}", "2026-01-10", False),
        ("When is the next board meeting?", "12 May 2026", "Board meeting: {}", "9 June 2026", False),
        ("下次董事会会议是什么时候？", "12月10日", "董事会会议：{}", "1月10日", False),
        ("When is the next audit?", "2026-12-10", "The next audit is on {}.", "2026-12-12", True),
        ("What is next year's club fee?", "20", "On 2027-01-01 the club fee is {}.", "25", True),
        ("When does the current office lease end?", "2027-05-31", "The office lease ends {}.", "2028-05-31", True),
        ("Which version is next?", "1.2.10", "The next version is {}.", "1.2.11", True),
    ],
)
def test_days_of_several_meetings_are_no_contradiction_and_other_values_are(asked, answer, text, other, contested):
    passages = unjudged([Hit(Passage(one, "", text.format(one)), 1.0) for one in (answer, other)])
    assert bool(contradicting(asked, passages, answer)) is contested


def test_what_was_before_does_not_contradict_what_is_newer():
    fees = ((120, "2021"), (150, "2024"))
    hits = [Hit(Passage(day, "", f"The club fee is {fee} euros.", Place(date=day)), 1.0) for fee, day in fees]
    assert contradicting("What was the previous club fee?", unjudged(hits), "120") == []


@pytest.mark.parametrize(
    ("asked", "notice", "found"),
    [
        ("When is the summer party?", "Either party may give notice of {} months.", False),
        ("What notice may a party give?", "Either party may give notice of {} months.", True),
        # Of two words one is the half, and yet hardly anything else is spoken of.
        ("How long is notice?", "The notice period is {} months.", True),
    ],
)
def test_a_contradiction_on_something_else_is_no_finding(asked, notice, found):
    passages = unjudged([Hit(Passage(one, "", notice.format(one)), 1.0) for one in ("three", "six")])
    assert bool(contradicting(asked, passages, None)) is found


def test_a_language_model_that_was_trained_on_the_papers_prompts_is_asked_these(retriever):
    searched = retriever("Ann lives in Isburg.", own=True)
    program = KEQA(searched, lms=keqa.build_roles(dspy.LM("keqa/tiny@0123", engine="litellm")))
    assert program.way_out == "say"
    assert not program.documents.own_prompts
    assert program.documents.shown(Passage("1", "Ann", "In Isburg.", Place("towns.md"))) == "Ann: In Isburg."


def test_what_is_compiled_over_ones_own_documents_has_no_prompts_for_them_where_it_guesses(own, tmp_path):
    program, _ = own("It.")
    program.documents.answer.demos = [{"question": "Who?", "passages": ["It."], "answer": "Ann"}]
    keqa.save(program, tmp_path / "own")
    assert keqa.load(tmp_path / "own", None).documents is None
    assert keqa.load(tmp_path / "own", program.retriever, program.lms).documents.answer.demos
    state = KEQA(None)
    state.load_state(program.dump_state())
    assert state.documents is None
    program.load_state(KEQA(None).dump_state())
    assert program.documents.answer.demos == []


@pytest.mark.parametrize(
    ("prompt", "form", "field", "texts"),
    [
        ("AnswerFromDocuments", {}, "answer", ["Mercury [## completed ## ]", "CFO Ida Holm [ ## completed"]),
        ("AnswerAndCite", {"cite": True}, "answer", ["Mercury", "CFO Ida Holm"]),
        ("DecomposeQuestion", {}, "quizzes", ['["Who is Bach?"]', f'["{MERIDIAN}"]']),
        ("DraftQuizzes", {"draft": True}, "quizzes", ['["Who is Bach?"]', f'["{MERIDIAN}"]']),
    ],
)
def test_what_is_copied_from_a_demonstration_is_asked_for_again_without(own, prompt, form, field, texts):
    given, others = iter(texts), {"citations": "[1]", "drafts": '["UNKNOWN"]'}
    reply = replies(("Meridian",), {MERIDIAN: "CFO Ida Holm"})
    reply.replies[prompt] = lambda i, c: {field: next(given), **others}
    program, engine = own("The CFO of Meridian Rail is Ida Holm.", reply=reply, **form)
    record = program(MERIDIAN).record
    assert (record.answer, [quiz.text for quiz in record.quizzes]) == ("CFO Ida Holm", [MERIDIAN])
    asked = [shown for shown, (name, _, _) in zip(engine.prompts, engine.calls, strict=True) if name == prompt]
    assert ["Bach" in shown or "Mercury" in shown for shown in asked] == [True, False]
    stage, quiz = ("decompose", None) if field == "quizzes" else ("answer", 1)
    notes = {(note.stage, note.quiz, note.cause, note.touches) for note in record.degradations}
    assert notes == {(stage, quiz, "CopiedDemonstrationError", False)}


def test_a_judge_that_errs_costs_a_call_and_not_the_answer(own):
    program, engine = own("Jonas Albrecht works in Bremen.", reply=replies((), {"Where": "Bremen"}))
    record = program("Where does Jonas Albrecht work?").record
    assert (record.answer, record.quizzes[0].supported) == ("Bremen", True)
    assert record.quizzes[0].passages[0].why.startswith("read all the same")
    assert program("Who is Tom Vrba?").unanswered.kind == "nothing found"
    assert engine.count["AnswerFromDocuments"] == 1


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("The answer is: CFO Ida Holm.", "CFO Ida Holm."),
        ("Ida Holm", "Ida Holm"),
        ("She is Ida Holm.\nSo it is said.", None),
        ("Please add your comments.", None),
        ("```python", None),
        ("", None),
    ],
)
def test_a_language_model_that_loses_the_form_without_demonstrations(own, said, answer):
    texts = chain([{"answer": "Mercury"}], repeat(said))
    reply = replies(("Meridian",), AnswerFromDocuments=lambda i, c: next(texts))
    program, _ = own("The CFO of Meridian Rail is Ida Holm.", reply=reply)
    record = program("Who is the CFO of Meridian Rail?").record
    if answer is not None:
        assert (record.answer, record.answer_source, record.quizzes[0].supported) == (answer, "passages", True)
        return
    assert (record.answer_source, record.unanswered.kind) == ("unanswered", "nothing supports an answer")
    assert record.unanswered.missing[0].why == "the passages kept (1) were read, but no reply could be used"
    last = record.degradations[-1]
    assert (last.stage, last.action, last.touches) == ("answer", "found no answer in the passages", True)


@pytest.mark.parametrize("error", [ServerError("down"), TimeoutError("slow")])
def test_a_language_model_that_is_down_says_nothing_of_the_documents(own, error):
    reply = replies(("Jonas",), AnswerFromDocuments=error)
    with pytest.raises(UnansweredError, match="answer failed"):
        own("Jonas Albrecht works in Bremen.", reply=reply)[0](SALARY)


def test_together_is_read_only_what_all_quizzes_found_an_answer_in(own):
    quizzes = ["Where does Jonas Albrecht live?", "Who is the mayor of #1?"]
    answers = {"Where does Jonas": "Bremen", "Who is the mayor of Bremen": "Ann Olsen", "Who governs": "Ann Olsen"}
    texts = ("Jonas Albrecht lives in Bremen.", "The mayor of Bremen is Ann Olsen.")
    asked = "Who governs the place where Jonas Albrecht lives?"
    told, _ = own(*texts, reply=replies(("lives", "mayor"), answers, quizzes), read_together=True, tries=1)
    prediction = told(asked)
    assert (prediction.answer, prediction.record.answer_source) == ("Ann Olsen", "fallback")
    assert "The mayor of Bremen is Ann Olsen." in [one["text"] for one in prediction.sources]
    half, _ = own(texts[0], reply=replies(("lives",), answers, quizzes), read_together=True, tries=1)
    assert half(asked).record.answer_source == "unanswered"


@pytest.mark.parametrize("unanswered", ["say", "guess"])
def test_in_a_cascade_what_is_read_together_takes_the_place_of_the_first_reading(own, unanswered):
    quizzes = ["Where does Jonas Albrecht live?", "Who is the mayor of #1?"]
    answers = {"Where does Jonas": "Bremen", "Who is the mayor of Bremen": "Ann Olsen"}
    asked, read = "Who governs the place where Jonas Albrecht lives?", []

    def reads(inputs, config):
        if inputs["question"] == asked:
            read.append(asked)
            return {"answer": "UNKNOWN" if len(read) == 1 else "Ann Olsen"}
        return {"answer": next(answer for words, answer in answers.items() if words in inputs["question"])}

    reply = replies(("lives", "mayor"), None, quizzes, AnswerWithKnowledge=reads)

    texts = ("Jonas Albrecht lives in Bremen.", "The mayor of Bremen is Ann Olsen.")
    forms = {"settle": "cascade", "pick": False, "read_together": True, "unanswered": unanswered}
    prediction = own(*texts, reply=reply, tries=2, threshold=1, **forms)[0](asked)
    record = prediction.record
    assert (prediction.answer, record.answer_source, record.settled_by) == ("Ann Olsen", "fallback", "quizzes")
    assert (record.whole.answer in ("UNKNOWN", None), len(read)) == (True, 2)
    assert {one["text"] for one in prediction.sources} == {*texts}


def test_what_memory_kept_over_passages_is_not_read_from_them_again(own):
    quizzes = ["Where does Jonas Albrecht live?", "Who is the mayor of #1?"]
    answers = {"Where does Jonas": "Bremen", "Who is the mayor": "Ann Olsen"}
    said = replies(("lives", "mayor"), answers, quizzes, memory=("Hamburg", "Oslo"))
    remembers = chooser(0.5, {"draft": 0.9, "reading": 0.1})
    texts = ("Jonas Albrecht lives in Bremen.", "The mayor of Bremen is Ann Olsen.")
    program, engine = own(
        *texts, reply=said, tries=2, threshold=1, arbiter=remembers, read_together=True, unanswered="guess"
    )
    record = program("Who governs the place where Jonas Albrecht lives?").record
    assert ({one.source for one in record.quizzes}, record.answer_source) == ({"memory"}, "summary")
    assert engine.count["Summarize"] == 1


def test_the_lines_say_what_was_searched_read_and_found_and_never_the_guess():
    gone, kinds = [], ("nothing found", "nothing supports an answer", "sources contradict each other")
    for number, kind in enumerate(kinds):
        gone.append(MissingQuiz(quiz=number, asked=f"Who {number}?", kind=kind, searched=[f"Who {number}?"]))
    gone[1] = gone[1].model_copy(update={"searched": ["a", "b"], "read": ["One", "Two"], "why": "so"})
    gone[2] = gone[2].model_copy(update={"searched": [], "answers": ["“x”", "“y”"]})
    known = [FoundQuiz(quiz=3, asked="Where?", answer="Oslo", source=one) for one in ("memory", "passages")]
    about = {"kind": kinds[0], "asked": "Who?", "guess": "Ann", "message": "Not there."}
    found = Unanswered(**about, missing=gone, found=known)
    assert lines_of(found) == [
        ("Missing: “Who 0?”: nothing found", []),
        ("Missing: quiz 1, “Who 1?”: nothing supports an answer (so)", ["Searched for: a; b", "Read: One; Two"]),
        (
            "Missing: quiz 2, “Who 2?”: sources contradict each other",
            ["Searched for: nothing", "A source says: “x”", "A source says: “y”"],
        ),
        ("Known: quiz 3, “Where?”: Oslo (from memory)", []),
        ("Known: quiz 3, “Where?”: Oslo (from the documents)", []),
    ]
    assert without_guess(None) is None
    assert without_guess(found).keys() == Unanswered.model_fields.keys() - {"guess"}
