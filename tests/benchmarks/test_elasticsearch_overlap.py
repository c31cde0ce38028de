import elasticsearch_overlap
import pytest


@pytest.fixture
def data():
    files = [elasticsearch_overlap.CORPUS, *elasticsearch_overlap.QUESTIONS]
    if not all((elasticsearch_overlap.DATA / file).is_file() for file in files):
        pytest.skip("the shared data folder is not beside this repository")
    return elasticsearch_overlap.DATA


def test_the_embedded_index_finds_the_same_for_500_real_questions(elasticsearch_url, data, capsys):
    assert elasticsearch_overlap.measure(elasticsearch_url, data, 10) >= 0.85
    reported = capsys.readouterr().out
    assert reported.count("14,427") == reported.count("500") == 2
