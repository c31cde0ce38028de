"""Forty questions about the folder: what is asked, what is right, and where it stands.

Twelve have no answer, two of each of six kinds. A place is a file with a page, slide, heading or
sheet, where it has any.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """A question."""

    kind: str
    question: str
    answers: tuple[str, ...] = ()
    places: tuple[tuple[str, int | str | None], ...] = ()
    outdated: str = ""
    quizzes: tuple[str, ...] = ()


def _one(kind: str, question: str, answers: str, file: str, part: int | str | None = None, **more: str) -> Asked:
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
    Asked(
        "two hops",
        "What is the extension of the leader of project Orion?",
        ("4360",),
        (("staff.csv", None),),
        quizzes=_VISITS,
    ),
    Asked(
        "two hops",
        "At which site does the leader of project Atlas work?",
        ("Bremen",),
        (("staff.csv", None),),
        quizzes=_HEAD,
    ),
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
