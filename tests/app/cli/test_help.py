"""The help of every command, on a narrow terminal."""

import pytest
import typer
from typer.testing import CliRunner

from keqa.cli import app

runner = CliRunner()
WIDTH = 80


def leaves(command, words=()):
    """Every command that has none below it, by the words that name it."""
    below = getattr(command, "commands", {})
    if not below:
        return {words: command}
    return {name: leaf for word, one in below.items() for name, leaf in leaves(one, (*words, word)).items()}


COMMANDS = leaves(typer.main.get_command(app))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_name_of_an_option_is_cut(words):
    shown = runner.invoke(app, [*words, "--help"], env={"COLUMNS": str(WIDTH)}).stdout
    parameters = COMMANDS[words].params
    names = {name for one in parameters for name in (*one.opts, *one.secondary_opts) if name.startswith("-")}
    assert names <= set(shown.replace(",", " ").split())
    assert max(map(len, shown.splitlines())) <= WIDTH


def test_an_index_is_made_by_a_command_whose_options_are_whole_too():
    shown = runner.invoke(app, ["index", "--help"], env={"COLUMNS": str(WIDTH)}).stdout
    assert {"--passage-prefix", "--query-prefix", "--similarity"} <= set(shown.split())
    # Addresses as well: nothing of the text is replaced by dots.
    assert "http://host:9200" in shown


def test_default_variable_and_what_is_required_are_shown():
    text = " ".join(runner.invoke(app, ["evaluate", "--help"], env={"COLUMNS": "200"}).stdout.split())
    assert "ircot and so on; with arguments of its own as rag:top_k=5. [required]" in text
    assert "[env var: KEQA_LM]" in text
    assert "Questions in work at once. [default: 8; 1<=x<=1000]" in text
    assert text.index("Arguments") < text.index("Options") < text.index("Questions ─") < text.index("Run ─")
