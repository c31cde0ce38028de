"""The folder of Meridian Rail, which does not exist: 26 files in nine formats and three languages, and 40 questions.

Two policies have an older and a newer version, told apart by front matter, by the file's name or by the text's own "as
of"; two pairs of files contradict each other and have no date. Sections are short, as those of such files are, so that
a passage that ran over headings or pages would be cited at a wrong place. Twelve questions have no answer, two of each
of six kinds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common  # noqa: F401
import office_files as files

_TRAVEL = """---
title: Travel policy
date: {date}
---
# Travel policy of Meridian Rail
This policy holds for all staff who travel for the company.
## Trains and flights
Trains are booked in second class. Flights are allowed where the train takes more than {hours} hours.
## Hotels
The hotel limit is {hotel} euros per night, breakfast included.
## Meals
The daily allowance for meals is {meals} euros.
## Approval
Journeys abroad are approved by the head of the department.
"""
_LEAVE = """# Urlaubsregelung
{said}
## Anspruch
Alle Beschäftigten haben {days} Urlaubstage im Jahr.
## Übertrag
Resturlaub verfällt am {ends} des folgenden Jahres.
## Antrag
Urlaub wird bei der Teamleitung beantragt, mindestens {weeks} Wochen vorher.
"""
_EXPENSES = """Expense claims of Meridian Rail

Receipts are handed in within {days} days of the journey. Claims are paid with the next salary.
The mileage allowance for private cars is {cents} cents per kilometre.
"""
_HANDBOOK = """---
title: Staff handbook
date: 2024-01-15
author: People department
---
# Working hours
The core hours are from 10 am to 3 pm. A full week has 38 hours.
# Home office
Up to three days a week may be worked from home.
# Probation
The probation period lasts four months.
# Parental leave
Fathers and mothers may take up to 36 months of parental leave.
"""
_SITES = """<html><head><title>Guide to the sites</title></head><body><h1>Guide to the sites</h1>
<p>Meridian Rail has sites in Bremen, Leipzig and Shanghai.</p>
<h2>Reception</h2><p>The reception in Bremen is open from 7 am to 6 pm.</p>
<h2>Car park</h2><p>The car park in Bremen has 95 spaces.</p>
<h2>Assembly point</h2><p>The assembly point in Leipzig is the old turntable.</p></body></html>"""
_VPN = """<html><head><title>Remote access</title></head><body><h1>Remote access</h1>
<p>The VPN is reached at gate.meridian-rail.example.</p>
<h2>Sessions</h2><p>A VPN session ends after 8 hours.</p>
<h2>Devices</h2><p>Only devices with an encrypted disk may connect.</p></body></html>"""
_PASSWORDS = """# Passwords
## Length
A password has at least 14 characters.
## Second factor
The second factor is a hardware key of the make Solo.
## Remote work
A VPN session ends after 12 hours.
"""
_PARKING = """Parking in Bremen

The car park in Bremen has 80 spaces. Visitors park on level two, and bicycles stand behind the workshop.
"""
_CANTEEN = """Kantine in Bremen

Die Kantine öffnet um 11:30 Uhr. Ein Mittagessen kostet 6,80 Euro. Freitags gibt es Fisch.
Betrieben wird die Kantine von der Firma Weserkost.
"""
_SHANGHAI = """上海办事处

