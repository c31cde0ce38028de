"""Files added, removed and brought in step, in an index of each engine that can be changed."""

import json
import shutil

import pytest

from keqa.errors import InputError, RetrievalError
from keqa.retrievers import Passage, add_passages, build_index, delete_passages, open_index, read_corpus
from keqa.retrievers.changes import Change
from keqa.retrievers.changing import add_files, remove_files, sync_folder
from keqa.retrievers.elasticsearch import load_index
from keqa.retrievers.files import FILES, FileChange, FileTable
from keqa.retrievers.opening import engine_of, facts_of

QUESTIONS = ("zebra stripes", "okapi forest", "who painted the harbour", "quagga", "lighthouse lamp", "the")


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "documents"
    (folder / "sub").mkdir(parents=True)
    for number in range(12):
        (folder / f"animal{number}.txt").write_text(f"Zebra {number} has stripes and {'long ' * number} legs.")
    (folder / "harbour.md").write_text("# Harbour\n\nIda Holm painted the harbour in 1902.")
    (folder / "sub" / "okapi.txt").write_text("The okapi lives in the forest.")
    return folder


def change(folder):
    """What a week does to a folder: changed, gone, new, moved."""
    (folder / "animal1.txt").write_text("The quagga has stripes on its front.")
    (folder / "animal2.txt").unlink()
    (folder / "lamp.txt").write_text("The lighthouse has a lamp.")
    (folder / "harbour.md").rename(folder / "sub" / "port.md")


@pytest.fixture
def embedded():
    return lambda folder, sources: build_index(read_corpus(sources), folder, sources=[str(one) for one in sources])


@pytest.fixture(params=["embedded", "elasticsearch"])
def engine(request):
    """Builds an index of an engine under a name, and gives its address."""

    def build(name, sources):
        given = {"sources": [str(one) for one in sources]}
        if request.param == "embedded":
            address = str(request.getfixturevalue("tmp_path") / name)
            build_index(read_corpus(sources), address, **given)
        else:
            address = f"{request.getfixturevalue('elasticsearch_address')}-{name}"
            load_index(read_corpus(sources), address, **given)
        return address

    return build


def answers(address):
    found = open_index(address).search_many(QUESTIONS, 10)
    return [[(hit.passage, round(hit.score, 5)) for hit in hits] for hits in found]


def files_of(address):
    (part,) = facts_of(address)
    return part["files"]


def test_an_index_in_step_is_as_one_that_was_built_again(tmp_path, documents, engine):
    index = engine("index", [documents])
    opened = open_index(index)
    before = answers(index)
    change(documents)
    (done,) = sync_folder(index, documents)
    assert [path.rpartition("/")[2] for path in (*done.added, *done.changed, *done.removed)] == [
        "lamp.txt",
        "port.md",
        "animal1.txt",
        "animal2.txt",
        "harbour.md",
    ]
    assert (done.unchanged, done.passages_added, done.passages_removed, done.passages) == (11, 3, 3, 14)
    again = engine("again", [documents])
    assert answers(index) == answers(again) != before
    assert files_of(index) == files_of(again)
    # Who opened the index before searches what was there then.
    found = opened.search_many(QUESTIONS, 10)
    assert [[(hit.passage, round(hit.score, 5)) for hit in hits] for hits in found] == before
    assert opened.manifest.source_hash != open_index(index).manifest.source_hash


def test_what_is_in_step_stays_as_it_is(tmp_path, documents, engine):
    index = engine("index", [documents])
    manifest = open_index(index).manifest
    for _ in range(2):
        (done,) = sync_folder(index, documents)
        assert (done.added, done.changed, done.removed, done.unchanged) == ((), (), (), 14)
    (documents / "harbour.md").touch()
    add_files(index, [documents / "harbour.md"])
    assert open_index(index).manifest == manifest


