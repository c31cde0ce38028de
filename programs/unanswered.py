"""What the documents do not say: the finding, its sentences in the language of the question, and its lines.

It is told the same in the terminal, to agents and to programs. The page has its own words, in
``app/page/static/story.js``.
"""

import re
from collections.abc import Sequence
from typing import Any

from keqa.programs.records import (
    FoundQuiz,
    MissingQuiz,
    QuestionRecord,
    QuizRecord,
    Unanswered,
    UnansweredKind,
    Written,
)
from keqa.programs.sentences import language_of

GUESS = "(a guess)"
"""What stands behind an answer that is one."""

_LONGEST = 200
_KINDS: tuple[UnansweredKind, ...] = ("nothing found", "nothing supports an answer", "sources contradict each other")
# Of each language: what begins the message, what begins that of sources that contradict each other, the three kinds,
# what is known besides, and how a quiz is quoted.
# fmt: off
_PARTS = {
    "en": ("Not in your documents: ", "Your documents do not settle it: ", "nothing was found on {}",
          "nothing that was found answers {}", "the sources contradict each other on {}", "Known", "“{}”"),
    "de": ("Nicht in Ihren Dokumenten: ", "Ihre Dokumente entscheiden es nicht: ", "zu {} wurde nichts gefunden",
          "nichts Gefundenes beantwortet {}", "die Quellen widersprechen sich bei {}", "Bekannt", "„{}“"),
    "fr": ("Pas dans vos documents : ", "Vos documents ne le tranchent pas : ", "rien n’a été trouvé sur {}",
          "rien de ce qui a été trouvé ne répond à {}", "les sources se contredisent sur {}", "Connu", "« {} »"),
    "es": ("No está en sus documentos: ", "Sus documentos no lo deciden: ", "no se encontró nada sobre {}",
          "nada de lo encontrado responde a {}", "las fuentes se contradicen sobre {}", "Conocido", "«{}»"),
    "it": ("Non è nei suoi documenti: ", "I suoi documenti non lo decidono: ", "non è stato trovato nulla su {}",
          "nulla di quanto trovato risponde a {}", "le fonti si contraddicono su {}", "Noto", "«{}»"),
    "pt": ("Não está nos seus documentos: ", "Os seus documentos não decidem: ", "nada foi encontrado sobre {}",
          "nada do que foi encontrado responde a {}", "as fontes contradizem-se sobre {}", "Conhecido", "“{}”"),
    "nl": ("Niet in uw documenten: ", "Uw documenten geven geen uitsluitsel: ", "over {} is niets gevonden",
          "niets van wat is gevonden beantwoordt {}", "de bronnen spreken elkaar tegen over {}", "Bekend", "“{}”"),
    "pl": ("Nie ma tego w Państwa dokumentach: ", "Państwa dokumenty tego nie rozstrzygają: ",
          "nie znaleziono niczego na temat {}", "nic ze znalezionego nie odpowiada na {}",
          "źródła są sprzeczne co do {}", "Wiadomo", "„{}”"),
    "ru": ("Этого нет в ваших документах: ", "Ваши документы этого не решают: ", "ничего не найдено по вопросу {}",
          "ничто из найденного не отвечает на {}", "источники противоречат друг другу по вопросу {}",
          "Известно", "«{}»"),
    "zh": ("您的文档中没有：", "您的文档无法确定：", "没有找到与{}有关的内容", "找到的内容都没有回答{}",
          "关于{}，各来源相互矛盾", "已知", "“{}”"),
    "ja": ("文書にはありません：", "文書からは決められません：", "{}については何も見つかりませんでした",
          "見つかったものは{}に答えていません", "{}について出典が互いに矛盾しています", "わかっていること", "「{}」"),
    "ar": ("ليس في مستنداتك: ", "مستنداتك لا تحسم الأمر: ", "لم يُعثر على شيء عن {}",
          "لا شيء مما عُثر عليه يجيب عن {}", "المصادر يناقض بعضها بعضًا في {}", "المعروف", "«{}»"),
}
_PAGE = {"de": "Seite", "fr": "page", "es": "página", "it": "pagina", "pt": "página", "nl": "pagina", "pl": "strona",
         "ru": "страница", "zh": "页", "ja": "ページ", "ar": "صفحة"}
_SLIDE = {"de": "Folie", "fr": "diapositive", "es": "diapositiva", "it": "diapositiva", "pt": "diapositivo",
          "nl": "dia", "pl": "slajd", "ru": "слайд", "zh": "幻灯片", "ja": "スライド", "ar": "شريحة"}
