import mutants
import pytest


@pytest.mark.parametrize(
    ("changed", "wording"),
    [
        ('-raise E("no field")\n+raise E("XXno fieldXX")', True),
        ('-raise E("no field")\n+raise E("NO FIELD")', True),
        ("-if k < 1:\n+if k <= 1:", False),
        ('-name = "XX"\n+name = "YY"', False),
        ("-return a\n-\n+return None", False),
    ],
)
def test_a_change_of_letters_alone_is_one_of_wording(changed, wording):
    assert mutants.is_wording(changed) is wording


def test_the_package_is_laid_out_as_it_is_installed(tmp_path):
    mutants.lay_out(tmp_path, ["metrics"])
    assert (tmp_path / "src/keqa/__init__.py").read_text().startswith('"""KEQA: ')
    assert (tmp_path / "src/keqa/metrics/answers.py").exists()
    assert (tmp_path / "tests/metrics").is_dir()
    assert "only_mutate =\n    src/keqa/metrics/*.py\n" in (tmp_path / "setup.cfg").read_text()
