"""Runs mypy over the rooms as their package, and over a use of it: ``python .ci/check_types.py``.

The folders are mapped to packages by pyproject.toml (``app`` is ``keqa``, ``programs`` is ``keqa.programs``). mypy
cannot follow the import hook of an editable install, so it is shown a tree of links with the names that Python sees.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def link(tree: Path) -> None:
    """Make the packages of pyproject.toml in a folder, file by file as links."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = tool["package-dir"]
    for package in tool["packages"]:
        # The longest mapped beginning of the name gives the folder, as it does for setuptools.
        parts = package.split(".")
        known = next(n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in folders)
        folder = ROOT.joinpath(folders[".".join(parts[:known])], *parts[known:])
        target = tree.joinpath(*parts)
        target.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            if file.suffix == ".py" or file.name == "py.typed":
                (target / file.name).symlink_to(file)


def main() -> int:
    """Check the package and return mypy's exit code."""
    with tempfile.TemporaryDirectory(prefix="keqa-types-") as folder:
        link(Path(folder))
        (Path(folder) / "typed_use.py").symlink_to(ROOT / ".ci" / "typed_use.py")
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "-p", "keqa"]
        what = ["-m", "typed_use", "--cache-dir", str(ROOT / ".mypy_cache")]
        return subprocess.run([*command, *what], env={**os.environ, "MYPYPATH": folder}, cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
