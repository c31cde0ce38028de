import runpy
import sys
from pathlib import Path

import pytest

FILES = sorted(Path(__file__).resolve().parents[2].joinpath("benchmarks").glob("*.py"))
BENCHMARKS = [path for path in FILES if "__main__" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_every_benchmark_says_how_it_is_called(path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code in (0, None)
    assert "usage" in capsys.readouterr().out.lower()