# fmt: on


def unanswered_of(question: str, quizzes: Sequence[QuizRecord], last: QuizRecord) -> Unanswered:
    """The finding that the documents do not say what was asked; `last` is the question itself, asked of them."""
    missing = [one.missing for one in quizzes if one.missing is not None]
    if not missing and last.missing is not None:
        missing = [last.missing]
    found = [
        FoundQuiz(quiz=quiz.index, asked=quiz.resolved or quiz.text, answer=quiz.answer, source=quiz.source)
        for quiz in quizzes
        if quiz.answer is not None and not quiz.abstained
    ]
    message = message_of(question, missing, found)
    kind = missing[0].kind
    return Unanswered(kind=kind, asked=question, missing=missing, found=found, guess=last.guess, message=message)


def message_of(question: str, missing: Sequence[MissingQuiz], found: Sequence[FoundQuiz] = ()) -> str:
    """A sentence or two that say what is missing, and what is known of the rest, in the language of the question."""
    language = language_of(question)
    absent, unsettled, *phrases, known, quote = _PARTS.get(language, _PARTS["en"])
    kinds = dict(zip(_KINDS, phrases, strict=True))
    contradicted = all(one.kind == "sources contradict each other" for one in missing)
    listed = "; ".join(
        kinds[one.kind].format(quote.format(_short(one.asked)))
        + (f" ({' / '.join(_in_language(answer, language) for answer in one.answers)})" if one.answers else "")
        for one in missing
    )
    rest = "; ".join(f"{_short(one.asked)} {_short(one.answer)}" for one in found)
    # As the language has it: ": ", " : " or "：".
    colon = absent[len(absent.rstrip(" :：")) :]
    stop, space = ("。", "") if colon == "：" else (".", " ")
    message = f"{unsettled if contradicted else absent}{listed}{stop}"
    return f"{message}{space}{known}{colon}{rest}{stop}" if rest else message


def _in_language(answer: str, language: str) -> str:
    quote, between, place = answer.rpartition("” (")
    if language not in _PAGE or not between:
        return answer
    for word, other in (("page", _PAGE[language]), ("slide", _SLIDE[language])):
        place = re.sub(rf"(?<=, ){word} (?=\d)", f"{other} ", place)
    return f"{_PARTS[language][-1].format(quote.removeprefix('“'))} ({place}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def answer_text(record: QuestionRecord, *, short: bool = False) -> str:
    """The answer as it is told: a written one, unless the short one is wanted; a guess is marked as one."""
    if record.written is not None and record.written.text and not short:
        # A text may tell what one source says and another one denies.
        return record.written.text if record.unanswered is None else f"{record.written.text}\n\n{record.answer}"
    return f"{record.answer} {GUESS}" if record.guessed and record.answer else record.answer or ""


def listed(written: Written) -> str:
    """What is said of a list: how long it is, what it was gathered from, and whether there may be more."""
    count, read = len(written.given), written.looked_at
    found = f"{count} item{'' if count == 1 else 's'} in {read} passage{'' if read == 1 else 's'} looked at"
    return f"{found}; there may be more, as no further passage was looked at" if written.more else found


def lines_of(unanswered: Unanswered) -> list[tuple[str, list[str]]]:
    """What was asked, searched and read in vain, with details, and what is known of the rest; never the guess."""
    lines: list[tuple[str, list[str]]] = []
    for one in unanswered.missing:
        details = [] if one.searched == [one.asked] else [f"Searched for: {'; '.join(one.searched) or 'nothing'}"]
        details += [f"A source says: {answer}" for answer in one.answers]
        details += [f"Read: {'; '.join(one.read)}"] if one.read else []
        why = f" ({one.why})" if one.why else ""
        lines.append((f"Missing: {_quoted(one.quiz, one.asked)}: {one.kind}{why}", details))
    for known in unanswered.found:
        where = "from memory" if known.source == "memory" else "from the documents"
        lines.append((f"Known: {_quoted(known.quiz, known.asked)}: {known.answer} ({where})", []))
    return lines


def without_guess(unanswered: Unanswered | None) -> dict[str, Any] | None:
    """The finding as JSON for those who take whatever they are given for an answer: without the guess."""
    return None if unanswered is None else unanswered.model_dump(mode="json", exclude={"guess"})


def _quoted(quiz: int, asked: str) -> str:
    return f"quiz {quiz}, “{asked}”" if quiz else f"“{asked}”"
