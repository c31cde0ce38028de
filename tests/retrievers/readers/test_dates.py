import time

import office_files as files
import pytest

from keqa.retrievers import read_corpus
from keqa.retrievers.readers.document import date_in_name, stated_date, year_in_name

STATED = {
    "As of 31 May 2024, the limit is 140 EUR.": "2024-05-31",
    "# Travel policy\n\nEffective 1 March 2024. The limit": "2024-03-01",
    "Effective from March 1, 2024": "2024-03-01",
    "**Last updated:** May 12th, 2024": "2024-05-12",
    "Policy, valid from 2024-05": "2024-05",
    "Date: 05/31/2024": "2024-05-31",
    # Which of the two is the month?
    "Last updated 03/04/2024": "2024",
    "Stand: Mai 2024": "2024-05",
    "Reisekosten (Stand 17.05.2024)": "2024-05-17",
    "Gültig ab 1. März 2024": "2024-03-01",
    "In Kraft seit 5/2024": "2024-05",
    "Mis à jour le 3 mai 2024": "2024-05-03",
    "En vigueur à partir du 1er janvier 2024": "2024-01-01",
    "Vigente desde el 1 de enero de 2024": "2024-01-01",
    "Última actualización: 15/03/2024": "2024-03-15",
    "По состоянию на 1 мая 2024 года": "2024-05-01",
    "Действует с 01.03.2024": "2024-03-01",
    "截至2024年5月17日，酒店上限": "2024-05-17",
    "更新日期：2024-05-17": "2024-05-17",
    "本规定自2024年3月1日起施行。": "2024-03-01",
    "2024年5月1日現在の規程": "2024-05-01",
    "最后修改：2024年5月6日": "2024-05-06",
    "2024年5月6日发布": "2024-05-06",
    "本規程は令和6年4月1日より施行する。": "2024-04-01",
    "發布日期：民國113年5月1日": "2024-05-01",
    "施行日：令和元年5月1日": "2019-05-01",
    "Köln, den 14. Oktober 2024\n\nSehr geehrte Frau Weber": "2024-10-14",
    "Weber AG\n        Frankfurt a. M., 3.5.2024 ": "2024-05-03",
    "Saint-Étienne, le 1er mars 2024": "2024-03-01",
    "Version 4, 2024-11-05.": "2024-11-05",
    "# PCR protocol\n\nRev. 3 (5 May 2024)\n": "2024-05-05",
    "| Version 2.1 | 2022-06-17 |": "2022-06-17",
    "Last change: 2024-01-02": "2024-01-02",
    # Of what it is about.
    "Version 3 of the contract with Lindner of 2022-01-03": "",
    "Version 3, 2022-06-17: colours added": "",
    "We met in Paris, 3 May 2024, and agreed.": "",
    "Born in Paris, 3 May 1924\nStudied in Rome": "",
    "University of Oxford, June 2005\nLecturer": "",
    "Dear Anna,\n3 May 2024\nis the day.": "",
    "灯塔于2019年5月6日发布了第一代产品。": "",
    "公司简介\n自2003年成立以来，公司有员工300人。": "",
    "从2015年起，公司扩展到欧洲。": "",
    "自2015年至2020年，张三任总经理。": "",
    "آخر تحديث: ١٥ مايو ٢٠٢٤": "2024-05-15",
    "Published: 2020-01-01\nUpdated: 2024-02-03": "2024-02-03",
    "The wall was built in 1871, and mended in 2024-05.": "",
    "It is updated every year. In 2024 we sold.": "",
    "Updated 31.02.2024": "",
}
NAMED = {
    "policy-2024-05": "2024-05",
    "policy_2024_05_17": "2024-05-17",
    "20240517 minutes": "2024-05-17",
    "Bericht Mai 2024": "2024-05",
    "Report_May-2024": "2024-05",
    "17.05.2024 Protokoll": "2024-05-17",
    "2023-01-01_to_2023-12-31": "2023-12-31",
    "旅費規程_令和6年4月": "2024-04",
    "budget 2023-24": "",
    "ISO-2024-1234": "",
    "a-12345678": "",
    "policy-2024": "",
}


@pytest.mark.parametrize("text", STATED)
def test_the_date_that_a_text_says_it_is_of(text):
    assert stated_date(text) == STATED[text]


@pytest.mark.parametrize("name", NAMED)
def test_the_date_in_the_name_of_a_file(name):
    assert date_in_name(name) == NAMED[name]
    assert year_in_name("policy-2024") == "2024"


@pytest.mark.parametrize("part", ["\n", "* ", "updated ", "(", "2024 - ", "as of 1 ", "a, 1", "  A, ", "v1.", "v 1 "])
def test_no_text_takes_long(part):
    def seconds(length):
        begun = time.perf_counter()
        stated_date("2024 " + part * (length // len(part)))
        return time.perf_counter() - begun

    seconds(750)
    assert seconds(1500) < 20 * seconds(750) + 0.05


# From the weakest to the strongest.
_LAYERS = (("properties", "2020-01-01"), ("year", "2021"), ("text", "2022-02-02"), ("name", "2023-03"))


@pytest.mark.parametrize("strongest", range(4))
def test_name_before_text_before_year_before_properties(tmp_path, strongest):
    has = {layer for layer, _ in _LAYERS[: strongest + 1]}
    stem = "rules-2023-03" if "name" in has else "rules-2021" if "year" in has else "rules"
    text = "As of 2 February 2022 a ship pays." if "text" in has else "A ship pays."
    (tmp_path / f"{stem}.docx").write_bytes(files.docx([text], title="Rules", modified="2020-01-01T10:00:00Z"))
    assert [one.place.date for one in read_corpus(tmp_path)] == [_LAYERS[strongest][1]]


@pytest.mark.parametrize(
    ("front", "date"),
    [
        ("date: 2024-01-02\nupdated: 2024-05-06", "2024-05-06"),
        ("lastmod: 17.05.2024", "2024-05-17"),
        ("Effective date: 1 March 2024\npublished: 2023-01-01", "2024-03-01"),
        ("date: soon", "2023-03"),
    ],
)
def test_front_matter_before_all(tmp_path, front, date):
    (tmp_path / "rules-2023-03.md").write_text(f"---\n{front}\n---\nAs of 2022-02-02 a ship pays.")
    assert [one.place.date for one in read_corpus(tmp_path)] == [date]


def test_a_section_may_have_a_date_of_its_own_and_a_column_is_none(tmp_path):
    (tmp_path / "a.md").write_text(
        "# One\nValid from 2024-01-01.\n# Two\nIt rains.\n# Three\nAs of 2023-05-06 it snows."
    )
    (tmp_path / "b.csv").write_text(
        "Stand: Mai 2024;;\ndate;price;ship\n2019-01-01;3;a\n2019-01-02;4;b\n2019-01-03;5;c\n"
    )
    found = [(one.place.heading, one.place.date) for one in read_corpus(tmp_path)]
    assert found[:3] == [("One", "2024-01-01"), ("Two", "2024-01-01"), ("Three", "2023-05-06")]
    assert {date for _, date in found[3:]} == {"2024-05"}
