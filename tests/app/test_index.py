import json

import pytest
import typer
from typer.testing import CliRunner

from keqa.cli import app
from keqa.errors import InputError, KeqaError
from keqa.retrievers import open_index
from keqa.retrievers.elasticsearch import credentials as variables

FOREST = {"title": "Forest", "text": "The oldest oak of the Varn forest was planted by monks."}


def run(*args):
    return CliRunner().invoke(app, ["index", *map(str, args)], catch_exceptions=True)


def test_index_a_json_lines_file(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"id": "a", **FOREST}) + "\n" + json.dumps({"id": "b", "text": "Rain."}) + "\n")
    result = run(corpus, "--out", tmp_path / "index")
    assert result.exit_code == 0, result.output
    assert "Indexed 2 passages (en)" in result.stdout
    assert open_index(tmp_path / "index").search("Who planted the oak?")[0].passage.title == "Forest"


def test_name_and_language_are_kept(tmp_path):
    corpus = tmp_path / "corpus.json"
    corpus.write_text(json.dumps([FOREST]))
    assert run(corpus, "--out", tmp_path / "index", "--language", "zh", "--name", "trees").exit_code == 0
    manifest = open_index(tmp_path / "index").manifest
    assert (manifest.name, manifest.language, manifest.sources) == ("trees", "zh", (str(corpus),))


def failing(*args) -> KeqaError:
    result = run(*args)
    assert isinstance(result.exception, KeqaError), result.output
    return result.exception


def test_a_missing_corpus_is_named(tmp_path):
    error = failing(tmp_path / "nowhere", "--out", tmp_path / "index")
    assert isinstance(error, InputError)
    assert "nowhere" in str(error)


def test_an_empty_folder_and_an_empty_file(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.jsonl").write_text("")
    for source in ("folder", "empty.jsonl"):
        assert isinstance(failing(tmp_path / source, "--out", tmp_path / "index"), InputError)
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("broken.jsonl", json.dumps(FOREST) + '\n{"title": "Half', 2),
        ("columns.jsonl", json.dumps({"headline": "x", "story": "y"}) + "\n", 1),
        ("columns.tsv", "number\tbody\n1\tx\n", 1),
    ],
)
def test_file_and_line_are_named(tmp_path, name, content, line):
    source = tmp_path / name
    source.write_text(content)
    message = str(failing(source, "--out", tmp_path / "index"))
    assert f"{name}:{line}" in message or (name in message and f"line {line}" in message), message


def test_an_unknown_language(tmp_path):
    (tmp_path / "corpus.json").write_text(json.dumps([FOREST]))
    assert "fr" in str(failing(tmp_path / "corpus.json", "--out", tmp_path / "index", "--language", "fr"))


def test_help_tells_what_a_cluster_takes_from_the_environment():
    (url,) = [option for option in typer.main.get_command(app).commands["index"].params if option.name == "url"]
    for name in (variables.API_KEY, variables.CA_CERTS, variables.FINGERPRINT, variables.TIMEOUT):
        assert name in url.help
    assert "_USERNAME and _PASSWORD" in url.help
