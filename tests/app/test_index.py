import json
import os

import pytest
from typer.testing import CliRunner

from keqa.cli import app
from keqa.errors import KeqaError
from keqa.retrievers import open_index

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


def test_all_languages_of_a_mixed_folder_are_named(tmp_path):
    for name, text in {"en": "The harbour was built by them.", "zh": "北京是中国的首都。"}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "more.txt").write_text("It is the oldest of all the harbours.")
    assert "Indexed 3 passages (en, zh)" in run(tmp_path, "--out", tmp_path / "index").stdout


def test_a_folder_that_would_be_another_address_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.json").write_text(json.dumps([FOREST]))
    for engine in ("embedded", "dense"):
        assert "Name another folder, such as documents-idx" in str(
            failing("corpus.json", "--out", "documents:idx", "--engine", engine)
        )
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.json"]
    assert run("corpus.json", "--out", tmp_path / "documents:idx").exit_code == 0
    assert open_index(tmp_path / "documents:idx").search("oak")[0].passage.title == "Forest"


def failing(*args) -> KeqaError:
    result = run(*args)
    assert isinstance(result.exception, KeqaError), result.output
    return result.exception


@pytest.fixture
def documents(tmp_path):
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "good.txt").write_text("The oldest oak of the Varn forest was planted by monks.")
    return tmp_path / "documents"


def test_what_could_not_be_read_is_named_at_the_end_with_exit_code_1(documents, tmp_path):
    (documents / "bad.pdf").write_text("no PDF")
    (documents / "elsewhere").symlink_to(tmp_path)
    (documents / "picture.png").write_bytes(b"x")
    result = run(documents, "--out", tmp_path / "index")
    assert result.exit_code == 1
    assert "Indexed 1 passage (en)" in result.stdout
    for reported in (
        "1 .png",
        "1 damaged, 1 links to folders",
        "bad.pdf cannot be read as PDF",
        "elsewhere is a link to a folder",
    ):
        assert reported in result.stderr
    assert open_index(tmp_path / "index").manifest.left_out.unexpected == 2
    shown = " ".join(
        CliRunner().invoke(app, ["index", "info", str(tmp_path / "index")], env={"COLUMNS": "500"}).stdout.split()
    )
    assert "left out unread damaged 1" in shown
    assert "bad.pdf" in shown


def test_what_could_not_be_read_is_no_failure_where_the_user_says_so(documents, tmp_path):
    (documents / "bad.pdf").write_text("no PDF")
    result = run(documents, "--out", tmp_path / "index", "--skip-unreadable")
    assert result.exit_code == 0
    assert "bad.pdf cannot be read as PDF" in result.stderr


def test_what_nobody_expects_in_an_index_is_reported_and_no_failure(documents, tmp_path):
    (documents / "picture.png").write_bytes(b"x")
    (documents / ".hidden").write_text("x")
    (documents / "empty.txt").write_text("")
    result = run(documents, "--out", tmp_path / "index")
    assert result.exit_code == 0
    (line,) = [
        line for line in result.stderr.splitlines() if line.startswith("passed over, as such files are not read")
    ]
    assert sorted(line.partition(": ")[2].split(", ")) == [
        f"1 .png ({documents}/picture.png)",
        f"1 empty ({documents}/empty.txt)",
        f"1 hidden ({documents}/.hidden)",
    ]


def test_a_source_named_twice_is_indexed_once(documents, tmp_path):
    result = run(documents / "good.txt", documents / "good.txt", "--out", tmp_path / "index")
    assert "Indexed 1 passage (en)" in result.stdout
    assert "good.txt is named twice and is read once" in result.stderr
    assert open_index(tmp_path / "index").manifest.sources == (str(documents / "good.txt"),)


def test_the_command_at_the_end_can_be_pasted(documents, tmp_path):
    result = run(documents, "--out", tmp_path / "notes, 2024")
    assert f"--index '{tmp_path}/notes, 2024' --lm …" in result.stdout


def test_an_index_of_other_sources_is_replaced_by_force_only(documents, tmp_path):
    corpus = tmp_path / "corpus.json"
    corpus.write_text(json.dumps([FOREST, FOREST]))
    assert run(documents, "--out", tmp_path / "index").exit_code == 0
    message = str(failing(corpus, "--out", tmp_path / "index"))
    assert f"other sources ({documents})" in message
    assert "--force" in message
    assert open_index(tmp_path / "index").manifest.passages == 1
    (documents / "more.txt").write_text("Changed content of the same sources.")
    assert run(documents, "--out", tmp_path / "index").exit_code == 0
    assert run(corpus, "--out", tmp_path / "index", "--force").exit_code == 0
    assert open_index(tmp_path / "index").manifest.sources == (str(corpus),)


def test_a_place_that_cannot_be_written_to_is_reported_before_any_work(documents, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode, **_: not mode & os.W_OK)
    monkeypatch.setattr("keqa.retrievers.readers.Corpus.__next__", lambda self: pytest.fail("documents were read"))
    assert "Name a folder for the index in which you may write" in str(failing(documents, "--out", tmp_path / "index"))
