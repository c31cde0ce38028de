import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ROOMS = PROJECT["tool"]["setuptools"]["package-dir"]


def test_every_folder_with_code_is_packaged():
    found = set()
    for package, folder in ROOMS.items():
        room = ROOT / folder
        for init in room.rglob("__init__.py"):
            inner = init.parent.relative_to(room).parts
            found.add(".".join([package, *inner]))
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found


def test_no_code_lies_in_a_folder_that_is_not_packaged():
    for folder in ROOMS.values():
        for file in (ROOT / folder).rglob("*.py"):
            assert (file.parent / "__init__.py").exists(), file


def test_the_extras_named_by_error_messages_exist():
    extras = set(PROJECT["project"]["optional-dependencies"])
    for_users = {"local", "gguf", "documents", "compile", "dense", "elasticsearch", "finetune", "hub", "plots", "serve"}
    assert extras == for_users | {"all", "dev", "docs", "mutants", "vllm"}


def test_every_constraint_is_exact():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert len(pins) > 50
    assert all(line.count("==") == 1 for line in pins)
    names = {line.split("==")[0].lower().replace("_", "-") for line in pins}
    project = PROJECT["project"]
    wanted = [
        *project["dependencies"],
        *(need for extra in project["optional-dependencies"].values() for need in extra),
    ]
    # vLLM has an environment of its own, with a FastAPI for an older Starlette than the one that is pinned.
    required = {name.split(">")[0].split("[")[0] for name in wanted} - {"keqa", "vllm"}
    assert {name.lower() for name in required} <= names
