import pytest
import scale

pytestmark = pytest.mark.process


def test_few_passages_on_the_embedded_engine(capsys):
    scale.main(["--passages", "300", "--queries", "20"])
    printed = capsys.readouterr().out
    assert "raw Tantivy calls" in printed
    assert "21,015,324" in printed
