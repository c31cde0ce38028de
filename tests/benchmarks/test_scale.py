import json

import pytest
import scale
import scaled
from servers.elasticsearch import AlteringServer, version_reply

from keqa.retrievers import elasticsearch
from keqa.retrievers.elasticsearch.client import connect, parse_address
from keqa.retrievers.stopwords import ENGLISH

pytestmark = pytest.mark.process


@pytest.fixture
def made(tmp_path):
    path = tmp_path / "made.tsv"
    scaled.write_corpus(path, 1500, words=3000)
    return path


def test_made_passages_are_the_same_each_time_and_as_many_as_asked_for(tmp_path, made):
    scaled.write_corpus(tmp_path / "again.tsv", 1500, words=3000)
    assert (tmp_path / "again.tsv").read_bytes() == made.read_bytes()
    passages = list(scaled.read_made(made))
    assert [passage.id for passage in passages] == [str(number) for number in range(1500)]
    lengths = [len(passage.text.split()) for passage in passages]
    assert (min(lengths), max(lengths)) == (80, 120)
    words = scaled.vocabulary(3000)
    running = [word for passage in passages for word in passage.text.split()]
    shares = [running.count(words[rank]) / len(running) for rank in (0, 7)]
    # 1 / (0 + 2.7) over 1 / (7 + 2.7)
    assert shares[0] / shares[1] == pytest.approx(9.7 / 2.7, rel=0.1)


def test_questions_have_five_content_words_of_a_passage(made):
    content, natural = scaled.questions(made, 30)
    assert (content, natural) == scaled.questions(made, 30)
    passages = [set(passage.text.split()) for passage in scaled.read_made(made)]
    for query, question in zip(content, natural, strict=True):
        words, asked = set(query.split()), question.rstrip("?").lower().split()
        assert (len(words), words & ENGLISH) == (5, set())
        assert any(words <= passage for passage in passages)
        assert (len(asked), sum(word in ENGLISH for word in asked), words - set(asked)) == (10, 5, set())


def figures(number):
    return {"number": number}


def test_a_step_is_done_once_and_its_figures_are_kept(tmp_path):
    path = tmp_path / "results.jsonl"
    done = scale.Steps(path).run("one", 10, figures, 1)
    assert done["number"] == 1
    assert done["peak_mb"] > 1
    # A run that was killed while it wrote.
    path.write_text(path.read_text() + '{"step": "two", "pas')
    again = scale.Steps(path)
    # The very CPU seconds of the first time.
    assert again.run("one", 10, figures, 1) == done
    assert again.run("one", 20, figures, 3)["number"] == 3
    assert set(scale.Steps(path).done) == {("one", 10), ("one", 20)}
    # Asked for otherwise, it is done again.
    assert again.run("one", 10, figures, 2)["number"] == 2
    # What is divided is measured together.
    again.together(20, "one")
    assert len(again.done) == 2
    again.together(20, "one", "two")
    assert set(again.done) == {("one", 10)}


def test_extrapolation_is_in_proportion_and_leaves_memory_out():
    line = scale.Line("engine", 1_000_000, {"build_s": 60.0, "disk_mb": 700.0, "peak_mb": 500.0, "kw_p50": 0.4})
    grown = line.at(scale.WIKIPEDIA)
    assert grown.figures == pytest.approx({"build_s": 1260.92, "disk_mb": 14710.73, "kw_p50": 8.40613})
    assert grown.row()[1:5] == ["21,015,324", "1,260.9", "16,667", "14,711"]
    assert grown.row()[5] == ""


def test_targets_compare_with_the_raw_calls_of_the_same_run():
    ours = {"build_s": 90.0, "peak_mb": 1600.0, "kw_p50": 0.5}
    met = scale.targets(ours, {"build_s": 60.0, "peak_mb": 500.0, "kw_p50": 0.2})
    assert [(target.value, target.met) for target in met] == [(1.5, True), (1600.0, False), (2.5, False)]
    assert str(met[1]) == "peak memory of the build: 1,600.00 MB (target: at most 1,500.00 MB): MISSED"


def test_the_embedded_part_on_few_passages(tmp_path, capsys):
    arguments = ["--part", "embedded", "--passages", "300", "--queries", "20", "--work", str(tmp_path)]
    scale.main(arguments)
    printed = capsys.readouterr().out
    assert "raw Tantivy calls" in printed
    assert "21,015,324" in printed
    kept = (tmp_path / "results.jsonl").read_text()
    rows = [json.loads(line) for line in kept.splitlines() if line]
    assert [row["step"] for row in rows] == ["corpus", "embedded build", "raw build", "embedded search"]
    assert rows[1]["found"] == rows[2]["found"] == 300
    scale.main(arguments)
    assert (tmp_path / "results.jsonl").read_text() == kept


def test_a_load_that_was_interrupted_is_measured_from_the_beginning(elasticsearch_url, elasticsearch_address, made):
    name = elasticsearch_address.rpartition("/")[2]

    def failing():
        yield from list(scaled.read_made(made))[:1200]
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        elasticsearch.load_index(failing(), elasticsearch_address, language="en")
    (left,) = indexes(elasticsearch_address)
    figures = scaled.load_server(made, elasticsearch_url, name)
    assert figures["found"] == 1500
    (loaded,) = indexes(elasticsearch_address)
    assert loaded != left
    # What the test server's JVM may have is from 100 MB to some gigabytes.
    assert 10 < figures["heap_mb"] < figures["server_mb"] < 100_000
    row = scale.Line("Elasticsearch", 1500, figures).row()
    assert row[list(scale.COLUMNS).index("server, MB") + 2] == f"{figures['server_mb']:,.0f}"


def indexes(address):
    """The generations by what the cluster tells them apart by."""
    target = parse_address(address)
    client = connect(target)
    found = [one["settings"]["index"]["uuid"] for one in client.indices.get(index=f"{target.name}-*").values()]
    client.close()
    return found


def test_memory_that_the_credentials_do_not_allow_to_ask_for_is_left_out():
    def alter(method, path, body, forward):
        refused = {"error": {"type": "security_exception", "reason": "monitor is unauthorized"}, "status": 403}
        return version_reply() if path == "/" else (403, refused)

    with AlteringServer(alter) as server:
        assert scaled.server_memory(elasticsearch.index_address(server.url, "wiki")) == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--part", "elasticsearch"], "needs --es-url"), (["--passages", "0"], "at least one passage")],
)
def test_what_cannot_be_measured_is_said_at_once(tmp_path, capsys, arguments, message):
    with pytest.raises(SystemExit):
        scale.main([*arguments, "--work", str(tmp_path / "work")])
    assert message in capsys.readouterr().err
    assert not (tmp_path / "work").exists()
