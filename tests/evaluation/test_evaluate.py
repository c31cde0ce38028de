"""A run: asked, scored, kept line by line, and resumed, whatever fails on the way."""

import dspy
import pytest
from dspy import lm15
from dspy.clients import base_lm
from fixtures.run_files import towns, without_seconds

from keqa.data.benchmarks import BENCHMARKS
from keqa.data.example import Example, as_example
from keqa.errors import ConfigurationError, InputError
from keqa.evaluation.evaluate import ask, demonstrations_of, evaluate, scores_of
from keqa.evaluation.records import RunSettings
from keqa.evaluation.run_file import read_run
from keqa.programs.baselines import AlwaysRetrieve
from keqa.programs.keqa import KEQA
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference

POLAR = {
    "_id": "h1",
    "question": "Were Scott Derrickson and Ed Wood of the same nationality?",
    "answer": "yes",
    "supporting_facts": [],
}


def number_of(inputs):
    return int(inputs["question"].removeprefix("Who governs Town").rstrip("?"))


def away(name, inputs, config):
    """Answers for the first three towns; then the server is gone."""
    if number_of(inputs) >= 3:
        raise lm15.TransportError("connection refused")
    return {"answer": "x"}


def test_a_run_from_its_questions_to_its_file_and_a_second_one_that_asks_nothing(run, tmp_path):
    told = []
    tally, engine = run(5, dataset="towns", split="dev", seed=3, progress=lambda now: told.append(now.done))
    assert (tally.questions, tally.done, tally.asked, tally.failed) == (5, 5, 5, 0)
    assert (tally.mean("em"), tally.mean("accuracy")) == (0.8, None)
    assert (tally.cost.lm_requests, tally.cost.calls, tally.cost.tokens, tally.cost.retrievals) == (5, 5, 65, 0)
    assert (told, len(engine.calls)) == ([1, 2, 3, 4, 5], 5)
    found = read_run(tmp_path / "run.jsonl")
    said = found.header
    assert (said.method, said.label, said.dataset, said.split, said.seed) == ("closed book", "run", "towns", "dev", 3)
    assert [line.id for line in found.lines] == said.ids == ["t0", "t1", "t2", "t3", "t4"]
    assert found.lines[0].scores == {"em": 1.0, "f1": 1.0, "contains": 1.0}
    assert (found.lines[3].answer, found.lines[3].scores) == ("somebody", {"em": 0.0, "f1": 0.0, "contains": 0.0})
    before = (tmp_path / "run.jsonl").read_bytes()
    second, engine = run(5, dataset="towns", split="dev", seed=3)
    assert (engine.calls, second.asked, second.done, second.mean("em"), second.cost.tokens) == ([], 0, 5, 0.8, 65)
    assert (tmp_path / "run.jsonl").read_bytes() == before


def test_the_kind_of_a_question_stands_in_its_line(closed_book, tmp_path):
    asked = [Example("h1", "Who governs Town1?", ("Mayor1",), kind="bridge")]
    evaluate(closed_book()[0], asked, out=tmp_path / "run.jsonl")
    assert read_run(tmp_path / "run.jsonl").lines[0].kind == "bridge"


def test_a_failed_question_is_no_wrong_answer_and_can_be_asked_again(run, tmp_path):
    def broken(name, inputs, config):
        if "Town2" in inputs["question"]:
            raise lm15.RateLimitError("slow down, see https://box.example/limits")
        return "no {format} at all" if "Town4" in inputs["question"] else {"answer": "x"}

    tally, _ = run(5, broken)
    assert (tally.failed, dict(tally.causes)) == (2, {"LMRateLimitError": 1, "AdapterParseError": 1})
    failed = read_run(tmp_path / "run.jsonl").failed
    assert [(line.id, line.answer, line.error.stage, line.error.cause) for line in failed] == [
        ("t2", None, "answer", "LMRateLimitError"),
        ("t4", None, "answer", "AdapterParseError"),
    ]
    assert failed[0].scores == {"em": 0.0, "f1": 0.0, "contains": 0.0}
    assert failed[0].record.failure == failed[0].error
    assert "box.example" not in (tmp_path / "run.jsonl").read_text()
    assert run(5)[1].calls == []
    tally, engine = run(5, retry_failed=True)
    assert sorted(number_of(inputs) for inputs in engine.asked("AnswerQuestion")) == [2, 4]
    assert (tally.asked, tally.done, tally.failed) == (2, 5, 0)
    lines = read_run(tmp_path / "run.jsonl").lines
    assert [line.answer for line in lines] == ["x", "x", "Mayor2", "x", "Mayor4"]


def test_what_no_question_escapes_ends_the_run_and_keeps_what_was_answered(run, tmp_path):
    def locked(name, inputs, config):
        if "Town3" in inputs["question"]:
            raise lm15.AuthError("no such key")
        return {"answer": "x"}

    with pytest.raises(ConfigurationError, match="no such key"):
        run(6, locked, in_flight=1)
    assert [line.id for line in read_run(tmp_path / "run.jsonl").lines] == ["t0", "t1", "t2"]
    tally, engine = run(6, in_flight=1)
    assert (tally.done, len(engine.calls)) == (6, 3)


