from pathlib import Path

import pytest

from keqa.retrievers import Passage

SHARED_DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


@pytest.fixture
def passages():
    return [
        Passage("p1", "Ada Lovelace", "She wrote the first program for the Analytical Engine."),
        Passage("p2", "Charles Babbage", "He designed the Difference Engine and the Analytical Engine."),
        Passage("p3", "The Who", "The Who are a rock band formed in London."),
        Passage("p4", "Zebra", "The zebra has black and white stripes."),
    ]


@pytest.fixture
def shared_data():
    if not SHARED_DATA.is_dir():
        pytest.skip("the shared data folder is not beside this repository")
    return SHARED_DATA
