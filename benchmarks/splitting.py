"""How many megabytes a second are split into passages, in prose, Markdown and Chinese.

    python benchmarks/splitting.py [--megabytes 4]

The prose is the testbed's encyclopedia, the Markdown this repository's documents. CPU seconds of this process, the best
of three; the target is 2 MB/s each. Exits with 1 where it is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from keqa.retrievers.splitting import split_text
from keqa.testbed.index import open_encyclopedia

TARGET = 2.0
_DOCUMENTS = Path(__file__).resolve().parents[1] / "docs"
_CHINESE = "北京是中华人民共和国的首都，也是全国的政治中心。他问：“你来过吗？”我说没有。\n\n"
_GERMAN = "Die Straße wurde am 3. Oktober 1990 umbenannt. Dr. Müller wohnte dort, z. B. im Sommer. Größe zählt!\n"


def texts() -> dict[str, str]:
    """A text of each kind."""
    hits = open_encyclopedia().search("city river king lake composer born", 500)
    return {
        "English prose": " ".join(hit.passage.text for hit in hits),
        "Markdown": "\n\n".join(path.read_text(encoding="utf-8") for path in sorted(_DOCUMENTS.glob("*.md"))),
        "German": _GERMAN,
        "Chinese": _CHINESE,
    }


def speed(text: str, megabytes: float) -> float:
    """Megabytes of UTF-8 a second."""
    size = len(text.encode())
    text *= max(1, round(megabytes * 1e6 / size))
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        split_text(text)
        seconds.append(time.process_time() - begun)
    return len(text.encode()) / 1e6 / min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=float, default=4.0, help="of each text")
    options = parser.parse_args()
    speeds = {name: speed(text, options.megabytes) for name, text in texts().items()}
    for name, found in speeds.items():
        print(f"{name}: {found:.1f} MB/s")
    if min(speeds.values()) < TARGET:
        sys.exit(1)


if __name__ == "__main__":
    main()