def test_a_file_of_which_only_white_space_changed_keeps_its_passages(tmp_path, documents, engine):
    index = engine("index", [documents])
    source_hash = open_index(index).manifest.source_hash
    (documents / "harbour.md").write_text("# Harbour\n\n\nIda Holm   painted the harbour in 1902.\n")
    (done,) = sync_folder(index, documents)
    assert ([path.rpartition("/")[2] for path in done.changed], done.passages_added) == (["harbour.md"], 0)
    assert open_index(index).manifest.source_hash == source_hash
    assert sync_folder(index, documents)[0].unchanged == 14


def test_files_are_added_by_the_names_that_a_build_gives_them(tmp_path, documents, engine):
    index = engine("index", [documents])
    (documents / "sub" / "dodo.txt").write_text("The dodo is extinct.")
    (tmp_path / "other.txt").write_text("Another dodo.")
    (done,) = add_files(index, [documents / "sub" / "dodo.txt", tmp_path / "other.txt"])
    assert len(done.added) == 2
    found = open_index(index).search("dodo")
    assert sorted(hit.passage.id for hit in found) == ["other.txt#1", "sub/dodo.txt#1"]
    assert open_index(index).manifest.sources == (str(documents), str(tmp_path / "other.txt"))
    # The folder is in step; what is of another source stays.
    assert sync_folder(index, documents)[0].removed == ()


def test_files_folders_documents_and_passages_are_removed(tmp_path, documents, engine):
    index = engine("index", [documents])
    (done,) = remove_files(index, [documents / "sub", "harbour.md", "animal3.txt#1"])
    assert [path.rpartition("/")[2] for path in done.removed] == ["okapi.txt"]
    assert (done.passages_removed, done.passages) == (3, 11)
    assert files_of(index).get(str(documents / "animal3.txt"), 0) == 0
    with pytest.raises(InputError, match=r"no file, document or passage 'unicorn\.txt'"):
        remove_files(index, ["unicorn.txt"])
    with pytest.raises(InputError, match="nothing would be left"):
        remove_files(index, [documents])
    # What was taken out by its id comes back when its file changes; Elasticsearch knows no file without a passage.
    forgotten = index.startswith("elastic")
    assert sync_folder(index, documents)[0].passages == (14 if forgotten else 12)
    (documents / "animal3.txt").write_text("Zebra 3, again.")
    assert sync_folder(index, documents)[0].passages == (14 if forgotten else 13)


def test_a_single_path_is_one_name_and_not_its_characters(tmp_path, documents, embedded, monkeypatch):
    monkeypatch.chdir(documents)
    address = tmp_path / "index"
    build_index(read_corpus("harbour.md"), address, sources=["harbour.md"])
    assert [one.added for one in add_files(address, "./animal1.txt")] == [(str(documents / "animal1.txt"),)]
    assert [one.added for one in add_files(address, documents / "animal2.txt")] == [(str(documents / "animal2.txt"),)]
    # As a sequence of characters this would begin with the folder that holds all of them.
    assert [one.removed for one in remove_files(address, "./animal1.txt")] == [(str(documents / "animal1.txt"),)]
    assert len(files_of(address)) == 2


def test_records_are_compared_one_by_one(tmp_path, engine):
    records = tmp_path / "records.jsonl"
    lines = [{"id": f"r{number}", "title": "", "text": f"zebra{' striped' * number}"} for number in range(50)]
    records.write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "others.jsonl").write_text(json.dumps({"id": "r0", "text": "another zebra"}))
    index = engine("index", [records, tmp_path / "others.jsonl"])
    lines[7]["text"] = "quagga"
    records.write_text("\n".join(map(json.dumps, [*lines[:30], *lines[35:]])))
    (done,) = sync_folder(index, records)
    assert (done.passages_added, done.passages_removed, done.passages) == (1, 6, 46)
    again = engine("again", [records, tmp_path / "others.jsonl"])
    assert answers(index) == answers(again)
    # The ids of a file that was renamed are free for the same records.
    moved = records.rename(tmp_path / "moved.jsonl")
    (done,) = add_files(index, [moved])
    assert "r7~2" in {hit.passage.id for hit in open_index(index).search("quagga")}
    assert remove_files(index, [records])[0].passages == 46