def test_the_order_of_lines_does_not_depend_on_how_many_are_in_work(run, tmp_path):
    for label, in_flight in (("one", 1), ("many", 16)):
        run(30, in_flight=in_flight, label=label)
    one, many = (read_run(tmp_path / f"{label}.jsonl").lines for label in ("one", "many"))
    assert [without_seconds(line.model_dump()) for line in one] == [without_seconds(line.model_dump()) for line in many]


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "there is no question to ask"),
        ([{"question": "Who?"}], "example 1: there is no answer"),
        ([{"id": "a", "question": "Who?", "answer": "x"}, {"id": "a", "question": "Why?", "answer": "y"}], "example 2"),
    ],
)
def test_questions_that_cannot_be_asked_are_told_first(closed_book, tmp_path, examples, message):
    program, engine = closed_book()
    with pytest.raises(InputError, match=message):
        evaluate(program, examples, out=tmp_path / "run.jsonl")
    assert engine.calls == []
    assert not (tmp_path / "run.jsonl").exists()


def test_no_more_are_in_work_than_allowed(closed_book, tmp_path):
    program, engine = closed_book(latency=0.005)
    assert evaluate(program, iter(towns(50)), out=tmp_path / "run.jsonl", in_flight=2).done == 50
    assert engine.peak == 2


def test_the_calls_are_not_remembered(run):
    base_lm.GLOBAL_HISTORY.clear()
    before = len(dspy.settings.trace or [])
    run(80)
    assert len(base_lm.GLOBAL_HISTORY) <= 64
    assert len(dspy.settings.trace or []) == before


def test_failures_between_answers_or_of_the_question_itself_do_not_end_it(run):
    def every_other(name, inputs, config):
        if number_of(inputs) % 2:
            raise lm15.TransportError("connection refused")
        return {"answer": "x"}

    tally, _ = run(20, every_other, in_flight=1, stop_after_outages=2)
    assert (tally.done, tally.failed) == (20, 10)
    tally, _ = run(20, lambda *_: "no {format} at all", label="other", in_flight=1, stop_after_outages=2)
    assert (tally.done, tally.failed) == (20, 20)
    tally, _ = run(20, away, label="never", in_flight=1, stop_after_outages=0)
    assert (tally.done, tally.failed) == (20, 17)
    with pytest.raises(InputError, match="stop_after_outages must be at least 0, not -1"):
        run(20, stop_after_outages=-1)


def test_a_question_that_is_refused_has_the_reason_in_its_line(closed_book, tmp_path):
    long = {"question": "Who? " * 2000, "answer": "x"}
    assert evaluate(closed_book()[0], [long], out=tmp_path / "run.jsonl").failed == 1
    (line,) = read_run(tmp_path / "run.jsonl").failed
    said = "the question has 9,999 characters; at most 8,000 are allowed"
    assert (line.record, line.error.stage, line.error.cause, line.error.message) == (None, "ask", "InputError", said)


def test_what_comes_before_the_first_question_is_called_once_and_only_where_there_is_one(run):
    called = []
    for number in (1, 2):
        run(5, before_first=lambda number=number: called.append(number))
    assert called == [1]


def test_an_answer_is_scored_by_the_rule_of_its_benchmark():
    example = BENCHMARKS["hotpotqa"].convert(POLAR)
    # Its official script.
    assert scores_of("Yes, both are American.", example) == {"em": 0.0, "f1": 0.0, "contains": 1.0}
    assert scores_of("Yes.", example) == {"em": 1.0, "f1": 1.0, "contains": 1.0}
    assert scores_of(None, example) == {"em": 0.0, "f1": 0.0, "contains": 0.0}
    assert as_example(example) == example
    verdict = Example("1", "Is it over?", ("No", "No, it is not."), scored_as="yes/no")
    assert scores_of("No, not yet.", verdict) == {"em": 1.0, "f1": 1.0, "contains": 1.0, "accuracy": 1.0}


def test_two_questions_that_differ_in_their_gold_answers_have_one_prompt(closed_book):
    program, engine = closed_book(lambda name, inputs, config: {"answer": "yes"})
    for answer in ("yes", "Ann Lee"):
        ask(program, BENCHMARKS["hotpotqa"].convert({**POLAR, "answer": answer}))
    first, second = engine.prompts
    assert first == second


@pytest.mark.parametrize(
    ("kind", "described"),
    [("TantivyRetriever", "BM25"), ("DenseRetriever", "dense"), ("HybridRetriever", "hybrid"), ("Own", "Own")],
)
def test_tables_name_the_kind_of_retriever(kind, described):
    assert RunSettings(index={"kind": kind, "name": "numbers"}).retriever == described


@pytest.mark.parametrize(
    ("variant", "pick", "judge"), [("similar", True, 2), ("random", True, 2), ("none", True, 1), ("similar", False, 1)]
)
def test_demonstrations_are_counted_by_predictor(variant, pick, judge):
    entries = [UtilityEntry(str(number), f"quiz {number}", f"passage {number}", True) for number in range(3)]
    program = KEQA(None, reference=UtilityReference(k=2, variant=variant).fit(entries), pick=pick)
    program.summarizing.summarize.demos = [{"question": "Who?"}] * 3
    program.picking.judge.demos = [{"quiz": "Who?"}]
    found = demonstrations_of(program)
    assert found.keys() == dict(program.named_predictors()).keys()
    assert {name: count for name, count in found.items() if count} == {
        "picking.judge": judge,
        "summarizing.summarize": 3,
    }
    assert demonstrations_of(AlwaysRetrieve(None)) == {"answer": 0}