上海办事处位于静安区南京西路一八八号。办事处主任是陈立新。
办公时间为上午九点到下午五点半。办事处共有二十三名员工。
"""
_SAFETY_ZH = """---
title: 安全手册
date: 2023-11-20
---
# 紧急情况
发生火灾时，请拨打内线电话 7119。
# 防护用品
进入车间必须佩戴安全帽和防护鞋。
# 培训
安全培训每六个月举行一次。
"""
_STAFF = [
    ("name", "title", "department", "site", "extension"),
    ("Jonas Albrecht", "Senior engineer", "Workshop", "Bremen", "4117"),
    ("Mira Castellan", "Head of Finance", "Finance", "Leipzig", "4203"),
    ("Tomas Vrba", "Project manager", "Projects", "Leipzig", "4360"),
    ("Ilse Brandt", "Data protection officer", "Legal", "Bremen", "4088"),
    ("Ruth Okafor", "Project manager", "Projects", "Bremen", "4371"),
]
_REPAIRS = [
    ("unit", "repair", "workshop", "finished"),
    ("MR 101", "The brakes of unit MR 101 were replaced.", "Bremen", "2024-02-11"),
    ("MR 204", "The pantograph of unit MR 204 was replaced.", "Leipzig", "2024-03-05"),
    ("MR 307", "The doors of unit MR 307 were adjusted.", "Leipzig", "2024-03-19"),
]
_FILLING = (
    "Meridian Rail runs regional trains and repairs those of others.",
    "The figures were checked by the department of finance.",
    "Details are in the tables of the appendix.",
    "Questions are answered by the office of the managing directors.",
)


def _csv(rows: list[tuple[str, ...]]) -> bytes:
    return "".join(f"{';'.join(row)}\n" for row in rows).encode()


def _pages(title: str, pages: list[list[str]], changed: str) -> bytes:
    """A PDF of pages, each with a heading and its lines, which have the room of a page."""
    drawn = [[(20, head), *((11, line) for line in [*lines, *_FILLING])] for head, *lines in pages]
    return files.pdf(drawn, title, changed)


def documents() -> dict[str, bytes]:
    texts = {
        "handbook.md": _HANDBOOK,
        "policies/travel-policy-old.md": _TRAVEL.format(date="2022-03-01", hours=4, hotel=120, meals=24),
        "policies/travel-policy.md": _TRAVEL.format(date="2024-05-01", hours=6, hotel=150, meals=32),
        "policies/expenses-2021-06.txt": _EXPENSES.format(days=60, cents=30),
        "policies/expenses-2024-02.txt": _EXPENSES.format(days=30, cents=38),
        "sites/guide.html": _SITES,
        "sites/parking.txt": _PARKING,
        "it/vpn.html": _VPN,
        "it/passwords.md": _PASSWORDS,
        "de/urlaub-alt.md": _LEAVE.format(said="Stand: 1. März 2021", days=28, ends="31. März", weeks="zwei"),
        "de/urlaub.md": _LEAVE.format(said="Stand: 1. Januar 2024", days=30, ends="30. Juni", weeks="vier"),
        "de/kantine.txt": _CANTEEN,
        "zh/安全手册.md": _SAFETY_ZH,
        "zh/上海办事处.txt": _SHANGHAI,
    }
    report = [
        ["The year 2023", "Meridian Rail carried 4.2 million passengers in 2023."],
        ["Revenue", "The revenue of the year was 212 million euros."],
        ["Board", "The board is chaired by Helga Mohn.", "Its seat is in Bremen."],
        ["Outlook", "Two new lines open in 2025."],
    ]
    audit = [
        ["Scope", "The audit covered the workshops in Bremen and Leipzig."],
        ["Findings", "The auditors found seven defects in the workshop in Leipzig."],
        ["Auditor", "The audit was carried out by the firm Kestrel Inspections."],
    ]
    orion = ["# Project Orion", "Orion brings battery trains to Leipzig.", "## Budget", "Orion has 18 million euros."]
    orion += ["## Lead", "Project Orion is led by Tomas Vrba.", "## Test runs", "The test runs of Orion are in Halle."]
    atlas = ["# Project Atlas", "Atlas renews the depot in Bremen.", "## Budget", "Atlas has 9 million euros."]
    atlas += ["## Lead", "Project Atlas is led by Ruth Okafor.", "## Tracks", "The depot of Atlas has 12 tracks."]
    trips = ["# 差旅规定", "本规定适用于上海办事处的全体员工。", "## 酒店", "酒店费用每晚不超过六百元。"]
    trips += ["## 报销", "报销申请须在二十天内提交。"]
    safety_de = ["# Arbeitssicherheit", "Diese Anweisung gilt in allen Werkstätten.", "## Ersthelfer"]
    safety_de += ["Ersthelferin in Bremen ist Karin Thoma.", "## Lärm", "Gehörschutz ist ab 85 Dezibel Pflicht."]
    kickoff = [("Orion: kick-off", "Battery trains for Leipzig."), ("Supplier", "The batteries come from Voltara.")]
    kickoff += [("Milestones", "The first train is delivered in March 2026.")]
    diesel = [["Unit", "Built", "Seats"], ["MR 101", 1998, 144], ["MR 102", 2001, 150]]
    electric = [["Unit", "Built", "Seats"], ["MR 204", 2015, 220], ["MR 307", 2019, 236]]
    phones = {
        "Bremen": [["Place", "Phone"], ["Workshop", "4110"], ["Control room", "4150"]],
        "Leipzig": [["Place", "Phone"], ["Workshop", "4210"], ["Control room", "4250"]],
    }
    chapter = "<h1>Beginnings</h1><p>Meridian Rail was founded in 1904 by Anton Feld.</p>"
    chapter += "<h2>The fire</h2><p>The first depot burnt down in 1931.</p>"
    return {name: text.encode() for name, text in texts.items()} | {
        "staff.csv": _csv(_STAFF),
        "fleet/repairs.csv": _csv(_REPAIRS),
        "fleet/units.xlsx": files.xlsx({"Diesel": diesel, "Electric": electric}),
        "phones.xlsx": files.xlsx(phones),
        "reports/annual-report.pdf": _pages("Annual report 2023", report, "D:20240320"),
        "reports/safety-audit.pdf": _pages("Safety audit", audit, "D:20230914"),
        "projects/orion.docx": files.docx(orion, "Project Orion", "2024-04-02T09:00:00Z"),
        "projects/atlas.docx": files.docx(atlas, "Project Atlas", "2024-04-03T09:00:00Z"),
        "projects/kickoff.pptx": files.pptx(kickoff, "Orion kick-off"),
        "zh/差旅.docx": files.docx(trips),
        "de/arbeitssicherheit.docx": files.docx(safety_de),
        "history.epub": files.epub("A History of Meridian Rail", "Ann Lee", "1998-02-01", chapter),
    }


def make(folder: Path) -> None:
    """Write the files below a folder."""
    for name, content in documents().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question."""

    kind: str
    question: str
    answers: tuple[str, ...] = ()
    places: tuple[tuple[str, int | str | None], ...] = ()
    outdated: str = ""
    quizzes: tuple[str, ...] = ()


