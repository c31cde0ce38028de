"""What is asked over somebody's own documents in the place of the papers' prompts, and what these tell of a quiz."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

import dspy

from keqa.metrics.answers import is_abstention, same_answer, tokens, verdict_in
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.predictor import trained_on_prompts
from keqa.programs.calls.session import note
from keqa.programs.calls.texts import text_of
from keqa.programs.numerals import in_digits
from keqa.programs.prediction import source_of
from keqa.programs.records import MissingQuiz, PassageVerdict, UnansweredKind
from keqa.programs.sentences import (
    OTHER_WORDS,
    content_words,
    disagreements,
    language_of,
    names_of,
    newer,
    sentences_of,
    spoken_of,
    stands_in,
    words_of,
)
from keqa.programs.stage import Stage
from keqa.programs.stages.support import NEGATIONS, UNREADABLE, other_numbers_left_out, words_lacking
from keqa.programs.today import asks_near_the_day
from keqa.retrievers.base import Passage
from keqa.retrievers.text import NAMES, language_of_text, one_line
from keqa.signatures.baselines import JudgeSupport
from keqa.signatures.keqa import AnswerFromDocuments, AnswerQuizIfSure, RewordQuery, TranslateQuery

_DAY = re.compile(r"(?<!\d)(?:\d{4}-\d\d-\d\d|(?:\d{4}年)?\d\d?月\d\d?日)(?!\d)")
_LETTERS = re.compile(r"[^\W\d_]+")
_OTHER_WORDS, _LONGEST = 8, 200
"""So many other words for a question are searched, in so many characters: language models may write sentences."""
_LANGUAGES, _SHARE = 2, 0.02
"""In so many further languages a question is searched for, if they are those of such a share of all passages."""
_SAID = 1 / 3
"""So much of what sentences have in common is about a question that passages do not have most words of."""
NO_REPLY = "no reply could be used"
"""What `QuizRecord.support` is where passages were read in vain."""


class OwnDocuments(Stage):
    """The prompts of a program that says what the documents do not say.

    A language model that was trained on the papers' prompts is asked these, for it knows no others.
    """

    roles: ClassVar[Mapping[str, str]] = {"support": "utility"}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {
        "quiz": AnswerQuizIfSure,
        "answer": AnswerFromDocuments,
        "support": JudgeSupport,
        "translate": TranslateQuery,
        "reword": RewordQuery,
    }

    @property
    def own_prompts(self) -> bool:
        """Whether the language model of the task is asked the prompts of this stage."""
        return not trained_on_prompts(self.answer.lm or dspy.settings.lm)

    def own(self, name: str) -> Any:
        """The predictor of that name; None where the paper's is asked."""
        return getattr(self, name) if self.own_prompts else None

    def shown(self, passage: Passage) -> str:
        return passage.headed if self.own_prompts else passage.rendered

    async def translated(self, question: str, passages: Sequence[Passage], number: int | None) -> str | None:
        """The question in the language of passages that were found for it; None where one of them is in its own."""
        language = other_language(question, passages) if self.own_prompts else None
        return None if language is None else await self.in_language(question, language, number)

    async def in_language(self, question: str, language: str, number: int | None) -> str | None:
        """The question in a language; None where it cannot be translated."""
        asked: dict[str, Any] = {"question": question, "language": NAMES.get(language, language)}
        try:
            return one_line((await ask(self.translate, "retrieve", number, **asked)).translated) or None
        except CallError as error:
            note("retrieve", error.cause, error.message, "searched for the question as it is", number)
            return None

    def further_languages(self, question: str, passages: Sequence[Passage], languages: Sequence[str]) -> list[str]:
        """Those of an index in which a question is searched for, where no passage found speaks of it in its own."""
        own = language_of(question)
        in_own = [one for one in passages if language_of_text(one.text, own) == own]
        if not self.own_prompts or spoken_in(in_own, question):
            return []
        return [code for code in languages if code != own][:_LANGUAGES]

    async def reworded(self, question: str, passages: Sequence[Passage], number: int | None) -> str | None:
        """The question and other words for what it asks for; None where passages that were found for it speak of it.

        None as well where it has names: what is not found by these has none. In German all nouns look like names.
        """
        named = language_of(question) != "de" and any(word.isalpha() for name in names_of(question) for word in name)
        if not self.own_prompts or named or spoken_in(passages, question):
            return None
        try:
            words = (await ask(self.reword, "retrieve", number, question=question)).words or []
        except CallError as error:
            note("retrieve", error.cause, error.message, "searched in no other words", number)
            return None
        written = one_line(" ".join(map(text_of, words[:_OTHER_WORDS])))[:_LONGEST]
        return f"{question} {written}" if written else None


