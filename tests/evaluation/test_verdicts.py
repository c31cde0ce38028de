"""A failure is not a verdict: runs over a server that fails at 30 % of calls, and the same once it is mended."""

import re
from functools import partial

import pytest
from fixtures.run_files import towns
from servers.openai_server import FaultPlan, OpenAIServer, inputs_of, markers

from keqa.evaluation.evaluate import evaluate
from keqa.evaluation.run_file import read_run
from keqa.lms import build_roles
from keqa.programs.baselines import FLARE, AlwaysRetrieve, ClosedBook, IRCoT, SelfRAG, SlimPLM
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.calls.session import bypass_cache
from keqa.programs.gates import CertaintyGate
from keqa.programs.keqa import KEQA

pytestmark = pytest.mark.server

COUNT = 24
KINDS = ("429", "500", "close", "empty", "truncated", "markdown")


def said_of(number, fields):
    """What is said besides answers, by the output field."""
    return {
        "helpful": f"Mayor{number} " in fields.get("passage", ""),
        "retrieve": number % 2 == 1,
        "known": number % 2 == 0,
        "queries": f'["Who governs Town{number}?"]',
        "quizzes": f'["Who governs Town{number}?"]',
        "relevant": True,
        "support": "fully",
        "usefulness": 5,
        "thought": f"So the answer is Mayor{number}.",
    }


def reply(messages, n, body):
    """Knows the mayor of each even town by heart, and is wrong about the others unless a passage tells."""
    system, fields = messages[0]["content"], inputs_of(messages[-1]["content"])
    number = int(re.findall(r"Town(\d+)", str(fields))[0])
    if "first_answer" in fields:
        return [markers(same="False")] * n
    for field, value in said_of(number, fields).items():
        if f"`{field}`" in system or f"## {field} ##" in system:
            return [markers(**{field: value})] * n
    told = number % 2 == 0 or f"Mayor{number} governs" in str(fields)
    return [
        markers(reasoning="So it is.", explanation="So it is.", answer=f"Mayor{number}" if told else f"guess {place}")
        for place in range(n)
    ]


METHODS = {
    "keqa": KEQA,
    "rag": AlwaysRetrieve,
    "ircot": IRCoT,
    "self-rag": SelfRAG,
    "slimplm": SlimPLM,
    "gate": partial(KEQA, decompose=False, gate=CertaintyGate()),
}


def roles_of(server):
    return build_roles("openai/scripted", api_base=server.api_base, api_key="any", num_retries=0)


def content(line):
    """What a question was answered, and by which draws."""
    quizzes = line.record.quizzes
    drawn = [[sample.text for sample in quiz.samples] for quiz in quizzes]
    return line.id, line.answer, line.scores, line.record.answer_source, [quiz.source for quiz in quizzes], drawn


@pytest.mark.parametrize("method", METHODS)
def test_no_failure_is_a_verdict_and_mended_nothing_of_it_is_left(method, retriever, tmp_path):
    found = retriever(
        *[f"Mayor{n} governs Town{n}." for n in range(COUNT)],
        found={f"Who governs Town{n}?": [n] for n in range(COUNT)},
    )
    runs = {}
    plan = FaultPlan(share=0.3, kinds=KINDS, seed=12)
    for name, faults in (("whole", None), ("faulty", plan)):
        with OpenAIServer(reply=reply, faults=faults) as server, CallCache(tmp_path / f"{name}.sqlite") as cache:
            program = METHODS[method](found, lms=roles_of(server))
            run = {"out": tmp_path / f"{name}.jsonl", "cache": cache, "in_flight": 4}
            tally = evaluate(program, towns(COUNT), **run)
            runs[name] = read_run(tmp_path / f"{name}.jsonl").lines
            if faults is None:
                continue
            assert sum(server.faults_given.values()) > COUNT // 4
            # With the questions that failed, and without.
            assert tally.failed + tally.impaired > 0
            assert tally.untouched == COUNT - tally.failed - tally.impaired > 0
            assert tally.untouched_mean("em") == 1.0 >= tally.mean("em")
            server.faults = None
            healed = evaluate(program, towns(COUNT), **run, retry_failed=True)
            assert (healed.failed, healed.impaired, healed.untouched) == (0, 0, COUNT)
            assert healed.asked == tally.failed + tally.impaired
            runs["healed"] = read_run(tmp_path / f"{name}.jsonl").lines
            asked = server.count
            assert evaluate(program, towns(COUNT), **run, retry_failed=True).asked == 0
            assert server.count == asked
    assert {line.scores["em"] for line in runs["whole"]} == {1.0}
    for line in runs["faulty"]:
        if not line.failed and line.scores["em"] < 1:
            assert line.touched, line
        for quiz in line.record.quizzes if line.record else ():
            if quiz.known is False and quiz.answer is not None:
                assert quiz.source == "passages", line
    assert [content(line) for line in runs["healed"]] == [content(line) for line in runs["whole"]]


def test_a_reply_that_cannot_be_used_is_in_no_cache(tmp_path):
    town = [{"id": "t", "question": "Who governs Town2?", "answer": "Mayor2"}]
    for spoilt in ("", "no {marker in sight", "[[ ## answer ## ]]\n\n[[ ## completed ## ]]"):
        path = tmp_path / str(len(spoilt))
        with OpenAIServer(reply=lambda messages, n, body, said=spoilt: [said] * n) as server:
            with CallCache(path.with_suffix(".sqlite") if spoilt else None) as cache:
                program = ClosedBook(lms=roles_of(server))
                assert evaluate(program, town, out=path.with_suffix(".jsonl"), cache=cache).failed
                assert cache._file._file.execute("SELECT count(*) FROM calls").fetchone() == (0,)
            # Once as it is, once more the same, and four draws.
            assert server.count == 6


def test_dspys_own_cache_keeps_none_either(memory_cache):
    said = ["no {marker in sight"]
    with OpenAIServer(reply=lambda messages, n, body: said * n) as server:
        program = ClosedBook(lms=roles_of(server))
        outcome = next(iter(program.answer_many(["Who governs Town2?"])))
        assert (outcome.answer, server.count) == (None, 6)
        said[:] = [markers(answer="Mayor2")]
        record = program("Who governs Town2?").record
        assert (record.answer, record.touched, server.count) == ("Mayor2", False, 7)
        # What can be used is kept, and asked for again where it failed its question.
        assert (program("Who governs Town2?").answer, server.count) == ("Mayor2", 7)
        with bypass_cache():
            assert (program("Who governs Town2?").answer, server.count) == ("Mayor2", 8)
        assert (program("Who governs Town2?").answer, server.count) == ("Mayor2", 8)


def test_a_sentence_that_could_not_be_written_from_passages_is_not_taken_from_memory(retriever):
    def only(body):
        return "governs" in str(body["messages"][-1]["content"]).split("[[ ## question")[0]

    plan = FaultPlan(share=1.0, kinds=("500",), only=only)
    with OpenAIServer(reply=reply, faults=plan, probability=lambda token: 0.5) as server:
        (outcome,) = FLARE(retriever("Mayor1 governs Town1."), lms=roles_of(server)).answer_many(["Who governs Town1?"])
    assert outcome.answer is None
