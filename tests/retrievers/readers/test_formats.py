import csv
import datetime
import gzip
import io
import json
import struct
import zipfile

import office_files as files
import pytest

from keqa.errors import InputError, MissingExtraError
from keqa.retrievers import read_corpus, readers
from keqa.retrievers.readers import beside, common, mail, office, pdf


def read(path, data, notices=None):
    path.write_bytes(data)
    return list(read_corpus([path], notice=(notices if notices is not None else []).append))


FILLER = "The harbour is old."
WORD = ["# Rules of the harbour", FILLER, "## Fees", "A ship pays 40 my_coins, or 3 * 4. " + FILLER]
SLIDES = [("Plan for 2025", "We grow the fleet."), ("Budget", "Five ships cost much.")]
SHEETS = {"Ships": [["Name", "Built", "Berth"], ["Aurora", 1921, None], ["Boreas", 1954, "N4"]], "Empty": []}
DAYS = [datetime.datetime(1902, 3, 4), datetime.datetime(1902, 3, 4, 12)]
CHAPTERS = "<h1>One</h1><p>It <b>rained</b>.</p><h2>Two</h2><p>Sun.</p>"
PAGES = [[(10, "The mill stood here for long years.")] * 2] * 2
MARKDOWN = f"---\ntitle: T\ndate: 2023-01-02\n---\n# One\n{FILLER}\n```\n# no heading\n```\n## Two\nSun."
HTML = (
    '<title>Untitled Document</title><meta property="article:modified_time" content="2020-03-04T00:00:00Z">'
    f"<h1>The Mill</h1><p>{FILLER}</p><h2>Later <i>years</i></h2><p>{FILLER}"
)
ULM = "Die Stadt Ulm hat das höchste Münster der ganzen Welt, sagt man"
# What Markdown keeps in lines of their own without a fence.
MARKED = (
    '# One\n```pay``` so:\n\n    pay 40\n\n    # toll\n\nOr\t\tso\t.\n\n!!! note "Tide"\n    It is\n    high.'
    "\n\n> [!TIP]\n> Wait.\n\nToll\n: A fee.\n\n- ferry\n\n    is\n    free\n\n"
    "1. so:\n\n        pay 2\n        go\n\n1.\tso\n\n\t1.\tbe\n\n\t\tit.\n\n# Two\nSun."
)
MARKED_KEPT = (
    '# One\n```pay``` so:\n```\n    pay 40\n    # toll\n```\nOr so .\n!!! note "Tide"\n\nIt is high.\n> [!TIP]\n> Wait.'
    "\n\nToll\n: A fee.\n- ferry\n\nis free\n1. so:\n```\n        pay 2\n        go\n```\n1. so\n1. be\n\nit."
)
LITERAL = (
    "Pay::\n\n  pay 1\n\n  go 2\n\n- So::\n\n    go 4\n\n  Or\n  so:\n\n"
    ".. code-block:: sh\n   :linenos:\n\n   go 3\n\n.. note::\n   It\n   is."
)
LITERAL_KEPT = (
    "Pay::\n```\n  pay 1\n  go 2\n```\n- So::\n```\n    go 4\n```\nOr so:\n\n"
    ".. code-block:: sh\n```\n   :linenos:\n   go 3\n```\n.. note:: It is."
)
PAY = "        pay(one, two)\n"
CODE = "class Mill:\n    def toll(self):\n" + PAY * 50 + "        return 40\n\n\nX = 1\n"


def open_cells(*texts):
    return "".join(f"<table:table-cell><text:p>{text}</text:p></table:table-cell>" for text in texts)


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Tides\n", "Of Skarn."]},
        {
            "cell_type": "code",
            "source": "max(levels)",
            "outputs": [{"data": {"text/plain": ["7.84"], "image/png": "iVBO"}}, {"text": "done\n"}],
        },
    ]
}
TEX = (
    "\\title{The \\emph{Mill}} % draft\n\\date{12 May 2023}\n\\section{Toll}\\label{sec:toll}\n"
    "A ship pays 40~coins.\n\\subsection*{Oxen}\nAn ox pays 5\\%."
)
CSV = f"Stadt;Beschreibung;Jahr\r\nUlm;{ULM};1890\r\nBonn;;1949\r\n"


