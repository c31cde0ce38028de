"""A quote that is not closed takes in no other row, and a text of several lines stays one cell."""

import time
from pathlib import Path

import pytest

from keqa.retrievers import read_corpus
from keqa.retrievers.readers.csv_rows import csv_rows


def rows(text, notices=None):
    return list(csv_rows(text, ",", Path("a.csv"), (notices if notices is not None else []).append))


def people(count, **others):
    lines = ["name,city", *(f"Person{n},City{n}" for n in range(1, count))]
    for number, line in others.items():
        lines[int(number[1:]) - 1] = line
    return "\n".join(lines) + "\n"


def test_a_quote_that_is_not_closed_is_named_and_takes_in_no_other_row(tmp_path):
    path, notices = tmp_path / "a.csv", []
    path.write_text(people(3001, _21='"Person20,City20'))
    found = list(read_corpus(path, notice=notices.append))
    assert len(found) == 3000
    assert found[19].text == 'name: "Person20; city: City20'
    assert (found[2999].title, found[2999].place.heading) == ("Person3000", "row 3001")
    assert notices == [f"{path}, line 21: a quote that is not closed was read as a character"]


@pytest.mark.parametrize("number", [1, 2, 50, 99, 100])
def test_wherever_it_stands(number):
    notices = []
    found = rows(people(100, **{f"_{number}": '"x,y'}), notices)
    assert [len(row) for row in found] == [2] * 100
    assert found[number - 1] == ['"x', "y"]
    assert notices == [f"a.csv, line {number}: a quote that is not closed was read as a character"]


def test_two_of_them_far_apart_take_in_nothing_between_them():
    notices = []
    found = rows(people(100, _21='"Person20,City20', _71='"Person70,City70'), notices)
    assert [len(row) for row in found] == [2] * 100
    assert notices == ["a.csv, line 21: a quote that is not closed was read as a character, and so in 1 more lines"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a,b\n"one\ntwo\n\nthree",x\ny,z\n', [["a", "b"], ["one\ntwo\n\nthree", "x"], ["y", "z"]]),
        ('a,b\r\n"one, ""two""\r\n",x', [["a", "b"], ['one, "two"\r\n', "x"]]),
        ('a,b\n"say "yes" or\nno",x\n', [["a", "b"], ['say yes" or'], ['no"', "x"]]),
        ('a,b\n5" pipe,x\n', [["a", "b"], ['5" pipe', "x"]]),
        ("a,b\n\nc,d", [["a", "b"], [], ["c", "d"]]),
        ("", []),
    ],
)
def test_other_quotes_are_as_they_were(text, expected):
    notices = []
    assert rows(text, notices) == expected
    assert notices == []


def test_a_text_of_very_many_lines_is_one_cell():
    verse = "A line, of verse\n" * 500
    notices = []
    assert rows(f'title,text\nSong,"{verse}"\nNext,"Short"\n', notices)[1:] == [["Song", verse], ["Next", "Short"]]
    assert notices == []


def test_a_text_that_is_cut_off_is_one_cell_and_named():
    notices = []
    prose = "It rained, and rained, all day.\nThen the sun came out\n" * 20
    assert rows(f'title,text\nSun,"It rose.\n{prose}', notices)[1] == ["Sun", f"It rose.\n{prose}\n"]
    assert notices == ["a.csv, line 2: a quote that is not closed; all after it was read as one cell"]


@pytest.mark.slow
def test_no_file_takes_more_than_its_length():
    notices = []
    begun = time.process_time()
    found = rows('"a","b","c\n' * 50_000, notices)
    assert time.process_time() - begun < 20
    assert found[-1] == ['"a"', '"b"', '"c']
    assert len(notices) == 1
