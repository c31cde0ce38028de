"""What every engine promises, one's own too: built, searched, changed, killed at each write, equal to a fresh build."""

import copy
import dataclasses
import inspect
import itertools
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import ClassVar
from unittest.mock import patch

import pytest
from fixtures.drawing import at_most
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.errors import ConfigurationError, InputError, RetrievalError
from keqa.retrievers import Hit, Manifest, Passage, Place, Retriever, build_dense, build_index, open_index, read_corpus
from keqa.retrievers.base import SharedRetriever, checked_k
from keqa.retrievers.caching import CachingRetriever, KeptHits
from keqa.retrievers.changing import add_files, remove_files, sync_folder
from keqa.retrievers.elasticsearch.writing import load_index
from keqa.retrievers.engines import ENGINES, Engine, engine_of, facts_of, register_engine
from keqa.retrievers.intake import PassageIntake
from keqa.retrievers.local.build import _note_checksums, verify
from keqa.retrievers.manifest import PlannedChange, manifest_after
from keqa.retrievers.text import settings_for
from keqa.retrievers.watching import WatchedRetriever

MODEL = "some/model"
SERVER = [pytest.mark.server, pytest.mark.xdist_group("elasticsearch")]
CLUSTER = pytest.param("elasticsearch", marks=SERVER)
EVERY = ["embedded", "dense", "hybrid", "own", CLUSTER, pytest.param("elasticsearch-dense", marks=SERVER)]
BM25 = ["embedded", CLUSTER]
QUESTIONS = ("zebra stripes", "okapi forest", "who painted the harbour", "quagga", "lighthouse lamp", "the")


class Shelf(SharedRetriever):
    """An engine of one's own: passages in memory, by the words that they share with a query."""

    shelves: ClassVar[dict[str, "Shelf"]] = {}

    def __init__(self, manifest, passages, files):
        self.manifest, self.passages, self._files = manifest, passages, files

    def search_many(self, queries, k=10):
        def hits(query):
            words = set(query.lower().split())
            for one in self.passages.values():
                yield Hit(one, float(len(words & set(one.rendered.lower().strip(".").split()))))

        ranked = (sorted(hits(query), key=lambda hit: (-hit.score, hit.passage.id)) for query in queries)
        return [[hit for hit in found if hit.score][: checked_k(k)] for found in ranked]


class ShelfChanger:
    def __init__(self, address):
        self.address, self.shelf = address, Shelf.shelves[address]
        self.manifest = self.shelf.manifest

    def files(self, tops=None):
        return {path: digest for path, (digest, _) in self.shelf._files.items()}

    def ids_of(self, path):
        return [one for one in self.shelf._files[path][1] if one in self.shelf.passages]

    def held(self, ids):
        return {one for one in ids if one in self.shelf.passages}

    def stored(self, ids):
        return {one: self.shelf.passages[one] for one in ids if one in self.shelf.passages}

    def pieces(self, document):
        return [one for one in self.shelf.passages if one.startswith(f"{document}#")]

    def apply(self, change):
        passages = {own: one for own, one in self.shelf.passages.items() if own not in change.gone}
        passages |= {one.id: one for one in change.new}
        files = self.shelf._files | {path: one and (one.digest, one.ids) for path, one in change.files.items()}
        self.manifest = manifest_after(self.manifest, change)
        kept = {path: one for path, one in files.items() if one}
        self.shelf = Shelf.shelves[self.address] = Shelf(self.manifest, passages, kept)
        return self.manifest


class ShelfEngine(Engine):
    name, title, retriever, schemes = "shelf", "shelf", "Shelf", ("shelf",)

    def open(self, address, model):
        return Shelf.shelves[address]

    def facts(self, address):
        shelf = Shelf.shelves[address]
        return {"files": {path: len({*ids} & shelf.passages.keys()) for path, (_, ids) in shelf._files.items()}}

    def build(self, passages, address, *, sources=(), notice=None):
        intake, kept, files = PassageIntake(passages), {}, {}
        for one in intake:
            kept[one.id] = one
            if intake.origin:
                files.setdefault(intake.origin.path, (intake.origin.digest, []))[1].append(one.id)
        entries = {**intake.entries(sources), "name": address, "created": "", "analyzer": settings_for("en")}
        Shelf.shelves[address] = Shelf(Manifest(**entries), kept, files)
        return Shelf.shelves[address].manifest

    def change(self, address, model):
        return nullcontext(ShelfChanger(address))


