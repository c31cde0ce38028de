"""The day on which somebody asks their own documents, where a question depends on it.

Language models do not know it, and take a day of their training for it. What does not depend on the day is asked as it
stands, so that caches have its reply on any day.
"""

import re
from datetime import date, timedelta

import dspy

from keqa.programs.calls.predictor import trained_on_prompts
from keqa.programs.calls.session import context
from keqa.signatures.keqa import ASKED_TODAY

_PERIODS = (
    "weeks?|months?|quarters?|years?|season|morning|afternoon|evening|weekend|spring|summer|autumn|winter"
    "|wochen?|monate?|quartal|jahre?|semaine|mois|trimestre|année|semana|mes|año|settimana|mese|anno|mês|ano"
    "|maand|kwartaal|jaar|tydzie\\w+|tygodni\\w+|miesiąc\\w*|rok\\w*|недел\\w+|месяц\\w*|год\\w*"
)
_NEAR = (
    r"\b(?:today|tonight|tomorrow|yesterday|next(?! to)|upcoming|heute|morgen|gestern|nächste\w?|kommende\w?|demnächst"
    r"|aujourd['’]hui|demain|prochaine?s?|hoy|mañana|ayer|próxim\w+|oggi|domani|ieri|prossim\w+|quest['’]anno"
    r"|hoje|amanhã|ontem|vandaag|gisteren|volgende?|komende"
    r"|(?:how long|days|weeks|months) (?:are )?(?:until|left|remain\w*)"
    r"|dzi(?:ś|siaj)|jutro|wczoraj|następn\w+|najbliższ\w+|przyszł\w+|сегодня|завтра|вчера|следующ\w+|ближайш\w+"
    r"|(?:this|last|past|diese\w?|letzte\w?|cette|ce|[dn]?est[ae]|quest[oa]|dit|deze|vorige?|tym|zeszł\w+|эт\w+|прошл\w+)"
    rf" (?:{_PERIODS})"
    rf"|(?:{_PERIODS}) (?:derni\w+|pasad\w+|passad\w+|scors\w+))\b"
    "|今[天日年月週後]|明[天日年]|昨[天日年]|下一?[周週次个個月]|[本这這上先来][一个個]?(?:[周週月]|星期)|去年|来年|次の"
    "|오늘|내일|어제|다음|이번|지난"
)
_IS_NEAR = re.compile(_NEAR, re.IGNORECASE)
_DEPENDS = re.compile(
    rf"{_NEAR}|\b(?:now|current(?:ly)?|ago|still|already|yet|overdue"
    r"|expired|how old|how long (?:has|have)|(?:days|weeks|months) (?:are )?since"
    r"|jetzt|aktuell\w*|derzeit\w*|noch|schon|bereits|fällig|wie alt|maintenant|actuel\w*|encore|déjà"
    r"|quel âge|ahora|actual(?:es|mente)|(?:el|la|su) \w+ actual|todavía|aún"
    r"|adesso|attual\w+|ancora|già|agora|atual\w*|ainda|huidige?|nog"
    r"|teraz|obecn\w+|jeszcze|już|сейчас|теперь|текущ\w+|ещ[её]|уже)\b"
    "|(?<![体體表实實出])[现現]在|目前|[当當]前|最近|지금|현재",
    re.IGNORECASE,
)


def depends_on_the_day(question: str) -> bool:
    return _DEPENDS.search(question) is not None


def asks_near_the_day(question: str) -> bool:
    """Whether a day near today is asked for, as by “the next meeting”, so that dates decide between several."""
    return _IS_NEAR.search(question) is not None


def dated(question: str, predictor: dspy.Predict) -> str:
    """A question over one's own documents with today's date, where its answer may depend on that.

    It stays as it is for a language model that was trained on the papers' prompts, and in a compilation, whose calls
    are kept by what is asked, and become demonstrations.
    """
    if not _asks_of_today(question) or trained_on_prompts(predictor.lm or dspy.settings.lm):
        return question
    return ASKED_TODAY.format(question=question, today=f"{date.today():%A, %Y-%m-%d}")


def months_asked(query: str, question: str) -> list[str]:
    """Queries for what this month and the next one bring, where a question may be about that; none otherwise."""
    if not (_asks_of_today(question) and asks_near_the_day(question)):
        return []
    first = date.today().replace(day=1)
    return [f"{query} {month:%Y-%m %B %Y}" for month in (first, (first + timedelta(days=31)).replace(day=1))]


def _asks_of_today(question: str) -> bool:
    return context().own_documents and context().caller is None and depends_on_the_day(question)
