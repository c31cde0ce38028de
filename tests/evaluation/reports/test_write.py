import pytest

from keqa.errors import InputError
from keqa.evaluation.reports import entries_of, write


@pytest.fixture
def runs(scored):
    settings = {"gate": "votes", "top_k": 10}
    runs = [
        scored("keqa", (1, 1, 0), threshold="4/5", **settings),
        scored("keqa", (1, 0, 0), label="keqa-threshold=0.4", threshold="2/5", **settings),
        scored("rag", (0, 1, 0)),
    ]
    return entries_of(runs)


@pytest.mark.slow
def test_figures_are_drawn_and_the_same_points_give_the_same_file(runs, tmp_path):
    pytest.importorskip("matplotlib")
    first, second = (write(tmp_path / name, runs) for name in ("a", "b"))
    assert [path.name for path in first[-2:]] == ["figure4.png", "figure4.pdf"]
    assert first[-2].read_bytes().startswith(b"\x89PNG")
    assert first[-1].read_bytes().startswith(b"%PDF")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_without_matplotlib_there_are_tables_and_points(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    names = {path.name for path in write(tmp_path, runs)}
    assert {"table1.csv", "figure4-points.csv"} <= names == {path.name for path in tmp_path.iterdir()}
    assert not any(name.endswith(".png") for name in names)


def test_nothing_to_report_on_and_no_place_for_it_are_refused(runs, tmp_path):
    with pytest.raises(InputError, match="there is no run to report on"):
        entries_of([])
    taken = tmp_path / "file"
    taken.write_text("")
    with pytest.raises(InputError, match="file cannot be written"):
        write(taken, runs)