@pytest.fixture
def kind(request):
    return request.param


@pytest.fixture
def build(kind, request, library, tmp_path, monkeypatch):
    """Builds an index of an engine under a name, and gives the address by which it is searched."""
    if kind == "own":
        monkeypatch.setattr("keqa.retrievers.engines.ENGINES", dict(ENGINES))
        register_engine(ShelfEngine())
    on_server = kind.startswith("elastic") and request.getfixturevalue("elasticsearch_address")

    def build(passages, name="index", **options):
        place = f"{on_server}-{name}" if on_server else f"shelf://{name}" if kind == "own" else str(tmp_path / name)
        if kind == "own":
            ShelfEngine().build(passages, place, **options)
        elif kind in ("dense", "hybrid"):
            build_dense(passages, place, model=MODEL, **options)
        else:
            make = load_index if on_server else build_index
            make(passages, place, **({"model": MODEL} if "dense" in kind else {}), **options)
        made = {"dense": f"{place}@{MODEL}", "hybrid": f"{place}@{MODEL},bm25:{place}"}
        vectors = f"{place.replace('elasticsearch', 'elasticsearch+dense', 1)}@{MODEL}"
        return vectors if "-" in kind else made.get(kind, place)

    return build


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "documents"
    (folder / "sub").mkdir(parents=True)
    for number in range(12):
        (folder / f"animal{number}.txt").write_text(f"Zebra {number} has stripes and {'long ' * number} legs.")
    (folder / "harbour.md").write_text("# Harbour\n\nIda Holm painted the harbour in 1902.")
    (folder / "sub" / "okapi.txt").write_text("The okapi lives in the forest.")
    return folder


@pytest.fixture
def index(build, documents):
    return build(read_corpus([documents]), sources=[str(documents)])


def change(folder):
    """What a week does to a folder: changed, gone, new, moved."""
    (folder / "animal1.txt").write_text("The quagga has stripes on its front.")
    (folder / "animal2.txt").unlink()
    (folder / "lamp.txt").write_text("The lighthouse has a lamp.")
    (folder / "harbour.md").rename(folder / "sub" / "port.md")


def test_every_engine_of_the_package_is_asked_for_it():
    kinds = {one if isinstance(one, str) else one.values[0] for one in EVERY}
    assert {name for name, one in ENGINES.items() if type(one).__module__ == Engine.__module__} <= {*kinds, "documents"}


def ids(hits):
    return [hit.passage.id for hit in hits]


def rounded(lists):
    return [[(hit.passage, round(hit.score, 4)) for hit in hits] for hits in lists]


def answers(address):
    return rounded(open_index(address).search_many(QUESTIONS, 10))


def names(paths):
    return [path.rpartition("/")[2] for path in paths]


def files_of(address):
    return facts_of(address)[0]["files"]


@pytest.mark.parametrize("kind", EVERY, indirect=True)
def test_a_search_ranks_passages_and_returns_them_whole_and_a_cache_keeps_them(build, passages, tmp_path):
    place = Place("sub/Bericht ß.pdf", 3, "Ergebnisse", "2024-05-31")
    dirty = Passage("a\x00", None, "good \ud800text\x07", place)
    address = build([*passages, dirty])
    retriever = open_index(address)
    assert isinstance(retriever, Retriever)
    assert copy.deepcopy(retriever) is retriever
    assert (retriever.manifest.passages, retriever.manifest) == (5, open_index(address).manifest)
    hits = retriever.search("zebra stripes black and white", k=2)
    assert hits[0].passage == passages[3]
    assert all(one.score >= other.score > 0 for one, other in itertools.pairwise(hits))
    (found,) = retriever.search("good text", 1)
    assert (found.passage, found.passage.place) == (Passage("a", "", "good text"), place)
    queries = ["zebra stripes", "", "rock band", "?! …", "analytical engine", "zebra stripes"]
    many = retriever.search_many(queries, 2)
    assert rounded(many) == rounded(retriever.search(query, 2) for query in queries)
    assert (many[1], many[3], retriever.search_many([])) == ([], [], [])
    assert ids(retriever.search("zebra stripes", 10**12))[0] == "p4"
    assert ids(retriever.search("zebra \ud800\x00 stripes", 1)) == ["p4"]
    with pytest.raises(InputError, match="not 0"):
        retriever.search("zebra", k=0)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: retriever.search(query, 2), queries * 10)) == many * 10
    with CachingRetriever(retriever, tmp_path / "kept.sqlite") as cached:
        first, again = cached.search("zebra stripes", 2), cached.search("zebra stripes", 2)
        assert (first, isinstance(again, KeptHits)) == (list(again), True)


