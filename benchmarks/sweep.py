"""Where KEQA wins and where it loses: the testbed over known share, distracting paragraphs and sources out of date.

    python benchmarks/sweep.py [--questions 40]

The compiled program is the one that ships; no question that it learned from is asked.
"""

import tempfile
from itertools import product
from pathlib import Path

import common
from common import interval, show

from keqa.evaluation.demo import COMPILED, ask_all
from keqa.evaluation.questions import Questions
from keqa.lms import build_roles
from keqa.retrievers import build_index, open_index
from keqa.testbed.testbed import Testbed, WorldSettings

METHODS = ("closed book", "always retrieve, reasoning", "KEQA", COMPILED)


def main() -> None:
    count = common.options(__doc__, questions=40).questions
    default, usual = WorldSettings(), Testbed()
    learned = {question.question for question in (*usual.train, *usual.dev)}
    swept = [(share, noise, default.stale_sources) for noise, share in product((0, 1, 4), (0, 0.5, 1))]
    swept += [(0.5, default.distractors, sources) for sources in (0, 1)]
    roles, rows = build_roles("keqa/tiny"), []
    with tempfile.TemporaryDirectory() as folder:
        for number, (share, noise, sources) in enumerate(swept):
            settings = WorldSettings(distractors=noise, stale_sources=sources, known=share, questions=(0, 0, 4 * count))
            testbed, index = Testbed(settings), Path(folder) / str(number)
            asked = [question for question in testbed.test if question.question not in learned][:count]
            build_index(testbed.passages, index, language="en")
            given = Questions("testbed", "test", 0, asked)
            found = {row.method: row for row in ask_all(given, open_index(index), roles, only=METHODS)}
            row = {"known": float(share), "distractors": noise, "out of date": sources}
            row |= {f"{name} F1": found[name].f1.mean for name in METHODS}
            row |= {"retrievals": found[COMPILED].mean("retrievals")}
            rows.append(row | {"lead over retrieving": interval(found[METHODS[1]].f1_less(found[COMPILED]), "+.2f")})
    show(rows, digits=2)


if __name__ == "__main__":
    main()
