"""The program over a real vLLM that runs the shipped model: its server, and its engine in the program's own process.

``bash .ci/vllm.sh`` makes its environment.
"""

import importlib.resources
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from keqa.lms import build_lm, build_roles

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("KEQA_VLLM_PYTHON", ROOT / ".vllm" / "bin" / "python"))
MODEL = Path(str(importlib.resources.files("keqa.testbed"))) / "model"
STARTUP_SECONDS = 600
QUESTIONS = 20
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{PYTHON.parent}{os.pathsep}{os.environ.get('PATH', '')}",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(sys.platform != "linux", reason="vllm-cpu runs on Linux only"),
    pytest.mark.skipif(not PYTHON.exists(), reason=f"no vLLM at {PYTHON}: make its environment with bash .ci/vllm.sh"),
    pytest.mark.skipif(
        not (MODEL / "config.json").exists(), reason="the shipped model is not there: train it with keqa.testbed.train"
    ),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a running server; it is stopped whatever happens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(MODEL)]
    command += ["--served-model-name", "keqa-tiny", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--dtype", "float32", "--enforce-eager"]
    # A session of its own, so that the engine process it starts is stopped with it.
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=ENVIRONMENT, start_new_session=True)
    try:
        deadline = time.monotonic() + STARTUP_SECONDS
        while not _is_up(f"http://127.0.0.1:{port}/health"):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"vLLM is not up, {process.returncode}:\n{log.read_text()[-3000:]}")
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, sent)
                process.wait(timeout=20)


def _is_up(url):
    with suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
        return bool(answer.status == 200)
    return False


@pytest.mark.timeout(900)
def test_the_whole_program_runs_on_the_server(server, tmp_path):
    from keqa.programs import KEQA
    from keqa.retrievers import build_index, open_index
    from keqa.testbed.testbed import Testbed

    testbed = Testbed()
    build_index(testbed.passages, tmp_path / "index", language="en")
    roles = build_roles("hosted_vllm/keqa-tiny", api_base=server, cache=False, max_tokens=128)
    # Over an index of one's own nothing would be drawn where its documents speak of what is asked.
    program = KEQA(open_index(tmp_path / "index"), lms=roles, look_first=False)
    outcomes = list(program.answer_many(testbed.dev[:4]))
    assert len(outcomes) == 4
    records = [outcome.record for outcome in outcomes if outcome.error is None and outcome.record is not None]
    assert len(records) >= 3
    assert all(record.answer for record in records)
    assert all(record.cost.by_role["task"].calls > 0 for record in records)
    # The tries of a wave are one request, so there are more of them than calls could have brought one by one.
    assert any(len(quiz.samples) > 1 for record in records for quiz in record.quizzes)


def package(folder):
    """The package as one folder, for a Python in which it is not installed."""
    places = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    (folder / "keqa").mkdir()
    for entry in (ROOT / places.pop("keqa")).iterdir():
        (folder / "keqa" / entry.name).symlink_to(entry)
    for name, place in places.items():
        (folder / name.replace(".", "/")).symlink_to(ROOT / place)
    return folder


@pytest.mark.timeout(1200)
def test_its_engine_in_this_process_its_server_and_the_plain_model_answer_alike(server, tmp_path):
    pytest.importorskip("torch")
    from keqa.programs.baselines import ClosedBook
    from keqa.testbed.testbed import Testbed

    program, answers = ClosedBook(demonstrations=False), []
    questions = [question.question for question in Testbed().dev[:QUESTIONS]]
    for model, address in (("hosted_vllm/keqa-tiny", server), ("keqa/tiny", None)):
        # Models in this process stop there of themselves.
        stop = ["[[ ## completed ## ]]"]
        program.set_lm(build_lm(model, api_base=address, cache=False, max_tokens=64, stop=stop))
        answers.append({outcome.item: outcome.answer for outcome in program.answer_many(questions)})
    ended = subprocess.run(
        [PYTHON, Path(__file__).with_name("asks_vllm.py"), str(MODEL)],
        input=json.dumps(questions),
        env={**ENVIRONMENT, "PYTHONPATH": str(package(tmp_path))},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=1000,
    )
    # What vLLM says of itself would stand between a command and what reads its output.
    found = json.loads(ended.stdout)
    assert found["answers"] == answers[0] == answers[1]
    assert None not in found["answers"].values()
    assert found["drawn"] == found["again"]
    assert len({*found["drawn"]}) > 1
    assert found["after a cancelled one"] == found["drawn"][0]
    assert "tokens and the context of model is 4096" in found["too long"]
