"""Every command: the options that it has, its help on a narrow terminal, its errors, and the command line itself."""

from __future__ import annotations

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

WIDTH = 80
HEAVY = {"dspy", "elasticsearch", "faiss", "litellm", "numpy", "openai", "pydantic", "scipy", "tantivy", "torch"}

ONE_LM = """
    --lm/-m $KEQA_LM --api-base $KEQA_API_BASE
"""
ROLES = """
    --consistency-lm --consistency-api-base --utility-lm --utility-api-base --boundary-lm --boundary-api-base
"""
KEQA = """
    --tries --threshold --temperature --top-k --no-decompose --no-examine --no-look-first --no-pick --select
    --listwise/--no-listwise --summarize-single/--no-summarize-single --summarize-known/--no-summarize-known
    --prefer-reliable/--no-prefer-reliable --unanswered --no-demonstrations
"""
INDEX = """
    --index/-i $KEQA_INDEX
"""
RISK = """
    --risk --calibrated-on --delta=0.1
"""
QUESTIONS = """
    --testbed --questions/-q --data --split --sample --seed=0 --limit
"""
RUN = """
    --out/-o=runs --retry-failed --no-cache --in-flight=8 --stop-after-outages=10 --allow-overlap
"""
OPTIONS = {
    "demo": "--questions=60 --json",
    "ask": f"""
        QUESTION {INDEX} --program/-p --embedder --no-cache --method=keqa --answer-type=short --choice --json
        --full --quiet/-q --html --max-tokens --timeout=120.0 {ONE_LM} {ROLES} {KEQA} {RISK}
    """,
    "chat": f"{INDEX} --program/-p --embedder --no-cache {ONE_LM} {ROLES} {KEQA} {RISK}",
    "documents": f"--out/-o --from=lm {INDEX} --top-k=10 --in-flight=8 --json {QUESTIONS} {ONE_LM}",
    "search": f"QUERY {INDEX} --top-k/-k=10 --json",
    "serve": f"""
        {INDEX} --program/-p --embedder --no-cache --host=127.0.0.1 --port=8321 --token-file --allow-host
        --documents --watch --mcp --grace=30 --in-flight=8 --waiting=64 --timeout=300 --rate=600
        --max-body=1000000 {ONE_LM} {ROLES} {KEQA} {RISK} --no-token
    """,
    "compile": f"""
        --out/-o TRAIN --val {INDEX} --testbed --data --split --sample --limit --val-limit --program/-p
        --method=keqa --work --force --json {ONE_LM} {ROLES} {KEQA} --reflection-lm --reflection-api-base
        --optimizer=bootstrap --budget=light --training --demos=4 --judge-demos=8 --sets=4 --cost-per-retrieval
        --cost-per-call --boundary-tries=10 --no-boundary --no-reference --no-tuning --embedder --seed=0
        --in-flight=8 --limit-cost=5.0 --yes/-y --dry-run
    """,
    "evaluate": f"""
        METHOD --label --json {QUESTIONS} {RUN} {KEQA} {INDEX} --retriever --program/-p --embedder {ONE_LM}
        {ROLES} {RISK}
    """,
    "compare": f"""
        METHOD... --json {QUESTIONS} {RUN} {KEQA} {INDEX} --retriever --program/-p --embedder {ONE_LM} {ROLES}
        {RISK}
    """,
    "view": "RUNS... --html --port=8322 --no-token",
    "reproduce": f"""
        [NAME]... --list --out/-o --json {ONE_LM} {ROLES} {INDEX} --other-lm --data --sample --in-flight=8
        --retry-failed --allow-overlap --dense-index --program/-p --train --no-reference --plain-baselines
        --embedder --labelling-lm --labelling-api-base --train-sample --cases=1 --pilot --dry-run --documents
        --similarity
    """,
    "config": "action --json",
    "index": """
        SOURCE... --engine=embedded --name --force --skip-unreadable --out/-o --language --model --query-model
        --query-prefix --passage-prefix --separator --similarity --url --shards --replicas
    """,
    "index info": "ADDRESS --query/-q --top-k/-k=3 --files --verify --json",
    "index add": "ADDRESS SOURCE... --skip-unreadable --json",
    "index remove": "ADDRESS NAME... --json",
    "index sync": "ADDRESS FOLDER --skip-unreadable --json",
    "boundary collect": f"--out/-o --program/-p --tries=30 --in-flight=8 --json {QUESTIONS} {ONE_LM}",
    "boundary train": """
        COLLECTED... --out/-o --json --reads=draft --embedder=hashing-256 --kind=light --training --language=en
        --soft-labels --show=balanced --examples=8 --reflection-lm --boundary-lm --boundary-api-base
    """,
    "boundary check": "MODEL COLLECTED... --plot --json --boundary-lm --boundary-api-base",
    "testbed check": f"--asked=100 --skill --json {ONE_LM}",
    "testbed boundary": f"--facts=400 --tries=5 --json {ONE_LM}",
    "testbed questions": "--split=test --count/-n=10 --seed=0 --json",
}


def leaves(command, words=()):
    """Every command that has none below it, by the words that name it."""
    if not hasattr(command, "list_commands"):
        return {" ".join(words): command}
    below = {word: command.get_command(None, word) for word in command.list_commands(None)}
    return {name: leaf for word, one in below.items() for name, leaf in leaves(one, (*words, word)).items()}


COMMANDS = leaves(typer.main.get_command(app)) | {"index": sys.modules["keqa.cli.index"]._build_command()}


def shown(command, width):
    return CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": str(width)}).stdout


def declared(parameter):
    if parameter.param_type_name == "argument":
        return parameter.metavar or parameter.name
    default = "" if parameter.default is None or parameter.default is False else f"={parameter.default}"
    variable = f" ${parameter.envvar}" if parameter.envvar else ""
    return "/".join([*parameter.opts, *parameter.secondary_opts]) + default + variable


def test_every_command_has_its_options():
    found = {name: [declared(one) for one in of.params if one.name != "help"] for name, of in COMMANDS.items()}
    assert {name: " ".join(options) for name, options in found.items()} == {
        name: " ".join(options.split()) for name, options in OPTIONS.items()
    }


@pytest.mark.parametrize("command", OPTIONS)
def test_no_name_of_an_option_is_cut(command):
    text = shown(command, WIDTH)
    parameters = COMMANDS[command].params
    names = {name for one in parameters for name in (*one.opts, *one.secondary_opts) if name.startswith("-")}
    assert names <= set(text.replace(",", " ").split())
    assert max(map(len, text.splitlines())) <= WIDTH
    # Nothing of the text is replaced by dots.
    assert all(" ".join((one.help or "").split()[:3]) in " ".join(shown(command, 300).split()) for one in parameters)


def test_default_variable_and_what_is_required_are_shown():
    text = " ".join(shown("evaluate", 200).split())
    assert "ircot and so on; with arguments of its own as rag:top_k=5. [required]" in text
    assert "[env var: KEQA_LM]" in text
    assert "Questions in work at once. [default: 8; 1<=x<=1000]" in text
    assert text.index("Arguments") < text.index("Options") < text.index("Questions ─") < text.index("Run ─")
    assert "http://host:9200" in shown("index", WIDTH)
    variables = " ".join(shown("index", 200).replace("│", "").split())
    for name in ("ELASTICSEARCH_API_KEY", "CA_CERTS", "FINGERPRINT", "TIMEOUT", "_USERNAME and _PASSWORD"):
        assert name in variables


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
    assert {name.split()[0] for name in OPTIONS} <= words


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
