"""A page is one document, whatever it shows, and its policy lets nothing else run."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from keqa.page import document, document_parts

EVIL = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> ]]> \u2028 \ud800 &amp; &lt;"


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[int, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        self.found.append(("", {}))

    def handle_data(self, data):
        self.texts[len(self.found) - 1] = self.texts.get(len(self.found) - 1, "") + data

    def text_of(self, tag: str, name: str | None = None) -> str:
        (place,) = [place for place, (one, attrs) in enumerate(self.found) if one == tag and attrs.get("id") == name]
        return self.texts[place]


@pytest.mark.parametrize("kind", ["ask", "one", "runs"])
def test_data_cannot_leave_its_place(kind):
    page = Tags(document(kind, EVIL, {"text": EVIL}).text.encode("utf-8", "replace").decode())
    assert [tag for tag, _ in page.found].count("script") == 2
    assert not any(tag == "img" for tag, _ in page.found)
    assert json.loads(page.text_of("script", "data"))["text"] == EVIL.replace("\ud800", "?")


@pytest.mark.parametrize("kind", ["ask", "one", "runs"])
def test_nothing_is_loaded_and_only_the_own_script_may_run(kind):
    made = document(kind, "KEQA")
    page = Tags(made.text)
    assert not any({"src", "srcset", "action", "onclick", "style"} & set(attrs) for _, attrs in page.found)
    assert [attrs["href"] for _, attrs in page.found if "href" in attrs] == ["data:,"]
    for tag in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.text_of(tag).encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in made.policy
    assert "default-src 'none'" in made.policy
    assert "connect-src" not in made.policy
    assert "connect-src 'self'" in document(kind, "KEQA", served=True).policy
    assert len(made.text) < 60_000


def test_blocks_are_written_one_by_one():
    text = "".join(document_parts("runs", "KEQA", {}, (f"block {number}".encode() for number in range(3))))
    found = re.findall(r'<script type="text/plain" id="block-(\d)">(.*?)</script>', text)
    assert [(number, base64.b64decode(data)) for number, data in found] == [
        (str(number), f"block {number}".encode()) for number in range(3)
    ]
