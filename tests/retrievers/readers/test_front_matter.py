"""What stands before a Markdown document is taken off it, and nothing of it is lost."""

import pytest

from keqa.retrievers import read_corpus
from keqa.retrievers.readers.formats import front_matter


def read(path, text):
    path.write_text(text)
    return [(one.title, one.text, one.place.heading) for one in read_corpus(path)]


def test_a_document_that_begins_with_a_rule_loses_nothing(tmp_path):
    text = "---\n\nWelcome to the harbour. The office is at Pier 7.\n\n---\n\n## Holidays\n\nClosed in May.\n"
    (title, before, _), (_, found, heading) = read(tmp_path / "harbour.md", text)
    assert (title, heading) == ("Holidays", "Holidays")
    assert "Welcome to the harbour. The office is at Pier 7." in before
    assert "Closed in May." in found


@pytest.mark.parametrize(
    "text",
    [
        "---\nSome prose between rules.\n---\nMore.",
        "---\n- one\n- two\n---\nMore.",
        "---\n---\nMore.",
        "---\nOpening hours: 9 to 5\n\nThe office: Pier 7\nand prose: that continues\nto here\n---\nMore.",
        "---\ntitle: never closed\n\nMore.",
        "+++\nno TOML\n+++\nMore.",
        "+++\ntitle = 'mixed'\n---\nMore.",
        "--- \n" + "filler: word\n" * 2000 + "---\nMore.",
    ],
)
def test_what_is_no_list_of_entries_is_text(text):
    assert front_matter(text) == ("", "", "", text)


@pytest.mark.parametrize(
    ("front", "title", "date", "others"),
    [
        ("title: Rules", "Rules", "", ""),
        ("title: Rules # a draft\nauthor: Jana Wombeck", "Rules", "", "author: Jana Wombeck"),
        ("aliases:\n  - Project Nightjar\n  - Bird", "", "", "aliases: Project Nightjar, Bird"),
        ("summary: >\n  Folded\n  text.\ntitle: T", "T", "", "summary: Folded text."),
        ("author:\n  name: Jana\n  city: Ulm", "", "", "author: name: Jana; city: Ulm"),
        ("date: 2024-05-31T10:00:00Z\ndraft: no\nversion: 1.10", "", "2024-05-31", "draft: no\nversion: 1.10"),
        ("date: last spring", "", "", "date: last spring"),
        ("tags:\naliases: ~\ntitle: T", "T", "", ""),
        ("a: 1\na: 2", "", "", "a: 1\na: 2"),
        ("see: issue #5\ntitle: T #6", "T", "", "see: issue\n#5"),
        ("# Rules of the harbour\nContact: Jana", "", "", "Contact: Jana\nRules of the harbour"),
        # No YAML: a colon in a title, a tab; and an alias, of which a few lines unfold to gigabytes.
        ("title: Nightjar: a bird # draft\nauthor: Jana", "Nightjar: a bird", "", "author: Jana"),
        ("title: 'A': b\n\ttab: x\ntags:\n- one", "'A': b", "", "tab: x\n- one"),
        ("title: T\na: &x [one]\nb: *x", "T", "", "a: &x [one]\nb: *x"),
    ],
)
def test_entries_other_than_title_and_date_are_text(front, title, date, others):
    assert front_matter(f"---\n{front}\n---\nMore.") == (title, date, others, "More.")


def test_toml_is_read_alike_and_entries_stand_at_the_beginning_of_the_document(tmp_path):
    front = "title = 'Rules' # a draft\ndate = 2024-05-31\ntags = ['pier', 'fees']\ndraft = true"
    front += "\n[author]\nname = 'Jana'"
    expected = ("Rules", "2024-05-31", "tags: pier, fees\ndraft: true\nauthor: name: Jana", "More.")
    assert front_matter(f"+++\n{front}\n+++\nMore.") == expected
    text = "---\ntitle: Birds\nauthor: Jana Wombeck\n---\n# One\n\nThe nightjar sleeps.\n"
    assert read(tmp_path / "a.md", text) == [("Birds", "author: Jana Wombeck\n# One\nThe nightjar sleeps.", "One")]
