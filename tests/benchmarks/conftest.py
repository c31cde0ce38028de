import sys
from pathlib import Path

# As where a benchmark is run: its folder is on the path, and there too for the processes that it begins.
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
