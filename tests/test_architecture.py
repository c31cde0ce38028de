"""Each room imports the rooms below it and no other, no modules import in a circle, and the pictures are true."""

import ast
import importlib.util
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parent.parent


SPEC = importlib.util.spec_from_file_location("draw_architecture", ROOT / "docs" / "draw_architecture.py")
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)


def test_no_import_points_up():
    below = {room: set(script.ROOMS[: place + 1]) for place, room in enumerate(script.ROOMS)}
    upward = []
    for path in script.modules():
        for line, name in script.imports(path):
            room = script.room_of_module(name)
            if room is not None and room not in below[script.room_of_file(path)]:
                upward.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert upward == []


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["keqa", *parts[parts[0] == "app" :]]).removesuffix(".__init__")


def imported(code):
    """What a module imports, by its possible names: in functions and for types only, too."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((f"{node.module}.{alias.name}", node.module) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name,) for alias in node.names)


def part_of(name):
    """The sub-package of a room, or the module that stands in the room itself: `keqa.programs.calls`, `keqa.cli`."""
    parts = name.split(".")
    return ".".join(parts[: 3 if {*parts[1:2]} & {*script.ROOMS} else 2])


def circle(sources, drawn=str):
    """The modules of a circle, if any; drawn more coarsely, what is drawn in one place is one."""
    graph = {}
    for name, code in sources.items():
        # What is imported from a package may be a module of it.
        firsts = (next((one for one in names if one in sources), None) for names in imported(code))
        graph.setdefault(drawn(name), set()).update({drawn(first) for first in firsts if first} - {drawn(name)})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_modules_import_in_a_circle():
    assert circle({name_of(path): path.read_text(encoding="utf-8") for path in script.modules()}) == []


def test_no_parts_of_a_room_import_in_a_circle():
    assert circle({name_of(path): path.read_text(encoding="utf-8") for path in script.modules()}, part_of) == []
    to_and_fro = {"keqa.lms.b.c": "import keqa.lms.d", "keqa.lms.b.e": "", "keqa.lms.d": "from keqa.lms.b import e"}
    assert (circle(to_and_fro), {*circle(to_and_fro, part_of)}) == ([], {"keqa.lms.b", "keqa.lms.d"})


@pytest.mark.parametrize(
    "code",
    [
        "from keqa.b import B",
        "try:\n    from keqa import b\nexcept ImportError: pass",
        "if TYPE_CHECKING:\n    from keqa.b import B",
        "def f():\n    from keqa.b import B",
    ],
)
def test_a_circle_is_seen(code):
    assert {*circle({"keqa.a": code, "keqa.b": "import keqa.a"})} == {"keqa.a", "keqa.b"}
    assert circle({"keqa.a": code, "keqa.b": "import keqa.c"}) == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import keqa.programs.keqa", ["keqa.programs.keqa"]),
        ("def run():\n    from keqa.app import x", ["keqa.app"]),
        ("from keqa import evaluation, errors", ["keqa.evaluation", "keqa.errors"]),
        ("from keqa.lms.factory import build_lm", ["keqa.lms.factory"]),
        ("import os\nfrom pathlib import Path", []),
    ],
)
def test_every_form_of_import_is_read(tmp_path, code, found):
    path = tmp_path / "module.py"
    path.write_text(code)
    assert [name for _, name in script.imports(path)] == found


def test_what_lies_below_all_rooms_may_be_imported_by_all():
    assert script.room_of_module("keqa.errors") is None
    assert [script.room_of_module(name) for name in ("keqa", "keqa.cli.ask", "keqa.storage.journal")] == [
        "app",
        "app",
        "storage",
    ]


def test_the_pictures_are_those_of_the_code():
    done = subprocess.run([sys.executable, ROOT / "docs" / "draw_architecture.py", "--check"], check=False)
    assert done.returncode == 0, "run python docs/draw_architecture.py"