# Of vectors on a cluster, those that are looked at are chosen before they are put in order.
@pytest.mark.parametrize("kind", EVERY[:-1], indirect=True)
def test_equal_scores_are_ordered_by_id_at_every_k(build):
    retriever = open_index(build([Passage(f"{n:02}", "", "the same text") for n in reversed(range(20))]))
    for k in (1, 7, 20, 50):
        assert ids(retriever.search("text", k)) == [f"{n:02}" for n in range(min(k, 20))]


@pytest.mark.parametrize("kind", EVERY, indirect=True)
def test_a_repeated_id_gets_a_suffix_and_engines_agree_on_the_source(build, passages, tmp_path):
    given = [*passages, *(Passage(one, "", f"text {n}") for n, one in enumerate(["7", "7", "7~2", "7"]))]
    manifest = open_index(build(given, sources=["x.tsv"])).manifest
    plain = build_index(given, tmp_path / "plain")
    assert (manifest.passages, manifest.source_hash) == (8, plain.source_hash)
    part = manifest.parts[0] if hasattr(manifest, "parts") else manifest
    assert (part.renamed, part.sources) == (3, ("x.tsv",))


@pytest.mark.parametrize("kind", EVERY, indirect=True)
def test_an_index_in_step_is_as_one_that_was_built_again(documents, build, index):
    opened, before = open_index(index), answers(index)
    watched = WatchedRetriever(index, open_index(index))
    change(documents)
    done = sync_folder(index, documents)[0]
    assert names((*done.added, *done.changed, *done.removed)) == [
        *("lamp.txt", "port.md", "animal1.txt", "animal2.txt", "harbour.md")
    ]
    assert (done.unchanged, done.passages_added, done.passages_removed, done.passages) == (11, 3, 3, 14)
    again = build(read_corpus([documents]), "again", sources=[str(documents)])
    assert answers(index) == answers(again) != before
    assert files_of(index) == files_of(again)
    # Who opened the index before searches what was there then, until it is asked to look.
    assert rounded(opened.search_many(QUESTIONS, 10)) == before
    assert opened.manifest.source_hash != open_index(index).manifest.source_hash
    if not index.startswith("shelf"):
        with watched.one_state():
            assert watched.refresh()
            assert rounded(watched.search_many(QUESTIONS, 10)) == before
        assert rounded(watched.search_many(QUESTIONS, 10)) == answers(index)
        assert not watched.refresh()


@pytest.mark.parametrize("kind", EVERY, indirect=True)
def test_what_is_in_step_stays_as_it_is(documents, index):
    manifest = open_index(index).manifest
    for _ in range(2):
        done = sync_folder(index, documents)[0]
        assert (done.added, done.changed, done.removed, done.unchanged) == ((), (), (), 14)
    (documents / "harbour.md").touch()
    add_files(index, [documents / "harbour.md"])
    assert open_index(index).manifest == manifest
    # A file of which only white space changed keeps its passages.
    (documents / "harbour.md").write_text("# Harbour\n\n\nIda Holm   painted the harbour in 1902.\n")
    done = sync_folder(index, documents)[0]
    assert (names(done.changed), done.passages_added) == (["harbour.md"], 0)
    assert open_index(index).manifest.source_hash == manifest.source_hash
    assert sync_folder(index, documents)[0].unchanged == 14


