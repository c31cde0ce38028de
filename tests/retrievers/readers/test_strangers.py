"""Documents that someone else made: whatever they are, reading them ends soon, in passages or in one clear line."""

import gzip
import json
import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from fixtures.drawing import at_most
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.retrievers import Passage, read_corpus, readers
from keqa.retrievers.manifest import LeftOutCounter
from keqa.retrievers.readers import beside, common, formats
from keqa.retrievers.readers.common import read_lines


def read(*paths, **options):
    return list(read_corpus(paths, **options))


def left_out(*paths):
    corpus = read_corpus(paths, notice=lambda text: None)
    return list(corpus), corpus.left_out


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "good.txt").write_text("A good note.")
    return tmp_path / "documents"


@pytest.mark.parametrize("name", ["x.txt", "x.jsonl", "x.json.gz", "x.tsv", "x.pdf"])
def test_a_pipe_is_never_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with ThreadPoolExecutor() as pool, pytest.raises(InputError, match="is a pipe; a regular file is expected"):
        pool.submit(read, tmp_path / name).result(30)


def test_what_of_a_folder_is_not_read_is_counted_and_named(folder, tmp_path, monkeypatch):
    (tmp_path / "secret.txt").write_text("The secret.")
    (tmp_path / "other").mkdir()
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("token = hunter2")
    links = {"secret.txt": tmp_path / "secret.txt", "other": tmp_path / "other", "conf.txt": ".git/config"}
    for name, target in (
        links | {"broken.txt": tmp_path / "nowhere", "inside.txt": "good.txt", "round.txt": "round.txt"}
    ).items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe.txt")
    (folder / "closed").mkdir()
    (folder / os.fsdecode(b"b\xff\x1b[31m.pdf")).write_bytes(b"no PDF")
    deep = folder.joinpath(*["d" * 190] * 5)
    deep.mkdir(parents=True)
    (deep / "x.txt").write_text("Deep.")
    # These nobody expects.
    for name in ("a.png", "b.png", "c.doc", ".hidden", "d", "~$report.docx", ".a.pdf.icloud", ".a.png.icloud"):
        (folder / name).write_bytes(b"\x00")
    (folder / "empty.txt").write_text("\n \n")
    (folder / "none.md").write_bytes(b"")
    real = os.scandir

    def refusing(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    passages, reported = left_out(folder)
    assert [passage.id for passage in passages] == ["good.txt#1", "inside.txt#1"]
    assert reported.passed_over == {"hidden": 4, ".png": 2, "empty": 2, ".doc": 1, "without a suffix": 1}
    said = {name.removeprefix(f"{folder}/").replace(f"{folder}/", "")[:90] for name in reported.names}
    assert {one for one in said if not one.startswith(("b\\", "ddd"))} == {
        "secret.txt is a link to a file outside, which is not followed",
        "other is a link to a folder, which is not followed",
        "conf.txt is a link to a hidden file, which is not followed",
        "broken.txt is a link that leads nowhere",
        "round.txt is a link that leads nowhere",
        "pipe.txt is no regular file",
        "closed cannot be opened: Permission denied",
        ".a.pdf.icloud stands for a file that is only in iCloud: download it first",
    }
    assert any("\\udcff␛[31m.pdf cannot be read as PDF" in name for name in reported.names)
    assert (reported.unread["with too long a path"], reported.unexpected) == (1, 10)
    assert read(folder / "secret.txt")[0].text == "The secret."


def test_text_that_looks_odd_is_text(tmp_path):
    (tmp_path / "a.txt").write_bytes("Zürich".encode("utf-16"))
    (tmp_path / "b.txt").write_bytes("Bern".encode("utf-32"))
    (tmp_path / "c.txt").write_bytes(b"\x1b[1mBasel\x1b[0m\n" * 3)
    (tmp_path / "my_notes.txt.gz").write_bytes(gzip.compress(b"Packed."))
    passages, reported = left_out(tmp_path)
    assert [passage.text.strip() for passage in passages][:2] == ["Zürich", "Bern"]
    assert "Basel" in passages[2].text
    assert passages[3:] == [Passage("my_notes.txt.gz#1", "my notes", "Packed.")] == read(tmp_path / "my_notes.txt.gz")
    assert not reported


@pytest.mark.process
@pytest.mark.parametrize("name", ["x.json.gz", "x.jsonl.gz", "x.txt.gz"])
def test_what_unpacks_to_more_than_any_text_does_is_refused_before_it_is_unpacked(tmp_path, name):
    bomb = gzip.compress((b" " * (1 << 20) + b"\n") * 64)
    (tmp_path / name).write_bytes(bomb)
    tracemalloc.start()
    with pytest.raises(InputError, match=rf"{name} unpacks to over 200 times its size: unpack it first"):
        read(tmp_path / name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(bomb) < 70_000
    assert peak < 200 << 20


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_bound_of_lines_counts_for_every_encoding(tmp_path, monkeypatch, encoding):
    monkeypatch.setattr(common, "MAX_LINE", 1000)
    (tmp_path / "x.jsonl").write_bytes(("short\n" + "a" * 990 + "\n" + "a" * 3000 + "\n").encode(encoding))
    lines = read_lines(tmp_path / "x.jsonl")
    assert [len(next(lines)[1]) for _ in range(2)] == [6, 991]
    with pytest.raises(InputError, match="line 3: longer than"):
        next(lines)


def test_a_title_is_not_repeated_at_any_length(tmp_path):
    (tmp_path / "a.md").write_text("---\ntitle: " + "long " * 1000 + "\n---\n" + "A sentence of words. " * 100)
    (tmp_path / "b.jsonl").write_text(json.dumps({"title": "long " * 1000, "text": "x"}))
    for name in ("a.md", "b.jsonl"):
        assert {len(passage.title) for passage in read(tmp_path / name)} == {500}


def test_more_than_a_hundred_are_counted():
    counter = LeftOutCounter()
    for number in range(150):
        counter.unread(common.Path(f"{number}.pdf"), "damaged", "x" * 1000)
        counter.pass_over(f".{number}")
    reported = counter.result()
    assert (reported.unexpected, len(reported.names), max(map(len, reported.names))) == (150, 100, 300)
    assert (len(reported.passed_over), reported.passed_over["of further kinds"]) == (21, 130)
    assert reported.lines(named=2)[-1] == "left out: 148 more"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: Front\n---\n# Head\n", "Front"),
        ("---\ntitle: 'It''s'\n---\n", "It's"),
        ('---  \nauthor: A\ntitle:   "Quoted"  \n---\n', "Quoted"),
        ("---\ntitle:\nauthor: A\n---\n# Head ##  \n", "Head"),
        ("---\ntitle: Open\n# Head of an open one", "Head of an open one"),
        ("# C#\n", "C#"),
        ("Text\n###### Sixth ######\n# First", "Sixth"),
        ("####### seven\n#none\n# \n#\tTab", "Tab"),
    ],
)
def test_titles_of_markdown(text, title):
    assert formats.read_markdown(text.encode(), None, print).title == title


