"""Files added, removed and brought in step, in an index of each engine that can be changed."""

import json
import shutil

import pytest

from keqa.errors import ConfigurationError, InputError, RetrievalError
from keqa.retrievers import Passage, add_passages, build_dense, build_index, delete_passages, open_index, read_corpus
from keqa.retrievers.changing import add_files, remove_files, sync_folder
from keqa.retrievers.elasticsearch import load_index
from keqa.retrievers.engines import engine_of, facts_of
from keqa.retrievers.manifest import Change

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


@pytest.fixture(params=["embedded", "dense", "elasticsearch"])
def engine(request, library):
    """Builds an index of an engine under a name, and gives its address."""

    def build(name, sources):
        given = {"sources": [str(one) for one in sources]}
        if request.param == "embedded":
            address = str(request.getfixturevalue("tmp_path") / name)
            build_index(read_corpus(sources), address, **given)
        elif request.param == "dense":
            folder = request.getfixturevalue("tmp_path") / name
            build_dense(read_corpus(sources), folder, model="some/model", **given)
            address = f"{folder}@some/model"
        else:
            address = f"{request.getfixturevalue('elasticsearch_address')}-{name}"
            load_index(read_corpus(sources), address, **given)
        return address

    return build


def answers(address):
    found = open_index(address).search_many(QUESTIONS, 10)
    return [[(hit.passage, round(hit.score, 4)) for hit in hits] for hits in found]


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
    assert [[(hit.passage, round(hit.score, 4)) for hit in hits] for hits in found] == before
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
    found = open_index(index).search("dodo", 100)
    assert {hit.passage.id for hit in found} >= {"other.txt#1", "sub/dodo.txt#1"}
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


def test_files_come_beside_passages_of_a_program(tmp_path, documents):
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
    assert delete_passages(tmp_path / "index", ["1", "2", "3"]).deleted == 3
    after = delete_passages(tmp_path / "index", ["4"])
    assert (after.deleted, after.passages) == (0, 396)
    build_index([Passage(str(n), "", f"word w{n % 7}") for n in (0, *range(5, 400))], tmp_path / "again")
    found = [open_index(tmp_path / name).search("word w3", 400) for name in ("index", "again")]
    assert found[0] == found[1]