BOOK = ("The Harbour", "Ann Lee", "1998-02-01")
OUTLINE = [("Beginnings", 0), ("The end", 1)]
TOLLS = [[(14, "1.1 Toll"), (10, "A ship pays 40."), (14, "1.2 Berth"), (10, "It lies at N4.")]]
RULES = "Rules of the harbour"
# What makes each, its title, and the text, page, heading and date of each passage; of a date of today None.
FORMATS = {
    "h.docx": lambda: files.docx(WORD, title="Microsoft Word - Dokument1", modified="2024-05-31T10:00:00Z"),
    "p.pptx": lambda: files.pptx(SLIDES),
    "s.xlsx": lambda: files.xlsx(SHEETS),
    "days.xlsx": lambda: files.xlsx({"Ships": [["Name", "Built", "Sailed"], ["Hilda", *DAYS]]}),
    "b.epub": lambda: files.epub(*BOOK, CHAPTERS),
    "m.pdf": lambda: files.pdf(PAGES, "A History", "D:20190203", OUTLINE),
    "two.pdf": lambda: files.pdf(TOLLS, "Tolls", outline=[("Toll", 0), ("1.2 Berth", 0)]),
    "c.csv": lambda: CSV.encode("cp1252"),
    "text.csv": lambda: b'title,text\nUlm,"High, and old."\n',
    "one.csv": lambda: b"one column\nUlm\n",
    "sep.csv": lambda: "sep=;\r\nTitle;Text\r\nUlm;Hoch, und alt.\r\n".encode("utf-16"),
    "a.md": lambda: MARKDOWN.encode(),
    "two.md": lambda: f"One\n===\n{FILLER}\n\n- x\n---\n\nTwo\n---\n```\n\nNo\n---\n```\nSun.".encode(),
    "lines.md": lambda: MARKED.encode(),
    "a.rst": lambda: (
        f"***\nOne\n***\n\n{FILLER}\n\nTwo\n~~~\nSun.\n\n== ==\na  b\n== ==\n\nFar\n***\n{LITERAL}".encode()
    ),
    "a.html": lambda: HTML.encode(),
    "my_note.txt": lambda: b"A note.",
    "mill.py": lambda: CODE.encode(),
    "mill.toml": lambda: b"[mill]\n" + b"toll = 40\n" * 80 + b"\n[sea]\ndeep = true\n",
    "tides.ipynb": lambda: json.dumps(NOTEBOOK).encode(),
    "mill.tex": lambda: TEX.encode(),
    "mill.org": lambda: b"#+TITLE: Weir\n* Mill\n- x\n** Toll\n# in euros\n40.",
    "mill.rtf": lambda: (
        rb"{\rtf1\ansicpg1252{\fonttbl{\f0 Arial;}}{\info{\title The Mill}}{\*\generator x;}Toll: 2 \u8364? \{a day\}"
        b"\\par\nM\\'fcller\\cell 4\\row}"
    ),
    "mill.odt": lambda: files.open_document(
        '<text:tracked-changes>no</text:tracked-changes><text:h text:outline-level="1">Mill</text:h>'
        "<text:p>A<text:s/>toll<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Old</text:p>"
        "</text:note-body></text:note> <text:span>of 4</text:span>.</text:p><table:table>"
        + f"<table:table-row>{open_cells('Ox', '5')}</table:table-row>" * 2
        + "</table:table>",
        title="The Mill",
    ),
    "tolls.ods": lambda: files.open_document(
        '<office:spreadsheet><table:table table:name="Tolls"><table:table-row>'
        + open_cells("Ox", "Paid", "Year")
        + '</table:table-row><table:table-row table:number-rows-repeated="3"/>'
        '<table:table-row><table:table-cell table:number-columns-repeated="2"><text:p>5</text:p></table:table-cell>'
        + '<table:table-cell table:number-rows-spanned="2"><office:annotation><text:p>no</text:p></office:annotation>'
        "<text:p>19<text:span>02</text:span></text:p></table:table-cell></table:table-row><table:table-row>"
        + open_cells("6", "7")
        + '<table:covered-table-cell/></table:table-row><table:table-row table:number-rows-repeated="2">'
        + open_cells("8", "9")
        + '</table:table-row><table:table-row table:number-rows-repeated="1048568"/></table:table>'
        + "</office:spreadsheet>",
        title="",
    ),
    "m.mbox": lambda: (
        b"From a@b Mon Jan  8 08:00:00 2024\nSubject: Key\nDate: 8 Jan 2024 08:00:00 +0000\n\nHere.\n\n"
        b"From now in 2024\non.\n>From it.\n\nFrom a@b Tue Jan  9 08:00:00 2024\r\nSubject: Toll\r\n\r\nIt is 4.\r\n"
    ),
    "all.ics": lambda: (
        b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;TZID=Europe/Rome:20240704T180000\r\nDTEND:20240704T190000Z\r\n"
        b"SUMMARY:Board\r\nORGANIZER;CN=Ann Lark:mailto:a@b.c\r\nDESCRIPTION:Mill\\, ro\r\n of.\\nBring cake\r\n"
        b"UID:7\r\nBEGIN:VALARM\r\nDESCRIPTION:Alarm\r\nEND:VALARM\r\nSTATUS:CANCELLED\r\n"
        # Without an end.
        b"BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20240705\r\nDTEND;VALUE=DATE:20240706\r\nRRULE:FREQ=DAILY;UNTIL=20240709\r\n"
    ),
    "all.vcf": lambda: (
        b"BEGIN:VCARD\nFN;ENCODING=QUOTED-PRINTABLE:=C3=84nne=20=\nLark\nTEL;CELL:+47 1\nADR;TYPE=HOME:;;Mill 4;Varn\n"
        b"item1.EMAIL:a@b.c\nBDAY;X=1604:1604-04-02\nPHOTO:/9j/\n END:VCARD=\nEND:VCARD\nTEL:1\n"
        b"BEGIN:VCARD\nN;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:B=F6;Jo;;;\nEND:VCARD\n"
    ),
    "talk.vtt": lambda: (
        b"WEBVTT\n\n1\n00:01.200 --> 00:04.000\nAna: The mill\n\n00:04.000 --> 00:06.000\n<v Ana>is old.</v>\n\n"
        b"01:00:07.000 --> 01:00:09.000\nKofi: It&#39;s sold."
    ),
    "talk.srt": lambda: b"1\r\n00:00:00,500 --> 00:00:03,000\r\n<i>The mill</i>\r\nis old.\r\n\r\n",
    "chat.txt": lambda: (
        "02/05/2024, 19:12 - Jonas Weill: I have it. Will bring it\n02/05/2024, 19:13 - Pim: ok\n"
        "\u200e[03.05.24, 21:15:00] Oma Inge: Der Topf\nist blau\n10:02:11 From Kofi: no\n"
    ).encode(),
    "day.md": lambda: b"## Morning\nRain.\n## Evening\nSun.",
}
PDF_PAGE = "The mill stood here for long years. The mill stood here for long years."
FOUND = {
    "h.docx": [
        RULES,
        (f"# {RULES}\n{FILLER}", "", RULES, "2024-05-31"),
        (f"## Fees\nA ship pays 40 my_coins, or 3 * 4. {FILLER}", "", "Fees", "2024-05-31"),
    ],
    "p.pptx": [
        "Plan for 2025",
        ("# Plan for 2025\nWe grow the fleet.", "slide 1", "Plan for 2025", None),
        ("# Budget\nFive ships cost much.", "slide 2", "Budget", None),
    ],
    "s.xlsx": [
        *("Aurora Boreas".split()),
        ("Name: Aurora; Built: 1921", "", "Ships, row 2", None),
        ("Name: Boreas; Built: 1954; Berth: N4", "", "Ships, row 3", None),
    ],
    # A day has no midnight.
    "days.xlsx": ["Hilda", ("Name: Hilda; Built: 1902-03-04; Sailed: 1902-03-04 12:00:00", "", "row 2", None)],
    "b.epub": [
        BOOK[0],
        ("The Harbour, Ann Lee\n# One\nIt rained.", "", "One", "1998-02-01"),
        ("## Two\nSun.", "", "Two", "1998-02-01"),
    ],
    "m.pdf": [
        "A History",
        (f"# Beginnings\n{PDF_PAGE}", "page 1", "Beginnings", "2019-02-03"),
        (f"# The end\n{PDF_PAGE}", "page 2", "The end", "2019-02-03"),
    ],
    "two.pdf": [
        "Tolls",
        ("# Toll\nA ship pays 40.", "page 1", "Toll", ""),
        ("# 1.2 Berth\nIt lies at N4.", "page 1", "1.2 Berth", ""),
    ],
    "c.csv": ["c", (f"{ULM} (Stadt: Ulm; Jahr: 1890)", "", "row 2", ""), ("Stadt: Bonn; Jahr: 1949", "", "row 3", "")],
    "text.csv": ["Ulm", ("High, and old.", "", "row 2", "")],
    "one.csv": ["one", ("one column: Ulm", "", "row 2", "")],
    "sep.csv": ["Ulm", ("Hoch, und alt.", "", "row 3", "")],
    "a.md": [
        "T",
        (f"# One\n{FILLER}\n```\n# no heading\n```", "", "One", "2023-01-02"),
        ("## Two\nSun.", "", "Two", "2023-01-02"),
    ],
    "two.md": [
        "One",
        (f"# One\n{FILLER}\n- x ---", "", "One", ""),
        ("## Two\n```\nNo\n---\n```\nSun.", "", "Two", ""),
    ],
    "lines.md": ["One", (MARKED_KEPT, "", "One", ""), ("# Two\nSun.", "", "Two", "")],
    "a.rst": [
        "One",
        (f"# One\n{FILLER}", "", "One", ""),
        ("## Two\nSun. == == a b == ==", "", "Two", ""),
        (f"## Two\n### Far\n{LITERAL_KEPT}", "", "Two › Far", ""),
    ],
    "a.html": [
        "The Mill",
        (f"# The Mill\n{FILLER}", "", "The Mill", "2020-03-04"),
        (f"## Later years\n{FILLER}", "", "Later years", "2020-03-04"),
    ],
    "my_note.txt": ["my note", ("A note.", "", "", "")],
    "mill.py": [
        "mill.py",
        (f"````\nclass Mill:\n    def toll(self):\n{PAY * 48}````", "", "line 1", ""),
        (f"````\nclass Mill:\n    def toll(self):\n{PAY * 2}        return 40\nX = 1\n````", "", "line 51", ""),
    ],
    "mill.toml": [
        "mill.toml",
        ("````\n[mill]\n" + "toll = 40\n" * 33 + "````", "", "line 1", ""),
        ("````\n[mill]\n" + "toll = 40\n" * 33 + "````", "", "line 35", ""),
        ("````\n[mill]\n" + "toll = 40\n" * 14 + "[sea]\ndeep = true\n````", "", "line 68", ""),
    ],
    "tides.ipynb": [
        "Tides",
        ("# Tides\nOf Skarn.\n````\nmax(levels)\n````\n````\n7.84\n````\n````\ndone\n````", "", "Tides", ""),
    ],
    "mill.tex": [
        "The Mill",
        ("\\title{The Mill} \\date{12 May 2023}", "", "", "2023-05-12"),
        ("### Toll\nA ship pays 40 coins.", "", "Toll", "2023-05-12"),
        ("#### Oxen\nAn ox pays 5\\%.", "", "Oxen", "2023-05-12"),
    ],
    "mill.org": [
        "Weir",
        ("#+TITLE: Weir", "", "", ""),
        ("# Mill\n- x", "", "Mill", ""),
        ("## Toll\n# in euros\n40.", "", "Toll", ""),
    ],
    "mill.rtf": ["The Mill", ("Toll: 2 € {a day}\n\nMüller | 4", "", "", "")],
    "mill.odt": [
        "The Mill",
        ("# Mill\nA toll (Old) of 4.\n| Ox | 5 |\n|---|---|\n| Ox | 5 |", "", "Mill", "2023-11-05"),
    ],
    "tolls.ods": [
        *("tolls", ("Ox: 5; Paid: 5; Year: 1902", "", "row 5", "2023-11-05")),
        ("Ox: 6; Paid: 7; Year: 1902", "", "row 6", "2023-11-05"),
        *(("Ox: 8; Paid: 9", "", f"row {number}", "2023-11-05") for number in (7, 8)),
    ],
    "m.mbox": [
        *("Key", "Toll"),
        ("Here. From now in 2024 on. From it.", "", "Key", "2024-01-08"),
        ("It is 4.", "", "Toll", ""),
    ],
    "all.ics": [
        *("Board", "all"),
        (
            "start: 2024-07-04 18:00 (Europe/Rome); end: 2024-07-04 19:00 UTC; organizer: a@b.c (Ann Lark); "
            "description: Mill, roof. Bring cake; status: CANCELLED",
            *("", "Board", ""),
        ),
        ("start: 2024-07-05; end: before 2024-07-06; repeats: FREQ=DAILY;UNTIL=2024-07-09", "", "", ""),
    ],
    "all.vcf": [
        *("Änne Lark", "Bö, Jo"),
        ("phone: +47 1 (CELL); address: Mill 4, Varn (HOME); e-mail: a@b.c; birthday: 04-02", "", "Änne Lark", ""),
        ("Bö, Jo", "", "Bö, Jo", ""),
    ],
    "talk.vtt": ["talk", ("[00:01] Ana: The mill is old.\n[01:00:07] Kofi: It's sold.", "", "", "")],
    "talk.srt": ["talk", ("[00:00:00] The mill is old.", "", "", "")],
    "chat.txt": [
        "chat",
        (
            "02/05/2024, 19:12 - Jonas Weill: I have it. Will bring it\n02/05/2024, 19:13 - Pim: ok\n"
            "\u200e[03.05.24, 21:15:00] Oma Inge: Der Topf ist blau\n10:02:11 From Kofi: no",
            *("", "", ""),
        ),
    ],
    "day.md": ["day", ("## Morning\nRain.", "", "Morning", ""), ("## Evening\nSun.", "", "Evening", "")],
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_gives_text_title_place_and_date(tmp_path, name):
    notices = []
    found = read(tmp_path / name, FORMATS[name](), notices)
    passages = [one for one in FOUND[name] if isinstance(one, tuple)]
    assert {one.title for one in found} == {one for one in FOUND[name] if isinstance(one, str)}
    assert [one.id for one in found] == [f"{name}#{number}" for number in range(1, len(found) + 1)]
    assert {one.place.file for one in found} == {name}
    dates = [one.place.date if date is not None else None for one, (*_, date) in zip(found, passages, strict=True)]
    shown = [(one.text, one.place.part, one.place.heading) for one in found]
    assert [(*one, date) for one, date in zip(shown, dates, strict=True)] == passages
    assert name != "c.csv" or any("'Beschreibung' was read as text" in one for one in notices)


def test_secrets_of_configuration_are_not_read_and_what_only_looks_like_one_is(tmp_path):
    secret = "password: a1b2c#\nexport DB_PASSWORD='a1b2c3'\n- \"apiKey\": a1b2-c,\nurl: a://b:c@d\nA_TOKEN=a1b2c3 #\n"
    shown = "password: <>\nexport DB_PASSWORD='<>'\n- \"apiKey\": <>,\nurl: a://<>@d\nA_TOKEN=<> #\n"
    other = "password: ${X1234}\npassword_length: 12\nmax_tokens: 5\npad_token: x\nsecret_name: y\nkey: z\n"
    other += 'password: Passwort\nnew_password: "At least 8 letters"\nprivate_key: /etc/key1\n'
    notices = []
    (found,) = read(tmp_path / "a.yml", (secret + other).encode(), notices)
    assert found.text == f"````\n{shown.replace('<>', '<secret>')}{other}````"
    assert "the values of 5 passwords, keys or tokens are not read" in notices[0]
    assert "password: a1b2c#" in read(tmp_path / "a.md", secret.encode())[0].text


def test_a_title_is_the_one_that_somebody_gave_or_of_a_pdf_what_is_set_largest(tmp_path):
    data = files.docx(["# Head", "Some text."], title="Harbour report")
    assert [one.title for one in read(tmp_path / "a.docx", data)] == ["Harbour report"]
    page = [(24, "The Mill of"), (24, "Aldermoor"), (10, "It stood here for long years.")]
    for stated in (
        "",
        "Microsoft Word - Dokument1",
        "untitled",
        "PowerPoint 演示文稿",
        "新建 Microsoft Word 文档",
        "無題のプレゼンテーション",
        "Présentation PowerPoint",
        "final_v2.docx",
        "about:blank",
    ):
        assert [one.title for one in read(tmp_path / "x.pdf", files.pdf([page], stated))] == ["The Mill of Aldermoor"]


@pytest.mark.parametrize(("page", "text", "size"), [(1, 1, 24), (1, 24, 1), (-4, 2, 3), (0, 24, 1), (24, 0, 1)])
def test_what_is_set_large_by_the_matrix_of_its_text_or_page_is_a_title(page, text, size):
    sized = []
    note_size = pdf._sizes(sized)
    # One that is turned has its scale in another place.
    page, text = ([abs(scale) or 1, 0, 0, scale] for scale in (page, text))
    for given in (("The Mill", page, text, None, size), ("It stood here long.", [1] * 4, [1] * 4, None, 10)):
        note_size(*given)
    note_size("  ", page, text, None, 99)
    assert (sized[0], pdf._largest(sized)) == ((24.0, "The Mill"), "The Mill")


def test_a_sentence_divided_between_pages_is_of_the_first(tmp_path):
    found = read(tmp_path / "x.pdf", files.pdf([[(10, "A long har-")], [(10, "bour wall. It is old.")]]))
    assert [(one.text, one.place.page) for one in found] == [("A long harbour wall.", 1), ("It is old.", 2)]
    found = read(tmp_path / "x.pdf", files.pdf([[(10, "The harbour")], [(10, "has a wall.")], [(10, "Old")]]))
    assert [(one.text, one.place.page) for one in found] == [("The harbour has a wall.", 1), ("Old", 3)]
    found = read(tmp_path / "x.pdf", files.pdf([[(10, "Die Prü-"), (10, "fung ist fäl-")], [(10, "lig. Ende.")]]))
    assert [one.text for one in found] == ["Die Prüfung ist fällig.", "Ende."]
    found = read(tmp_path / "x.pdf", files.pdf([[(10, "A long")], [(10, "har-"), (10, "bour wall. End.")]]))
    assert [one.text for one in found] == ["A long harbour wall.", "End."]
    pages = [["Harbour", "A long", "Page 1 of 2"], ["Harbour", "wall is here.", "It is old.", "Page 2 of 2"]]
    found = read(tmp_path / "x.pdf", files.pdf([[(10, line) for line in page] for page in pages]))
    assert [one.text for one in found] == [
        "Harbour A long wall is here. Page 1 of 2",
        "Harbour\n\nIt is old. Page 2 of 2",
    ]


TABLE = [
    ["Ship", "Fee", "Berth"],
    *([f"Aurora {number}", f"It pays. That is {number} talers", "N4"] for number in range(60)),
]
LINES = ["| " + " | ".join(row) + " |" for row in TABLE]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.md", "\n".join([LINES[0], "|---|:--:|--:|", *LINES[1:]])),
        ("b.md", "\n".join([LINES[0], "| --- | --- | --- |", *LINES[1:]]).replace("| ", "|").replace(" |", "|")),
        ("a.html", "<table><tr><th>Ship<th>Fee<th>Berth" + "".join(f"<tr><td>{'<td>'.join(row)}" for row in TABLE[1:])),
        ("a.docx", TABLE),
    ],
)
def test_each_passage_of_a_table_has_its_head_and_whole_rows(tmp_path, name, data):
    found = read(tmp_path / name, files.docx([data]) if isinstance(data, list) else data.encode())
    assert len(found) > 1
    for one in found:
        head, below, *rows = one.text.replace(" ", "").splitlines()
        assert (head, below.strip("|-:")) == ("|Ship|Fee|Berth|", "")
        assert all(row.endswith("talers|N4|") for row in rows)
    assert sum(one.text.count("Aurora") for one in found) == 60


