"""The programs in examples/ run as they stand, with the language model that comes with KEQA."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.model

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# What each program prints among other lines.
PRINTED = {
    "compare_models.py": ["keqa/tiny: 7 of 10 quizzes known, 3 retrievals"],
    "compile_a_program.py": ["plain: F1 ", "compiled: F1 ", "Read the runs with: keqa compare "],
    "dspy_compatibility.py": ["40 of 40 uses are OK"],
    # Questions asked at once share batches as time has it, which may move a draw: who is asked counts here.
    "inside_a_module.py": [
        "In which country is Harton? ",
        "Who was born earlier, Flora Isvik or Tessa Talvik? Tessa Talvik",
        "exact match: ",
    ],
    "own_documents.py": [
        "140 passages",
        "Answer: Salmouth",
        "  Who is the employer of Lydia Garvik? Fentec Motors (passages: ",
        "  Where is Fentec Motors based? Salmouth (memory)",
    ],
    "own_retriever.py": ["Zelia | 0 retrievals", "Kalia | 1 retrievals"],
    "read_a_record.py": [
        "Quiz 2: Where does #1 live? -> Where does Vito Borman live?",
        "  4 of 5 samples mean 'Vito Borman'",
        "  consistency 4/5, threshold 4/5: known is True",
        "  kept: Vito Borman (judged helpful)",
    ],
}


def test_every_example_is_here():
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs_as_it_stands(name, tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [start for start in PRINTED[name] if not any(line.startswith(start) for line in lines)] == []
