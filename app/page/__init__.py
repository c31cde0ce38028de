"""Pages for a browser: a question's story as it settles, a story as a file of its own, and run files side by side.

A page is one document of plain HTML, CSS and JavaScript, without a build step, with a policy that lets the browser
load and run nothing else. Text from questions, passages and answers is set as text and never read as HTML.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NamedTuple

from keqa.errors import InputError
from keqa.programs.prediction import disagreements_of, sources_of
from keqa.programs.records import QuestionRecord
from keqa.storage.files import opener

Kind = Literal["ask", "one", "runs"]
"""What a page does: asks a server, shows one story, or compares runs."""

_SCRIPTS: dict[Kind, tuple[str, ...]] = {
    "ask": ("story.js", "ask.js"),
    "one": ("story.js", "one.js"),
    "runs": ("story.js", "runs.js"),
}


class Page(NamedTuple):
    """A page."""

    text: str
    policy: str


def document(kind: Kind, title: str, data: Any = None, *, served: bool = False) -> Page:
    """Make a page that is whole by itself."""
    head, tail = _parts(kind, title, data, served=served)
    return Page(head + tail, _policy(kind, served=served))


def document_parts(kind: Kind, title: str, data: Any, blocks: Iterable[bytes]) -> Iterator[str]:
    """A page in parts, whose blocks are made one by one and are in memory one at a time."""
    head, tail = _parts(kind, title, data, served=False)
    yield head
    for number, block in enumerate(blocks):
        encoded = base64.b64encode(block).decode("ascii")
        yield f'<script type="text/plain" id="block-{number}">{encoded}</script>\n'
    yield tail


def _parts(kind: Kind, title: str, data: Any, *, served: bool) -> tuple[str, str]:
    style, script = _assets(kind)
    width = "wide" if kind == "runs" else "narrow"
    head = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(_policy(kind, served=served, header=False))}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header class="{width}"><h1>{escape(title)}</h1></header>
<main id="main" class="{width}"></main>
<noscript><p>This page needs JavaScript; nothing is loaded for it from anywhere.</p></noscript>
<script type="application/json" id="data">{_json(data)}</script>
"""
    return head, f"<script>{script}</script>\n</body>\n</html>\n"


def _json(data: Any) -> str:
    """JSON that no text in it can end: what would be a tag or a comment in HTML is escaped."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(kind: Kind, *, served: bool, header: bool = True) -> str:
    style, script = _assets(kind)
    rules = [
        "default-src 'none'",
        f"script-src {_hash(script)}",
        f"style-src {_hash(style)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    if served:
        rules.append("connect-src 'self'")
    if header:
        # Browsers read this one in a header only.
        rules.append("frame-ancestors 'none'")
    return "; ".join(rules)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _assets(kind: Kind) -> tuple[str, str]:
    folder = files("keqa.page") / "static"
    style = (folder / "page.css").read_text(encoding="utf-8")
    body = "\n".join((folder / name).read_text(encoding="utf-8") for name in _SCRIPTS[kind])
    return style, f'(() => {{\n"use strict";\n{body}}})();'


def story_data(record: QuestionRecord) -> dict[str, Any]:
    """A story as a page shows it, of a record in which there are no keys and addresses any more."""
    return {
        "record": record.model_dump(mode="json"),
        "sources": [source.model_dump(mode="json") for source in sources_of(record)],
        "disagreements": disagreements_of(record),
    }


def story_page(record: QuestionRecord) -> str:
    """A question's story as an HTML file of its own, which loads nothing."""
    return document("one", "KEQA", story_data(record)).text


def check_place(path: Path) -> None:
    """Refuse a place where no page can be written, before anything is paid for."""
    if path.is_dir() or not path.parent.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise InputError(f"the page cannot be written to {path}: {why}")


def write_page(path: Path, parts: Iterable[str]) -> None:
    """Write a page as a file of its own, for its owner alone."""
    try:
        with open(path, "w", encoding="utf-8", opener=opener) as stream:
            stream.writelines(parts)
    except OSError as error:
        raise InputError(f"the page cannot be written to {path}: {error.strerror or error}") from None
