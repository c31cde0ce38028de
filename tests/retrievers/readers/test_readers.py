import csv
import gzip
import json
import random
from concurrent.futures import ThreadPoolExecutor

import office_files as files
import pytest
from fixtures.drawing import at_most
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.retrievers import Passage, read_corpus
from keqa.retrievers.readers.common import DOCUMENTS
from keqa.retrievers.readers.formats import READERS

field = st.text("ab \"\\',\té京", max_size=20).map(lambda text: f"x{text}y")
record = st.fixed_dictionaries({"title": field, "text": field})


def read(*paths, **options):
    return list(read_corpus(paths, **options))


@settings(max_examples=at_most(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(record, min_size=1, max_size=5))
def test_records_survive_a_round_trip_in_every_format(tmp_path, records):
    (tmp_path / "c.json").write_text(json.dumps(records))
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, records)))
    with (tmp_path / "c.tsv").open("w", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t")
        writer.writerow(["id", "text", "title"])
        writer.writerows([n, one["text"], one["title"]] for n, one in enumerate(records, start=1))
    expected = [(" ".join(one["title"].split()), one["text"]) for one in records]
    for name in ("c.json", "c.jsonl", "c.tsv"):
        found = read(tmp_path / name)
        assert [(one.title, one.text) for one in found] == expected
        prefix = "" if name == "c.tsv" else f"{name}#"
        assert [one.id for one in found] == [f"{prefix}{n}" for n in range(1, len(records) + 1)]


BAD = {
    "a.tsv": {
        "id\tbody\ttitle\n1\tx\ty\n": "a.tsv, line 1: .*no text in: id, body, title",
        "id\ttext\ttitle\n1\tx\ty\n2\tx\n": "a.tsv, line 3: 3 columns are expected, 2 were found",
        'id\ttext\ttitle\n1\t"x\ty\n2\tx\ty\n': "a.tsv, line 2: malformed",
        "id\ttext\ttitle\n\tx\ty\n": "a.tsv, line 2: the id is empty",
        "id\ttext\ttitle\n": "no text in",
    },
    "a.jsonl": {
        '{"text": "x"}\n\n{"text": \n': "a.jsonl, line 3: malformed JSON",
        '{"title": "x", "body_text": "y"}\n': "a.jsonl, line 1: there is no text.*title, body_text",
        '["x"]\n': "a.jsonl, line 1: an object .* found list",
        '{"text": 5}\n': "a.jsonl, line 1: text must be text, found int",
        '{"text": "x", "id": [1]}\n': "a.jsonl, line 1: the id",
        "": "no text in",
        '{"text": "x"}\n{"text": "caf\udce9"}\n': r"a.jsonl, line 2: not UTF-8",
        "[" * 200_000: "a.jsonl, line 1: malformed JSON",
        '{"a":' * 100_000: "a.jsonl, line 1: malformed JSON",
        '{"text": ' + "9" * 5000 + "}": "a.jsonl, line 1: malformed JSON",
    },
    "a.json": {
        '[{"text": "x"},\n{"text" "y"}]': "a.json, line 2: malformed JSON",
        '{"text": "x"}': "a.json: a list of objects .* found dict",
        '[{"text": "x"}, {"titel": "y"}]': "a.json, record 2: there is no text",
        "[" * 100_000: "a.json.*malformed JSON",
        "[]": "no text in",
    },
    "a.doc": {"x": "a.doc: no reader for .doc"},
    "noname": {"x": "a file without a suffix"},
    "a.txt": {" ": "no text in"},
}


@pytest.mark.parametrize(("name", "content"), [(name, content) for name, cases in BAD.items() for content in cases])
def test_bad_files_are_named_with_the_line(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, errors="surrogateescape")
    with pytest.raises(InputError, match=BAD[name][content]):
        read(path)


def test_missing_sources_are_reported_at_once(tmp_path):
    for named, message in (([tmp_path / "nothing.jsonl"], r"nothing\.jsonl does not exist"), ([], "at least one")):
        with pytest.raises(InputError, match=message):
            read_corpus(named)
    # And a broken line when it is reached.
    (tmp_path / "a.jsonl").write_text('{"text": "first"}\nbroken\n')
    assert next(read_corpus([tmp_path / "a.jsonl"])).text == "first"


def test_other_names_and_shapes_of_records(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [
        {"_id": "x", "title": "T", "contents": "by Pyserini"},
        {"id": 7, "contents": '"Aaron"\nby FlashRAG'},
        {"id": "h", "title": "T", "text": ["First.", " Second."]},
        {"id": "none", "title": "T", "text": None},
        {"id": "lone", "title": None, "text": "a\ud800b\x00"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    notices = []
    found = [(one.id, one.title, one.text) for one in read(path, notice=notices.append)]
    assert found[:2] == [("x", "T", "by Pyserini"), ("7", "Aaron", "by FlashRAG")]
    assert found[2:] == [("h", "T", "First. Second."), ("lone", "", "ab")]
    assert notices == [f"{path}: 1 records without text were left out"]


def test_fields_that_are_not_read_are_named_once(tmp_path):
    notices = []
    lines = [
        {"id": 1, "title": "T", "text": "x", "author": "Jana", "year": 2024},
        {"pid": 2, "name": "T", "body": "x", "author": None, "docid": None},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "b.json").write_text(json.dumps([{"text": "x", **{f"field{n:02}": n for n in range(12)}}]))
    (tmp_path / "c.tsv").write_text("id\ttext\ttitle\tauthor\n1\tx\ty\tJana\n")
    (tmp_path / "d.jsonl").write_text(json.dumps({"_id": 1, "title": "T", "text": "x"}))
    names = [tmp_path / name for name in ("a.jsonl", "b.json", "c.tsv", "d.jsonl")]
    assert len(read(*names, notice=notices.append)) == 5
    only = "only the id, the title and the text of a record are read, not"
    after = "; put into the text what is to be found"
    ten = ", ".join(f"field{n:02}" for n in range(10))
    assert notices == [
        f"{tmp_path / 'a.jsonl'}: {only} author, docid, year{after}",
        f"{tmp_path / 'b.json'}: {only} {ten} and 2 more{after}",
        f"{tmp_path / 'c.tsv'}: {only} author{after}",
    ]


def test_a_source_that_is_named_twice_is_read_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("The oak.")
    (tmp_path / "link.md").symlink_to("a.md")
    notices = []
    corpus = read_corpus(["a.md", "a.md", tmp_path / "a.md", "link.md"], notice=notices.append)
    assert [one.id for one in corpus] == ["a.md#1"]
    assert notices == [
        "a.md is named twice and is read once",
        f"{tmp_path}/a.md is a.md: it is read once",
        "link.md is a.md: it is read once",
    ]
    assert list(map(str, corpus.sources)) == ["a.md"]


def test_a_file_of_two_sources_is_read_once(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.md").write_text("The oak.")
    (tmp_path / "sub" / "b.jsonl").write_text('{"text": "Rain."}')
    (tmp_path / "sub" / "other.jsonl").write_text('{"text": "Snow."}')
    named = [tmp_path, tmp_path / "sub" / "a.md", tmp_path / "sub" / "b.jsonl"]
    in_all = []
    assert [one.id for one in read(*named, progress=lambda *now: in_all.append(now[1]))] == ["sub/a.md#1", "b.jsonl#1"]
    assert set(in_all) == {8 + 17}
    assert [one.id for one in read(*reversed(named))] == ["b.jsonl#1", "a.md#1"]
    # What is named is not passed over in its folder.
    reading = read_corpus(named)
    assert len(list(reading)) == 2
    assert reading.left_out.passed_over == {".jsonl": 1}
    assert f".jsonl ({tmp_path / 'sub' / 'other.jsonl'})" in reading.left_out.lines()[0]


def test_files_of_records_in_a_folder_are_passed_over_because_they_were_not_named(tmp_path):
    for name in ("a.txt", "b.jsonl", "c.JSONL.gz", "d.tsv", "e.mp3", "f.mp3", "g.doc", "h.msg", "i.zip"):
        (tmp_path / name).write_text("x")
    notices = []
    assert len(read(tmp_path, notice=notices.append)) == 1
    assert notices == [
        f"passed over, as such files are not read: 2 .mp3 ({tmp_path}/e.mp3), 1 .doc ({tmp_path}/g.doc), "
        f"1 .msg ({tmp_path}/h.msg), 1 .zip ({tmp_path}/i.zip)",
        "passed over in folders, as files of records are named one by one to be read: "
        f"2 .jsonl ({tmp_path}/b.jsonl), 1 .tsv ({tmp_path}/d.tsv)",
        "would be read if they were saved otherwise: .doc as .docx, .msg as .eml, .zip as a folder",
    ]
    assert set(READERS) == set(DOCUMENTS)


def test_a_folder_that_slack_exported_is_read_as_what_is_said(tmp_path, monkeypatch):
    link = "The kiln broke, <@U2> &amp; all in <#C1|hall>: <https://x.y/a|wiki>"
    day = [
        {"user": "U1", "ts": "1704186000.0001", "text": link, "files": [{"name": "kiln.png"}]},
        {"user": "U2", "ts": "1704186001.0001", "text": "<@U2> has joined", "subtype": "channel_join"},
        {"ts": "1704186060.0002", "username": "Bell", "text": "", "attachments": [{"fallback": "It is ten."}]},
    ]
    people = [{"id": "U1", "profile": {"real_name": "Ann Lark"}}, {"id": "U2", "name": "bo", "profile": {}}]
    (tmp_path / "general").mkdir()
    for name, content in (("users", people), ("general/2024-01-02", day), ("general/2024-01-03", {"x": []})):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path.parent)
    corpus = read_corpus(tmp_path.name, summary=False)
    assert [(one.id, one.title, one.place.date, one.text) for one in corpus] == [
        (
            *("general/2024-01-02.json#1", "#general", "2024-01-02"),
            "[2024-01-02 09:00] Ann Lark: The kiln broke, @bo & all in #hall: wiki (https://x.y/a) [kiln.png]\n"
            "[2024-01-02 09:01] Bell: It is ten.",
        )
    ]
    assert (corpus.left_out.passed_over, corpus.left_out.unread) == ({".json": 1}, {"damaged": 1})


def test_what_programs_put_beside_source_code_is_passed_over(tmp_path):
    kept = ("README", "main.py", "docs/build/a.md", "logs-files/a.py")
    for name in (*kept, ".git/x.md", "build/made.py", "node_modules/p/README.md", "a.html", "a_files/b.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1")
    for name in ("a.min.js", "pnpm-lock.yaml", "db-secrets.yml", "film.ts", "desktop.ini"):
        (tmp_path / name).write_text("x\0" if name == "film.ts" else "x: 1")
    corpus = read_corpus(tmp_path, summary=False)
    assert {one.place.file for one in corpus} == {*kept, "a.html"}
    assert corpus.left_out.passed_over == {
        **{"hidden": 2, "build": 1, "node_modules": 1, "generated": 2, "named as secrets": 1, "binary .ts": 1},
        "of a saved page": 1,
    }


def test_only_very_long_records_are_split(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"text": "A word. " * 900}, {"text": "A word. " * 1100}]))
    ids = [one.id for one in read(path)]
    assert ids[:3] == ["a.json#1", "a.json#2#1", "a.json#2#2"]
    assert len(ids) > 20


def test_dpr_quoting_gzip_and_byte_order_marks(tmp_path):
    path = tmp_path / "psgs_w100.tsv"
    path.write_text('id\ttext\ttitle\n1\t"He said ""no""\tand\nleft."\tHim\n2\tPlain.\tIt\n')
    assert read(path) == [Passage("1", "Him", 'He said "no"\tand\nleft.'), Passage("2", "It", "Plain.")]
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "packed"}\n'))
    (tmp_path / "b.jsonl").write_bytes('{"text": "marked"}\n'.encode("utf-8-sig"))
    (tmp_path / "c.jsonl").write_bytes('{"text": "wide é"}\n{"text": "two"}\n'.encode("utf-16"))
    (tmp_path / "d.json").write_bytes('[{"text": "marked"}]'.encode("utf-8-sig"))
    found = [one.text for one in read(*(tmp_path / name for name in ("a.jsonl.gz", "b.jsonl", "c.jsonl", "d.json")))]
    assert found == ["packed", "marked", "wide é", "two", "marked"]
    (tmp_path / "e.jsonl.gz").write_bytes(b"not gzip")
    with pytest.raises(InputError, match=r"e\.jsonl\.gz cannot be read"):
        read(tmp_path / "e.jsonl.gz")