@settings(max_examples=at_most(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200), st.sampled_from([".txt", ".md", ".html", ".json", ".jsonl", ".tsv", ".pdf", ".jsonl.gz"])
)
def test_any_bytes_are_passages_or_an_input_error(tmp_path, data, suffix):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(data)
    reported, passages = "", []
    try:
        passages = read(path, notice=lambda text: None)
    except InputError as error:
        reported = str(error)
    assert passages or path.name in reported
    assert all(passage.text.strip() and passage.text.encode() for passage in passages)


@pytest.mark.process
def test_modules_in_the_folder_that_one_is_in_are_not_run(folder, tmp_path):
    (tmp_path / "here").mkdir()
    for module in ("bs4", "keqa", "json", "yaml"):
        (tmp_path / "here" / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').close()")
    (folder / "page.html").write_text("<p>A page.")
    script = "import os, sys; from keqa.retrievers import read_corpus; os.chdir(sys.argv[1]); "
    script += "print([one.text for one in read_corpus(sys.argv[2])])"
    command = [sys.executable, "-c", script, tmp_path / "here", folder]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout == "['A good note.', 'A page.']\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_copy_of_a_process_reads_with_a_process_of_its_own(folder):
    (own,) = read(folder)
    if (child := os.fork()) == 0:
        os._exit(int(read(folder) != [own]))
    assert [read(folder) for _ in range(20)] == [[own]] * 20
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.process
def test_a_document_that_ends_the_process_beside_is_named_and_its_neighbours_are_read(folder, monkeypatch):
    (folder / "a.html").write_text("<p>A page.")
    (folder / "slow.txt").write_text("A sentence. " * 100_000)
    (folder / "z.txt").write_text("The last.")
    monkeypatch.setattr(beside, "SECONDS", 0.03)
    read_beside = beside.read_beside

    def hurried(data, path, *others):
        monkeypatch.setattr(beside, "SECONDS_PER_MB", 0.0 if path.name == "slow.txt" else 1e9)
        return read_beside(data, path, *others)

    monkeypatch.setattr(readers, "read_beside", hurried)
    passages, reported = left_out(folder)
    assert [one.text for one in passages] == ["A page.", "A good note.", "The last."]
    assert reported.unread == {"too large": 1}
    why = "cannot be read: it takes too long; divide it, or leave it out"
    assert reported.names == (f"{folder}/slow.txt {why}",)
