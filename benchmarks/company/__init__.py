"""The folder of Meridian Rail, which does not exist: 26 files in nine formats and three languages, and 40 questions.

Texts and tables lie in ``files``; what the others hold, and those of Chinese names, stands in ``office.yaml``. Policies
have an older and a newer version; two pairs of files contradict each other and have no date. Twelve questions have no
answer, two of each of six kinds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common  # noqa: F401
import office_files
import yaml

_HERE = Path(__file__).parent
_FILLING = (
    "Meridian Rail runs regional trains and repairs those of others.",
    "The figures were checked by the department of finance.",
    "Details are in the tables of the appendix.",
    "Questions are answered by the office of the managing directors.",
)
"""What fills a page of a PDF below its own lines."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, with spellings of its answer and where it stands, if it has one."""

    kind: str
    question: str
    answers: Sequence[str] = ()
    file: str = ""
    part: int | str | None = None
    outdated: str = ""
    quizzes: Sequence[str] = ()


def _read(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((_HERE / name).read_text("utf-8")))


QUESTIONS = tuple(Asked(kind, **one) for kind, some in _read("questions.yaml").items() for one in some)


def make(folder: Path) -> None:
    contents = {path.relative_to(_HERE / "files"): path.read_bytes() for path in (_HERE / "files").rglob("*.*")}
    for name, given in _read("office.yaml").items():
        kind = Path(name).suffix.removeprefix(".")
        if isinstance(given, str):
            contents[Path(name)] = given.encode()
            continue
        if kind == "pdf":
            pages = given["pages"]
            given["pages"] = [[(20, head), *((11, line) for line in (*lines, *_FILLING))] for head, *lines in pages]
        contents[Path(name)] = getattr(office_files, kind)(**given)
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
