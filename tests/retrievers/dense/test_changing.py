"""A dense index that follows its files: the same as one that was built again, whatever was changed before."""

import numpy as np
import pytest

from keqa.errors import ConfigurationError, RetrievalError
from keqa.retrievers import DenseManifest, Passage, build_dense, open_index, read_corpus
from keqa.retrievers.changing import add_files, remove_files, sync_folder
from keqa.retrievers.dense import changing
from keqa.retrievers.dense.changed import Changed
from keqa.retrievers.dense.passages import PassageFile, write_passages
from keqa.retrievers.engines import facts_of
from keqa.retrievers.files import FileTable

MODEL = "some/model"
QUESTIONS = ("word3 of 3", "word17", "quagga in town", "nothing of it", "okapi")


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    for number in range(40):
        (folder / f"d{number:02}.txt").write_text(f"word{number} of {number % 7} and more{number % 3}")
    return folder


def built(folder, documents, **options):
    build_dense(read_corpus([documents]), folder, model=MODEL, sources=[str(documents)], **options)
    return f"{folder}@{MODEL}"


def change(documents, week):
    (documents / f"d{week:02}.txt").write_text(f"quagga of week {week} in a town")
    (documents / f"d{week + 20:02}.txt").unlink()
    (documents / f"new{week}.txt").write_text(f"okapi number {week} of {week}")
    if week:
        (documents / f"new{week - 1}.txt").unlink()


def answers(address, k=10):
    found = open_index(address).search_many(QUESTIONS, k)
    return [[(round(hit.score, 4), hit.passage) for hit in hits] for hits in found]


def alike(one, other):
    """Whether scores agree in their order, and passages but where the last ones score the same."""
    for ours, theirs in zip(one, other, strict=True):
        assert [score for score, _ in ours] == pytest.approx([score for score, _ in theirs], abs=1e-4)
        last = ours[-1][0] + 2e-4
        assert {hit for hit in ours if hit[0] > last} == {hit for hit in theirs if hit[0] > last}


@pytest.mark.slow
def test_weeks_of_changes_end_in_what_a_build_gives(library, tmp_path, documents):
    index = built(tmp_path / "index", documents)
    opened, before = open_index(index), answers(index)
    for week in range(5):
        change(documents, week)
        (done,) = sync_folder(index, documents)
        assert (len(done.added), len(done.changed), len(done.removed)) == (1, 1, 2 if week else 1)
        again = built(tmp_path / f"again{week}", documents)
        for k in (1, 10, 100):
            alike(answers(index, k), answers(again, k))
        assert facts_of(index)[0]["files"] == facts_of(again)[0]["files"]
    assert [[(round(hit.score, 4), hit.passage) for hit in hits] for hits in opened.search_many(QUESTIONS)] == before
    assert opened.manifest.source_hash != opened.reload().source_hash
    assert sync_folder(index, documents)[0].unchanged == done.passages


@pytest.mark.slow
def test_lists_of_vectors_follow_too(library, tmp_path, documents):
    index = built(tmp_path / "index", documents, flat_limit=10)
    change(documents, 0)
    sync_folder(index, documents)
    found = {hit.passage.id for hit in open_index(index).search("quagga in town", 100)}
    assert {"d00.txt#1", "new0.txt#1"} <= found
    assert "d20.txt#1" not in found


def test_only_what_is_new_is_encoded(library, tmp_path, documents):
    index = built(tmp_path / "index", documents)
    library.CALLS.clear()
    remove_files(index, [documents / "d03.txt", "d04.txt#1", "d05.txt"])
    assert library.CALLS == []
    (documents / "d06.txt").write_text("quagga")
    add_files(index, [documents / "d06.txt"])
    # One that is there is encoded to see that the model is the one of before.
    assert [texts for _, _, texts in library.CALLS] == [["d00: word0 of 0 and more0"], ["d06: quagga"]]
    assert open_index(index).manifest.passages == 37


def test_a_model_must_be_named_and_be_the_one_of_before(library, tmp_path, documents):
    index = built(tmp_path / "index", documents)
    (documents / "d06.txt").write_text("quagga")
    with pytest.raises(ConfigurationError, match="passages are encoded by the model 'some/model'"):
        sync_folder(tmp_path / "index", documents)
    with pytest.raises(RetrievalError, match="does not give the vectors"):
        sync_folder(f"{tmp_path / 'index'}@another/model", documents)
    assert len(sync_folder(tmp_path / "index", documents, model=MODEL)[0].changed) == 1
    assert open_index(index).manifest.passages == 40


def test_an_index_of_an_earlier_version_has_no_ids(library, tmp_path):
    manifest = build_dense([Passage(f"p{n}", "", f"word{n}") for n in range(5)], tmp_path / "index", model=MODEL)
    (tmp_path / "index" / manifest.data / "ids.npy").unlink()
    assert remove_files(f"{tmp_path / 'index'}@{MODEL}", ["p3"])[0].passages == 4


class Killed(BaseException):
    pass


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("home", "name"),
    [
        (Changed, "write"),
        (FileTable, "announce"),
        (changing, "write_atomically"),
        (FileTable, "settle"),
        (Changed, "remove_others"),
    ],
)
def test_ended_at_any_point(library, tmp_path, documents, monkeypatch, home, name, after):
    index = built(tmp_path / "index", documents)
    before = answers(index)
    change(documents, 0)
    again = answers(built(tmp_path / "again", documents))
    real, seen = getattr(home, name), []

    def ending(*given):
        seen.append(1)
        # The first call is of what an earlier process left.
        if name in ("settle", "remove_others") and len(seen) == 1:
            return real(*given)
        if after:
            real(*given)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(home, name, ending)
        with pytest.raises(Killed):
            sync_folder(index, documents)
    try:
        alike(answers(index), before)
    except AssertionError:
        alike(answers(index), again)
    assert sum(facts_of(index)[0]["files"].values()) == open_index(index).manifest.passages
    sync_folder(index, documents)
    alike(answers(index), again)
    assert sync_folder(index, documents)[0].unchanged == 40
    data = tmp_path / "index" / DenseManifest.read(tmp_path / "index").data
    assert len({file.name.partition("-")[0] for file in data.iterdir() if "-" in file.name}) == 1


def test_what_was_changed_is_checked(library, tmp_path, documents):
    index = built(tmp_path / "index", documents)
    change(documents, 0)
    sync_folder(index, documents)
    manifest = DenseManifest.read(tmp_path / "index")
    gone = tmp_path / "index" / manifest.data / f"{manifest.change}-gone.npy"
    for rows in ([5, 3], [-1], [40], [[1]]):
        np.save(gone, np.array(rows, np.int64))
        with pytest.raises(RetrievalError, match="not whole"):
            open_index(index)
    gone.unlink()
    with pytest.raises(RetrievalError, match="what was changed"):
        open_index(index)
    text = (tmp_path / "index" / "manifest.json").read_text()
    (tmp_path / "index" / "manifest.json").write_text(text.replace(manifest.change, "../../../etc"))
    with pytest.raises(RetrievalError, match="hexadecimal digits"):
        open_index(index)


def test_rows_are_found_by_id(tmp_path):
    write_passages(tmp_path, [Passage(f"p{n}", "", "x") for n in range(100)])
    assert PassageFile(tmp_path).rows_of(["p7", "unknown", "p99"]) == {"p7": 7, "p99": 99}
    write_passages(tmp_path, [], "none-")
    assert PassageFile(tmp_path, "none-").rows_of(["p7"]) == {}