def test_what_cannot_be_read_is_taken_out_and_named(tmp_path, documents, engine):
    index = engine("index", [documents])
    (documents / "harbour.md").write_bytes(b"\x00\x01\x02" * 100)
    (done,) = sync_folder(index, documents)
    assert [path.rpartition("/")[2] for path in done.removed] == ["harbour.md"]
    assert done.left_out.unread == {"binary": 1} == open_index(index).manifest.left_out.unread
    (documents / "harbour.md").write_text("Readable again.")
    assert len(sync_folder(index, documents)[0].added) == 1
    assert not open_index(index).manifest.left_out


def test_an_index_that_does_not_know_its_files(tmp_path, documents, embedded):
    manifest = embedded(tmp_path / "index", [documents])
    (tmp_path / "index" / manifest.data / FILES).unlink()
    with pytest.raises(RetrievalError, match="does not know which files its passages come from"):
        sync_folder(tmp_path / "index", documents)
    assert remove_files(tmp_path / "index", ["harbour.md"])[0].passages == 13
    # Passages of a program have no files, and files can come beside them.
    build_index([Passage("p", "", "quagga")], tmp_path / "mine")
    assert add_files(tmp_path / "mine", [documents])[0].passages == 15
    assert len(files_of(tmp_path / "mine")) == 14


def test_passages_of_a_program_leave_the_files_true(tmp_path, documents, embedded):
    embedded(tmp_path / "index", [documents])
    add_passages(tmp_path / "index", [Passage("mine", "", "unicorn")])
    delete_passages(tmp_path / "index", ["sub/okapi.txt"])
    assert files_of(tmp_path / "index")[str(documents / "sub" / "okapi.txt")] == 0
    assert sync_folder(tmp_path / "index", documents)[0].unchanged == 14


def test_a_large_index_is_written_anew_when_a_hundredth_was_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr("keqa.retrievers.manifest._SMALL", 100)
    build_index([Passage(str(number), "", f"word w{number % 7}") for number in range(400)], tmp_path / "index")
    data = open_index(tmp_path / "index").manifest.data
    assert delete_passages(tmp_path / "index", ["1", "2", "3"]).deleted == 3
    assert open_index(tmp_path / "index").manifest.data == data
    after = delete_passages(tmp_path / "index", ["4"])
    assert (after.deleted, after.passages) == (0, 396)
    assert after.data != data
    assert sorted(entry.name[:5] for entry in (tmp_path / "index").iterdir()) == ["data-", "lock", "manif"]