def test_a_cell_of_a_word_table_that_spans_others_stands_in_each(tmp_path):
    cells = ['<w:gridSpan w:val="2"/>', '<w:vMerge w:val="restart"/>', "<w:vMerge/>"]
    cells = [f"</w:t></w:r></w:p></w:tc><w:tc><w:tcPr>{one}</w:tcPr><w:p><w:r><w:t>" for one in cells]
    rows = [[f"Grade{cells[0]}Fee"], [f"{cells[1]}A", "day", "4"], [f"{cells[2]}", "night", "5"]]
    [found] = read(tmp_path / "a.docx", files.docx([rows]))
    assert "| Grade | Fee | Fee |" in found.text
    assert found.text.endswith("| A | night | 5 |")


def test_headings_below_which_nothing_stands_are_no_passages(tmp_path):
    found = read(tmp_path / "a.md", b"# Rules\n## Fees\nA ship pays.\n## Boats\nNone.\n## Rafts\n")
    assert [(one.text, one.place.heading) for one in found] == [
        ("# Rules\n## Fees\nA ship pays.", "Fees"),
        ("## Boats\nNone.\n## Rafts", "Boats"),
    ]
    holidays = "## {}\n{}### Holidays\n{} days.\n"
    countries = (
        "# Rules\n" + holidays.format("France", "Its own.\n", 25) + holidays.format("Spain", "", 22) + "## Fees\n5."
    )
    found = read(tmp_path / "c.md", countries.encode())
    assert [(one.text, one.place.heading) for one in found] == [
        ("# Rules\n## France\nIts own.", "France"),
        ("## France\n### Holidays\n25 days.", "France › Holidays"),
        ("## Spain\n### Holidays\n22 days.", "Spain › Holidays"),
        ("## Fees\n5.", "Fees"),
    ]
    long = "".join(f"## {one}\n### Holidays\n{'Days of holiday are good days. ' * 40}\n" for one in ("France", "Spain"))
    found = read(tmp_path / "d.md", f"# Rules\nOurs.\n{long}".encode())
    assert [one.text.splitlines()[:2] for one in found[1:]] == [
        [f"## {country}", "### Holidays"] for country in ("France", "Spain") for _ in range(len(found) // 2)
    ]
    assert len(found) > 4
    more = read(tmp_path / "d.md", f"# Rules\nOurs.\n{long}## Rafts\n".encode())
    assert [one.text for one in more] == [*(one.text for one in found[:-1]), f"{found[-1].text}\n## Rafts"]
    deep = read(tmp_path / "e.md", f"# A\n## {'b' * 200}\n### {'c' * 200}\n#### D\nText.\n# E\n".encode())
    assert deep[0].text.splitlines()[-3:] == ["#### D", "Text.", "# E"]
    assert deep[0].place.heading == f"{'c' * 200} › D"
    pages = read(tmp_path / "c.html", b"<h1>One</h1><h2>Holidays</h2>25 days.<h1>Two</h1><h2>Holidays</h2>22 days.")
    assert [(one.text, one.place.heading) for one in pages] == [
        ("# One\n## Holidays\n25 days.", "One › Holidays"),
        ("# Two\n## Holidays\n22 days.", "Two › Holidays"),
    ]
    slides = read(tmp_path / "a.pptx", files.pptx([("Toll: 40 talers", ""), ("End", "Thanks.")]))
    assert [(one.text, one.place.page) for one in slides] == [("# Toll: 40 talers", 1), ("# End\nThanks.", 2)]
    assert [one.text for one in read(tmp_path / "b.md", b"# Alone\n")] == ["# Alone"]


def test_the_extra_is_named_where_it_is_missing(tmp_path, monkeypatch):
    answer = ([], {"notices": [], "missing": "Reading a.docx"})
    monkeypatch.setattr(beside._BESIDE, "ask", lambda head, data: answer)
    with pytest.raises(MissingExtraError, match="documents"):
        read(tmp_path / "a.docx", files.docx(["x"]))


def test_a_number_of_a_sheet_is_read_as_it_is_shown(tmp_path):
    shown = [(-0.04, "0%"), (0.125, "0.0%"), (9.9, '#,##0.00 "€"'), (19, "[$CHF-807] #,##0"), (5, "[$-407]$0.00")]
    shown += [(412_500, '#,##0,"k"'), (0.1 + 0.2, "General")]
    found = read(tmp_path / "a.xlsx", files.xlsx({"S": [["row"], shown]}))
    assert found[0].text == "row: -4%; 12.5%; 9.9 €; 19 CHF; 5 $; 412500; 0.3"


def test_a_format_that_says_more_than_a_unit_leaves_the_number(tmp_path):
    shown = [(5, '0"%"'), (5, r"0\%"), (0, '"Yes";"Yes";"No"'), (0, '"Ja";;"Nein"'), (-5, '#,##0 "Cr";#,##0 "Dr"')]
    shown += [(5, '"Total cost: "#,##0.00"€"'), (42, '"ID-"00000'), (0.1234, "0.##%"), (0.125, "0%")]
    shown += [
        (-7.5, r'#,##0.00\ "€";[Red]\-#,##0.00\ "€"'),
        (3, '_-* #,##0.00 "€"_-;-* #,##0.00 "€"_-;_-* "-"?? "€"_-'),
    ]
    found = read(tmp_path / "a.xlsx", files.xlsx({"S": [["row"], shown]}))
    assert found[0].text == "row: 5 %; 5 %; 0; 0; -5; 5 €; 42; 12.34%; 13%; -7.5 €; 3 €"


def test_a_format_that_a_workbook_has_not_changes_nothing(tmp_path):
    with zipfile.ZipFile(io.BytesIO(files.xlsx({"S": [["a", "b"], [1, 2]]}))) as packed:
        content = {name: packed.read(name) for name in packed.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    content[sheet] = content[sheet].replace(b'<c r="A2"', b'<c r="A2" s="77"')
    assert b's="77"' in content[sheet]
    assert [one.text for one in read(tmp_path / "a.xlsx", files.archive(content))] == ["a: 1; b: 2"]


def test_a_cell_that_spans_rows_is_one_of_each(tmp_path):
    rows = [["Quay", "Ship"], ["North", "Aurora"], [None, "Boreas"], [None, None], ["South", "Hilda"], [None, "Ida"]]
    found = read(tmp_path / "a.xlsx", files.xlsx({"S": rows}, ["A2:A4"]))
    assert [one.text for one in found] == [
        *("Quay: North; Ship: Aurora", "Quay: North; Ship: Boreas"),
        *("Quay: South; Ship: Hilda", "Ship: Ida"),
    ]
    wide = read(tmp_path / "b.xlsx", files.xlsx({"S": [*rows[:1], ["North", None], [None, None, "late"]]}, ["A2:B3"]))
    assert [one.text for one in wide] == ["Quay: North", "Quay: North; late"]


def test_a_head_whose_cells_span_columns_is_said_of_each(tmp_path):
    head = [["Premiums"], ["Insurer", "First half", None, "Total"], [None, "Q1", "Q2", None]]
    merged = ["A1:D1", "A2:A3", "B2:C2", "D2:D3", "A5:C5"]
    found = read(
        tmp_path / "a.xlsx", files.xlsx({"S": [*head, ["Alpina", 80, 75, 155], ["Sum", None, None, 155]]}, merged)
    )
    assert [(one.place.heading, one.text) for one in found] == [
        ("Premiums, row 4", "Insurer: Alpina; First half Q1: 80; First half Q2: 75; Total: 155"),
        ("Premiums, row 5", "Insurer: Sum; Total: 155"),
    ]
    # In a form a value spans columns.
    form = files.xlsx({"S": [["Name", "Ida", None], ["Born", 1901, None]]}, ["B1:C1", "B2:C2"])
    assert [one.text for one in read(tmp_path / "b.xlsx", form)] == ["Name: Born; Ida: 1901"]
    wide = files.xlsx({"S": [["Name", None, "Age"], ["Ida", "Lee", 30]]}, ["A1:B1"])
    assert [one.text for one in read(tmp_path / "c.xlsx", wide)] == ["Name: Ida; Lee; Age: 30"]


def test_formulas_without_a_stored_value_are_counted_and_the_rest_is_read(tmp_path):
    notices = []
    rows = [["ship", "fee"], ["Aurora", "=20+20"], ["Boreas", "=21+21"], [None, "=SUM(B2:B3)"]]
    found = read(tmp_path / "a.xlsx", files.xlsx({"Fees": rows}), notices)
    assert [one.text for one in found] == ["ship: Aurora", "ship: Boreas"]
    assert notices == [
        f"3 formulas of {tmp_path / 'a.xlsx'} have no stored value and were left out: open it in Excel or LibreOffice "
        "and save it"
    ]
    # A workbook of such formulas says so, and not that it has no text.
    with pytest.raises(InputError, match=r"\n  1 formula of .*a\.xlsx has no stored value and was left out: open it"):
        read(tmp_path / "a.xlsx", files.xlsx({"Fees": [["=1+1"]]}))


@pytest.mark.parametrize(
    ("cell", "counted"),
    [
        ("<f>1+1</f><v>2</v>", False),
        ('<c r="B1" t="str"><f>""</f><v></v></c>', False),
        ('<c r="B1" t="str"><f>""</f></c>', True),
        ('<f t="shared" si="0"/>', True),
        ("<f>1+1</f><v/>", True),
    ],
)
def test_a_formula_has_no_value_where_none_is_written(tmp_path, cell, counted):
    notices = []
    cell = cell if cell.startswith("<c") else f'<c r="B1">{cell}</c>'
    read(tmp_path / "a.xlsx", sheet_of(f'<row r="1"><c r="A1"><v>7</v></c>{cell}</row>'), notices)
    assert [one.split(" of ")[0] for one in notices] == ["1 formula"] * counted


# Hostile files.

_LAUGHS = '<!DOCTYPE x [<!ENTITY a "' + "ha" * 50 + '"><!ENTITY b "' + "&a;" * 50 + '">]>'


def sheet_of(rows):
    """A workbook whose one sheet has these rows, in XML."""
    with zipfile.ZipFile(io.BytesIO(files.xlsx({"S": [["x"]]}))) as packed:
        content = {name: packed.read(name) for name in packed.namelist()}
    name = next(name for name in content if "worksheets/sheet" in name)
    start = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    content[name] = f"{start}{rows}</sheetData></worksheet>"
    return files.archive(content)


def lying(data):
    """An archive that claims that each of its files is a byte long."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        places = [entry.header_offset for entry in packed.infolist()]
    changed = bytearray(data)
    place = -1
    while (place := changed.find(b"PK\x01\x02", place + 1)) >= 0:
        changed[place + 24 : place + 28] = struct.pack("<I", 1)
    for place in places:
        changed[place + 22 : place + 26] = struct.pack("<I", 1)
    return bytes(changed)


def locked(data, password="secret"):
    """The same PDF, which only who knows a password can read."""
    from pypdf import PdfReader, PdfWriter

    writer, out = PdfWriter(clone_from=PdfReader(io.BytesIO(data))), io.BytesIO()
    writer.encrypt(password, "owner", algorithm="RC4-40")
    writer.write(out)
    return out.getvalue()


def flagged(data):
    """The same archive, the first part of which says that it needs a password."""
    place = data.index(b"PK\x01\x02")
    return data[: place + 8] + b"\x01" + data[place + 9 :]


ONE_PAGE = [[(10, "Twenty-two characters.")]]
LONG = "more than 20 characters"
SECRET, LARGE_ONE, BROKEN = "protected by a password", "too large", "damaged"
# What makes each, as what it counts, and what is said of it, where the bounds are small.
REFUSED = {
    "a.csv": (lambda: b"a,b\n" + b"x" * 300 + b",y\n", BROKEN, "D/a.csv, line 2: malformed (field larger than"),
    "b.pdf": (lambda: locked(files.pdf(ONE_PAGE)), SECRET, "cannot be read as PDF: it is protected b"),
    "c.pdf": (lambda: files.pdf(ONE_PAGE * 3), LARGE_ONE, "read as PDF: it has more than 2 pages: divide it"),
    "d.pdf": (lambda: files.pdf(ONE_PAGE), LARGE_ONE, f"cannot be read as PDF: it has {LONG}: divide it"),
    "e.pdf": (lambda: b"%PDF-1.7", BROKEN, "cannot be read as PDF: "),
    "f.docx": (lambda: flagged(files.docx(["x"])), SECRET, "cannot be read as .docx: it is protected"),
    "g.docx": (lambda: b"\xd0\xcf\x11\xe0", "protected or of an old format", "in the format of before 2007, or"),
    "h.docx": (lambda: b"PK", BROKEN, "cannot be read as .docx: File is not a zip file"),
    "i.docx": (lambda: files.archive(dict.fromkeys("abcdefghijk", "xyz")), LARGE_ONE, "to 33 bytes in 11 files from 9"),
    "i2.docx": (lambda: files.archive({"x": b"\0" * (48 << 20)}), LARGE_ONE, "unpacks to 50,331,648 bytes in 1 files"),
    "j.docx": (lambda: files.docx(["&b;"], head=_LAUGHS), BROKEN, "it declares XML entities (word/document.xml)"),
    "k.docx": (lambda: files.archive({"x": "<a>" * 257 + "</a>" * 257}), BROKEN, "are nested more than 256 deep"),
    "l.xlsx": (lambda: files.xlsx({"S": [["Twenty-two characters."]]}), LARGE_ONE, f"its cells have {LONG}: divide it"),
    "m.xlsx": (lambda: sheet_of('<row r="6"><c r="A6"><v>1</v></c></row>'), BROKEN, "a sheet claims more than 5 rows"),
    "n.txt": (lambda: b"Twenty-two characters.", LARGE_ONE, f"D/n.txt has {LONG} of text: divide it"),
    "o.txt": (lambda: b"x" * 70_000, LARGE_ONE, "has more than 60,000 bytes, the most that is read: divide it"),
    "p.txt.gz": (lambda: gzip.compress(b"x" * 50_000), LARGE_ONE, "unpacks to over 200 times its size: unpack it"),
    "q.txt": (lambda: b"\x7fELF", "binary", "D/q.txt is no text but a program"),
    "q.md": (lambda: b"%PDF-1.7\ntext", "binary", "D/q.md is no text but a PDF"),
    "q.html": (lambda: b"text " * 1000 + b"\0", "binary", "is no text but binary: it has NUL bytes (text in UTF-16"),
    "q2.txt": (lambda: bytes(range(1, 9)) * 20 + b"text" * 100, "binary", "much of it is control characters"),
    "q3.txt": (lambda: gzip.compress(b"text"), "binary", "D/q3.txt is no text but packed"),
    "r.txt": (lambda: b"caf\xe9 \x81\x8d", "in an unknown encoding", "it is neither UTF-8 nor in another encoding"),
    "r2.txt": (lambda: b"\xff\xfea\x00b", "in an unknown encoding", "it begins as utf-16 but is not"),
    "s.docx": (lambda: lying(files.docx(["text " * 1000])), BROKEN, "cannot be read as .docx"),
    "t.docx": (lambda: files.archive({"word/document.dat": _LAUGHS}), BROKEN, "it declares XML entities"),
    "u.epub": (lambda: files.archive({"c.opf": _LAUGHS.encode("utf-16-le")}), BROKEN, "it declares XML entities"),
    "v.pptx": (lambda: files.archive({"x": "y"}), BROKEN, "cannot be read as .pptx"),
    "w.xlsx": (lambda: files.xlsx({"S": [["x"] * 50] * 50})[:-200], BROKEN, "cannot be read as .xlsx"),
    "x.eml": (lambda: b"Content-Type: message/rfc822\n" * 3 + b"\nHi", BROKEN, "more than 2 parts that hold others"),
}


def test_a_pdf_whose_password_is_empty_is_read(tmp_path):
    assert [one.text for one in read(tmp_path / "a.pdf", locked(files.pdf(ONE_PAGE), ""))] == ["Twenty-two characters."]


@pytest.mark.parametrize("name", REFUSED)
def test_each_refused_file_counts_as_something_and_is_told_why(tmp_path, monkeypatch, request, name):
    make, reason, message = REFUSED[name]
    for module in (beside, office, pdf):
        monkeypatch.setattr(module, "MOST_TEXT", 20)
    bounds = [(readers, "MAX_DOCUMENT", 60_000), (common, "SMALL", 40_000), (common, "MAX_LINE", 200)]
    bounds += [(office, "_MOST_ENTRIES", 10), (office, "_LAST_ROW", 5), (pdf, "_MOST_PAGES", 2)]
    for module, bound, most in (*bounds, (mail, "_MOST_NESTED", 2)):
        monkeypatch.setattr(module, bound, most)
    before = csv.field_size_limit(200)
    request.addfinalizer(lambda: csv.field_size_limit(before))
    (tmp_path / name).write_bytes(make())
    (tmp_path / "z.txt").write_text("Good.")
    corpus = read_corpus(tmp_path, notice=lambda text: None)
    assert [one.text for one in corpus] == ["Good."]
    assert (corpus.left_out.unread, len(corpus.left_out.names)) == ({reason: 1}, 1)
    said = corpus.left_out.names[0].replace(f"{tmp_path}/", "D/")
    assert message in said
    assert said.startswith(f"D/{name}")


@pytest.mark.process
def test_a_cell_in_the_last_column_costs_a_row_and_no_table(tmp_path):
    rows = '<row r="1"><c r="XFD1"><v>1</v></c></row><row r="1000000"><c r="XFD1000000"><v>7</v></c></row>'
    found = read(tmp_path / "x.xlsx", sheet_of(rows))
    assert [one.text for one in found] == ["1: 7"]


@pytest.mark.process
def test_the_folder_in_which_reading_began_may_be_gone(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    own = beside._Beside()
    monkeypatch.setattr(beside, "_BESIDE", own)
    own._started()
    monkeypatch.chdir(tmp_path)
    gone.rmdir()
    assert "The harbour is old." in read(tmp_path / "a.docx", files.docx(WORD))[0].text
    own.end()
