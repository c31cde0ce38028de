import runpy
import sys
from pathlib import Path

import pytest

FILES = sorted(Path(__file__).resolve().parents[2].joinpath("benchmarks").glob("*.py"))
SOURCES = {path: path.read_text(encoding="utf-8") for path in FILES}
# To import torch takes longer than all else that is imported here.
BENCHMARKS = [
    pytest.param(path, marks=pytest.mark.model if "import torch" in source else ())
    for path, source in SOURCES.items()
    if "__main__" in source
]


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_every_benchmark_says_how_it_is_called(path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code in (0, None)
    assert "usage" in capsys.readouterr().out.lower()
