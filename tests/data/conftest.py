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
