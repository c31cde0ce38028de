import errno
import itertools
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from keqa.errors import ConfigurationError, InputError, KeqaError, RetrievalError
from keqa.retrievers import DenseManifest, DenseRetriever, Passage, build_dense, build_index, open_index
from keqa.retrievers.layout import exclusive

pytestmark = pytest.mark.process

CODE = """
import sys
from keqa.retrievers import Passage, build_dense
passages = [Passage(str(n), f"Title {n}", f"word{n} of {n % 7}") for n in range(50)]
build_dense(passages, sys.argv[1], model="some/model", shard=10, flat_limit=int(sys.argv[2]))
"""


def passages(count=50):
    return [Passage(str(n), f"Title {n}", f"word{n} of {n % 7}") for n in range(count)]


def built(folder, given=None, **settings):
    reported, progress = [], []
    manifest = build_dense(
        passages() if given is None else given,
        folder,
        **{"model": "some/model", "shard": 10} | settings,
        notice=reported.append,
        progress=lambda done, of: progress.append((done, of)),
    )
    return manifest, reported, progress


def files(folder):
    data = folder / DenseManifest.read(folder).data
    # Among the checksums is that of the manifest, which has the time in it.
    return {file.name: file.read_bytes() for file in data.iterdir() if file.name != "checksums.json"}


def test_progress_is_reported_and_the_manifest_says_all(library, tmp_path):
    manifest, reported, progress = built(tmp_path / "i", sources=["corpus.jsonl"], name="words")
    assert (reported, progress[0], progress[-1]) == ([], (0, 50), (50, 50))
    assert (manifest.name, manifest.passages, manifest.sources) == ("words", 50, ("corpus.jsonl",))
    assert DenseManifest.from_json(manifest.to_json(), "x") == manifest
    embedded = build_index(passages(), tmp_path / "embedded")
    assert manifest.source_hash == embedded.source_hash
    assert sorted(entry.name for entry in (tmp_path / "i").iterdir()) == sorted(
        [manifest.data, "lock", "manifest.json"]
    )


@pytest.mark.parametrize("flat_limit", [100, 10])
@pytest.mark.parametrize("killed_after", [5, 6])
def test_a_build_that_is_killed_resumes_and_ends_in_the_same(
    library, tmp_path, other_process, killed_after, flat_limit
):
    # The first two calls find out the length of vectors, the third identifies the model; then each shard is one.
    done = other_process(CODE, killed_after, tmp_path / "i", flat_limit)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with pytest.raises(RetrievalError, match="not finished"):
        open_index(tmp_path / "i", model="some/model")
    library.CALLS.clear()
    _, reported, progress = built(tmp_path / "i", flat_limit=flat_limit)
    assert progress[0] == ((killed_after - 3) * 10, 50)
    assert ["resuming it" in one for one in reported] == [True]
    encoded = [text for _, _, texts in library.CALLS[3:-1] for text in texts]
    assert sorted(encoded) == sorted(f"{p.title}: {p.text}" for p in passages()[(killed_after - 3) * 10 :])
    built(tmp_path / "whole", flat_limit=flat_limit)
    assert files(tmp_path / "i") == files(tmp_path / "whole")
    assert not (tmp_path / "i" / "building.json").exists()