@pytest.mark.parametrize("kind", EVERY, indirect=True)
def test_files_are_added_by_the_names_that_a_build_gives_them(tmp_path, documents, index):
    (documents / "sub" / "dodo.txt").write_text("The dodo is extinct.")
    (tmp_path / "other.txt").write_text("Another dodo.")
    done = add_files(index, [documents / "sub" / "dodo.txt", tmp_path / "other.txt"])[0]
    assert len(done.added) == 2
    found = open_index(index)
    assert {"other.txt#1", "sub/dodo.txt#1"} <= {*ids(found.search("dodo", 100))}
    manifest = found.manifest.parts[0] if hasattr(found.manifest, "parts") else found.manifest
    assert manifest.sources == (str(documents), str(tmp_path / "other.txt"))
    # The folder is in step; what is of another source stays.
    assert sync_folder(index, documents)[0].removed == ()


@pytest.mark.parametrize("kind", [one for one in EVERY if one != "hybrid"], indirect=True)
def test_files_folders_documents_and_passages_are_removed(documents, index):
    (done,) = remove_files(index, [documents / "sub", "harbour.md", "animal3.txt#1"])
    assert names(done.removed) == ["okapi.txt"]
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


@pytest.mark.parametrize("kind", [one for one in EVERY if one != "hybrid"], indirect=True)
def test_what_was_removed_by_a_killed_process_is_gone_for_the_same_command(documents, index):
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


@pytest.mark.parametrize("kind", EVERY, indirect=True)
def test_records_are_compared_one_by_one(tmp_path, build):
    records, others = tmp_path / "records.jsonl", tmp_path / "others.jsonl"
    lines = [{"id": f"r{number}", "title": "", "text": f"zebra{' striped' * number}"} for number in range(50)]
    lines.append({"id": "r0", "title": "", "text": "zebra of the same id"})
    records.write_text("\n".join(map(json.dumps, lines)))
    others.write_text(json.dumps({"id": "r0", "text": "another zebra"}))
    given = {"sources": [str(records), str(others)]}
    index = build(read_corpus([records, others]), **given)
    lines[7]["text"] = "quagga"
    records.write_text("\n".join(map(json.dumps, [*lines[:30], *lines[35:]])))
    done = sync_folder(index, records)[0]
    assert (done.passages_added, done.passages_removed, done.passages) == (1, 6, 47)
    assert answers(index) == answers(build(read_corpus([records, others]), "again", **given))
    # The ids of a file that was renamed are free for the same records.
    moved = records.rename(tmp_path / "moved.jsonl")
    add_files(index, [moved])
    assert "r7~2" in ids(open_index(index).search("quagga"))


@pytest.mark.parametrize("kind", EVERY, indirect=True)
def test_what_cannot_be_read_is_taken_out_and_named(documents, index):
    (documents / "harbour.md").write_bytes(b"\x00\x01\x02" * 100)
    done = sync_folder(index, documents)[0]
    assert names(done.removed) == ["harbour.md"]
    assert done.left_out.unread == {"binary": 1}
    (documents / "harbour.md").write_text("Readable again.")
    done = sync_folder(index, documents)[0]
    assert (len(done.added), bool(done.left_out)) == (1, False)
    (documents / "harbour.md").write_bytes(b"")
    assert names(add_files(index, [documents])[0].removed) == ["harbour.md"]
    # It is counted once, however often the rest of its folder is added.
    assert not any(part.get("left_out") for part in facts_of(index))


@pytest.mark.parametrize("kind", ["embedded"], indirect=True)
def test_a_single_path_is_one_name_and_not_its_characters(documents, build, monkeypatch):
    monkeypatch.chdir(documents)
    address = build(read_corpus("harbour.md"), sources=["harbour.md"])
    assert [one.added for one in add_files(address, "./animal1.txt")] == [(str(documents / "animal1.txt"),)]
    assert [one.added for one in add_files(address, documents / "animal2.txt")] == [(str(documents / "animal2.txt"),)]
    # As a sequence of characters this would begin with the folder that holds all of them.
    assert [one.removed for one in remove_files(address, "./animal1.txt")] == [(str(documents / "animal1.txt"),)]
    assert len(files_of(address)) == 2


