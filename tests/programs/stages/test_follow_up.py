"""A follow-up question is made to stand alone, whatever the method."""

import json
from types import SimpleNamespace

import dspy
import pytest
from dspy.lm15 import RateLimitError

from keqa.errors import InputError
from keqa.programs import KEQA
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
from keqa.programs.records import QuestionRecord
from keqa.retrievers import open_index

HISTORY = [("Who wrote Emma?", "Ann Lee"), ("When?", "1901")]


def reply(name, inputs, config):
    if name == "RewriteFollowUp":
        return {"standalone": "Where was Ann Lee born?"}
    if name == "DecomposeQuestion":
        return {"quizzes": [inputs["question"]]}
    return {"answer": "Bo", "helpful": True, "same": True}


def test_every_stage_is_asked_the_rewritten_question(scripted, retriever):
    lm, engine = scripted(reply)
    with dspy.context(lm=lm):
        record = KEQA(retriever("text"))("Where was she born?", history=HISTORY).record
    assert (record.question, record.standalone) == ("Where was she born?", "Where was Ann Lee born?")
    (asked,) = engine.asked("RewriteFollowUp")
    assert asked["question"] == "Where was she born?"
    assert "Who wrote Emma? Ann Lee" in asked["history"]
    assert engine.asked("DecomposeQuestion") == [{"question": "Where was Ann Lee born?"}]
    assert record.quizzes[0].text == "Where was Ann Lee born?"
    assert record.cost.by_step["follow_up.rewrite"].calls == 1
    assert QuestionRecord.model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize(
    ("rewritten", "cause", "message"),
    [
        ({"standalone": "  "}, "NoRephrasing", "no question was written"),
        ("no {form", "AdapterParseError", ""),
        (RateLimitError("busy"), "LMRateLimitError", "busy"),
    ],
)
def test_where_it_fails_the_question_is_asked_as_it_stands(scripted, rewritten, cause, message):
    def answer(name, inputs, config):
        if name != "RewriteFollowUp":
            return reply(name, inputs, config)
        if isinstance(rewritten, Exception):
            raise rewritten
        return rewritten

    lm, engine = scripted(answer)
    with dspy.context(lm=lm):
        record = ClosedBook()("Where was she born?", history=HISTORY).record
    assert engine.asked("AnswerQuestion")[0]["question"] == "Where was she born?"
    assert record.standalone is None
    told = record.degradations[-1]
    assert (told.stage, told.cause, told.action) == ("rewrite", cause, "asked the question as it stands")
    assert message in told.message


def test_it_is_no_part_of_what_is_saved_or_learned(scripted, retriever):
    lm, _ = scripted(reply)
    program = KEQA(retriever("text"))
    before = program.dump_state()
    with dspy.context(lm=lm, trace=[]):
        program("Where was she born?", history=HISTORY)
        assert not any("standalone" in prediction for _, _, prediction in dspy.settings.trace)
    assert program.dump_state() == before
    assert not any("follow" in name for name, _ in program.named_predictors())


def test_without_a_history_nothing_is_rewritten_and_what_is_none_is_refused_before_a_call(scripted):
    lm, engine = scripted(reply)
    with dspy.context(lm=lm):
        with pytest.raises(InputError, match="history"):
            ClosedBook()("Where was she born?", history="Who wrote Emma?")
        assert not engine.calls
        assert ClosedBook()("Where was she born?").record.standalone is None
    assert engine.count["RewriteFollowUp"] == 0


def test_its_document_is_that_of_the_question_as_it_was_asked(scripted, tmp_path):
    file = tmp_path / "documents.jsonl"
    file.write_text(json.dumps({"question": "Where was she born?", "text": "She was born in Bo."}))
    lm, _ = scripted(reply)
    with dspy.context(lm=lm):
        record = AlwaysRetrieve(open_index(f"documents:{file}"))("Where was she born?", history=HISTORY).record
    assert record.standalone == "Where was Ann Lee born?"
    assert [(one.text, one.sentences) for one in record.passages] == [("She was born in Bo.", ["She was born in Bo."])]


def test_the_language_model_of_the_task_rewrites(scripted, retriever):
    made = {role: scripted(reply) for role in ("task", "consistency", "utility")}
    lms = SimpleNamespace(**{role: lm for role, (lm, _) in made.items()})
    other, unasked = scripted(reply)
    own, engine = scripted(reply)
    with dspy.context(lm=other):
        ClosedBook(lms=lms)("Where was she born?", history=HISTORY)
        assert [one.count["RewriteFollowUp"] for _, one in made.values()] == [1, 0, 0]
        parent = dspy.Module()
        parent.part = ClosedBook(lms=lms)
        parent.set_lm(made["utility"][0])
        parent.part("Where was she born?", history=HISTORY)
        assert [one.count["RewriteFollowUp"] for _, one in made.values()] == [1, 0, 1]
        # Where predictors have one of their own, that rewrites.
        program = ClosedBook()
        program.answer.lm = own
        program("Where was she born?", history=HISTORY)
        assert (engine.count, unasked.calls) == ({"RewriteFollowUp": 1, "AnswerQuestion": 1}, [])
        # Where they have several, that of the settings.
        several = KEQA(retriever("text"))
        several.summarizing.summarize.lm = own
        assert several("Where was she born?", history=HISTORY).record.standalone == "Where was Ann Lee born?"
    assert (unasked.count["RewriteFollowUp"], engine.count["RewriteFollowUp"]) == (1, 1)


@pytest.mark.parametrize(("most", "standalone"), [(23, "Where was Ann Lee born?"), (22, None)])
def test_a_rewritten_question_may_be_as_long_as_another(scripted, most, standalone):
    lm, _ = scripted(reply)
    with dspy.context(lm=lm):
        record = ClosedBook(max_question_chars=most)("Where was she born?", history=HISTORY).record
    assert record.standalone == standalone
    said = [note.message for note in record.degradations]
    assert said == ([] if standalone else ["a question of 23 characters"])


def test_one_that_stands_alone_already_is_not_reported_as_rewritten(scripted):
    lm, _ = scripted(lambda name, inputs, config: {"standalone": "Where was Ann born?", "answer": "Bo"})
    with dspy.context(lm=lm):
        events = list(ClosedBook().stream("Where was Ann born?", history=HISTORY))
    assert [str(event) for event in events] == ["Answered: Bo"]
    assert events[-1].prediction.record.standalone is None
