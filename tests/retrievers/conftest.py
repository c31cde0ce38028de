import json
import shutil
import signal
import sys
import textwrap
import weakref
from pathlib import Path
from types import ModuleType

import pytest
from servers.process import script

from keqa.retrievers import Passage

# A library with the interface of sentence-transformers whose models need no weights, here and in other processes.
LIBRARY = Path(__file__).parents[1] / "fixtures" / "library" / "sentence_transformers" / "__init__.py"

# A process that is killed begins no second one to read documents with.
READING_HERE = """
from keqa.retrievers import readers
from keqa.retrievers.readers.formats import passages_of

def read_here(*given):
    passages, lost = passages_of(*given)
    return list(passages), lost

readers.read_beside = read_here
"""


@pytest.fixture
def passages():
    return [
        Passage("p1", "Ada Lovelace", "She wrote the first program for the Analytical Engine."),
        Passage("p2", "Charles Babbage", "He designed the Difference Engine and the Analytical Engine."),
        Passage("p3", "The Who", "The Who are a rock band formed in London."),
        Passage("p4", "Zebra", "The zebra has black and white stripes."),
    ]


@pytest.fixture
def killed(other_process):
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

    def run(*parts: str) -> None:
        done = other_process("\n".join(map(textwrap.dedent, (makers, *parts))), 10**9)
        assert done.returncode == -signal.SIGKILL, done.stderr

    return run


@pytest.fixture
def altered():
    """Writes other values into the manifest of an index."""

    def alter(index: Path, **change: object) -> Path:
        (path,) = (index / "data").glob("manifest-*.json")
        head, _, files = path.read_text().partition("\n")
        values = json.loads(head)
        for name, value in change.items():
            values[name] = {**values[name], **value} if name in ("encoder", "vectors") else value
        path.write_text(f"{json.dumps(values)}\n{files}")
        return path

    return alter


@pytest.fixture
def library(monkeypatch):
    """The library in this process; its `CALLS` say what was encoded."""
    module = ModuleType("sentence_transformers")
    exec(LIBRARY.read_text(), module.__dict__)
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    # A model that an earlier test opened may not be collected yet, and would be asked in place of this library's.
    monkeypatch.setattr("keqa.retrievers.embedding._open", weakref.WeakValueDictionary())
    return module


@pytest.fixture
def other_process(tmp_path):
    """Runs code in a process that has the library and is killed in the call after so many."""
    shutil.copytree(LIBRARY.parents[1], tmp_path / "site")

    def run(code, killed_after, *arguments):
        return script(READING_HERE + code, arguments, tmp_path / "site", {"KILLED_AFTER": str(killed_after)})

    return run
