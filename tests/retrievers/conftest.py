import os
import signal
import subprocess
import sys
import textwrap
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


@pytest.fixture
def killed():
    """Runs a script in another process until it kills itself, by `die` or where `words` ends."""
    makers = """
        import os, signal
        from keqa.retrievers import Passage

        def die():
            os.kill(os.getpid(), signal.SIGKILL)

        def words(count, end=None):
            for number in range(count):
                if number == end:
                    die()
                yield Passage(str(number), "", f"word {number}")
        """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(*parts: str) -> None:
        command = [sys.executable, "-c", "\n".join(map(textwrap.dedent, (makers, *parts)))]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr

    return run
