import pytest
import scale

pytestmark = pytest.mark.process


@pytest.fixture
def made(tmp_path):
    path = tmp_path / "made.tsv"
    scale.write_corpus(path, 1500, words=3000)
    return path


def test_made_passages_are_the_same_each_time_and_as_many_as_asked_for(tmp_path, made):
    scale.write_corpus(tmp_path / "again.tsv", 1500, words=3000)
    assert (tmp_path / "again.tsv").read_bytes() == made.read_bytes()
    passages = list(scale.read_made(made))
    assert [passage.id for passage in passages] == [str(number) for number in range(1500)]
    lengths = [len(passage.text.split()) for passage in passages]
    assert (min(lengths), max(lengths)) == (80, 120)
    words = scale.vocabulary(3000)
    running = [word for passage in passages for word in passage.text.split()]
    shares = [running.count(words[rank]) / len(running) for rank in (0, 7)]
    # 1 / (0 + 2.7) over 1 / (7 + 2.7)
    assert shares[0] / shares[1] == pytest.approx(9.7 / 2.7, rel=0.1)


def test_few_passages_on_the_embedded_engine(tmp_path, capsys):
    scale.main(["--passages", "300", "--queries", "20", "--work", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "raw Tantivy calls" in printed
    assert "21,015,324" in printed