DYING = """
import os, signal, sys
from keqa.retrievers import sync_folder
from keqa.retrievers.local import build

left = int(sys.argv[3])

def written(event, given=()):
    global left
    changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    if event in ("os.rename", "os.remove", "fsync", "commit") or (
        event == "open" and isinstance(given[2], int) and given[2] & changing
    ):
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

real, sync = build._commit, os.fsync
build._commit = lambda writer: (written("commit"), real(writer), written("commit"))
os.fsync = lambda number: (written("fsync"), sync(number))[1]
sys.addaudithook(written)
sync_folder(sys.argv[1], sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("engine", ["embedded", "dense"], indirect=True)
def test_killed_at_each_write_while_an_index_is_brought_in_step(
    tmp_path, documents, engine, other_process, monkeypatch, large
):
    index = engine("index", [documents])
    before = answers(index)
    change(documents)
    after = answers(engine("again", [documents]))
    code = DYING
    if large:
        # Deleted passages stay until they are many, and count in scores.
        code = f"import keqa.retrievers.manifest as one\none._SMALL, one._MOST_DELETED = 0, 1\n{DYING}"
    sides = [[sorted(str(hit) for hit, _ in hits) for hits in one] for one in (before, after)]
    folder, _, model = index.partition("@")
    shutil.copytree(folder, tmp_path / "before")
    for write in range(1, 100):
        # Where this process has opened it, the engine may still watch it.
        shutil.rmtree(shutil.move(folder, tmp_path / f"after{write}"), ignore_errors=True)
        shutil.copytree(tmp_path / "before", folder)
        ended = other_process(code, 10**9, index, documents, write)
        if ended.returncode == 0:
            break
        assert ended.returncode == -9, ended.stderr
        left = [sorted(str(hit) for hit, _ in hits) for hits in answers(index)]
        assert left in sides, write
        (said,) = facts_of(index, verify=True)
        assert said["checksums"]["damaged"] == ()
        assert sum(said["files"].values()) == open_index(index).manifest.passages
        sync_folder(index, documents)
        assert [sorted(str(hit) for hit, _ in hits) for hits in answers(index)] == sides[1]
        assert large or answers(index) == after
        assert files_of(index) == files_of(str(tmp_path / "again") + (f"@{model}" if model else ""))
        assert facts_of(index, verify=True)[0]["checksums"]["unknown"] == ()
        assert sync_folder(index, documents)[0].unchanged == 14
    assert write > 6


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
    embedded(index, [documents])
    data = index / "data"
    shutil.copytree(index, lost)
    remove_files(lost, ["harbour.md"])
    (written,) = (lost / "data").glob("*.del")
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


def week(documents, number):
    (documents / f"animal{number}.txt").write_text(f"quagga of week {number} in a town")
    (documents / f"animal{number + 6}.txt").unlink()
    (documents / f"new{number}.txt").write_text(f"okapi number {number} of {number}")


@pytest.mark.slow
@pytest.mark.parametrize("flat_limit", [100, 4])
def test_weeks_of_changes_of_vectors_end_in_what_a_build_gives(library, tmp_path, documents, monkeypatch, flat_limit):
    monkeypatch.setattr("keqa.retrievers.local.dense._UNUSED", 0)
    monkeypatch.setattr("keqa.retrievers.local.dense.FLAT_LIMIT", 2)
    index = f"{tmp_path / 'index'}@some/model"
    given = {"model": "some/model", "sources": [str(documents)]}
    build_dense(read_corpus([documents]), tmp_path / "index", **given, flat_limit=flat_limit)
    names = set()
    for number in range(5):
        week(documents, number)
        sync_folder(index, documents)
        names.add(open_index(index).manifest.data)
        build_dense(read_corpus([documents]), tmp_path / f"again{number}", **given)
        ours, theirs = ([*map(set, answers(one))] for one in (index, f"{tmp_path / f'again{number}'}@some/model"))
        if flat_limit == 100:
            assert ours == theirs
        (found,) = open_index(index).search(f"animal{number}: quagga of week {number} in a town", 1)
        assert found.passage.id == f"animal{number}.txt#1"
        assert len(list((tmp_path / "index" / "data").glob("vectors-*.keys"))) == 1
    # What no passage needs any more was thrown away, and what was added went into the lists.
    assert len(names) > 1
    found = open_index(index).search("okapi", 100)
    assert {f"new{number}.txt#1" for number in range(5)} <= {hit.passage.id for hit in found}


def test_only_what_is_new_is_encoded(library, tmp_path, documents):
    index = f"{tmp_path / 'index'}@some/model"
    build_dense(read_corpus([documents]), tmp_path / "index", model="some/model", sources=[str(documents)])
    library.CALLS.clear()
    remove_files(index, [documents / "animal3.txt", "animal4.txt#1"])
    (documents / "animal9.txt").rename(documents / "okapi.txt")
    assert library.CALLS == []
    (documents / "animal6.txt").write_text("quagga")
    add_files(index, [documents / "animal6.txt"])
    # A fixed text is encoded to see that the model is the one of before.
    assert [texts for _, _, texts in library.CALLS][1:] == [["animal6: quagga"]]
    assert len(library.CALLS) == 2


def test_a_model_must_be_named_and_be_the_one_of_before(library, tmp_path, documents):
    build_dense(read_corpus([documents]), tmp_path / "index", model="some/model", sources=[str(documents)])
    (documents / "animal6.txt").write_text("quagga")
    with pytest.raises(ConfigurationError, match="passages are encoded by the model 'some/model'"):
        sync_folder(tmp_path / "index", documents)
    with pytest.raises(RetrievalError, match="does not give the vectors"):
        sync_folder(f"{tmp_path / 'index'}@another/model", documents)
    assert len(sync_folder(tmp_path / "index", documents, model="some/model")[0].changed) == 1
    with pytest.raises(RetrievalError, match=r"has vectors: change it with keqa\.add_files"):
        delete_passages(tmp_path / "index", ["animal6.txt"])


def test_passages_of_a_program_are_added_replaced_and_deleted(tmp_path, passages):
    index = tmp_path / "i"

    def ids(query):
        return [hit.passage.id for hit in open_index(index).search(query)]

    first = build_index(passages, index)
    added = add_passages(index, [Passage("d.txt#1", "", "okapi one"), Passage("d.txt#2", "", "okapi two")])
    assert added.passages == 6
    assert added.source_hash != first.source_hash
    assert ids("okapi") == ["d.txt#1", "d.txt#2"]
    with pytest.raises(InputError, match="'p1' is in the index already"):
        add_passages(index, [Passage("new", "", "x"), Passage("p1", "", "y")])
    with pytest.raises(InputError, match="given twice"):
        add_passages(index, [Passage("new", "", "x"), Passage("new", "", "y")])
    assert add_passages(index, [Passage("p1", "", "replaced")], replace=True).passages == 6
    assert ids("replaced") == ["p1"]
    assert delete_passages(index, ["d.txt"]).passages == 4
    assert ids("okapi") == []
    with pytest.raises(InputError, match=r"no passage or document 'd\.txt'"):
        delete_passages(index, ["p1", "d.txt"])
    with pytest.raises(InputError, match="nothing would be left"):
        delete_passages(index, ["p1", "p2", "p3", "p4"])
    assert delete_passages(index, ["p1", "p1"]).passages == 3
    assert open_index(index).manifest == delete_passages(index, [])
    for place, message in ((tmp_path / "missing", "no index"), (tmp_path, "not an index")):
        with pytest.raises(RetrievalError, match=message):
            add_passages(place, [Passage("a", "", "b")])
    assert not (tmp_path / "lock").exists()


def test_a_failure_while_adding_changes_nothing_and_frees_the_index(tmp_path, passages, monkeypatch):
    build_index(passages, tmp_path / "i")

    def failing(writer):
        raise ValueError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("keqa.retrievers.local.build._commit", failing)
        with pytest.raises(RetrievalError, match="disk full"):
            add_passages(tmp_path / "i", [Passage("new", "", "okapi")])
    assert open_index(tmp_path / "i").manifest.passages == 4
    assert add_passages(tmp_path / "i", [Passage("new", "", "okapi")]).passages == 5
