"""Two hundred facts at places that are known: each is found there, in passages that are no scraps."""

import random

import office_files as files
import pytest

from keqa.programs.sentences import supporting_sentences
from keqa.retrievers import build_index, open_index, read_corpus
from keqa.retrievers.base import Place

pytestmark = [pytest.mark.process, pytest.mark.slow]

_FILLER = "The harbour lies in a bay below the old town. Its market is held in spring. Ships are mended on the slip."
_FILLER = [f"{sentence.strip()}." for sentence in _FILLER.split(".") if sentence.strip()]


class Facts:
    """Makes texts with a fact in each, and knows where they stand."""

    def __init__(self):
        self.random = random.Random(7)
        self.places = {}

    def text(self, place, *, least=0):
        """Sentences around a new fact of this place, some sections very short and some of several passages."""
        around = [self.random.choice(_FILLER) for _ in range(max(least, self.random.choice((0, 0, 2, 8, 30))))]
        at = self.random.randint(0, len(around))
        return " ".join([*around[:at], f"{self.of(place, 'The toll of')} talers.", *around[at:]])

    def of(self, place, begin):
        number = len(self.places)
        name = f"Bel{'aeiou'[number % 5]}{'bdfgklmnprst'[number // 5 % 12]}{'aeiou'[number // 60]}rn"
        self.places[name] = place
        return f"{begin} {name} is {1000 + number}"


def _pdf(facts):
    pages, outline = [], []
    for page in range(1, 15):
        lines = []
        for section in "AB":
            heading = f"{page}.{section} Part {section} of chapter {page}"
            outline.append((heading, page - 1))
            text = facts.text(Place("a.pdf", page, heading)).split()
            lines += [(14, heading), *((10, " ".join(text[at : at + 9])) for at in range(0, len(text), 9))]
        pages.append(lines)
    return files.pdf(pages, "Tolls", outline=outline)


MARKDOWN = "# Tolls\n", "## Quay {}\n\n{}\n", "### Ships of quay {}\n\n| ship | toll |\n|---|---|\n| {} |\n"
HTML = (
    "<h1>Tolls</h1>",
    "<h2>Quay <i>{}</i></h2><p>{}</p>",
    "<h3>Ships of quay {}</h3><table><tr><th>ship</th></tr><tr><td>{}</td></tr></table>",
)


def _marked(facts, name, marks):
    """Sections of text, and tables with a cell, as marks have them."""
    head, section, table = marks
    parts = [head]
    for number in range(14):
        parts.append(section.format(number, facts.text(Place(name, None, f"Quay {number}"))))
        cell = facts.of(Place(name, None, f"Ships of quay {number}"), "Aurora |" if marks is MARKDOWN else "The Boreas")
        parts.append(table.format(number, cell))
    return "\n".join(parts)


def _word(facts):
    parts = ["# Tolls"]
    for number in range(28):
        parts += [f"## Dock {number}", facts.text(Place("a.docx", None, f"Dock {number}"))]
    return files.docx(parts)


def _rows(facts, name, sheet=""):
    rows = [["ship", "toll"]]
    for number in range(2, 16):
        place = Place(name, None, f"{sheet}, row {number}" if sheet else f"row {number}")
        rows.append([facts.of(place, "Cygnus"), number])
    return rows


def folder(path, facts):
    slides = [(f"Slide {n}", facts.text(Place("a.pptx", n, f"Slide {n}"))) for n in range(1, 29)]
    made = {
        "a.pdf": _pdf(facts),
        "a.docx": _word(facts),
        "a.pptx": files.pptx(slides),
        "a.xlsx": files.xlsx({"North": _rows(facts, "a.xlsx", "North"), "South": _rows(facts, "a.xlsx", "South")}),
        "a.html": _marked(facts, "a.html", HTML).encode(),
        "a.md": _marked(facts, "a.md", MARKDOWN).encode(),
        "a.epub": files.epub("Tolls", "Ann Lee", "1998-02-01", _marked(facts, "a.epub", HTML)),
        "a.csv": "\n".join(f"{ship};{toll}" for ship, toll in _rows(facts, "a.csv")[:5]).encode(),
    }
    for name, content in made.items():
        (path / name).write_bytes(content)


def test_each_of_two_hundred_facts_is_found_at_its_place(tmp_path):
    facts = Facts()
    (tmp_path / "folder").mkdir()
    folder(tmp_path / "folder", facts)
    passages = list(read_corpus(tmp_path / "folder", notice=lambda text: None))
    build_index(passages, tmp_path / "index", notice=lambda text: None)
    index = open_index(tmp_path / "index")
    wrong = {}
    for number, (name, place) in list(enumerate(facts.places.items()))[:200]:
        passage = index.search(f"What is the toll of {name}?", 1)[0].passage
        (marked,) = supporting_sentences(passage.text, f"What is the toll of {name}?", str(1000 + number))
        found = Place(passage.place.file, passage.place.page, passage.place.heading)
        if found != place or (place.heading in marked and "row" not in place.heading):
            wrong[name] = (place, found, marked)
    assert len(facts.places) >= 200
    assert not wrong, f"{200 - len(wrong)} of 200: {list(wrong.values())[:5]}"
    # Sections of one sentence stay passages of one sentence, with the heading.
    assert min(len(one.text.split()) for one in passages) >= 5
