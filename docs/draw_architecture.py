"""Draws the pictures of docs/architecture.md from the code: ``python docs/draw_architecture.py``.

Two Mermaid pictures stand between markers of the page: the rooms with the imports between them, and a question's way
through the program with the signature that each stage asks. ``--check`` changes nothing and exits with 1 where the page
is out of date.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
ROOMS = (
    "storage",
    "metrics",
    "signatures",
    "lms",
    "retrievers",
    "data",
    "programs",
    "testbed",
    "optimize",
    "evaluation",
    "app",
)
"""The top-level folders, from the ground up: a room imports those before it, and no other."""

GROUND = {"errors": "app/errors.py"}
"""What lies in a room and below all of them."""


def room_of_file(path: Path) -> str:
    """The room that a file of the package lies in."""
    return path.relative_to(ROOT).parts[0]


def room_of_module(name: str) -> str | None:
    """The room that a module of the package lies in; None for what lies below all of them."""
    parts = name.split(".")
    if len(parts) > 1 and parts[1] in GROUND:
        return None
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "app"


def modules() -> Iterator[Path]:
    """Every file of the package."""
    for room in ROOMS:
        yield from sorted((ROOT / room).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """The modules of the package that a file imports, those inside functions included, with their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "keqa":
            names = [f"keqa.{alias.name}" for alias in node.names] if node.module == "keqa" else [node.module]
            yield from ((node.lineno, name) for name in names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "keqa")


def arrows() -> set[tuple[str, str]]:
    """From which room to which there are imports."""
    found = set()
    for path in modules():
        own = room_of_file(path)
        for _, name in imports(path):
            other = room_of_module(name)
            if other not in (None, own):
                found.add((own, str(other)))
    return found


def rooms_picture() -> str:
    """An arrow from each room to each that it imports directly."""
    found = arrows()
    lines = ["flowchart BT"]
    for own, other in sorted(found):
        between = {room for room in ROOMS if (own, room) in found and (room, other) in found}
        if not between:
            lines.append(f"    {own} --> {other}")
    return "\n".join(lines)


def question_picture() -> str:
    """A question's way, with the signature that each stage asks."""
    from keqa.programs import KEQA

    program = KEQA(None)
    asked: dict[str, list[str]] = {}
    for name, predictor in program.named_predictors():
        asked.setdefault(name.split(".")[0], []).append(predictor.signature.__name__)

    def stage(name: str, what: str) -> str:
        return f'{name}["<b>{name}</b><br/>{what}<br/><i>{", ".join(asked.get(name, [])) or "no LM"}</i>"]'

    return "\n".join(
        [
            "flowchart TD",
            "    question([question]) --> " + stage("decomposition", "into quizzes that refer to each other"),
            "    decomposition --> " + stage("examination", "answers drawn from memory, grouped by meaning"),
            "    examination --> gate{{gate: known?}}",
            "    gate -- known --> summarizing",
            "    gate -- unknown --> " + stage("retrieval", "candidate passages"),
            "    retrieval --> " + stage("picking", "those that help, judged one by one"),
            "    picking -. KS-LLM .-> " + stage("selection", "sentences closest to triples"),
            "    picking --> " + stage("answering", "from what was picked"),
            "    selection -.-> answering",
            "    answering --> " + stage("summarizing", "explanation and answer"),
            "    summarizing --> answer([answer and its record])",
        ]
    )


def drawn(page: str) -> str:
    """The page with its pictures as the code has them now."""
    for name, picture in (("rooms", rooms_picture()), ("question", question_picture())):
        block = f"<!-- {name} -->\n```mermaid\n{picture}\n```\n<!-- /{name} -->"
        page = re.sub(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _, block=block: block, page, flags=re.DOTALL)
    return page


def main() -> int:
    """Draw, or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 where the page is out of date"
    )
    check = parser.parse_args().check
    page = PAGE.read_text(encoding="utf-8")
    now = drawn(page)
    if not check:
        PAGE.write_text(now, encoding="utf-8")
    return int(check and now != page)


if __name__ == "__main__":
    raise SystemExit(main())