@pytest.mark.parametrize("kind", ["embedded"], indirect=True)
def test_a_passage_knows_its_place_after_it_moved_and_under_another_id(tmp_path, build):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, text in ((one, "The first boat."), (other, "The second boat.")):
        folder.mkdir()
        (folder / "rules.md").write_text(f"# Fees\n\n{text}")
    index = build(read_corpus([one]), sources=[str(one)])
    add_files(index, [other])
    found = {hit.passage.id: hit.passage.place.heading for hit in open_index(index).search("boat")}
    assert found == {"rules.md#1": "Fees", "rules.md#1~2": "Fees"}
    (one / "rules.md").write_text("# Prices\n\nThe first boat.")
    sync_folder(index, one)
    assert open_index(index).search("first", 1)[0].passage.place.heading == "Prices"


@pytest.mark.parametrize("kind", ["embedded"], indirect=True)
def test_files_come_beside_passages_of_a_program_whose_languages_are_counted(documents, build, tmp_path):
    texts = {"a": "The harbour is old.", "b": "Der Hafen ist alt und liegt in der Stadt.", "c": "港口很旧。"}
    index = build([Passage(one, "", text) for one, text in texts.items()], language="en")
    assert add_files(index, [documents])[0].passages == 17
    (tmp_path / "ru.txt").write_text("Порт старый, и он не в городе.")
    add_files(index, [tmp_path / "ru.txt"])
    remove_files(index, ["b"])
    manifest = open_index(index).manifest
    assert (len(files_of(index)), manifest.languages) == (15, {"en": 15, "ru": 1, "zh": 1})
    assert ids(open_index(index).search("старые порты", 1)) == ["ru.txt#1"]


@pytest.mark.parametrize("kind", ["embedded"], indirect=True)
def test_the_bytes_that_were_read_are_reported(index, documents, tmp_path):
    records = tmp_path / "records.jsonl"
    change(documents)
    records.write_text("".join(json.dumps({"id": n, "text": f"A sentence about {n}."}) + "\n" for n in range(1000)))
    for done, named in ((sync_folder, documents), (add_files, [records, documents / "lamp.txt", records])):
        sizes = [path.stat().st_size for path in (documents.rglob("*.*") if named == documents else named[:2])]
        reported: list[tuple[int, int]] = []
        done(index, named, progress=lambda *now, reported=reported: reported.append(now))
        assert {total for _, total in reported} == {sum(sizes)}
        read = [done for done, _ in reported]
        assert (read[0], read[-1], read) == (0, sum(sizes), sorted(read))
        # With each file, unchanged ones too; of many records now and then.
        assert len(set(read)) >= (len(sizes) if named == documents else 10)


@pytest.mark.parametrize("kind", ["embedded"], indirect=True)
def test_a_large_index_is_written_anew_when_a_hundredth_was_deleted(build, monkeypatch):
    monkeypatch.setattr("keqa.retrievers.manifest._SMALL", 100)
    index = build([Passage(str(number), "", f"word w{number % 7}") for number in range(400)])
    for gone, deleted in ((["1", "2", "3"], 3), (["4"], 0)):
        remove_files(index, gone)
        assert open_index(index).manifest.deleted == deleted
    again = build([Passage(str(n), "", f"word w{n % 7}") for n in (0, *range(5, 400))], "again")
    found = [open_index(name).search("word w3", 400) for name in (index, again)]
    assert (found[0], len(found[0])) == (found[1], 396)


@pytest.mark.parametrize("kind", ["embedded"], indirect=True)
def test_what_a_killed_process_did_not_commit_is_in_nobodys_way(tmp_path, index, monkeypatch):
    """Killed after its list of deleted passages was written, which the next process would write under the same name."""
    monkeypatch.setattr("keqa.retrievers.manifest._SMALL", 0)
    monkeypatch.setattr("keqa.retrievers.manifest._MOST_DELETED", 1)
    data, lost = tmp_path / "index" / "data", tmp_path / "lost"
    shutil.copytree(index, lost)
    remove_files(lost, ["harbour.md"])
    (written,) = (lost / "data").glob("*.del")
    for name in (written.name, ".managed.json"):
        shutil.copy(written.parent / name, data)
    assert remove_files(index, ["harbour.md"])[0].passages == 13
    assert answers(index) == answers(lost)


