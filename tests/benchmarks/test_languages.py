import languages
import pytest


@pytest.mark.slow
def test_a_folder_of_eight_languages_is_searched_as_well_as_separate_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(languages, "_TOWNS", 8)
    assert languages.main([str(tmp_path)]) == 0
