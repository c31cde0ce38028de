"""Every command: its help on a narrow terminal, with all of its options, its errors, and the command line itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import keqa
import keqa.__main__
from keqa.cli import app
from keqa.errors import ConfigurationError, StageError

HEAVY = {"dspy", "elasticsearch", "faiss", "litellm", "numpy", "openai", "pydantic", "scipy", "tantivy", "torch"}
HELP = Path(__file__).with_name("help")


def leaves(command, words=()):
    """Every command that has none below it, by the words that name it."""
    if not hasattr(command, "list_commands"):
        return {" ".join(words): command}
    below = {word: command.get_command(None, word) for word in command.list_commands(None)}
    return {name: leaf for word, one in below.items() for name, leaf in leaves(one, (*words, word)).items()}


COMMANDS = leaves(typer.main.get_command(app)) | {"index": sys.modules["keqa.cli.index"]._build_command()}


@pytest.mark.parametrize("command", ["", "boundary", "testbed", *COMMANDS])
def test_the_help_on_a_narrow_terminal(command):
    """It is as it was, byte for byte: KEQA_WRITE_HELP=1 writes it again, and the difference is what to read."""
    given = [*command.split(), "--help"]
    # What is between the frames of a panel is folded, and nothing of it is cut.
    text = CliRunner().invoke(app, given, prog_name="keqa", env={"COLUMNS": "80", "TERM": "dumb"}).stdout
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    golden = HELP / f"{command.replace(' ', '-') or 'keqa'}.txt"
    if os.environ.get("KEQA_WRITE_HELP"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    parameters = COMMANDS[command].params if command in COMMANDS else []
    names = {name for one in parameters for name in (*one.opts, *one.secondary_opts) if name.startswith("-")}
    assert names <= set(text.replace(",", " ").split())
    assert max(map(len, text.splitlines())) <= 80


def test_the_files_of_helps_are_those_of_commands():
    expected = {name.replace(" ", "-") for name in ("keqa", "boundary", "testbed", *COMMANDS)}
    assert {path.stem for path in HELP.glob("*.txt")} == expected


def loaded_by(code):
    """Top-level packages that a fresh interpreter has loaded after some code, among what it printed."""
    script = f"import sys\n{code}\nprint('\\n'.join({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.slow
def test_neither_the_import_nor_the_help_loads_anything_heavy():
    assert not loaded_by("import keqa") & HEAVY
    asked = "import keqa.__main__\nsys.argv = ['keqa', '--help']\ntry:\n    keqa.__main__.main()\n"
    words = loaded_by(f"{asked}except SystemExit: pass")
    assert not words & HEAVY
    assert {name.split()[0] for name in COMMANDS} <= words


@pytest.mark.slow
def test_it_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "keqa", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"keqa {keqa.__version__}\n", "")


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
    assert (ended.code, ended.out) == (code, "")
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
