import json
from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


@pytest.fixture
def shared_data():
    """Turn ``NAME:PATH`` with a path below the shared folder into what `load` takes."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the shared data folder is not beside this repository")

    def place(spec: str) -> str:
        name, path = spec.split(":")
        return f"{name}:{SHARED_DATA / path}"

    return place


@pytest.fixture
def write_json(tmp_path):
    """Write a file: a text as it is, JSON Lines for .jsonl, JSON otherwise."""

    def write(name: str, content: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".jsonl") and not isinstance(content, str):
            content = "".join(json.dumps(row) + "\n" for row in content)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write
