"""How many random changes of the code the tests notice.

    make mutants, or
    python benchmarks/mutants.py [--mutants 300] [--seed 0] [--folder build/mutants] [ROOM ...]

mutmut changes the code of five rooms (evaluation, metrics, optimize, programs, retrievers) in some 40,000 small ways,
one at a time. Some of them, drawn at random, are put before the unit tests that reach each; those that no test noticed
are printed. Changes of the wording of a message, of the type in a `cast` and of whether a zip is strict are not drawn.
Started again on the same folder, it goes through what is left; `--fresh` begins with the code as it is now.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path

import common
from common import ROOT, show

ROOMS = ("evaluation", "metrics", "optimize", "programs", "retrievers")
WITHOUT_HELP = "not (model or server or process)"
# What tests of these rooms read besides the code.
COPIED = ("tests", "benchmarks", "docs", "README.md", "CONTRIBUTING.md")
# mutmut's own exit codes of a mutant's tests, timeouts among them; pytest ends with 1 where a test failed.
UNNOTICED = ("unnoticed", "reached by no test")
VERDICTS = dict.fromkeys((1, 3, -24, 24, 36, 152, 255), "noticed") | dict.fromkeys((5, 33), UNNOTICED[1])
WANTED = 0.95
"""The share that is to be noticed."""


def lay_out(folder: Path, rooms: Sequence[str]) -> None:
    """Copy the package, its tests and mutmut's settings into a folder, as mutmut wants a package in one."""
    mapping = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    copied = partial(shutil.copytree, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    for package, place in sorted(mapping.items()):
        copied(ROOT / place, folder / "src" / package.replace(".", "/"))
    for name in (*COPIED, "pyproject.toml"):
        (copied if (ROOT / name).is_dir() else shutil.copy2)(ROOT / name, folder / name)
    settings = {
        "source_paths": ["src"],
        "only_mutate": [f"src/keqa/{room}/*.py" for room in rooms],
        "pytest_add_cli_args_test_selection": [f"tests/{room}" for room in rooms],
        "pytest_add_cli_args": ["-m", WITHOUT_HELP, "-p", "no:cacheprovider", "--hypothesis-seed=0"],
        "also_copy": list(COPIED),
    }
    lines = [f"{key} =\n" + "".join(f"    {value}\n" for value in values) for key, values in settings.items()]
    (folder / "setup.cfg").write_text("[mutmut]\n" + "".join(lines))


def mutmut(folder: Path, names: Sequence[str], *, log: Path) -> int:
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(os.cpu_count() or 1), *names]
    environment = {**os.environ, "PYTHONPATH": ""}
    with log.open("ab") as out:
        return subprocess.run(command, cwd=folder, stdout=out, stderr=out, env=environment, check=False).returncode


def verdicts(folder: Path) -> dict[str, int | None]:
    """The exit code of each mutant's tests, None where they did not run."""
    files = sorted((folder / "mutants").rglob("*.meta"))
    return {key: code for path in files for key, code in json.loads(path.read_text())["exit_code_by_key"].items()}


def change(folder: Path, name: str) -> str:
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    with chdir(folder):
        diff = get_diff_for_mutant(name)
    return "\n".join(line for line in diff.splitlines()[3:] if line[:1] in "+-")


def is_wording(changed: str) -> bool:
    """Whether two versions differ in the letters of texts alone, or in what no call can show: casts, strict zips."""
    lines = changed.splitlines()
    taken, put = ([_plain(line[1:]) for line in lines if line[:1] == sign] for sign in "-+")
    return bool(taken) and taken == put


def _plain(line: str) -> str:
    line = re.sub(r"XX(?=[\"'])|(?<=[\"'])XX", "", line).lower()
    line = re.sub(r"\bcast\((none|\w+|\"[^\"]*\"), ", "cast(_, ", line)
    return re.sub(r",\s*(strict=(true|false|none))?(?=\))", "", line) if "zip(" in line else line


def drawn(folder: Path, count: int, seed: int) -> Iterator[str]:
    names = sorted(verdicts(folder))
    random.Random(seed).shuffle(names)
    for name in names:
        if count and not is_wording(change(folder, name)):
            count -= 1
            yield name


def main() -> int:
    known = {"rooms": ROOMS, "mutants": 300, "seed": 0, "folder": ROOT / "build" / "mutants", "fresh": False}
    options = common.options(__doc__, "rooms", **known)
    if unknown := sorted(set(options.rooms) - set(ROOMS)):
        options.refuse(f"there is no room {unknown[0]}; choose from {', '.join(ROOMS)}")
    rooms, folder = options.rooms, options.folder.resolve()
    if options.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    if not (folder / "setup.cfg").exists():
        folder.mkdir(parents=True, exist_ok=True)
        lay_out(folder, rooms)
    log = folder / "mutmut.log"
    if not (folder / "mutants").exists():
        # It makes all mutants before it looks for those that are named.
        mutmut(folder, ["none"], log=log)
    names = list(drawn(folder, options.mutants, options.seed))
    done = verdicts(folder)
    left = [name for name in names if done[name] is None]
    print(f"{len(done)} mutants, {len(names)} drawn, {len(left)} to run; see {log}")
    if left and (code := mutmut(folder, left, log=log)):
        print(f"mutmut ended with {code}: see {log}")
        return 1
    done = verdicts(folder)
    found = [(name, VERDICTS.get(done[name], "unnoticed")) for name in names]
    for name, verdict in found:
        if verdict != "noticed":
            print(f"\n{name}: {verdict}", change(folder, name), sep="\n")
    rows = []
    for room in (*rooms, "all"):
        counts = Counter(verdict for name, verdict in found if room in ("all", name.split(".")[1]))
        row = {"room": room, "mutants": counts.total(), **{one: counts[one] for one in ("noticed", *UNNOTICED)}}
        rows.append(row | {"share": counts["noticed"] / counts.total() if counts else None})
    show(rows)
    return 0 if counts["noticed"] >= WANTED * len(names) else 1


if __name__ == "__main__":
    raise SystemExit(main())
