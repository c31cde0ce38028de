import json
import os
import subprocess
import sys

import living
import pytest

pytestmark = pytest.mark.process


def test_a_small_index_is_changed_and_killed(tmp_path):
    # In a process of its own, as it puts a stand-in in the place of a library.
    options = f"--passages 300 --kills 1 --repeat 1 --engines embedded --folder {tmp_path}".split()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, living.__file__, *options]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    (figures,) = json.loads(ended.stdout.splitlines()[-1])
    assert figures["same top ten as a build"] == 1.0
    assert figures["largest difference of a score"] < 1e-5
    assert figures["a reader opened before finds the same"]
    assert sum(figures["kills"].values()) == 1
