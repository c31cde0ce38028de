"""``keqa compile``: what it makes, what it says, and what it leaves as it is."""

import errno
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from servers.openai_server import markers

from keqa.cli.compile import PriceOptions
from keqa.errors import InputError
from keqa.evaluation.reproduction.estimate import CostBounds, Estimate
from keqa.evaluation.reproduction.rehearsal import Spent
from keqa.retrievers import Passage, build_index

pytestmark = pytest.mark.process

TOWNS = ("Carmouth", "Marton", "Kelford", "Norhaven", "Vinton", "Calland", "Morhaven", "Wenford")
QUICK = ["--in-flight", 1, "--tries", 3, "--top-k", 2]
FEW = ["--sets", 1, *QUICK]
LEAST = ["--no-tuning", "--no-reference", "--optimizer", "none"]


@pytest.fixture
def pairs(tmp_path):
    """Question-answer pairs in a file."""

    def write(name, towns, *lines):
        asked = ({"question": f"To whom is the mayor of {town} married?", "answer": "Flora Isvik"} for town in towns)
        path = tmp_path / name
        path.write_text("\n".join([*map(json.dumps, asked), *lines]) + "\n")
        return path

    return write


@pytest.fixture
def served(served, tmp_path):
    passages = [("1", "Heidi Fenman", "She married Flora Isvik."), ("2", "Carmouth", "A harbour of Heidi.")]
    build_index([Passage(*one) for one in passages], tmp_path / "own")
    return ["--index", tmp_path / "own", *served]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "program"


@pytest.fixture
def tune(keqa_command, served, pairs, out):
    """Compiles on the pairs of a file, or as the arguments say."""

    def run(*more, train=TOWNS, few=FEW):
        source = [pairs("train.jsonl", train)] if train else []
        return keqa_command("compile", *source, *served, *few, "--out", out, *more)

    return run


def cells_of(ended):
    assert ended.code == 0, ended.err
    return {line.split()[0]: line.split()[1:] for line in ended.out.splitlines() if line.strip()}


def test_a_file_becomes_a_program_and_a_table(keqa_command, served, pairs, server, out, monkeypatch):
    monkeypatch.setattr("keqa.optimize.settling.FEWEST", 2)
    train, val = pairs("train.jsonl", TOWNS[:5], '{"question": "Who?"}'), pairs("val.jsonl", TOWNS[5:])
    command = ["compile", train, "--val", val, *served, *FEW, "--no-look-first", "--out", out]
    ended = keqa_command(*command)
    cells, lines = cells_of(ended), ended.out.splitlines()
    assert cells["decomposition.decompose"] == ["as", "it", "was", "0", "0"]
    assert cells["threshold"] == ["4/5", "2/5"]
    assert cells["compiled"][0] == "1.000"
    assert cells["tuned"] == ["settings", "1.000", "kept"]
    assert cells["as"][:3] == ["keqa", "ask", "does"]
    # Over documents of one's own, memory alone is no part.
    assert (cells["reading"][-1], cells["quizzes"][0]) == ("kept", "1.000")
    assert "memory alone" not in ended.out
    assert "one search and one reading (reading) is kept: nothing scores better on validation and" in ended.out
    assert any(line.startswith("utility reference: ") for line in lines)
    assert any(f"language models: {server.count:,} requests" in line for line in lines)
    assert any("train.jsonl, line 6: there is no answer" in line for line in lines)
    assert any(f"Questions as few as {len(TOWNS) - 5} hardly tell what is better" in line for line in lines)
    # With what it was compiled with: without these the testbed would be asked.
    assert lines[-1] == f'Ask with: keqa ask "…" --program {out} {" ".join(map(str, served))}'
    state = json.loads((out / "program.json").read_text())
    assert state["about"]["command"].startswith("keqa compile ")
    assert server.api_base not in json.dumps(state)
    assert (out.with_name("program.work") / "retrievals.sqlite").exists()
    calls = server.count
    again = keqa_command(*command)
    assert (again.code, server.count) == (0, calls)
    assert any("earlier runs in the same folder" in line for line in again.out.splitlines())
    asked = ("ask", "Whom?", "--program", out, *served)
    assert keqa_command(*asked, "--settle", "quizzes").code == 0
    assert keqa_command(*asked).code == 3
    foreign = "which is not openai/scripted: compile for that"
    assert foreign in keqa_command("ask", "Whom?", "--program", "testbed", *served).err
    run = ["--questions", val, "--program", "testbed", "--out", out.with_name("runs")]
    assert foreign in keqa_command("evaluate", "keqa", *run, *served).err
    assert foreign not in again.err