@pytest.mark.parametrize("kind", ["embedded"], indirect=True)
def test_a_failure_while_adding_changes_nothing_and_frees_the_index(index, tmp_path):
    (tmp_path / "new.txt").write_text("A new okapi.")
    failing = patch("keqa.retrievers.local.build._commit", side_effect=ValueError("disk full"))
    with failing, pytest.raises(RetrievalError, match="disk full"):
        add_files(index, tmp_path / "new.txt")
    assert open_index(index).manifest.passages == 14
    assert add_files(index, tmp_path / "new.txt")[0].passages == 15


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
@pytest.mark.process
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("kind", ["embedded", "dense"], indirect=True)
def test_killed_at_each_write_while_an_index_is_brought_in_step(
    tmp_path, documents, build, index, other_process, large
):
    before = answers(index)
    change(documents)
    again = build(read_corpus([documents]), "again", sources=[str(documents)])
    after = answers(again)
    code = DYING
    if large:
        # Deleted passages stay until they are many, and count in scores.
        code = f"import keqa.retrievers.manifest as one\none._SMALL, one._MOST_DELETED = 0, 1\n{DYING}"
    sides = [[sorted(str(hit) for hit, _ in hits) for hits in one] for one in (before, after)]
    folder = index.partition("@")[0]
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
        assert files_of(index) == files_of(again)
        assert facts_of(index, verify=True)[0]["checksums"]["unknown"] == ()
        assert sync_folder(index, documents)[0].unchanged == 14
    assert write > 6


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", ["clone", "write", "verify", "publish"])
@pytest.mark.parametrize("kind", [CLUSTER], indirect=True)
def test_killed_while_an_index_on_a_cluster_is_brought_in_step(documents, build, index, killed, point, when):
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
    again = build(read_corpus([documents]), "again", sources=[str(documents)])
    assert answers(index) == (answers(again) if (point, when) == ("publish", "after") else before)
    sync_folder(index, documents)
    assert (answers(index), files_of(index)) == (answers(again), files_of(again))


@pytest.mark.parametrize("kind", [CLUSTER], indirect=True)
def test_of_two_changes_of_an_index_on_a_cluster_the_first_counts(index):
    with engine_of(index)[0].change(index, None) as changer:
        remove_files(index, ["harbour.md"])
        with pytest.raises(RetrievalError):
            changer.apply(PlannedChange(gone=["sub/okapi.txt#1"]))
    assert open_index(index).search("okapi")
    assert not open_index(index).search("harbour")


VECTORS = ["dense", pytest.param("elasticsearch-dense", marks=SERVER)]


@pytest.mark.parametrize("kind", VECTORS, indirect=True)
def test_only_what_is_new_is_encoded(library, documents, index):
    library.CALLS.clear()
    remove_files(index, [documents / "animal3.txt", "animal4.txt#1"])
    assert library.CALLS == []
    (documents / "animal6.txt").write_text("quagga")
    add_files(index, [documents / "animal6.txt"])
    # One other text shows whether the model is the one of before.
    encoded = [text for _, _, texts in library.CALLS for text in texts]
    assert (len(encoded), encoded[-1]) == (2, "animal6: quagga")


