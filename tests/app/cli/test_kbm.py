"""``keqa reproduce kbm``: rows, draws and tables over a scripted language model; priced, resumed, and judged."""

import pytest
from fixtures.command_line import served_by
from servers.openai_server import OpenAIServer, markers

from keqa.retrievers import Passage, build_index

pytestmark = pytest.mark.server

TOWNS = range(24)


def reply(messages, n, body):
    """Knows every other mayor, and reads all of them; judges answers in Chinese, and retrieval by what is known."""
    text = messages[-1]["content"]
    if text.startswith("给定预测和答案"):
        return ["1"] * n
    if text.count("[[ ##") == 0:
        return ["?"] * n
    number = int(text.partition("Who governs Town")[2].partition("?")[0])
    read = f"Mayor{number} governs" in text or f"Mayor{number} governs" in str(messages)
    known = number % 2 == 0
    answer = f"Mayor{number}" if known or read else "MASK" if "MASK governs" in text else f"Other{number}"
    fields = {"answer": answer, "mastery": known, "certainty": known, "retrieve": not known, "relevant": True}
    fields |= {"support": "fully", "usefulness": 5, "reasoning": "So it is."}
    wanted = messages[0]["content"].split("output fields")[1]
    return [markers(**{name: value for name, value in fields.items() if f"`{name}`" in wanted})] * n


@pytest.fixture
def run(keqa_command, write_json, tmp_path):
    build_index([Passage(str(n), f"Town{n}", f"Mayor{n} governs Town{n}.") for n in TOWNS], tmp_path / "own")

    def squad(name):
        questions = [
            {"id": str(n), "question": f"Who governs Town{n}?", "answers": [{"text": f"Mayor{n}", "answer_start": 0}]}
            for n in TOWNS
        ]
        data = {"data": [{"title": "Towns", "paragraphs": [{"context": "Towns.", "qas": questions}]}]}
        return f"{name}:{write_json(f'{name}.json', data)}"

    with OpenAIServer(reply=reply) as server:

        def command(*more):
            named = ["--data", squad("squad2"), "--data", squad("chinesesquad"), "--train", squad("squad")]
            asked = ["--sample", 8, "--train-sample", 24, "--draws", 5, "--out", tmp_path / "out"]
            index = ("--index", tmp_path / "own")
            return keqa_command("reproduce", "kbm", *served_by(server), *index, *named, *asked, "--json", *more)

        command.server = server
        yield command


def test_rows_draws_and_tables_and_what_is_finished_is_not_asked_again(run, tmp_path):
    priced = {row["run"]: row for row in run("--dry-run").json()["estimate"]}
    assert priced["closed-book"]["LM calls least"] == 8
    assert priced["kbm-acc"]["LM calls most"] == 8
    assert priced["boundary model, closed-book drawn 5 times"]["LM calls most"] == 24 * 5
    assert run.server.count == 0

    ended = run()
    assert "failed" not in ended.err
    found = ended.json()
    assert list(found) == [
        *("kbm-table1", "kbm-table5", "kbm-figure4", "kbm-figure8", "kbm-figure6", "kbm-figure9"),
        *("kbm-figure7", "kbm-figure2", "kbm-thresholds", "kbm-first-figure2"),
    ]
    rows = {row["method"]: row for row in found["kbm-table1"]}
    memory, always, prompt = (rows[name] for name in ("Closed book", "Always retrieve", "KBM (prompted)"))
    assert (always["Avg. A/E"], prompt["Avg. A/E"]) == (1, 1)
    assert 0 < memory["Avg. A/E"] == 1 - prompt["Avg. Rat"] < 1
    # The paper's figures for SQuAD 2.0 stand beside; none beside a light model, and no mean where sets are missing.
    assert (memory["squad2 A/E in the paper"], always["chinesesquad A/E in the paper"]) == (34.02, 83.66)
    assert rows["KBM (acc)"]["squad2 A/E in the paper"] is None
    assert "Avg. A/E in the paper" not in memory
    # The time of Table 5's rows is the language model's.
    assert all(row["milliseconds"] for row in found["kbm-table5"] if row["method"] in ("Always retrieve", "KBM (acc)"))
    impacts = {row["without passages"]: row for row in found["kbm-figure2"]}
    assert impacts["accuracy [0, .2)"]["Beneficial"] == impacts["accuracy [.8, 1]"]["Neutral"] == 1
    assert found["kbm-thresholds"][0]["change beside ALL RAG"] == 0
    assert found["kbm-first-figure2"][0]["answers MASK"] == 1 - memory["chinesesquad A/E"]
    assert str(tmp_path) not in (tmp_path / "out" / "squad2" / "kbm-acc.jsonl").read_text()
    assert "| Closed book" in (tmp_path / "out" / "tables" / "kbm-table1.md").read_text()

    count = run.server.count
    assert without_times(run().json()) == without_times(found)
    assert run.server.count == count
    judge = ("--judge-lm", "openai/judge", "--judge-api-base", run.server.api_base)
    scored = {row["method"]: row for row in run(*judge).json()["kbm-table1"]}
    assert scored["Closed book"]["chinesesquad A/E"] == 1
    assert scored["Closed book"]["squad2 A/E"] == memory["squad2 A/E"]
    assert run.server.count > count
    assert "openai/judge says so" in (tmp_path / "out" / "tables" / "kbm-table1.md").read_text()


def without_times(found):
    return {
        name: [{key: one for key, one in row.items() if "milli" not in key} for row in rows]
        for name, rows in found.items()
    }