EMBEDDED_POINTS = {
    "announced": "files.FileTable.announce",
    "deleted and added": "tantivy_build._commit",
    "published": "tantivy_build._publish",
    "settled": "files.FileTable.settle",
    "folder made": "tantivy_build.new_data",
    "table copied": "files.FileTable.copy",
    "written anew": "tantivy_build._write",
    "cleared": "tantivy_build.clean_up",
}


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", EMBEDDED_POINTS.values(), ids=EMBEDDED_POINTS)
def test_killed_while_an_index_is_brought_in_step(tmp_path, documents, embedded, killed, point, when):
    embedded(tmp_path / "index", [documents])
    before = answers(tmp_path / "index")
    change(documents)
    embedded(tmp_path / "again", [documents])
    after = answers(tmp_path / "again")
    module, _, name = point.partition(".")
    killed(
        f"""
        from keqa.retrievers import {module}, changing, tantivy_build
        import keqa.retrievers.{module} as home
        *outer, name = {name!r}.split(".")
        for part in outer:
            home = getattr(home, part)
        real, seen = getattr(home, name), []
        def dying(*given, **named):
            # The first call settles what an earlier process left.
            if name == "settle" and not seen:
                seen.append(1)
                return real(*given, **named)
            if {when!r} == "after":
                real(*given, **named)
            die()
        setattr(home, name, dying)
        changing.sync_folder({str(tmp_path / "index")!r}, {str(documents)!r})
        """
    )
    left = [[hit.passage for hit in hits] for hits in open_index(tmp_path / "index").search_many(QUESTIONS, 10)]
    old, new = ([[passage for passage, _ in hits] for hits in state] for state in (before, after))
    assert [sorted(hits, key=str) for hits in left] in [[sorted(hits, key=str) for hits in one] for one in (old, new)]
    counts = files_of(tmp_path / "index")
    assert sum(counts.values()) == open_index(tmp_path / "index").manifest.passages
    sync_folder(tmp_path / "index", documents)
    assert [[hit.passage for hit in hits] for hits in open_index(tmp_path / "index").search_many(QUESTIONS, 10)] == new
    assert files_of(tmp_path / "index") == files_of(tmp_path / "again")
    assert sync_folder(tmp_path / "index", documents)[0].unchanged == 14


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", ["clone", "write", "verify", "publish"])
def test_killed_while_an_index_on_a_cluster_is_brought_in_step(
    tmp_path, documents, elasticsearch_address, killed, point, when
):
    index = f"{elasticsearch_address}-index"
    load_index(read_corpus([documents]), index, sources=[str(documents)])
    before = answers(index)
    change(documents)
    killed(
        f"""
        from keqa.retrievers import changing
        from keqa.retrievers.elasticsearch.generation import Generations
        real = Generations.{point}
        def dying(self, *given, **named):
            if {when!r} == "after":
                real(self, *given, **named)
            die()
        Generations.{point} = dying
        changing.sync_folder({index!r}, {str(documents)!r})
        """
    )
    load_index(read_corpus([documents]), f"{elasticsearch_address}-again", sources=[str(documents)])
    after = answers(f"{elasticsearch_address}-again")
    assert answers(index) == (after if (point, when) == ("publish", "after") else before)
    sync_folder(index, documents)
    assert answers(index) == after
    assert files_of(index) == files_of(f"{elasticsearch_address}-again")


def test_of_two_changes_of_an_index_on_a_cluster_the_first_counts(documents, elasticsearch_address):
    load_index(read_corpus([documents]), elasticsearch_address, sources=[str(documents)])
    with engine_of(elasticsearch_address)[0].change(elasticsearch_address, None) as changer:
        remove_files(elasticsearch_address, ["harbour.md"])
        with pytest.raises(RetrievalError):
            changer.apply(Change(gone=["sub/okapi.txt#1"]))
    assert open_index(elasticsearch_address).search("okapi")
    assert not open_index(elasticsearch_address).search("harbour")


def test_an_announced_change_counts_where_the_manifest_has_its_hash(tmp_path):
    FileTable.begin(tmp_path).finish()
    with FileTable.open(tmp_path) as table:
        table.announce("new", {"/a": FileChange("d", ("a#1", "a#2"))})
        assert (list(table.entries("old")), table.entries("new")["/a"].passages) == ([], 2)
        table.settle("old")
        assert table.entries("new") == {}
        table.announce("new", {"/a": FileChange("d", tuple(f"a#{number}" for number in range(25_000)))})
        table.settle("new")
        assert table.entries("later")["/a"].passages == 25_000
        assert table.ids("/a")[24_999] == "a#24999"
        assert list(table.holders(["a#12345", "unknown"])) == ["/a"]


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + b"x" * 200])
def test_a_damaged_table_is_reported(tmp_path, documents, embedded, content):
    manifest = embedded(tmp_path / "index", [documents])
    (tmp_path / "index" / manifest.data / FILES).write_bytes(content)
    with pytest.raises(RetrievalError, match=r"table of files .* cannot be used"):
        sync_folder(tmp_path / "index", documents)
    assert open_index(tmp_path / "index").search("okapi")


