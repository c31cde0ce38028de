import subprocess
import sys
from pathlib import Path

import pytest

import keqa
import keqa.__main__
from keqa.errors import ConfigurationError, StageError

HEAVY = {"dspy", "litellm", "numpy", "openai", "pydantic", "scipy", "tantivy", "torch", "transformers"}


def loaded_by(code: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after some code."""
    script = f"import sys\n{code}\nprint('\\n'.join({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_keqa_loads_nothing_heavy():
    assert not loaded_by("import keqa") & HEAVY


@pytest.mark.slow
def test_help_loads_nothing_heavy_and_names_every_command():
    code = (
        "import keqa.__main__\nsys.argv = ['keqa', '--help']\ntry:\n    keqa.__main__.main()\nexcept SystemExit: pass"
    )
    words = loaded_by(code)
    assert not words & HEAVY
    assert {"demo", "ask", "index", "testbed"} <= words


@pytest.mark.slow
def test_it_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "keqa", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"keqa {keqa.__version__}\n"


@pytest.mark.slow
def test_dspys_word_on_a_reply_that_was_cut_off_breaks_no_progress_bar():
    code = (
        "import keqa.__main__, logging\nfrom keqa.cli import app\n"
        "app(['testbed', 'questions', '-n', '1'], standalone_mode=False)\nimport dspy.clients.lm as client\n"
        "client.logger.warning('LM response was truncated')\nclient.logger.error('of another kind')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "truncated" not in done.stderr
    assert "of another kind" in done.stderr


def test_every_public_name_is_there():
    assert all(getattr(keqa, name) is not None for name in keqa.__all__)
    assert set(keqa.__all__) <= set(dir(keqa))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        keqa.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("set [bold]a key[/bold]"), 2),
        (StageError("summarize", "LMTimeoutError", "no reply"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_for_the_user_end_in_a_message_and_a_code(keqa_command, monkeypatch, error, code):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr("keqa.retrievers.read_corpus", fail)
    ended = keqa_command("index", "somewhere", "--out", "elsewhere")
    assert ended.code == code
    assert ended.out == ""
    assert "Traceback" not in ended.err
    assert str(error) in ended.err


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_below_the_output_is_one_line():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "keqa", "config"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert ended.stderr == "keqa: No space left on device; nothing was kept\n"