@pytest.mark.parametrize("how", [(), ("--no-tuning",)])
def test_from_few_questions_a_program_over_own_documents_settles_them_as_it_is_asked(tune, out, how):
    said = " ".join(tune(*how).fine().split())
    settings = json.loads((out / "program.json").read_text())["settings"]
    assert [settings[name] for name in ("settle", "read_together", "expand")] == ["cascade", True, 3]
    few = "8 questions are too few to choose how they are settled, 25 at least: what was not set is"
    assert (few in said) == (not how)
    assert "as keqa ask has it, which has no utility reference" in said


def test_another_method_learns_demonstrations_and_is_evaluated_with_them(
    keqa_command, served, pairs, server, out, tmp_path
):
    learnt, shown = server.reply, []

    def reply(messages, n, body):
        shown.append((len(messages) - 2) // 2)
        return learnt(messages, n, body) if len(messages) > 2 else [markers(answer="Isvik")] * n

    server.reply = reply
    train, val = pairs("train.jsonl", TOWNS[:5]), pairs("val.jsonl", TOWNS[5:])
    method = ["--method", "rag:top_k=2,demonstrations=False", "--sets", 1, "--out", out]
    command = ["compile", train, "--val", val, *served, *method]
    ended = keqa_command(*command)
    cells = cells_of(ended)
    assert cells["answer"] == ["as", "it", "was", "0", "4"]
    assert (cells["before"][0], cells["compiled"][0]) == ("0.667", "1.000")
    assert "utility reference" not in ended.out
    assert "threshold" not in cells
    assert (
        ended.out.splitlines()[-1]
        == f"Measure with: keqa evaluate rag --questions … --program {out} {' '.join(map(str, served))}"
    )
    calls = server.count
    assert (keqa_command(*command).code, server.count) == (0, calls)

    del shown[:]
    questions = ["--questions", val, "--out", tmp_path / "runs", *served, "--json"]
    refused = keqa_command("evaluate", "rag", "--program", out, *questions)
    assert (refused.code, shown) == (2, [])
    assert "rag: 3 of 3 questions were learned from" in " ".join(refused.err.split())
    questions.append("--allow-overlap")
    compiled = keqa_command("evaluate", "rag", "--program", out, *questions).json()
    assert (compiled["scores"]["em"], shown) == (1.0, [4, 4, 4])
    plain = keqa_command("evaluate", "rag:demonstrations=False", "--label", "plain", *questions).json()
    assert plain["scores"]["em"] == 0.0
    keqa_command("evaluate", "cot", "--program", out, *questions).refused(
        "holds a compiled rag, which means nothing to cot"
    )
    assert keqa_command("ask", "Whom?", "--program", out, *served).code == 0


def test_benchmarks_are_learned_from_each_by_its_own_rule(tune, out, write_json):
    nq = [{"question": f"Who governs {town}?", "answer": ["Flora Isvik"]} for town in TOWNS]
    more = {"answer": "Flora Isvik", "supporting_facts": [], "context": []}
    hotpot = [{"_id": town, "question": f"Who married in {town}?", **more} for town in TOWNS]
    folder = write_json("hotpot/hotpot_train_v1.1.json", hotpot).parent
    data = ("--data", f"nq:{write_json('nq.jsonl', nq)}", "--data", f"hotpotqa:{folder}", "--split", "train")
    tune(*data, "--sample", 6, "--no-tuning", "--pick", train=()).fine()
    learned = json.loads((out / "program.json").read_text())["learned"]
    names = [name.split("/")[0] for name, _ in learned["train"] + learned["validation"]]
    assert (names.count("nq"), names.count("hotpotqa")) == (6, 6)
    roots = {json.loads(line)["root"].split("/")[0] for line in (out / "reference.jsonl").read_text().splitlines()}
    assert roots <= {"nq", "hotpotqa"}


def test_nothing_is_searched_where_the_method_searches_nothing(keqa_command, served, pairs, out):
    command = ["compile", pairs("train.jsonl", TOWNS), *served[2:], "--sets", 0, "--out", out]
    assert keqa_command(*command, "--method", "closed-book").code == 0


def test_a_program_of_other_sources_is_replaced_only_with_force(keqa_command, tune, served, pairs, server, out):
    assert tune(*LEAST, few=QUICK).code == 0
    before, calls = (out / "program.json").read_bytes(), server.count
    more = [*TOWNS, "Ashford"]
    changes = {
        "training questions": {"train": more},
        "the method and its settings": {"few": [*QUICK, "--tries", 4]},
        "how it is compiled": {"few": [*QUICK, "--seed", 7]},
    }
    for reported, changed in changes.items():
        ended = tune(*LEAST, **{"few": QUICK} | changed)
        assert (ended.code, server.count) == (2, calls)
        said = " ".join(ended.err.split())
        for part in ("holds a program that was compiled from other sources", reported, "--force"):
            assert part in said
        assert (out / "program.json").read_bytes() == before
    # The same command once more is no other source, and resumes.
    assert tune(*LEAST, few=QUICK).code == 0
    assert tune(*LEAST, "--force", train=more, few=QUICK).code == 0
    assert json.loads((out / "program.json").read_text())["about"]["questions"]["train"] == 7
    other = [*served[:3], "openai/another", *served[4:]]
    calls = server.count
    train = pairs("train.jsonl", TOWNS)
    ended = keqa_command("compile", train, *other, *QUICK, *LEAST, "--out", out, "--force")
    assert (ended.code, server.count) == (2, calls)
    assert "was begun with other settings" in ended.err


@pytest.mark.parametrize("option", ["--out", "--work"])
def test_a_folder_that_may_only_be_read_is_reported_before_any_call(tune, server, tmp_path, monkeypatch, option):
    make = tempfile.mkdtemp

    def refused(prefix="", dir=None, **more):
        if Path(dir).name == "locked":
            raise OSError(errno.EROFS, "Read-only file system")
        return make(prefix=prefix, dir=dir, **more)

    monkeypatch.setattr(tempfile, "mkdtemp", refused)
    (tmp_path / "locked").mkdir()
    ended = tune(option, tmp_path / "locked" / "x")
    assert (ended.code, server.count) == (2, 0)
    assert f"Read-only file system. Name with {option} a folder that you may write to" in " ".join(ended.err.split())


def test_a_dry_run_needs_no_key_and_says_what_it_will_cost(keqa_command, pairs, served, server, out, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    command = ["compile", pairs("train.jsonl", TOWNS), *served[:2], "--lm", "openai/gpt-4o-mini", *FEW, "--sets", 0]
    (row, _) = keqa_command(*command, "--out", out, "--dry-run", "--json").json()["estimate"]
    assert row["questions"] == 6
    assert 0 < row["LM calls least"] < row["LM calls most"]
    assert 0 < row["US dollars least"] < row["US dollars most"] < 1
    assert (server.count, out.exists()) == (0, False)


@pytest.mark.parametrize(
    ("model", "options", "typed", "begins"),
    [
        ("openai/gpt-4o-mini", {}, None, "give --yes, or a higher --limit-cost"),
        ("openai/gpt-4o-mini", {"yes": True}, None, True),
        ("openai/gpt-4o-mini", {"limit_cost": 20.0}, None, True),
        ("openai/gpt-4o-mini", {}, True, True),
        ("openai/gpt-4o-mini", {}, False, ""),
        ("openai/mine", {}, None, True),
    ],
)
def test_above_the_limit_somebody_is_asked_or_nothing_begins(
    monkeypatch, capsys, tmp_path, model, options, typed, begins
):
    found = Estimate("training", "keqa", 9, {model: CostBounds(Spent(10, 1e6, 0), Spent(90, 1e8, 0))})
    monkeypatch.setattr("keqa.evaluation.reproduction.estimate.estimate_compilation", lambda *of: found)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: typed is not None))
    monkeypatch.setattr("sys.stderr.isatty", lambda: typed is not None, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *asked, **how: typed)

    def agree():
        given = (None, None, None, {"task": model}, {"optimizer": "bootstrap"})
        PriceOptions(**options).agree(*given, work=tmp_path, as_json=False)

    if begins is True:
        agree()
    else:
        with pytest.raises(InputError if typed is None else typer.Exit) as ended:
            agree()
        assert begins in str(ended.value)
    said = capsys.readouterr().err
    prices = ["0.15", "15.00"] if model == "openai/gpt-4o-mini" else ["The price of openai/mine is unknown"]
    assert all(one in said for one in (*prices, "1,000,000", "100,000,000"))