def test_a_folder_of_documents(tmp_path):
    sub = tmp_path / "sub"
    sub.mkdir()
    (tmp_path / "one_note.txt").write_text("A plain note.")
    (sub / "d.PDF").write_bytes(files.pdf([[(10, "Text in a PDF.")]]))
    (sub / "broken.pdf").write_text("no")
    (tmp_path / "e.bin").write_text("x")
    notices = []
    assert read(tmp_path, notice=notices.append) == [
        Passage("one_note.txt#1", "one note", "A plain note."),
        Passage("sub/d.PDF#1", "d", "Text in a PDF."),
    ]
    assert "1 .bin" in notices[0]
    assert any("broken.pdf cannot be read as PDF" in one for one in notices)
    for name, said in (("empty", "it has nothing at all"), ("sub2", r"it has 1 \.jsonl")):
        (tmp_path / name).mkdir()
        if name == "sub2":
            (tmp_path / name / "a.jsonl").write_text("{}")
        with pytest.raises(InputError, match=said):
            read(tmp_path / name)


def test_bytes_are_counted_as_files_and_lines_are_read_in_another_thread_too(tmp_path):
    folder, records = tmp_path / "documents", tmp_path / "records.jsonl.gz"
    folder.mkdir()
    (folder / "one.txt").write_text("The oak is old. " * 100)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    drawn = random.Random(0)
    texts = (f"{drawn.getrandbits(4000):x}" for _ in range(1000))
    records.write_bytes(gzip.compress("".join(json.dumps({"text": text}) + "\n" for text in texts).encode()))
    in_all, reported = 1600 + 20 + records.stat().st_size, []
    corpus = read_corpus([folder, records], progress=lambda *now: reported.append(now))
    next(corpus)
    with ThreadPoolExecutor(1) as pool:
        assert len(pool.submit(list, corpus).result()) >= 1000
    done = [done for done, _ in reported]
    # The files, each when it is begun, then the records a hundred at a time, or as many as Python unpacks at once.
    assert (done[:3], done[-1], done) == ([0, 20, 1620], in_all, sorted(done))
    assert (len(set(done)) > 6, {total for _, total in reported}) == (True, {in_all})
