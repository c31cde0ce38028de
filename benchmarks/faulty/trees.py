"""Whether two folders that a command wrote are the same but for times."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keqa.retrievers import Hit

__all__ = ["differences"]

INDEX = "data"
DRAWN = (".png", ".pdf", ".md", ".tex")
"""Drawn from the .csv beside them; that they are there is what is compared."""

# Names of what is a time, or depends on what the last process has paid for itself.
_TIMES = re.compile(
    r"second|^created|^time$|^p50$|^p95$|^total$|^timings?$|^critical_path$|^spent|^retrievals_cached$|^sent$"
)
_PAID = ("calls", "cached")
_QUERIES = [f"Who governs Town{number}?" for number in range(0, 200, 7)]


def differences(ours: Path, theirs: Path) -> list[str]:
    """What two folders do not have in common."""
    beside = [sorted(path.name for path in folder.parent.iterdir()) for folder in (ours, theirs)]
    about = [f"beside it: {beside[0]} for {beside[1]}"] if beside[0] != beside[1] else []
    return about + (_of_indexes if (theirs / INDEX).is_dir() else _of_files)(ours, theirs)


def _of_files(ours: Path, theirs: Path) -> list[str]:
    names = [
        {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} for folder in (ours, theirs)
    ]
    found = [f"{name}: in one of the two only" for name in sorted(names[0] ^ names[1])]
    for name in sorted(names[0] & names[1]):
        if Path(name).suffix not in DRAWN and (place := _place(_content(ours / name), _content(theirs / name))):
            found.append(f"{name}: {place}")
    return found


def _content(path: Path) -> Any:
    """What a file says, without times."""
    if path.suffix == ".sqlite":
        with closing(sqlite3.connect(path)) as file:
            names = [
                row[0] for row in file.execute("select name from sqlite_master where type = 'table' order by name")
            ]
            return {name: sorted(str(row[0]) for row in file.execute(f'select * from "{name}"')) for name in names}
    text = path.read_text()
    if path.suffix == ".csv":
        head, *rows = csv.reader(text.splitlines())
        kept = [place for place, name in enumerate(head) if not _TIMES.search(name)]
        return [[row[place] for place in kept] for row in (head, *rows)]
    if path.suffix in (".json", ".jsonl"):
        values = [json.loads(text)] if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]
        # The lines of a run file are in the order in which questions ended.
        return [_timeless(value) for value in sorted(values, key=lambda one: str(one.get("id", "")))]
    return text


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _timeless(inner) for name, inner in value.items() if not _TIMES.search(name)}
        if "samples" in kept and "calls" in kept:
            # A record counts the calls that its own run has made, and by role how many the cache has answered.
            paid = [kept.pop(name) for name in _PAID if name in kept]
            kept |= {"requests": sum(paid)} if len(paid) == len(_PAID) else {}
        return kept
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def _place(ours: Any, theirs: Any, where: str = "") -> str | None:
    """Where two values differ first, and in what; None where they do not."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and set(ours) == set(theirs):
        parts = [(f"{where}.{name}", ours[name], theirs[name]) for name in ours]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        parts = [(f"{where}[{place}]", *pair) for place, pair in enumerate(zip(ours, theirs, strict=True))]
    else:
        return None if ours == theirs else f"{where or 'the whole'}: {str(ours)[:120]} for {str(theirs)[:120]}"
    return next((found for place, one, other in parts if (found := _place(one, other, place))), None)


def _of_indexes(ours: Path, theirs: Path) -> list[str]:
    """The engine names its files by chance, so what is compared is the manifest, what is found, and what lies about."""
    from keqa.retrievers import open_index

    indexes = [open_index(str(folder)) for folder in (ours, theirs)]
    settings = [_timeless(json.loads(index.manifest.to_json())) for index in indexes]
    found = [f"its manifest: {place}"] if (place := _place(*settings)) else []
    hits = [[_above_ties(index.search(query, 6)) for query in _QUERIES] for index in indexes]
    found += [f"search: {place}"] if (place := _place(*hits)) else []
    tops = [sorted(path.name for path in folder.iterdir()) for folder in (ours, theirs)]
    found += [f"the folder: {tops[0]} for {tops[1]}"] if tops[0] != tops[1] else []
    return found


def _above_ties(hits: Sequence[Hit]) -> list[tuple[str, float]]:
    """Passages with their scores; of equals it is chance which come first, so the last are left out."""
    scores = [round(hit.score, 4) for hit in hits]
    found = sorted(zip((hit.passage.text for hit in hits), scores, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return [pair for pair in found if pair[1] > min(scores)]