@pytest.mark.parametrize("kind", VECTORS, indirect=True)
def test_a_model_must_be_named_and_be_the_one_of_before_and_text_alone_is_not_changed(documents, index):
    (documents / "animal6.txt").write_text("quagga")
    place = index.partition("@")[0]
    with pytest.raises(ConfigurationError, match=r"passages are encoded by the model 'some/model'.*where you name it"):
        sync_folder(place, documents)
    with pytest.raises(RetrievalError, match="does not give the vectors"):
        sync_folder(f"{place}@other/model", documents)
    words = place.replace("+dense", "") if "://" in place else f"bm25:{place}"
    for address in (words, f"{words},{index}"):
        with pytest.raises(ConfigurationError, match=r"has vectors, which change with its text: change it as "):
            sync_folder(address, documents)
    assert ids(open_index(index).search("quagga", 1)) != ["animal6.txt#1"]
    with pytest.raises(ConfigurationError, match="opened only where you name it") as unnamed:
        open_index(place)
    assert f"write the index as {place}@{MODEL} " in str(unnamed.value)
    with pytest.raises(RetrievalError, match=r"'other/model' is not the one that the index in .* was built with"):
        open_index(f"{place}@other/model")
    (facts,) = facts_of(place)
    assert (facts["encoder"]["model"], facts["passages"], "probe" in facts) == (MODEL, 14, False)
    assert open_index(place, model=MODEL).search("Zebra 6", 1) == open_index(index).search("Zebra 6", 1)
    assert len(sync_folder(place, documents, model=MODEL)[0].changed) == 1
    assert ids(open_index(index).search("animal6: quagga", 1)) == ["animal6.txt#1"]


def test_a_change_takes_no_damage_for_what_was_written(tmp_path):
    def written(stamp, **files):
        files["meta.json"] = f'{{"opstamp": {stamp}}}'
        for name, text in files.items():
            (tmp_path / "data" / name).write_text(text)
        _note_checksums(tmp_path / "data")
        return verify(tmp_path)["damaged"]

    (tmp_path / "data").mkdir()
    assert written(1, **{"one.store": "abc", "v.rows": "abc"}) == ()
    # Without a commit nothing was written again, and after one what is only ever written once was not.
    assert written(1, **{"one.store": "abd", "v.rows": "abd"}) == ("one.store", "v.rows")
    assert written(2, **{"v.keys": "a"}) == ("one.store",)
    assert written(2, **{"v.keys": "ab", "one.store": "abc"}) == ()
    # What was added is of the whole.
    assert written(2, **{"v.keys": "ac"}) == ("v.keys",)


@pytest.mark.parametrize("kind", ["dense"], indirect=True)
def test_vectors_of_no_passage_are_passed_over_until_they_are_thrown_away(build, monkeypatch):
    monkeypatch.setattr("keqa.retrievers.local.dense._SPARE", 0)
    names = [f"p{number}" for number in range(9)]
    index = build([Passage(name, "", f"zebra {name}") for name in names], sources=["zoo"])
    for unused, gone, rows in ((100, ("p0", "p1", "p2", "p3", "p4", "p5"), 9), (0, ("p6",), 2)):
        monkeypatch.setattr("keqa.retrievers.local.dense._UNUSED", unused)
        remove_files(index, gone)
        retriever, names = open_index(index), [name for name in names if name not in gone]
        assert {*ids(retriever.search("zebra p3", 9))} == {*names}
        manifest = retriever.manifest
        assert (manifest.rows, manifest.removed, manifest.sources) == (rows, gone, ("zoo",))


@pytest.mark.slow
@pytest.mark.parametrize("flat_limit", [100, 4])
@pytest.mark.parametrize("kind", ["dense"], indirect=True)
def test_weeks_of_changes_of_vectors_end_in_what_a_build_gives(build, tmp_path, documents, monkeypatch, flat_limit):
    monkeypatch.setattr("keqa.retrievers.local.dense._UNUSED", 0)
    monkeypatch.setattr("keqa.retrievers.local.dense.FLAT_LIMIT", 2)
    given = {"sources": [str(documents)]}
    index = build(read_corpus([documents]), flat_limit=flat_limit, **given)
    stores = set()
    for week in range(5):
        (documents / f"animal{week}.txt").write_text(f"quagga of week {week} in a town")
        (documents / f"animal{week + 6}.txt").unlink()
        (documents / f"new{week}.txt").write_text(f"okapi number {week} of {week}")
        sync_folder(index, documents)
        stores.add(open_index(index).manifest.data)
        again = build(read_corpus([documents]), f"again{week}", **given)
        if flat_limit == 100:
            assert [*map(set, answers(index))] == [*map(set, answers(again))]
        assert ids(open_index(index).search(f"animal{week}: quagga of week {week} in a town", 1)) == [
            f"animal{week}.txt#1"
        ]
        assert len(list((tmp_path / "index" / "data").glob("vectors-*.keys"))) == 1
    # What no passage needs any more was thrown away, and what was added went into the lists.
    assert len(stores) > 1
    assert {f"new{week}.txt#1" for week in range(5)} <= {*ids(open_index(index).search("okapi", 100))}