def _one(kind: str, question: str, answers: str, file: str, part: int | str | None = None, **more: Any) -> Asked:
    return Asked(kind, question, tuple(answers.split("|")), ((file, part),), **more)


_VISITS = ("Who leads project Orion?", "What is the extension of #1?")
_HEAD = ("Who leads project Atlas?", "At which site does #1 work?")
_FOUNDER = ("Who carried out the safety audit?", "Where does #1 have its seat?")
_CHAIR = ("Who chairs the board?", "Which university did #1 attend?")

QUESTIONS = (
    # Text, Markdown, HTML
    _one("text", "What are the core hours?", "10 am to 3 pm", "handbook.md", "Working hours"),
    _one("text", "How long is the probation period?", "four months|4 months", "handbook.md", "Probation"),
    _one("text", "When is the reception in Bremen open?", "7 am to 6 pm", "sites/guide.html", "Reception"),
    _one("text", "What is the assembly point in Leipzig?", "the old turntable", "sites/guide.html", "Assembly point"),
    _one("text", "How many characters does a password have at least?", "14", "it/passwords.md", "Length"),
    _one("text", "At which address is the VPN reached?", "gate.meridian-rail.example", "it/vpn.html", "Remote access"),
    _one("text", "Where do bicycles stand in Bremen?", "behind the workshop", "sites/parking.txt"),
    # Pages, slides, sheets, headings of Word, chapters
    _one("pages and sheets", "What was the revenue of 2023?", "212 million", "reports/annual-report.pdf", 2),
    _one("pages and sheets", "Who chairs the board?", "Helga Mohn", "reports/annual-report.pdf", 3),
    _one("pages and sheets", "Who carried out the safety audit?", "Kestrel", "reports/safety-audit.pdf", 3),
    _one("pages and sheets", "Where are the test runs of Orion?", "Halle", "projects/orion.docx", "Test runs"),
    _one("pages and sheets", "Where do the batteries come from?", "Voltara", "projects/kickoff.pptx", 2),
    _one("pages and sheets", "When is the first train of Orion delivered?", "March 2026", "projects/kickoff.pptx", 3),
    _one("pages and sheets", "How many seats has unit MR 307?", "236", "fleet/units.xlsx", "Electric"),
    _one("pages and sheets", "What is the phone of the control room in Leipzig?", "4250", "phones.xlsx", "Leipzig"),
    _one("pages and sheets", "What was replaced on unit MR 204?", "pantograph", "fleet/repairs.csv"),
    _one("pages and sheets", "When did the first depot burn down?", "1931", "history.epub", "The fire"),
    # Two versions
    _one("dates", "What is the hotel limit per night?", "150", "policies/travel-policy.md", "Hotels", outdated="120"),
    _one("dates", "What is the daily allowance for meals?", "32", "policies/travel-policy.md", "Meals", outdated="24"),
    _one("dates", "Within how many days are receipts handed in?", "30", "policies/expenses-2024-02.txt", outdated="60"),
    _one("dates", "Wie viele Urlaubstage haben Beschäftigte im Jahr?", "30", "de/urlaub.md", "Anspruch", outdated="28"),
    _one("dates", "Wann verfällt der Resturlaub?", "30. Juni", "de/urlaub.md", "Übertrag", outdated="31. März"),
    # Other languages
    _one("German", "Was kostet ein Mittagessen in der Kantine?", "6,80 Euro|6,80", "de/kantine.txt"),
    _one("German", "Wer ist Ersthelferin in Bremen?", "Karin Thoma", "de/arbeitssicherheit.docx", "Ersthelfer"),
    _one("Chinese", "上海办事处的主任是谁？", "陈立新", "zh/上海办事处.txt"),
    _one("Chinese", "发生火灾时拨打哪个内线电话？", "7119", "zh/安全手册.md", "紧急情况"),
    # Two hops
    _one("two hops", "What is the extension of the leader of project Orion?", "4360", "staff.csv", quizzes=_VISITS),
    _one("two hops", "At which site does the leader of project Atlas work?", "Bremen", "staff.csv", quizzes=_HEAD),
    # Nowhere
    Asked("none: not in the folder", "What is the share price of Meridian Rail?"),
    Asked("none: not in the folder", "Wie heißt der Betriebsarzt?"),
    Asked("none: not said of it", "What is the salary of Jonas Albrecht?"),
    Asked("none: not said of it", "上海办事处的租金是多少？"),
    Asked("none: false premise", "When was the site in Madrid closed?"),
    Asked("none: false premise", "Why was project Orion cancelled?"),
    Asked("none: second hop", "Where does the firm that carried out the safety audit have its seat?", quizzes=_FOUNDER),
    Asked("none: second hop", "Which university did the chair of the board attend?", quizzes=_CHAIR),
    Asked("none: contradiction", "How many spaces has the car park in Bremen?"),
    Asked("none: contradiction", "After how many hours does a VPN session end?"),
    Asked("none: another's", "Where are the test runs of Atlas?"),
    Asked("none: another's", "Who is the first aider in Shanghai?"),
)
