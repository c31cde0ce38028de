"""How many random changes of the code the tests notice.

    make mutants, or
    python benchmarks/mutants.py [--mutants 300] [--seed 0] [--folder build/mutants] [ROOM ...]

mutmut changes the code of five rooms (evaluation, metrics, optimize, programs, retrievers) in some 50,000 small ways,
one at a time. Some of them, drawn at random, are put before the unit tests that reach each, and those that none noticed
before the tests with language models, servers and other processes of the part that they stand in; what no test noticed
is printed. Changes of the wording of a message, of the type in a `cast` and of whether a zip is strict are not drawn.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from functools import partial
from pathlib import Path

from common import ROOT, options, show

ROOMS = ("evaluation", "metrics", "optimize", "programs", "retrievers")
WITH_HELP = "model or server or process"
# What tests of these rooms read besides the code.
COPIED = ("tests", "benchmarks", "docs", "README.md", "CONTRIBUTING.md")
# mutmut's own exit codes of a mutant's tests, timeouts among them; pytest ends with 1 where a test failed.
NOTICED = frozenset((1, 2, 3, -24, 24, 36, 152, 255))
SLOWEST = 900
"""Seconds that the tests of one change may take: one that makes a program wait for ever is noticed."""
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
        "pytest_add_cli_args": ["-m", f"not ({WITH_HELP})", "-p", "no:cacheprovider", "--hypothesis-seed=0"],
        "also_copy": list(COPIED),
    }
    lines = [f"{key} =\n" + "".join(f"    {value}\n" for value in values) for key, values in settings.items()]
    # Some tests look for a server or for data beside the repository.
    (folder / "shared").symlink_to(ROOT.parent / "shared")
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


def part(folder: Path, name: str) -> str:
    """The tests of what a mutant stands in, as their folder: `tests/retrievers/elasticsearch`."""
    place = Path("tests", *name.split(".")[1:-1])
    return str(next(tests for tests in (place, *place.parents) if (folder / "mutants" / tests).is_dir()))


def with_help(folder: Path, tests: str, name: str) -> bool:
    """Whether a test with a language model, a server or another process notices it; one that takes for ever does."""
    code = folder / "mutants"
    command = [sys.executable, "-m", "pytest", "-x", "-m", WITH_HELP, "-p", "no:cacheprovider", tests]
    environment = {**os.environ, "PYTHONPATH": str(code / "src"), "MUTANT_UNDER_TEST": name}
    run = partial(subprocess.run, cwd=code, env=environment, capture_output=True, timeout=SLOWEST, check=False)
    try:
        return run(command).returncode in NOTICED
    except subprocess.TimeoutExpired:
        return True


def noticed_with_help(folder: Path, names: Sequence[str]) -> set[str]:
    """Those that such a test notices; what is known of some is kept in a file."""
    kept = folder / "with_help.jsonl"
    known: dict[str, bool] = dict(json.loads(line) for line in kept.read_text().splitlines()) if kept.exists() else {}
    left = [(part(folder, name), name) for name in names if name not in known]
    for tests in sorted({tests for tests, _ in left}):
        if with_help(folder, tests, "none"):
            raise SystemExit(f"{tests} fails on the code as it is: nothing can be said of changes")
    with ThreadPoolExecutor(os.cpu_count()) as pool, kept.open("a") as file:
        for (_, name), noticed in zip(left, pool.map(lambda one: with_help(folder, *one), left), strict=True):
            known[name] = noticed
            file.write(json.dumps([name, noticed]) + "\n")
            file.flush()
    return {name for name in names if known[name]}


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


def _all_made(folder: Path, rooms: Sequence[str]) -> bool:
    files = (path for room in rooms for path in folder.glob(f"src/keqa/{room}/**/*.py"))
    return all((folder / "mutants" / f"{path.relative_to(folder)}.meta").exists() for path in files)


def main() -> int:
    known = {"rooms": ROOMS, "mutants": 300, "seed": 0, "folder": ROOT / "build" / "mutants", "fresh": False}
    given = options(__doc__, "rooms", **known)
    rooms, folder = given.rooms, given.folder.resolve()
    if given.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    if not (folder / "setup.cfg").exists():
        folder.mkdir(parents=True, exist_ok=True)
        lay_out(folder, rooms)
    log = folder / "mutmut.log"
    if not _all_made(folder, rooms):
        # It makes all mutants before it looks for those that are named; what is made is kept where it is ended.
        mutmut(folder, ["none"], log=log)
        if not _all_made(folder, rooms):
            print(f"not all mutants were made: see {log}")
            return 1
    names = list(drawn(folder, given.mutants, given.seed))
    done = verdicts(folder)
    left = [name for name in names if done[name] is None]
    print(f"{len(done)} mutants, {len(names)} drawn, {len(left)} to run; see {log}")
    if not names:
        return 1
    if left and (code := mutmut(folder, left, log=log)):
        print(f"mutmut ended with {code}: see {log}")
        return 1
    done = verdicts(folder)
    found = {name: "by unit tests" for name in names if done[name] in NOTICED}
    missed = [name for name in names if name not in found]
    seen = noticed_with_help(folder, missed)
    found |= {name: "by others" if name in seen else "unnoticed" for name in missed}
    for name in missed:
        if found[name] == "unnoticed":
            print(f"\n{name}", change(folder, name), sep="\n")
    rows = []
    for room in (*rooms, "all"):
        counts = Counter(verdict for name, verdict in found.items() if room in ("all", name.split(".")[1]))
        row = {"room": room, "mutants": counts.total()}
        row |= {verdict: counts[verdict] for verdict in ("by unit tests", "by others", "unnoticed")}
        rows.append(row | {"share": 1 - counts["unnoticed"] / counts.total() if counts else None})
    show(rows)
    return 0 if counts["unnoticed"] <= (1 - WANTED) * len(names) else 1


if __name__ == "__main__":
    raise SystemExit(main())