def test_a_model_in_a_folder_is_found_from_every_directory(library, monkeypatch, tmp_path, other_process):
    begin = library.SentenceTransformer.__init__

    def opening(self, name):
        assert Path(name).is_dir()
        begin(self, str(Path(name).resolve()))

    monkeypatch.setattr(library.SentenceTransformer, "__init__", opening)
    for folder in ("some/model", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert other_process(CODE, 5, "i", 100).returncode == -signal.SIGKILL
    monkeypatch.chdir("elsewhere")
    manifest, reported, progress = built(tmp_path / "i", model="../some/model")
    assert ["resuming it" in one for one in reported] == [True]
    assert progress[0] == (20, 50)
    assert manifest.encoder.model == manifest.encoder.query_model == str(tmp_path / "some/model")
    monkeypatch.chdir(tmp_path.parent)
    assert len(open_index(tmp_path / "i", model=str(tmp_path / "some/model")).search("word3")) == 10


@pytest.mark.parametrize("change", ["passages", "settings", "model"])
def test_shards_of_others_are_not_resumed(library, monkeypatch, tmp_path, other_process, change):
    other_process(CODE, 5, tmp_path / "i", 100)
    if change == "model":
        # A folder may hold another model by now.
        begin = library.SentenceTransformer.__init__
        monkeypatch.setattr(library.SentenceTransformer, "__init__", lambda self, name: begin(self, f"{name}-2"))
    changed = {"query_prefix": "q: "} if change == "settings" else {}
    _, reported, progress = built(tmp_path / "i", passages(49) if change == "passages" else None, **changed)
    assert progress[0][0] == 0
    assert ["building again" in one for one in reported] == [True]
    assert len(list((tmp_path / "i").glob("data-*"))) == 1


def test_shards_outlive_a_failure_and_a_corpus_that_cannot_be_read(library, tmp_path, monkeypatch):
    encode, calls = library.SentenceTransformer.encode_document, []

    def failing(self, texts, **settings):
        calls.append(texts)
        if len(calls) == 4:
            raise RuntimeError("out of memory")
        return encode(self, texts, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(library.SentenceTransformer, "encode_document", failing)
        with pytest.raises(RetrievalError, match="'some/model' failed: out of memory"):
            built(tmp_path / "i")
    with pytest.raises(InputError, match="has no id"):
        built(tmp_path / "i", [*passages(3), Passage("", "", "x")])
    _, reported, progress = built(tmp_path / "i")
    assert (progress[0], len(reported)) == ((20, 50), 1)


@pytest.mark.parametrize(("owner", "write"), [(os, "fsync"), (Path, "mkdir"), (np, "save")])
@pytest.mark.parametrize("engine", ["embedded", "dense"])
def test_a_full_disk_is_reported_whatever_finds_it_full(library, tmp_path, monkeypatch, engine, owner, write):
    failures, real = [], getattr(owner, write)

    def filling(*args, **settings):
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **settings)

    monkeypatch.setattr(owner, write, filling)
    for after in itertools.count(1):
        left = after
        try:
            build_index(passages(), tmp_path / "i") if engine == "embedded" else built(tmp_path / "i")
        except KeqaError as error:
            failures.append(str(error))
        if left > 0:
            break
    assert ["No space left on device" in failure for failure in failures] == [True] * (after - 1)
    assert open_index(tmp_path / "i", model="some/model").manifest.passages == 50


def test_a_full_disk_says_what_to_do(library, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    message = r"building\.json cannot be written: .*; free space and run the same again$"
    with pytest.raises(RetrievalError, match=message):
        built(tmp_path / "i")
    assert not (tmp_path / "i").exists()


def test_the_old_index_answers_until_the_new_one_is_there(library, tmp_path, other_process):
    old, _, _ = built(tmp_path / "i", passages(5))
    retriever = DenseRetriever.open(tmp_path / "i", "some/model")
    other_process(CODE, 5, tmp_path / "i", 100)
    assert open_index(tmp_path / "i", model="some/model").manifest == old
    new, _, _ = built(tmp_path / "i")
    assert len(retriever.search("word3", 100)) == 5
    assert retriever.reload() == new
    assert len(retriever.search("word3", 100)) == 50
    assert new.data != old.data


def test_engines_take_each_others_place(library, tmp_path):
    build_index(passages(), tmp_path / "i")
    built(tmp_path / "i")
    assert type(open_index(tmp_path / "i", model="some/model")).__name__ == "DenseRetriever"
    build_index(passages(), tmp_path / "i")
    assert type(open_index(tmp_path / "i", model="some/model")).__name__ == "TantivyRetriever"
    assert len(list((tmp_path / "i").glob("data-*"))) == 1


def test_what_cannot_be_built_is_refused_and_leaves_nothing(library, tmp_path):
    with pytest.raises(InputError, match="corpus is empty"):
        built(tmp_path / "i", [])
    with pytest.raises(ConfigurationError, match="absent/model"):
        built(tmp_path / "i", model="absent/model")
    with pytest.raises(InputError, match="at least one passage"):
        built(tmp_path / "i", shard=0)
    assert not (tmp_path / "i").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="not an index"):
        built(tmp_path / "mine")


def test_two_builds_at_once_are_refused(library, tmp_path):
    built(tmp_path / "i")
    with exclusive(tmp_path / "i"), pytest.raises(RetrievalError, match="another process"):
        built(tmp_path / "i")


def test_repeated_ids_get_a_suffix_as_in_every_index(library, tmp_path):
    manifest, reported, _ = built(tmp_path / "i", [Passage("7", "", "a"), Passage("7", "", "b")])
    assert manifest.renamed == 1
    assert "got a suffix" in reported[0]
    assert {hit.passage.id for hit in open_index(tmp_path / "i", model="some/model").search("a")} == {"7", "7~2"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engine": "abacus"}, "engine abacus, which this version does not know"),
        ({"passages": "50"}, "passages must be int"),
        ({"encoder": {"model": "m"}}, "incomplete"),
        ({"data": "../elsewhere"}, "must name a folder inside"),
        ({"schema_version": 99}, "schema version 99"),
        ({"passages": 51}, "not complete"),
    ],
)
def test_a_manifest_that_is_not_true_is_refused(library, tmp_path, change, message):
    built(tmp_path / "i")
    path = tmp_path / "i" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RetrievalError, match=message):
        open_index(tmp_path / "i", model="some/model")