def test_a_passage_that_moved_within_its_file_has_its_new_place(tmp_path, embedded):
    folder, index = tmp_path / "documents", tmp_path / "index"
    folder.mkdir()
    (folder / "rules.md").write_text("# Fees\n\nA boat pays five crowns.")
    embedded(index, [folder])
    (folder / "rules.md").write_text("# Prices\n\nA boat pays five crowns.")
    sync_folder(index, folder)
    (hit,) = open_index(index).search("crowns")
    assert hit.passage.place.heading == "Prices"


def test_a_passage_whose_id_was_taken_keeps_its_place(tmp_path, embedded):
    index, one, other = tmp_path / "index", tmp_path / "one", tmp_path / "other"
    for folder, text in ((one, "The first boat."), (other, "The second boat.")):
        folder.mkdir()
        (folder / "rules.md").write_text(f"# Fees\n\n{text}")
    embedded(index, [one])
    add_files(index, [other])
    found = {hit.passage.id: hit.passage.place for hit in open_index(index).search("boat")}
    assert found.keys() == {"rules.md#1", "rules.md#1~2"}
    assert {place.heading for place in found.values()} == {"Fees"}


def test_the_bytes_that_were_read_are_reported(embedded, documents, tmp_path):
    index, records = tmp_path / "index", tmp_path / "records.jsonl"
    embedded(index, [documents])
    change(documents)
    records.write_text("".join(json.dumps({"id": n, "text": f"A sentence about {n}."}) + "\n" for n in range(1000)))
    for done, named in ((sync_folder, documents), (add_files, [records, documents / "lamp.txt", records])):
        sizes = [path.stat().st_size for path in (documents.rglob("*.*") if named == documents else named[:2])]
        reported: list[tuple[int, int]] = []
        done(index, named, progress=lambda *now, reported=reported: reported.append(now))
        assert {total for _, total in reported} == {sum(sizes)}
        read = [done for done, _ in reported]
        assert (read[0], read[-1]) == (0, sum(sizes))
        assert read == sorted(read)
        # With each file, unchanged ones too; of many records now and then.
        assert len(set(read)) >= (len(sizes) if named == documents else 10)


def test_what_a_killed_process_did_not_commit_is_in_nobodys_way(tmp_path, documents, embedded, monkeypatch):
    """Killed after its list of deleted passages was written, which the next process would write under the same name."""
    index, lost = tmp_path / "index", tmp_path / "lost"
    monkeypatch.setattr("keqa.retrievers.manifest._SMALL", 0)
    monkeypatch.setattr("keqa.retrievers.manifest._MOST_DELETED", 1)
    data = index / embedded(index, [documents]).data
    shutil.copytree(index, lost)
    remove_files(lost, ["harbour.md"])
    (written,) = (lost / data.name).glob("*.del")
    for name in (written.name, ".managed.json"):
        shutil.copy(written.parent / name, data)
    assert remove_files(index, ["harbour.md"])[0].passages == 13
    assert answers(index) == answers(lost)


def test_what_was_removed_by_a_killed_process_is_gone_for_the_same_command(tmp_path, documents, engine):
    index = engine("index", [documents])
    remove_files(index, ["harbour.md", "animal3.txt#1"])
    manifest = open_index(index).manifest
    (done,) = remove_files(index, ["harbour.md", "animal3.txt#1"])
    assert (done.removed, done.passages) == ((), 12)
    assert open_index(index).manifest == manifest
    assert "removed" not in facts_of(index)[0]
    with pytest.raises(InputError, match=r"no file, document or passage 'unicorn\.txt'"):
        remove_files(index, ["harbour.md", "unicorn.txt"])
    sync_folder(index, documents)
    remove_files(index, [documents / "animal4.txt"])
    remove_files(index, [documents / "animal5.txt"])
    with pytest.raises(InputError, match=r"no file, document or passage '.*animal4\.txt'"):
        remove_files(index, [documents / "animal4.txt"])
