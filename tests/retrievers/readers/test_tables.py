"""Which row of a table is its head."""

import pytest

from keqa.retrievers import read_corpus
from keqa.retrievers.readers import tables
from keqa.retrievers.readers.tables import table_sections


def table(text):
    found, _ = table_sections(line.split(",") for line in text.split("\n"))
    return [(one.heading, one.text) for one in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Ships of the harbour\nship,built,berth\nAurora,1921,N4\nBoreas,1954,",
            [
                ("Ships of the harbour, row 3", "ship: Aurora; built: 1921; berth: N4"),
                ("Ships of the harbour, row 4", "ship: Boreas; built: 1954"),
            ],
        ),
        # As spreadsheets write it, with the cells that are empty.
        (
            ",Fees 2024,\n,,\n , ,\nship,2023,2024\nAurora,40,41\n , ,\nBoreas,42,43",
            [
                ("Fees 2024, row 5", "ship: Aurora; 2023: 40; 2024: 41"),
                ("Fees 2024, row 7", "ship: Boreas; 2023: 42; 2024: 43"),
            ],
        ),
        # A total has fewer cells.
        (
            "Fees\nship,built,fee\nAurora,1921,40\nTotal",
            [("Fees, row 3", "ship: Aurora; built: 1921; fee: 40"), ("Fees, row 4", "ship: Total")],
        ),
        ("Ships and berths,\nQ1,Q2\n40,41", [("Ships and berths, row 3", "Q1: 40; Q2: 41")]),
        ("Ships\nship,berth\nAurora,N4", [("Ships, row 3", "ship: Aurora; berth: N4")]),
        (
            "# exported by Jana, 2024\n# of all ships\nship,built,berth\nAurora,1921,N4",
            [("exported by Jana; 2024; of all ships, row 4", "ship: Aurora; built: 1921; berth: N4")],
        ),
    ],
)
def test_a_title_or_a_comment_above_the_head_is_none(text, expected):
    assert table(text) == expected


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("ship,built\nAurora,1921\nBoreas,1954", "ship: Aurora; built: 1921"),
        ("#,ship\n1,Aurora\n2,Boreas", "#: 1; ship: Aurora"),
        ("#ship,built\nAurora,1921\nBoreas,1954", "#ship: Aurora; built: 1921"),
        (",built\nAurora,1921\nBoreas,1954", "Aurora; built: 1921"),
        ("ship,\nAurora,N4\nBoreas,N5", "ship: Aurora; N4"),
        ("ship name,\nAurora,1921\nBoreas,1954", "ship name: Aurora; 1921"),
        ("ship\nAurora\nBoreas", "ship: Aurora"),
        # A row that ends before the column of texts.
        ("ship,text\nAurora,It sank\nBoreas", "It sank (ship: Aurora)"),
        # One column of texts that have commas in them.
        ("sentence\nIt rained\nIt rained, all day\nThen, at last, sun\nThen sun", "sentence: It rained"),
        ("Notes of May\nship,built", "Notes of May: ship; built"),
        ("A\nB\nship,built,,berth\nAurora,1921,,N4", "A: B"),
    ],
)
def test_the_first_row_of_any_other_table_is_its_head(text, first):
    assert table(text)[0][1] == first


def test_a_long_title_leaves_room_for_the_number_of_the_row():
    (found,) = table("long " * 100 + "\nship,built\nAurora,1921")
    assert found[0] == ("long " * 100)[:200] + ", row 3"


@pytest.mark.parametrize(
    ("head", "column"),
    [
        ("title,year", 0),
        ("title,text,name", 0),
        ("name,title,salary", 0),
        ("First name,Last_Name,title", None),
        ("title,author name,year", 0),
    ],
)
def test_the_title_of_a_person_is_not_what_a_row_is_called(head, column):
    (section,), _ = table_sections([head.split(","), ["one", "two", "three"]])
    assert section.title == ("" if column is None else ["one", "two", "three"][column])


def rows(tmp_path, text):
    path, notices = tmp_path / "a.csv", []
    path.write_text(text, newline="")
    return [one.text for one in read_corpus(path, notice=notices.append, summary=False)], notices


@pytest.mark.parametrize("number", [2, 50, 100])
def test_a_quote_that_is_not_closed_is_named_and_takes_in_no_other_row(tmp_path, number):
    lines = ["name,city", *(f"Person{n},City{n}" for n in range(2, 101))]
    lines[number - 1] = '"Person,City'
    found, notices = rows(tmp_path, "\n".join(lines))
    assert (len(found), found[number - 2]) == (99, 'name: "Person; city: City')
    assert notices == [f"{tmp_path / 'a.csv'}, line {number}: a quote that is not closed was read as a character"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a,b\n"one\ntwo\n\nthree",x\ny,z\n', ["a: one two three; b: x", "a: y; b: z"]),
        ('a,b\r\n"one, ""two""\r\n",x', ['a: one, "two"; b: x']),
        ('a,b\n5" pipe,x\n', ['a: 5" pipe; b: x']),
        ("a,b\n\nc,d", ["a: c; b: d"]),
    ],
)
def test_other_quotes_part_cells(tmp_path, text, expected):
    assert rows(tmp_path, text) == (expected, [])


def test_quotes_that_are_never_closed_take_no_more_than_the_length_of_a_file(tmp_path):
    found, notices = rows(tmp_path, "a,b\n" + '"x,"y","z\n' * 5_000)
    assert len(found) >= 4_999
    assert len(notices) <= 10


class Counted(list):
    """A row that counts the cells that are copied out of it."""

    copied = 0

    def __getitem__(self, place):
        Counted.copied += len(range(*place.indices(len(self)))) if isinstance(place, slice) else 0
        return super().__getitem__(place)


def test_the_column_of_the_text_is_found_without_a_copy_of_a_wide_row_for_each_cell():
    names = [f"column {number}" for number in range(1000)]
    assert tables._text_column(names, [Counted(["x"] * 1000)]) is None
    assert Counted.copied <= 1000
