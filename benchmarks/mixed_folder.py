"""A new folder of mixed files to the first answer with sources: the commands, and how long they take.

    python benchmarks/mixed_folder.py [--folder FOLDER] [-- --lm openai/gpt-4o-mini]

Makes a folder of ten documents in nine formats, in English, German and Chinese, about a harbour that does not exist.
Then it runs `keqa index`, `keqa index info`, `keqa search` and `keqa ask` as anybody would, from a fresh process each,
and prints what was run, its seconds, and those of a processor, which other work on the machine does not lengthen by
waiting. What follows `--` goes to `keqa ask`; without, SmolLM2 answers in its process, a very small model that comes as
a package, from the passages alone.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common  # noqa: F401
import office_files as files

_ASKING = ["--lm", "local/smollm2", "--no-decompose", "--no-examine", "--no-pick", "--top-k", "2"]
QUESTION = "Who governs Belmora?"
_PROSE = "The town lies at the sea and lives of its harbour, its ships and its market. "
_FRONT = "---\ntitle: Belmora\ndate: 2023-01-02\n---\n"
_GERMAN = "Die Stadt Belmora liegt am Meer und lebt von ihrem Hafen. Die Hafengebühr beträgt vierzig Taler. "
_CHINESE = "贝尔莫拉是一座海边的城市。港口有两座灯塔，最高的一座建于一八九〇年。"


def documents() -> dict[str, bytes]:
    """The files by their paths."""
    page = [(11, _PROSE.strip())] * 20
    pages = [[(22, "Report on the town"), *page], [(11, "Belmora is governed by Ida Tangen."), *page]]
    ships = [["Ship", "Built", "Berth"], ["Aurora", 1921, "N1"], ["Boreas", 1954, "N4"]]
    notes = "ship;note\r\nAurora;The Aurora was repaired in Belmora after the storm and sails again since spring.\r\n"
    html = (
        f"<html><head><title>Market of Belmora</title></head><body><h1>The market</h1><p>{_PROSE * 5}</p>"
        "<h2>Hours</h2><p>The market opens at seven.</p></body></html>"
    )
    chapter = f"<h1>Beginnings</h1><p>{_PROSE * 5}</p><h2>The storm</h2><p>The storm broke the old wall.</p>"
    slides = [("Plan for the harbour", "A new wall is built."), ("Budget", "It costs five million.")]
    return {
        "town/report.pdf": files.pdf(
            pages,
            "Microsoft Word - Dokument1",
            "D:20240531",
            [("Council", 1)],
        ),
        "town/rules.docx": files.docx(["# Rules of the harbour", _PROSE * 3, "## Fees", "A ship pays forty talers."]),
        "town/plan.pptx": files.pptx(slides),
        "ships.xlsx": files.xlsx({"Ships": ships}),
        "notes.csv": notes.encode("cp1252"),
        "history.epub": files.epub("A History of Belmora", "Ann Lee", "1998-02-01", chapter),
        "market.html": html.encode(),
        "readme.md": f"{_FRONT}# Sea\n{_PROSE * 3}\n## Wall\nThe wall is old.\n".encode(),
        "hafen.txt": (_GERMAN * 5).encode(),
        "灯塔.md": f"# 灯塔\n{_CHINESE * 3}".encode(),
    }


def make(folder: Path) -> None:
    """Write the files below a folder."""
    for name, content in documents().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _worked() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(*words: str, shown: int = 60) -> tuple[float, float]:
    """Run a command, print it with the beginning of what it says, and return its seconds, and those of a processor."""
    command = ["keqa", *words]
    begun, before = time.perf_counter(), _worked()
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds, worked = time.perf_counter() - begun, _worked() - before
    print(f"$ {subprocess.list2cmdline(command)}   [{seconds:.1f} s, CPU {worked:.1f} s]")
    # Progress bars say nothing afterwards.
    lines = [line for line in (ended.stdout + ended.stderr).splitlines() if "it/s]" not in line]
    print("\n".join(lines[:shown]), end="\n\n")
    if ended.returncode:
        sys.exit(ended.returncode)
    return seconds, worked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, help="where the documents and the index go; a temporary one by default")
    parser.add_argument("asking", nargs="*", default=_ASKING, help="options of keqa ask, behind --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        make(folder / "documents")
        index = str(folder / "index")
        first = run("index", str(folder / "documents"), "--out", index)
        run("index", "info", index, shown=12)
        run("search", "Wie hoch ist die Hafengebühr?", "--index", index, "--top-k", "1", shown=12)
        run("search", "最高的灯塔", "--index", index, "--top-k", "1", shown=12)
        last = run("ask", QUESTION, "--index", index, *options.asking)
    seconds, worked = (one + other for one, other in zip(first, last, strict=True))
    print(f"Two commands from the folder to the answer: {seconds:.1f} s, CPU {worked:.1f} s")


if __name__ == "__main__":
    main()
