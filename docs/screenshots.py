"""Make the pictures of the page and of run files again, with the testbed and the model that ships.

    python docs/screenshots.py [RUNS]

RUNS is what `keqa compare closed-book rag keqa --testbed --out RUNS` left; it is made where it is not there. Chromium
must be installed, and `pip install -e '.[dev]'`. Look at the pictures before they are committed.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
QUESTION = "What is the residence of the author of The Restless Song?"
METHODS = ("closed-book", "rag", "keqa")
_KEQA = (sys.executable, "-m", "keqa")
# A busy machine takes its time.
_PATIENCE = 300_000
# So few colours are enough for text on a plain ground, and a picture has a quarter of the bytes.
_COLOURS = 64


@contextmanager
def _running(*command: str) -> Iterator[str]:
    """Run a command that serves, and give its address."""
    process = subprocess.Popen([*_KEQA, *command, "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr or ():
            if found := re.search(r"http://127\.0\.0\.1:\d+/(#\S+?)?(?=\. )", line):
                yield found[0]
                return
        raise SystemExit(f"keqa {command[0]} did not start")
    finally:
        process.terminate()
        process.wait()


def _page(browser: Any, address: str, width: int, height: int) -> Any:
    page = browser.new_page(viewport={"width": width, "height": height})
    page.set_default_timeout(_PATIENCE)
    page.goto(address)
    return page


def _save(page: Any, name: str) -> None:
    """Keep what a page shows."""
    with Image.open(io.BytesIO(page.screenshot())) as shown:
        shown.convert("RGB").quantize(_COLOURS).save(IMAGES / name, optimize=True)


def story(browser: Any, address: str) -> None:
    """An answer with its story; and one of its sources, opened, in dark colours."""
    page = _page(browser, address, 900, 760)
    page.get_by_role("textbox", name="Question").fill(QUESTION)
    page.keyboard.press("Enter")
    page.wait_for_selector(".answer-text")
    page.evaluate("document.querySelector('.turn').scrollIntoView()")
    _save(page, "page-story.png")
    page.emulate_media(color_scheme="dark")
    page.locator(".answer li button").first.click()
    page.wait_for_timeout(500)
    _save(page, "page-source-dark.png")


def runs(browser: Any, address: str) -> None:
    """Three methods, the questions that only one of them has right, and the stories of one question side by side."""
    page = _page(browser, address, 1200, 1500)
    page.wait_for_selector("#main[data-ready]")
    page.get_by_role("checkbox", name="methods differ").check()
    page.get_by_role("combobox", name="Method").select_option("keqa")
    page.get_by_role("combobox", name="Outcome").select_option("right")
    page.locator(".question").first.click()
    page.wait_for_selector("#stories .story")
    page.wait_for_timeout(500)
    page.evaluate("document.querySelectorAll('#questions tbody tr').forEach((row, at) => at > 4 && row.remove())")
    page.evaluate("window.scrollTo(0, 0)")
    _save(page, "view-runs.png")


def main() -> None:
    """Make all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=Path, default=Path("runs/screenshots"))
    folder = parser.parse_args().runs
    browser = os.environ.get("KEQA_TEST_BROWSER") or shutil.which("chromium")
    if browser is None:
        raise SystemExit("no Chromium is installed (apt-get install chromium)")
    subprocess.run([*_KEQA, "compare", *METHODS, "--testbed", "--out", str(folder)], check=True)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        with _running("serve", "--program", "testbed", "--no-cache") as address:
            story(opened, address)
        with _running("view", str(folder)) as address:
            runs(opened, address)
        opened.close()


if __name__ == "__main__":
    main()