def languages_in(retriever: Any) -> list[str]:
    """The languages of what is searched, as far as that is known, the most frequent first."""
    manifest = getattr(retriever, "manifest", None)
    counts = Counter[str]()
    for part in getattr(manifest, "parts", (manifest,)):
        languages = getattr(part, "languages", None)
        counts.update(languages if isinstance(languages, Mapping) else ())
    return [code for code, count in counts.most_common() if count >= _SHARE * counts.total()]


def other_language(question: str, passages: Sequence[Passage]) -> str | None:
    """The language of most passages, or English without any, where none is in the language of the question."""
    own = language_of(question)
    found = Counter(language_of_text(one.text, own) for one in passages)
    main = max(found, key=found.__getitem__, default="en")
    # A question without any word of a known language is taken for English.
    return None if own in found or own == main or (own == "en" and language_of_text(question, main) != own) else main


def spoken_in(passages: Iterable[Passage | PassageVerdict], quiz: str, *, least: float = 2 / 3) -> list[str]:
    """What of a quiz passages speak of, in title, heading or text; see `spoken_of`."""
    return spoken_of(quiz, map(_whole_text, passages), least=least)


def _whole_text(passage: Passage | PassageVerdict) -> str:
    place = passage.place
    return " ".join((passage.title, place.heading, place.date[:4], passage.text))


def answers_quiz(answer: str, quiz: str, passages: Sequence[PassageVerdict], choices: Sequence[str]) -> bool:
    """Whether an answer from passages is one: it does not refuse, or says in their words more than was asked."""
    if same_answer(answer, quiz):
        return False
    if not is_abstention(answer, choices):
        return True
    if same_answer(answer, "unknown") or not words_lacking(answer, [quiz]):
        return False
    sentences = [sentence for one in passages if one.kept for sentence in sentences_of(_whole_text(one))]
    return all(any(not words_lacking(one, [sentence]) for sentence in sentences) for one in sentences_of(answer))


def carrying(answer: str, quiz: str, passages: Sequence[Passage], cited: Sequence[int]) -> list[int] | None:
    """The positions of the passages about a quiz that have all words of its answer, where those cited do not.

    None where those cited have them, or no passage has: small language models read better than they cite.
    """
    if cited and not words_lacking(answer, [_whole_text(passages[place]) for place in cited]):
        return None
    if not words_lacking(answer, [quiz]):
        # What says again what was asked is in every passage about it.
        return None
    found = [
        place
        for place, one in enumerate(passages)
        if not words_lacking(answer, [_whole_text(one)]) and spoken_in([one], quiz)
    ]
    return found or None


def speaking(answer: str, quiz: str, passages: Sequence[Passage]) -> list[int] | None:
    """The positions of the passages that between them have what an answer says beyond its quiz, where none has all.

    Those that bring most of it come first; one more word may be chance. Where that is nothing, as of a mere yes or no,
    those about the quiz and those with most of its words, and the latter alone where what they have may be chance; None
    where it is unknown.
    """
    about = [place for place, one in enumerate(passages) if spoken_in([one], quiz)]
    # In one writing, so that words of one passage are those of another.
    answer, *texts = map(in_digits, (answer, *map(_whole_text, passages)))
    texts = [other_numbers_left_out(answer, text) for text in texts]
    left = {*words_lacking(answer, [in_digits(quiz)])}.difference(words_lacking(answer, texts), NEGATIONS)
    left = {word for word in left if not verdict_in(word)}
    asked = content_words(quiz)
    shared = [sum(stands_in(word, words_of(_whole_text(one))) for word in asked) for one in passages]
    nearest = [place for place, count in enumerate(shared) if 0 < count == max(shared)]
    if not left:
        return sorted({*about, *nearest}) or None if about or not verdict_in(answer) else None
    # The first word of an answer has a capital, whatever it is.
    capitals = {word.casefold() for text in texts for word in _LETTERS.findall(text) if word[0].isupper()}
    names = capitals.intersection(word for name in names_of(f": {answer}") for word in name)
    first = {word for word in left if word in names or any(map(str.isdigit, word))} or left
    lacking = [left.intersection(words_lacking(answer, [text])) for text in texts]
    least = len(asked) / 2 if len(tokens(answer)) == 1 else 1
    found = list[int]()
    while left:
        ranks = [(len(left & lacks), -shared[place]) for place, lacks in enumerate(lacking)]
        best = ranks.index(min(ranks))
        brought, files = left - lacking[best], {passages[place].place.file for place in found}
        # Any passage may have one word more that is no name, and those of other files a number.
        if not any(map(str.isdigit, "".join(brought))):
            chance = found and not shared[best] and left.isdisjoint(first)
        elif found:
            chance = not shared[best] and passages[best].place.file not in files
        else:
            chance = shared[best] < least
        if left <= lacking[best] or (chance and len(brought) == 1):
            break
        found.append(best)
        left &= lacking[best]
    return sorted(found or nearest) or None


