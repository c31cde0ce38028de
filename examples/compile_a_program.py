"""Compile the program on training questions, save it, and compare it with itself before on questions it never saw.

    python examples/compile_a_program.py [FOLDER]

All work is kept in the folder: started again, it asks nothing twice. It takes a few minutes with these few questions;
a few hundred are what a real compilation wants.
"""

import sys
import tempfile
from pathlib import Path

import keqa

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
testbed = keqa.Testbed()
encyclopedia, roles = keqa.open_encyclopedia(testbed.passages), keqa.build_roles("keqa/tiny")

plain = keqa.KEQA(encyclopedia, lms=roles)
compiled = keqa.compile(plain, testbed.train[:12], testbed.dev[:6], folder=folder / "work", tuning=False)
compiled.save(folder / "program")
loaded = keqa.load(folder / "program", encyclopedia, roles)

for name, program in {"plain": plain, "compiled": loaded}.items():
    tally = keqa.evaluate(program, testbed.test[:8], out=folder / "runs" / f"{name}.jsonl")
    print(f"{name}: F1 {tally.mean('f1'):.2f} over {tally.done} questions, {tally.cost.samples} LM calls")
print("Read the runs with: keqa compare", folder / "runs")