@pytest.mark.parametrize("kind", BM25, indirect=True)
def test_words_weigh_as_bm25_says_and_any_text_is_a_question(build, passages):
    words = ("alpha", "beta")
    hits = open_index(build([Passage(a, a, b) for a, b in (words, words[::-1])], "two")).search("alpha")
    assert (ids(hits), hits[1].score) == (["beta", "alpha"], pytest.approx(hits[0].score / 2))
    retriever = open_index(build(passages))
    assert retriever.search("zebra zebra Zebras") == retriever.search("zebra")
    assert [ids(retriever.search(query, 1)) for query in ("The Who", 'Who said "zebra…? title:x^2')] == [["p3"], ["p4"]]
    # Where no passage has a word of a query, its words may be mistyped.
    mistyped = ("of zebar and strpies", "zera", "zebbrra", "zebar quarkk violette")
    assert [ids(hits) for hits in retriever.search_many(mistyped)] == [["p4"], [], [], []]
    for more in ("stripes ? OR (" * 10_000, " ".join(f"w{n}" for n in range(20_000))):
        assert ids(retriever.search(f"zebra {more}", 1)) == ["p4"]

    @settings(max_examples=at_most(50), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(st.text(st.characters(exclude_categories=())))
    def searched(query):
        assert len(retriever.search(query)) <= 4

    searched()


@pytest.mark.parametrize("kind", BM25, indirect=True)
def test_chinese_is_detected_and_found_also_in_an_english_index(build):
    texts = {"1": "北京是中国的首都。", "2": "斑马有黑白条纹。", "3": "iPhone 由苹果设计"}
    chinese = open_index(build([Passage(one, "北京" if one == "1" else "", text) for one, text in texts.items()]))
    assert chinese.manifest.language == "zh"
    queries = ("中国的首都是哪里？", "什么动物有条纹", "谁设计了IPHONE")
    assert [ids(hits) for hits in chinese.search_many(queries, 1)] == [["1"], ["2"], ["3"]]
    notices = []
    given = [Passage("1", "", "English."), Passage("2", "", texts["1"])]
    english = open_index(build(given, "english", language="en", notice=notices.append))
    assert notices == ["languages of the passages: English 1, Chinese 1"]
    assert english.manifest.languages == {"en": 1, "zh": 1}
    assert ids(english.search(queries[0])) == ["2"]


@pytest.mark.parametrize("kind", ["embedded"], indirect=True)
def test_an_index_in_german_finds_what_is_written_otherwise(build):
    texts = ["Die Straße ist nach den Gebrüdern Müller benannt und wurde für sie gebaut.", "Das Schloß ist alt."]
    found = open_index(build(map(str, texts)))
    assert found.manifest.language == "de"
    queries = ("strasse mullers", "Wem gehört das Schloss?")
    assert [found.search(query)[0].passage.text for query in queries] == texts


def test_every_option_is_one_that_the_builder_takes():
    builders = {"embedded": build_index, "dense": build_dense, "elasticsearch": load_index}
    for name, builder in builders.items():
        takes = dict(inspect.signature(builder).parameters)
        if "options" in takes:
            takes |= inspect.signature(build_dense).parameters
        engine, shared = ENGINES[name], {"sources", "overwrite", "progress", "notice"}
        assert {option.name for option in engine.options if not option.locates} | shared <= set(takes)
        assert all(option.help and option.name not in shared for option in engine.options)


def test_a_place_makes_no_other_passage_and_another_source(tmp_path):
    passage = Passage("a", "T", "the harbour wall", Place("a.pdf", 3))
    moved = dataclasses.replace(passage, place=Place("other.pdf"))
    given = (passage, moved, dataclasses.replace(moved, place=Place()))
    assert moved == passage
    assert len({build_index([one], tmp_path / "i").source_hash for one in given}) == 3
