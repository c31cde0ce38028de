"""The examples of docs/extending.md run as they stand, and what they register is known wherever such is listed."""

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from dspy.utils import DummyLM
from typer.testing import CliRunner

import keqa
from keqa.data.benchmarks import BENCHMARKS, register_benchmark
from keqa.errors import ConfigurationError
from keqa.evaluation.records import RunHeader
from keqa.evaluation.reports.rows import title_of
from keqa.programs.build import Parts, make
from keqa.programs.fingerprint import program_fingerprint
from keqa.programs.gates import GATES
from keqa.programs.registry import METHODS, Method, parse_spec, register_method
from keqa.programs.shared_draws import SharedDraws
from keqa.retrievers.engines import ENGINES, Engine, facts_of, parts_of, register_engine

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
SECTIONS = re.findall(
    r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```\n\n^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE
)
REGISTRIES = (GATES, METHODS, ENGINES, BENCHMARKS)


@pytest.fixture
def example(tmp_path, monkeypatch):
    """Runs the example of a section as a module of its own; what it registers is forgotten afterwards."""
    before = [dict(registry) for registry in REGISTRIES]
    monkeypatch.chdir(tmp_path)

    def run(title):
        (code,) = [code for name, code, _ in SECTIONS if name == title]
        path = tmp_path / f"example_{len(title)}.py"
        path.write_text(code, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        return module

    yield run
    for registry, there in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(there)


def header(**configuration):
    return RunHeader(
        method="m", label="m", dataset="d", split="", seed=0, ids=[], configuration=configuration, fingerprint=""
    )


def test_there_is_an_example_for_each_extension():
    assert PAGE.count("```python") == len(SECTIONS) == 5


@pytest.mark.parametrize(("title", "printed"), [(title, printed) for title, _, printed in SECTIONS])
def test_an_example_prints_what_the_page_says(example, capsys, title, printed):
    example(title)
    assert capsys.readouterr().out == printed


def test_a_gate_is_known_to_tables_and_figures(example):
    example("A gate that reads samples")
    assert title_of("gate-margin", "gate-margin-threshold=1_5", {}) == "Margin (threshold=1_5)"
    assert header(settings={"gate": {"kind": "MarginGate", "threshold": "1/5"}}).configuration.gate == "margin"
    with pytest.raises(keqa.InputError, match="gate-margin has no form"):
        make(parse_spec("gate-margin:form=x"), Parts(None, None, draws=SharedDraws()))


@pytest.mark.slow
def test_the_command_line_knows_what_a_module_registers(tmp_path):
    (code,) = [code for name, code, _ in SECTIONS if name == "A gate that reads samples"]
    (tmp_path / "my_gates.py").write_text(code[: code.index("# A method like any other")], encoding="utf-8")
    (started,) = re.findall(r'python -c "(import my_gates; [^"]+)"', PAGE)
    asked = [sys.executable, "-c", started, "evaluate", "gate-margin:form=x", "--testbed", "--out", "runs"]
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), "."]))
    done = subprocess.run(
        asked, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert "gate-margin has no form; it has threshold" in done.stderr
    assert done.returncode == 2


def test_an_engine_brings_its_options_to_the_command_line(example, tmp_path):
    module = example("A retriever, or an engine of retrieval")
    from keqa.cli import app

    def run(*arguments):
        return CliRunner().invoke(app, ["index", *arguments], env={"COLUMNS": "120"})

    shown = run("--help").stdout
    for part in ("shelf: shared words", "Engine shelf", "Name of the shelf.", "Passages at the most.", "--similarity"):
        assert part in shown
    Path("rivers.jsonl").write_text('{"text": "The Glomma is a river."}\n{"text": "So is the Akerselva."}\n')
    done = run("rivers.jsonl", "--engine", "shelf", "--shelf", "rivers", "--most", "1")
    assert done.exit_code == 0, done.output
    assert "Indexed 1 passage (any language) into shelf://rivers." in done.stdout
    assert [passage.text for passage in module.SHELVES["rivers"]] == ["The Glomma is a river."]
    assert str(run("rivers.jsonl", "--engine", "shelf").exception) == "--shelf is missing: name the shelf"
    refused = run("rivers.jsonl", "--most", "1", "--out", "x").exception
    assert str(refused) == "--most is for --engine shelf, not for embedded: leave it out"


def test_a_gate_is_registered_again_where_a_notebooks_cell_is(example):
    first = example("A gate that asks the LM").FamiliarityGate
    second = example("A gate that asks the LM").FamiliarityGate
    assert first is not second
    assert METHODS["gate-familiarity"].gate is second


def test_a_program_with_a_gate_that_is_not_registered_says_so(example):
    example("A gate that reads samples")
    del GATES["MarginGate"]
    with pytest.raises(ConfigurationError, match="unknown gate 'MarginGate'; one of your own is registered before"):
        keqa.load("with-a-gate", None)


def test_a_saved_gate_is_checked_as_its_arguments_are(example):
    example("A gate that reads samples")
    path = Path("with-a-gate/program.json")
    path.write_text(path.read_text().replace('"1/3"', '"7"'))
    with pytest.raises(ConfigurationError, match="MarginGate: threshold must be"):
        keqa.load("with-a-gate", None)


def test_a_failed_question_of_a_gate_retrieves(example):
    module = example("A gate that asks the LM")
    program = keqa.KEQA(None, decompose=False, workers=1, gate=module.FamiliarityGate())
    program.set_lm(DummyLM([{"familiar": "perhaps"}] * 4 + [{"answer": "Oslo"}] * 9))
    story = program("What is the capital of Norway?").record
    assert story.quizzes[0].known is False
    assert ("recognize_entities", "retrieved") in [(note.stage, note.action) for note in story.degradations]


def test_what_a_gate_asks_is_part_of_what_an_answer_depends_on(example):
    module = example("A gate that asks the LM")
    program = keqa.KEQA(None, gate=module.FamiliarityGate())
    before = program_fingerprint(program)

    async def run(self, quiz, *, number=None):
        return True

    module.Familiarity.run = run
    assert program_fingerprint(program) != before


def test_names_that_are_taken():
    with pytest.raises(ConfigurationError, match="there is a method 'keqa' already"):
        register_method(Method("keqa", "Mine", "baseline", keqa.ClosedBook))

    def mine(scheme):
        engine = Engine()
        engine.name, engine.title, engine.retriever, engine.schemes = "mine", "Mine", "MineRetriever", (scheme,)
        return engine

    with pytest.raises(ConfigurationError, match="the engine 'elasticsearch' is there already"):
        register_engine(mine("elasticsearch"))
    with pytest.raises(ConfigurationError, match="the scheme of an address"):
        register_engine(mine("my shelf"))
    with pytest.raises(ConfigurationError, match="there is a benchmark 'hotpotqa' already: HotpotQA"):
        register_benchmark(replace(BENCHMARKS["hotpotqa"], title="Mine"))
    with pytest.raises(ConfigurationError, match="a benchmark is named in"):
        register_benchmark(replace(BENCHMARKS["hotpotqa"], name="My Own:", title="Mine"))


def test_an_engine_is_a_part_of_hybrids_and_named_in_tables(example, tmp_path):
    example("A retriever, or an engine of retrieval")
    keqa.build_index([keqa.Passage("a", "Norway", "Its capital is Oslo.")], tmp_path / "index")
    hybrid = keqa.open_index(f"{tmp_path / 'index'},shelf://notes")
    assert {hit.passage.title for hit in hybrid.search("capital of Norway")} == {"Norway", "Oslo"}
    assert header(index={"kind": "ShelfRetriever"}).configuration.retriever == "shared words"
    assert facts_of("shelf://notes") == [{"address": "shelf://notes", "engine": "shelf"}]
    # Before a comma, too: only a cluster's address goes on after one.
    assert parts_of(f"shelf://notes,{tmp_path / 'index'}") == ["shelf://notes", str(tmp_path / "index")]
    with pytest.raises(keqa.RetrievalError, match="there is no shelf 'none'"):
        keqa.open_index("shelf://none")


def test_an_index_that_says_nothing_about_itself_is_not_the_encyclopedia(example):
    example("A retriever, or an engine of retrieval")
    from keqa.cli.options import open_retriever

    with pytest.raises(ConfigurationError, match="can neither read nor judge the passages of shelf://notes"):
        open_retriever("shelf://notes", None)
    assert open_retriever("shelf://notes", "openai/gpt-4o-mini").search("the capital of Norway")


def test_an_address_of_an_engine_that_is_not_registered_says_so():
    with pytest.raises(keqa.InputError, match="is known once the module that registers it is imported"):
        keqa.open_index("unregistered://notes")