def contradicting(quiz: str, passages: Sequence[PassageVerdict], answer: str | None) -> list[str]:
    """What two passages say otherwise of a quiz, each with its place, where no date decides between them.

    Where there is an answer, they differ in nothing else: a rule for managers contradicts none, nor does the last
    meeting the next one, unless both are called so. Where there is none, rows of one table contradict each other only
    if one of its columns is asked for.
    """
    other_words = OTHER_WORDS if answer is None else 0
    asked = content_words(quiz)
    for first, second in combinations([one for one in passages if not one.older_than], 2):
        if not (first.kept or second.kept) or newer(first.date, second.date) is not None:
            continue
        spoken = answer is not None or spoken_in((first, second), quiz)
        one_table = answer is None and first.file == second.file != ""
        for pair in disagreements(first, second, quiz, other_words):
            same = {*content_words(pair[0])}.intersection(content_words(pair[1]))
            if not spoken and sum(stands_in(word, same) for word in asked) < _SAID * len(same):
                # They contradict each other on something else, such as the notice of a party, and not on its date.
                continue
            # As in "city: Kiel; fare: 88".
            columns = [cell.partition(": ")[0] for cell in pair[0].split("; ") if one_table and ": " in cell]
            if len(columns) > 1 and not any(stands_in(word, words_of(" ".join(columns))) for word in asked):
                continue
            days = [{*_DAY.findall(in_digits(one))} for one in pair] if answer and asks_near_the_day(quiz) else []
            if days and all(days) and days[0] != days[1] and not all(map(asks_near_the_day, pair)):
                continue
            stated = [answer is None or not words_lacking(answer, [one]) for one in pair]
            if answer is None or stated[0] != stated[1]:
                return [f"“{one}” ({source_of(by).label})" for one, by in zip(pair, (first, second), strict=True)]
    return []


def missing_quiz(
    number: int, quiz: str, passages: Sequence[PassageVerdict], support: str, contested: list[str], looked: list[str]
) -> MissingQuiz:
    """Why passages do not answer a quiz, whose `support` was found and on which they say what is `contested`.

    What was `looked` for is the quiz, and its translation where there is one.
    """
    about = spoken_in(passages, quiz, least=0.5)
    kept = sum(one.kept for one in passages)
    if kept:
        why = f"the passages kept ({kept}) {_carried(support)}"
    elif passages and support == NO_REPLY:
        why = f"the passages found ({len(passages)}) {_carried(support)}"
    elif any(one.verdict == "not cited" for one in passages):
        why = f"none of the {len(passages)} passages found tells it, by the reply"
    elif passages:
        why = f"none of the {len(passages)} passages found {'was judged to help' if about else 'is about it'}"
    else:
        why = "no passage was found"
    kind: UnansweredKind = "nothing supports an answer" if about or kept else "nothing found"
    if contested:
        kind, why = "sources contradict each other", "they say different things, and neither of them is newer"
    read = [source_of(one).label for one in passages]
    return MissingQuiz(quiz=number, asked=quiz, kind=kind, searched=looked, read=read, why=why, answers=contested)


def _carried(support: str) -> str:
    """What came of reading passages in vain; not what was drawn from them, which nobody shall take for an answer."""
    if support == NO_REPLY:
        return f"were read, but {NO_REPLY}"
    if support.endswith(UNREADABLE):
        return "lack words of what was drawn from them, and the judge’s reply could not be read"
    return "do not support what was drawn from them" if support else "do not tell it, by the reply"
